// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_rows.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "io/doc.h"

#define PART_BYTES     ((size_t)256 << 10)
#define TEXT_BYTES_MAX 1000

struct ds_arena_part {
  struct ds_arena_part *next;
  size_t room;
};

/* ---- memory ---- */

static char *bytes_of(struct ds_arena_part *p) { return (char *)(p + 1); }

void *ds_arena_take(ds_arena *a, size_t bytes) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (a->part == NULL || a->part->room - a->used < bytes) {
    size_t room = bytes > PART_BYTES ? bytes : PART_BYTES;
    struct ds_arena_part *p = malloc(sizeof *p + room);
    if (p == NULL) return NULL;
    *p = (struct ds_arena_part){a->part, room};
    a->part = p;
    a->used = 0;
  }
  void *m = bytes_of(a->part) + a->used;
  a->used += bytes;
  memset(m, 0, bytes);
  return m;
}

void *ds_arena_grow(ds_arena *a, void *old, size_t old_bytes, size_t bytes) {
  void *m = ds_arena_take(a, bytes);
  if (m != NULL && old != NULL) memcpy(m, old, old_bytes);
  return m;
}

void ds_arena_free(ds_arena *a) {
  while (a->part != NULL) {
    struct ds_arena_part *p = a->part;
    a->part = p->next;
    free(p);
  }
  a->used = 0;
}

/* Keep one part, so that the next call allocates nothing. */
static void arena_reset(ds_arena *a) {
  while (a->part != NULL && a->part->next != NULL) {
    struct ds_arena_part *p = a->part->next;
    a->part->next = p->next;
    free(p);
  }
  a->used = 0;
}

void *ds_rows_new(size_t bytes, const ds_source *source, ds_diag *d) {
  ds_rows *r = calloc(1, bytes);
  if (r == NULL) {
    ds_diag_set(d, DS_EXIT_RUNTIME, source->input != NULL ? source->input->name : NULL, 0, 0,
                "out of memory");
    return NULL;
  }
  r->source = *source;
  return r;
}

void ds_rows_free(ds_rows *r) {
  ds_arena_free(&r->rows);
  ds_arena_free(&r->texts);
  free(r->text);
}

size_t ds_rows_hand_out(ds_row *rows, size_t cap, const ds_row *queue, size_t n, size_t *at) {
  size_t left = n - *at, k = left < cap ? left : cap;
  memcpy(rows, queue + *at, k * sizeof *rows);
  *at += k;
  return k;
}

void ds_rows_begin(ds_rows *r) {
  if (!r->source.keep_more) arena_reset(&r->rows);
}

uint64_t ds_mix64(uint64_t x) { /* the finaliser of MurmurHash3 */
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdu;
  x ^= x >> 33;
  x *= 0xc4ceb9fe1a85ec53u;
  return x ^ (x >> 33);
}

static uint64_t hash_bytes(const char *s, size_t n) { /* FNV-1a */
  uint64_t h = 14695981039346656037u;
  for (size_t i = 0; i < n; i++) h = (h ^ (unsigned char)s[i]) * 1099511628211u;
  return ds_mix64(h);
}

uint64_t ds_hash_text(const char *s) { return hash_bytes(s, strlen(s)); }

static bool grow_texts(ds_rows *r) {
  size_t room = r->text_room == 0 ? 1024 : 2 * r->text_room;
  const char **old = r->text, **t = calloc(room, sizeof *t);
  if (t == NULL) return false;
  for (size_t i = 0; i < r->text_room; i++) {
    if (old[i] == NULL) continue;
    size_t k = (size_t)ds_hash_text(old[i]) & (room - 1);
    while (t[k] != NULL) k = (k + 1) & (room - 1);
    t[k] = old[i];
  }
  free(old);
  r->text = t;
  r->text_room = room;
  return true;
}

/* A tenant is told apart by a number: its own where its name is one, else a hash of the name (FNV-1a, 32 bits). */
uint32_t ds_tenant_number(const char *name) {
  uint32_t hash = 2166136261u;
  uint64_t number = 0;
  size_t n = name != NULL ? strlen(name) : 0;
  if (n == 0) return 0;
  for (size_t i = 0; i < n; i++) {
    hash = (hash ^ (unsigned char)name[i]) * 16777619u;
    number = name[i] >= '0' && name[i] <= '9' && number <= UINT32_MAX ? number * 10 + (uint64_t)(name[i] - '0')
                                                                      : UINT64_MAX;
  }
  if (number <= UINT32_MAX) return (uint32_t)number;
  return hash != 0 ? hash : 1;
}

static const char *copy_text(ds_rows *r, const char *s, size_t n) {
  char *c = ds_arena_take(&r->texts, n + 1);
  if (c != NULL) memcpy(c, s, n);
  return c;
}

const char *ds_rows_keep(ds_rows *r, const char *s, size_t n) {
  if (r->n_texts * 2 >= r->text_room && !grow_texts(r)) return NULL;
  size_t k = (size_t)hash_bytes(s, n) & (r->text_room - 1);
  for (; r->text[k] != NULL; k = (k + 1) & (r->text_room - 1)) {
    if (strncmp(r->text[k], s, n) == 0 && r->text[k][n] == '\0') return r->text[k];
  }
  const char *c = copy_text(r, s, n);
  if (c == NULL) return NULL;
  r->text[k] = c;
  r->n_texts++;
  return c;
}

ds_more *ds_rows_more(ds_rows *r) {
  ds_more *m = ds_arena_take(&r->rows, sizeof *m);
  if (m != NULL) m->think_ns = m->ttft_ns = m->e2e_ns = m->queue_ns = -1;
  return m;
}

int64_t ds_rows_id_of(ds_rows *r, const char *s, size_t n) {
  const char *c = copy_text(r, s, n);
  return c != NULL ? (int64_t)(uintptr_t)c : DS_ROW_NO_ID;
}

const char *ds_rows_id(const ds_source *s, int64_t id) {
  (void)s;
  return (const char *)(uintptr_t)id;
}

/* ---- lines and values ---- */

static bool only_blanks(const char *s, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (s[i] != ' ' && s[i] != '\t' && s[i] != '\r' && s[i] != '\n') return false;
  }
  return true;
}

static void take_value(ds_rows *r, const char *s, size_t n, int64_t line, bool is_line,
                       ds_pull *p) {
  r->value = s;
  r->value_bytes = n;
  r->value_line = line;
  r->value_is_line = is_line;
  r->next_unlined = 0;
  r->lined = line;
  *p = ds_pull_of(s, n);
}

bool ds_rows_line(ds_rows *r, ds_pull *p, ds_diag *d) {
  *p = (ds_pull){.begin = NULL};
  if (r->failed) return ds_rows_no_memory(r, d);
  for (;;) {
    char *s;
    size_t n;
    if (!ds_input_line(r->source.input, DS_LINE_BYTES_MAX, &s, &n, d)) return false;
    if (n == 0) return true;
    if (only_blanks(s, n)) continue;
    take_value(r, s, n, r->source.input->line, true, p);
    return true;
  }
}

/* Bytes of the first JSON value at s, which begins with { or [; 0 while it is not all there.
 * *state goes on where the last call stopped. */
typedef struct scan {
  size_t at;
  int depth;
  bool text;
} scan;

static size_t whole_value(const char *s, size_t n, scan *c) {
  for (; c->at < n; c->at++) {
    char x = s[c->at];
    if (c->text) {
      if (x == '\\') {
        if (c->at + 1 == n) return 0;
        c->at++;
      } else if (x == '"') {
        c->text = false;
      }
    } else if (x == '"') {
      c->text = true;
    } else if (x == '{' || x == '[') {
      c->depth++;
    } else if (x == '}' || x == ']') {
      if (--c->depth == 0) return c->at + 1;
    }
  }
  return 0;
}

bool ds_rows_value(ds_rows *r, ds_pull *p, ds_diag *d) {
  ds_input *in = r->source.input;
  *p = (ds_pull){.begin = NULL};
  if (r->failed) return ds_rows_no_memory(r, d);
  for (;;) { /* to its first byte; a comma or bracket of an enclosing list is stepped over by its
                reader */
    while (in->at < in->end &&
           (*in->at == ' ' || *in->at == '\t' || *in->at == '\r' || *in->at == '\n')) {
      in->line += *in->at == '\n';
      in->at++;
    }
    if (in->at < in->end) break;
    if (in->ended) return true;
    if (!ds_input_fill(in, d)) return false;
  }
  scan c = {0, 0, false};
  size_t n = 0;
  int64_t line = in->line + 1;
  if (*in->at != '{' && *in->at != '[') { /* let the line tell what is wrong */
    char *s;
    if (!ds_input_line(in, DS_LINE_BYTES_MAX, &s, &n, d)) return false;
    take_value(r, s, n, in->line, true, p);
    return true;
  }
  for (;;) {
    size_t have = (size_t)(in->end - in->at);
    n = whole_value(in->at, have, &c);
    if (n > 0) break;
    if (in->ended) {
      n = have;
      break;
    }
    if (have > DS_VALUE_BYTES_MAX) {
      ds_diag_set(d, DS_EXIT_INPUT, in->name, line, 0, "a JSON value of more than %u bytes",
                  DS_VALUE_BYTES_MAX);
      ds_diag_expected(d, "one request or session a value");
      return false;
    }
    if (!ds_input_fill(in, d)) return false;
  }
  take_value(r, in->at, n, line, false, p);
  for (size_t i = 0; i < n; i++) in->line += in->at[i] == '\n';
  in->at += n;
  if (in->at == in->end || memchr(in->at, '\n', (size_t)(in->end - in->at)) == NULL) {
    /* the last line may lack its end: count it all the same */
    if (in->ended && only_blanks(in->at, (size_t)(in->end - in->at))) in->line++;
  }
  return true;
}

/* ---- archives ---- */

#define TAR_BLOCK 512u

bool ds_is_tar(const char *s, size_t n) {
  return n >= TAR_BLOCK && memcmp(s + 257, "ustar", 5) == 0;
}

static bool octal(const char *s, size_t n, uint64_t *v) {
  *v = 0;
  size_t i = 0;
  while (i < n && s[i] == ' ') i++;
  for (; i < n && s[i] >= '0' && s[i] <= '7'; i++) *v = *v * 8 + (uint64_t)(s[i] - '0');
  return i == n || s[i] == ' ' || s[i] == '\0';
}

static bool bad_archive(ds_rows *r, ds_diag *d) {
  ds_diag_set(d, DS_EXIT_INPUT, r->source.input->name, 0, 0, "damaged tar archive%s%s",
              r->member[0] != '\0' ? " behind " : "", r->member);
  ds_diag_expected(d, "a whole archive");
  return false;
}

static bool step_over(ds_rows *r, uint64_t bytes, ds_diag *d) {
  ds_input *in = r->source.input;
  while (bytes > 0) {
    uint64_t have = (uint64_t)(in->end - in->at), take = have < bytes ? have : bytes;
    in->at += take;
    bytes -= take;
    if (bytes == 0) break;
    if (in->ended) return bad_archive(r, d);
    if (!ds_input_fill(in, d)) return false;
  }
  return true;
}

static bool to_the_end(ds_input *in, ds_diag *d) {
  for (;;) {
    in->at = in->end;
    if (in->ended) return true;
    if (!ds_input_fill(in, d)) return false;
  }
}

bool ds_rows_member(ds_rows *r, const char *suffix, ds_pull *p, ds_diag *d) {
  ds_input *in = r->source.input;
  *p = (ds_pull){.begin = NULL};
  if (r->failed) return ds_rows_no_memory(r, d);
  for (;;) {
    uint64_t size;
    if (!ds_input_peek(in, TAR_BLOCK, d)) return false;
    size_t have = (size_t)(in->end - in->at);
    if (have == 0) return true;
    if (have < TAR_BLOCK) return bad_archive(r, d);
    if (in->at[0] == '\0') return to_the_end(in, d); /* two empty blocks end it */
    if (!ds_is_tar(in->at, have) || !octal(in->at + 124, 12, &size)) return bad_archive(r, d);
    size_t n = 0;
    while (n < 100 && in->at[n] != '\0') n++;
    memcpy(r->member, in->at, n);
    r->member[n] = '\0';
    char type = in->at[156];
    uint64_t padded = (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
    in->at += TAR_BLOCK;
    size_t m = strlen(suffix);
    bool wanted =
        (type == '0' || type == '\0') && n >= m && memcmp(r->member + n - m, suffix, m) == 0;
    if (!wanted) {
      if (!step_over(r, padded, d)) return false;
      continue;
    }
    if (size > DS_VALUE_BYTES_MAX) return bad_archive(r, d);
    if (!ds_input_peek(in, (size_t)padded, d)) return false;
    if ((uint64_t)(in->end - in->at) < padded) return bad_archive(r, d);
    take_value(r, in->at, (size_t)size, 1, false, p);
    in->at += padded;
    return true;
  }
}

/* ---- places and complaints ---- */

int64_t ds_rows_line_of(ds_rows *r, const char *at) {
  if (r->value_is_line || at == NULL) return r->value_line;
  size_t to = (size_t)(at - r->value);
  if (to < r->next_unlined) {
    r->next_unlined = 0;
    r->lined = r->value_line;
  }
  for (size_t i = r->next_unlined; i < to; i++) r->lined += r->value[i] == '\n';
  r->next_unlined = to;
  return r->lined;
}

uint32_t ds_rows_column(const ds_rows *r, const char *at) {
  if (at == NULL) return 0;
  const char *s = at;
  while (s > r->value && s[-1] != '\n') s--;
  size_t column = (size_t)(at - s) + 1;
  return column < UINT32_MAX ? (uint32_t)column : 0;
}

bool ds_rows_bad(ds_rows *r, const char *at, ds_diag *d, const char *fmt, ...) {
  char text[512];
  va_list list;
  va_start(list, fmt);
  vsnprintf(text, sizeof text, fmt, list);
  va_end(list);
  return ds_diag_set(d, DS_EXIT_INPUT, r->source.input->name, ds_rows_line_of(r, at),
                     ds_rows_column(r, at), "%s%s%s", r->member, r->member[0] != '\0' ? ": " : "",
                     text);
}

bool ds_rows_not_json(ds_rows *r, const ds_pull *p, ds_diag *d) {
  const char *at = p->wrong_at != NULL ? p->wrong_at : p->at;
  if (at == p->end) /* where it ended, not where the next line begins */
    while (at > p->begin && at[-1] <= ' ') at--;
  bool early = p->wrong != NULL && strcmp(p->wrong, "it ends too early") == 0;
  ds_rows_bad(r, at, d, early ? "the JSON value ends too early" : "not JSON: %s",
              p->wrong != NULL ? p->wrong : "nothing can begin here");
  ds_diag_expected(d, r->value_is_line ? "one JSON object a line" : "JSON");
  return false;
}

bool ds_rows_no_memory(ds_rows *r, ds_diag *d) {
  r->failed = true;
  return ds_diag_set(d, DS_EXIT_RUNTIME, r->source.input->name, r->value_line, 0, "out of memory");
}

/* ---- typed values ---- */

static bool null_value(ds_pull *p, bool *given) {
  *given = ds_pull_kind(p) != 'n';
  return !*given && ds_pull_null(p);
}

/* A number, as itself or in quotes. */
static bool digits_of(ds_rows *r, ds_pull *p, const char *name, ds_text *t, const char **at,
                      ds_diag *d) {
  char kind = ds_pull_kind(p);
  *at = p->at;
  if (kind == '0' && ds_pull_number(p, t)) return true;
  if (kind == '"' && ds_pull_text(p, t)) return true;
  if (p->wrong != NULL || kind == 0) return ds_rows_not_json(r, p, d);
  ds_rows_bad(r, *at, d, "%s is not a number", name);
  ds_diag_expected(d, "a number");
  return false;
}

static bool bad_number(ds_rows *r, const char *at, const char *name, const char *wrong, ds_text t,
                       const char *expected, ds_diag *d) {
  ds_rows_bad(r, at, d, "%s %s: %s", name, wrong, ds_excerpt_of(t.s, t.n).text);
  ds_diag_expected(d, "%s", expected);
  return false;
}

bool ds_rows_count(ds_rows *r, ds_pull *p, const char *name, uint64_t max, bool *given,
                   uint64_t *out, ds_diag *d) {
  ds_text t = {0};
  const char *at = NULL;
  if (null_value(p, given)) return true;
  if (!digits_of(r, p, name, &t, &at, d)) return false;
  const char *wrong = ds_number_count(t, max, out);
  if (wrong == NULL) return true;
  char expected[64];
  snprintf(expected, sizeof expected, "a whole number from 0 to %llu", (unsigned long long)max);
  return bad_number(r, at, name, wrong, t, expected, d);
}

bool ds_rows_tokens(ds_rows *r, ds_pull *p, const char *name, bool *given, uint32_t *out,
                    ds_diag *d) {
  uint64_t v = 0;
  if (!ds_rows_count(r, p, name, DS_TOKENS_MAX, given, &v, d)) {
    if (d->exit == DS_EXIT_INPUT && p->wrong == NULL)
      ds_diag_expected(d, "a whole number of tokens, 1 to %d", DS_TOKENS_MAX);
    return false;
  }
  *out = (uint32_t)v;
  return true;
}

bool ds_rows_integer(ds_rows *r, ds_pull *p, const char *name, bool *given, int64_t *out,
                     ds_diag *d) {
  ds_text t = {0};
  const char *at = NULL;
  if (null_value(p, given)) return true;
  if (!digits_of(r, p, name, &t, &at, d)) return false;
  const char *wrong = ds_number_integer(t, out);
  return wrong == NULL || bad_number(r, at, name, wrong, t, "a whole number", d);
}

bool ds_rows_time(ds_rows *r, ds_pull *p, const char *name, int64_t unit_ns, bool *given,
                  int64_t *out_ns, ds_diag *d) {
  ds_text t = {0};
  const char *at = NULL;
  if (null_value(p, given)) return true;
  if (!digits_of(r, p, name, &t, &at, d)) return false;
  const char *wrong = ds_number_time(t, unit_ns, out_ns);
  const char *unit = unit_ns == 1              ? "a time in nanoseconds"
                     : unit_ns == 1000         ? "a time in microseconds"
                     : unit_ns == DS_NS_PER_MS ? "a time in milliseconds"
                                               : "a time in seconds";
  return wrong == NULL || bad_number(r, at, name, wrong, t, unit, d);
}

bool ds_rows_stamp(ds_rows *r, ds_pull *p, const char *name, bool *given, int64_t *out_ns,
                   ds_diag *d) {
  if (ds_pull_kind(p) != '"') return ds_rows_time(r, p, name, DS_NS_PER_S, given, out_ns, d);
  ds_text t = {0};
  const char *at = p->at;
  *given = true;
  if (!ds_pull_text(p, &t)) return ds_rows_not_json(r, p, d);
  const char *wrong = ds_stamp_parse(t.s, t.n, out_ns);
  if (wrong == NULL) return true;
  if (ds_number_time(t, DS_NS_PER_S, out_ns) == NULL) return true;
  return bad_number(r, at, name, wrong, t,
                    "YYYY-MM-DDThh:mm:ss with an offset from UTC, or seconds since 1970", d);
}

bool ds_rows_text(ds_rows *r, ds_pull *p, const char *name, const char **out, ds_diag *d) {
  char buffer[TEXT_BYTES_MAX + 1];
  bool given;
  ds_text t = {0};
  *out = NULL;
  if (null_value(p, &given)) return true;
  char kind = ds_pull_kind(p);
  const char *at = p->at;
  if (kind == '0' ? !ds_pull_number(p, &t) : kind == '"' ? !ds_pull_text(p, &t) : false)
    return ds_rows_not_json(r, p, d);
  if (kind == 0) return ds_rows_not_json(r, p, d);
  if (kind != '0' && kind != '"') {
    ds_rows_bad(r, at, d, "%s is not a text", name);
    ds_diag_expected(d, "a text or a number");
    return false;
  }
  if (!ds_text_copy(t, buffer, sizeof buffer) || !ds_utf8_valid(buffer, strlen(buffer))) {
    ds_rows_bad(r, at, d, "%s is no text of at most %d bytes in UTF-8", name, TEXT_BYTES_MAX);
    ds_diag_expected(d, "a short text");
    return false;
  }
  if (buffer[0] == '\0') return true;
  *out = ds_rows_keep(r, buffer, strlen(buffer));
  return *out != NULL || ds_rows_no_memory(r, d);
}

bool ds_rows_blocks(ds_rows *r, ds_pull *p, const char *name, const uint64_t **out, uint64_t *n,
                    ds_diag *d) {
  *out = NULL;
  *n = 0;
  bool given;
  if (null_value(p, &given)) return true;
  if (ds_pull_kind(p) != '[') {
    if (p->wrong != NULL) return ds_rows_not_json(r, p, d);
    ds_rows_bad(r, p->at, d, "%s is not a list of block ids", name);
    ds_diag_expected(d, "[id, id, ...], whole numbers from 0 to 18446744073709551615");
    return false;
  }
  /* At most one id for two bytes of what is left; the list's end is near enough to look for. */
  const char *close = memchr(p->at, ']', (size_t)(p->end - p->at));
  size_t room = (size_t)((close != NULL ? close : p->end) - p->at) / 2 + 1, k = 0;
  uint64_t *ids = ds_arena_take(&r->rows, room * sizeof *ids);
  if (ids == NULL) return ds_rows_no_memory(r, d);
  ds_pull_list(p);
  /* The usual form is read here in one pass; anything else goes the long way. */
  const char *s = p->at, *end = close != NULL ? close : p->end;
  while (s < end) {
    const char *first = s;
    uint64_t v = 0;
    unsigned digit;
    while (s < end && (digit = (unsigned)(unsigned char)*s - '0') <= 9 && s - first < 19) {
      v = v * 10 + digit;
      s++;
    }
    if (s == first || (*first == '0' && s - first > 1) || s - first == 19) break;
    if (s == end && close == NULL) break;
    if (*s == ']') {
      ids[k++] = v;
      p->at = s + 1;
      p->depth--;
      *out = ids;
      *n = k;
      return true;
    }
    if (*s != ',') break;
    ids[k++] = v;
    s++;
    if (s < end && *s == ' ') s++;
    p->at = s - 1;
  }
  /* Go on from the last id that was good: back to in front of the comma behind it. */
  if (k > 0) {
    while (*p->at != ',') p->at--;
  }
  while (ds_pull_next(p)) {
    ds_text t = {p->at, 0, false};
    char kind = ds_pull_kind(p);
    const char *at = p->at;
    uint64_t v = 0;
    const char *wrong = "is not a whole number";
    if (kind == '0') {
      if (!ds_pull_number(p, &t)) return ds_rows_not_json(r, p, d);
      wrong = ds_number_u64(t, &v);
    } else if (!ds_pull_skip(p)) {
      return ds_rows_not_json(r, p, d);
    } else {
      t = (ds_text){at, (size_t)(p->at - at), false};
    }
    if (wrong != NULL) {
      bool quotes = t.n >= 2 && t.s[0] == '"' && t.s[t.n - 1] == '"';
      if (quotes) t = (ds_text){t.s + 1, t.n - 2, false};
      ds_rows_bad(r, at, d, "%s holds %s, which %s", name, ds_excerpt_of(t.s, t.n).text, wrong);
      ds_diag_expected(d, "whole numbers from 0 to 18446744073709551615");
      return false;
    }
    if (k < room) ids[k++] = v;
  }
  if (p->wrong != NULL) return ds_rows_not_json(r, p, d);
  *out = ids;
  *n = k;
  return true;
}

bool ds_rows_check_blocks(ds_rows *r, const char *at, uint32_t input, uint64_t n,
                          uint32_t block_tokens, int tail_rule, bool *tail, ds_diag *d) {
  uint64_t down = input / block_tokens, up = down + (input % block_tokens != 0);
  *tail = n == up && up != down;
  if (n == up && tail_rule != 'f') return true;
  if (n == down && tail_rule != 'c') return true;
  ds_rows_bad(r, at, d, "%llu block ids for %u input tokens, which %s%llu blocks of %u",
              (unsigned long long)n, input, up != down ? "fill more than " : "are ",
              (unsigned long long)down, block_tokens);
  static const uint32_t sizes[] = {16, 32, 64, 128, 256, 512, 1024, 2048};
  for (size_t i = 0; n > 0 && i < DS_ARRAY_LEN(sizes); i++) {
    uint64_t low = input / sizes[i], high = low + (input % sizes[i] != 0);
    if ((n != low && n != high) || sizes[i] == block_tokens) continue;
    ds_diag_expected(
        d, "an id for each block; blocks of %u tokens would fit: `import: {block_tokens: %u}`",
        sizes[i], sizes[i]);
    return false;
  }
  ds_diag_expected(d, "an id for each block of %u tokens, for the last, partial one as well or not",
                   block_tokens);
  return false;
}
