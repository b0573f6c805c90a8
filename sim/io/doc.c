// SPDX-License-Identifier: GPL-3.0-or-later
/* libfyaml 0.7.12 loops for ever on an invalid byte in a line that starts with %, and drops without
 * a word what follows a NUL or invalid UTF-8, and every document but the first. So the bytes are
 * checked first, no directive is let through, and the tree is built from the parser's events, which
 * lets us refuse what we do not want where it stands. */
#include "io/doc.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdlib.h>
#include <string.h>

struct ds_doc_block {
  struct ds_doc_block *next;
  size_t used, cap;
  max_align_t data[];
};

static void *take(ds_doc *doc, size_t bytes) {
  struct ds_doc_block *b = doc->blocks;
  bytes = (bytes + sizeof(max_align_t) - 1) / sizeof(max_align_t) * sizeof(max_align_t);
  if (!b || b->cap - b->used < bytes) {
    size_t cap = b ? 65536 : 8192;
    if (cap < bytes) cap = bytes;
    b = malloc(sizeof *b + cap);
    if (!b) return NULL;
    b->next = doc->blocks;
    b->used = 0;
    b->cap = cap;
    doc->blocks = b;
  }
  void *p = (char *)b->data + b->used;
  b->used += bytes;
  return p;
}

void ds_doc_free(ds_doc *doc) {
  while (doc->blocks) {
    struct ds_doc_block *next = doc->blocks->next;
    free(doc->blocks);
    doc->blocks = next;
  }
  doc->root = NULL;
}

ds_node *ds_doc_node(ds_doc *doc, ds_node_kind kind, const ds_node *place) {
  ds_node *n = take(doc, sizeof *n);
  if (!n) return NULL;
  memset(n, 0, sizeof *n);
  n->kind = kind;
  n->file = doc->file;
  n->text = "";
  if (place) {
    n->file = place->file;
    n->line = place->line;
    n->column = place->column;
  }
  return n;
}

char *ds_doc_text(ds_doc *doc, const char *text, size_t bytes) {
  char *p = take(doc, bytes + 1);
  if (!p) return NULL;
  memcpy(p, text, bytes);
  p[bytes] = '\0';
  return p;
}

void ds_node_append(ds_node *parent, ds_node *child) {
  if (parent->last)
    parent->last->next = child;
  else
    parent->first = child;
  parent->last = child;
  ++parent->n;
}

const ds_node *ds_node_get(const ds_node *map, const char *key) {
  if (!map || map->kind != DS_NODE_MAP) return NULL;
  for (const ds_node *c = map->first; c; c = c->next)
    if (strcmp(c->key, key) == 0) return c;
  return NULL;
}

/* --- bytes --------------------------------------------------------------------------------- */

/* Length of the UTF-8 character at s[0..n), 0 when it is none. */
static size_t utf8_length(const unsigned char *s, size_t n) {
  static const struct {
    unsigned char low, high, second_low, second_high;
    size_t length;
  } form[] = {
      {0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
      {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
      {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
  for (size_t i = 0; i < sizeof form / sizeof form[0]; ++i) {
    size_t len = form[i].length;
    if (s[0] < form[i].low || s[0] > form[i].high) continue;
    if (len > n) return 0;
    if (len > 1 && (s[1] < form[i].second_low || s[1] > form[i].second_high)) return 0;
    for (size_t j = 2; j < len; ++j)
      if (s[j] < 0x80 || s[j] > 0xbf) return 0;
    return len;
  }
  return 0;
}

bool ds_utf8_valid(const char *text, size_t bytes) {
  for (size_t i = 0, len; i < bytes; i += len) {
    len = utf8_length((const unsigned char *)text + i, bytes - i);
    if (len == 0 || text[i] == '\0') return false;
  }
  return true;
}

typedef struct extent {
  int32_t lines, last_column;
} extent;

static bool check_bytes(const char *text, size_t bytes, const char *file, extent *x, ds_diag *d) {
  const unsigned char *s = (const unsigned char *)text;
  int32_t line = 1, column = 1;
  if (bytes > DS_DOC_MAX_BYTES) {
    ds_diag_set(d, DS_EXIT_INPUT, file, 0, 0, "the file is larger than %u MiB",
                DS_DOC_MAX_BYTES >> 20);
    ds_diag_expected(
        d, "a scenario, a card or a config.json; a trace goes under workload: {trace: FILE}");
    return false;
  }
  for (size_t i = 0; i < bytes;) {
    size_t len = utf8_length(s + i, bytes - i);
    bool control = s[i] < 0x20 && s[i] != '\n' && s[i] != '\r' && s[i] != '\t';
    if (len == 0 || control || s[i] == 0x7f) {
      ds_diag_set(d, DS_EXIT_INPUT, file, line, column, "the byte 0x%02x %s", s[i],
                  len == 0 ? "is not UTF-8" : "is a control character");
      ds_diag_expected(d, "text in UTF-8");
      return false;
    }
    if (s[i] == '%' && column == 1) {
      ds_diag_set(d, DS_EXIT_INPUT, file, line, column, "a line begins with %%");
      ds_diag_expected(d, "a plain document without YAML directives");
      return false;
    }
    i += len;
    ++column;
    if (s[i - 1] == '\n') {
      ++line;
      column = 1;
    }
  }
  x->lines = column == 1 && line > 1 ? line - 1 : line;
  x->last_column = column;
  return true;
}

/* --- tree ---------------------------------------------------------------------------------- */

typedef struct builder {
  ds_doc *doc;
  ds_diag *d;
  ds_node *open[DS_DOC_MAX_DEPTH];
  size_t depth;
  const char *key; /* read, its value still to come */
  int32_t key_line, key_column;
  bool done;
} builder;

static bool refuse(builder *b, const struct fy_mark *m, const char *what, const char *expected) {
  int32_t line = m ? m->line + 1 : b->key_line, column = m ? m->column + 1 : b->key_column;
  ds_diag_set(b->d, DS_EXIT_INPUT, b->doc->file, line, column, "%s", what);
  ds_diag_expected(b->d, "%s", expected);
  return false;
}

static bool out_of_memory(builder *b) {
  return ds_diag_set(b->d, DS_EXIT_RUNTIME, b->doc->file, 0, 0, "out of memory");
}

static bool accept_key(builder *b, struct fy_event *e, const struct fy_mark *m) {
  size_t bytes = 0;
  ds_node *map = b->open[b->depth - 1];
  const char *text =
      e->type == FYET_SCALAR && e->scalar.value ? fy_token_get_text(e->scalar.value, &bytes) : NULL;
  if (e->type != FYET_SCALAR) return refuse(b, m, "a key is a mapping or a list", "a plain key");
  if (!text || bytes == 0) return refuse(b, m, "a key is empty", "a plain key");
  b->key = ds_doc_text(b->doc, text, bytes);
  if (!b->key) return out_of_memory(b);
  b->key_line = m ? m->line + 1 : 0;
  b->key_column = m ? m->column + 1 : 0;
  for (const ds_node *c = map->first; c; c = c->next) {
    if (strcmp(c->key, b->key) != 0) continue;
    ds_diag_set(b->d, DS_EXIT_INPUT, b->doc->file, b->key_line, b->key_column,
                "the key '%.60s' is there twice, first on line %d", b->key, (int)c->key_line);
    ds_diag_expected(b->d, "each key once");
    return false;
  }
  if (map->n >= DS_DOC_MAX_KEYS)
    return refuse(b, m, "a mapping has too many keys", "512 keys at most");
  return true;
}

static bool accept_text(builder *b, ds_node *n, struct fy_event *e, const struct fy_mark *m) {
  size_t bytes = 0;
  const char *text = e->scalar.value ? fy_token_get_text(e->scalar.value, &bytes) : NULL;
  if (!text) return true;
  if (!ds_utf8_valid(text, bytes))
    return refuse(b, m, "an escape stands for no character", "text in UTF-8");
  n->text = ds_doc_text(b->doc, text, bytes);
  if (!n->text) return out_of_memory(b);
  n->quoted = fy_token_scalar_style(e->scalar.value) != FYSS_PLAIN;
  return true;
}

/* A value, or the start of one. */
static bool accept_value(builder *b, struct fy_event *e, ds_node_kind kind,
                         const struct fy_mark *m) {
  ds_node *parent = b->depth > 0 ? b->open[b->depth - 1] : NULL;
  if (parent && parent->kind == DS_NODE_MAP && !b->key) return accept_key(b, e, m);
  if (fy_event_get_anchor_token(e))
    return refuse(b, m, "an anchor (&) is used", "each value written out");
  if (fy_event_get_tag_token(e)) return refuse(b, m, "a tag (!) is used", "a plain value");
  ds_node *n = ds_doc_node(b->doc, kind, NULL);
  if (!n) return out_of_memory(b);
  n->line = m ? m->line + 1 : b->key_line;
  n->column = m ? m->column + 1 : b->key_column;
  n->key = b->key;
  n->key_line = b->key_line;
  n->key_column = b->key_column;
  b->key = NULL;
  if (kind == DS_NODE_SCALAR && !accept_text(b, n, e, m)) return false;
  if (parent)
    ds_node_append(parent, n);
  else
    b->doc->root = n;
  if (kind == DS_NODE_SCALAR) return true;
  if (b->depth == DS_DOC_MAX_DEPTH)
    return refuse(b, m, "lists and mappings are nested too deeply", "24 levels at most");
  b->open[b->depth++] = n;
  return true;
}

/* Where the event begins. The parser puts a quoted scalar behind its quote and an alias behind its
 * star. */
static const struct fy_mark *mark_of(struct fy_event *e, struct fy_mark *room) {
  const struct fy_mark *m = fy_event_start_mark(e);
  if (!m) return NULL;
  bool quoted = false;
  if (e->type == FYET_SCALAR && e->scalar.value) {
    enum fy_scalar_style style = fy_token_scalar_style(e->scalar.value);
    quoted = style == FYSS_SINGLE_QUOTED || style == FYSS_DOUBLE_QUOTED;
  }
  *room = *m;
  if ((quoted || e->type == FYET_ALIAS) && room->column > 0) --room->column;
  return room;
}

static bool accept(builder *b, struct fy_event *e) {
  struct fy_mark room;
  const struct fy_mark *m = mark_of(e, &room);
  switch (e->type) {
  case FYET_NONE:
  case FYET_STREAM_START:
  case FYET_STREAM_END:
    return true;
  case FYET_DOCUMENT_START:
    if (b->done) return refuse(b, m, "a second document begins", "one document in a file");
    return true;
  case FYET_DOCUMENT_END:
    b->done = true;
    return true;
  case FYET_MAPPING_START:
    return accept_value(b, e, DS_NODE_MAP, m);
  case FYET_SEQUENCE_START:
    return accept_value(b, e, DS_NODE_LIST, m);
  case FYET_MAPPING_END:
  case FYET_SEQUENCE_END:
    --b->depth;
    return true;
  case FYET_SCALAR:
    return accept_value(b, e, DS_NODE_SCALAR, m);
  case FYET_ALIAS:
    return refuse(b, m, "an alias (*) is used", "each value written out");
  default:
    return refuse(b, m, "the parser reports something unknown", "plain YAML");
  }
}

/* The parser's own complaint; it may place an early end behind the last line. */
static bool syntax_error(builder *b, struct fy_diag *fd, extent x) {
  void *at = NULL;
  const struct fy_diag_error *e = fy_diag_errors_iterate(fd, &at);
  int32_t line = e ? e->line : 0, column = e ? e->column : 0;
  if (line > x.lines) {
    line = x.lines;
    column = x.last_column;
  }
  ds_diag_set(b->d, DS_EXIT_INPUT, b->doc->file, line, column, "%s",
              e && e->msg ? e->msg : "this is not YAML");
  ds_diag_expected(b->d, "YAML or JSON");
  return false;
}

static void quiet(struct fy_diag *diag, void *user, const char *buf, size_t len) {
  (void)diag;
  (void)user;
  (void)buf;
  (void)len;
}

static bool build(builder *b, const char *text, size_t bytes, extent x) {
  struct fy_diag_cfg dc;
  fy_diag_cfg_default(&dc);
  dc.fp = NULL;
  dc.output_fn = quiet;
  dc.level = FYET_ERROR;
  dc.colorize = false;
  struct fy_diag *fd = fy_diag_create(&dc);
  if (!fd) return out_of_memory(b);
  fy_diag_set_collect_errors(fd, true);
  struct fy_parse_cfg cfg;
  memset(&cfg, 0, sizeof cfg);
  cfg.flags = (enum fy_parse_cfg_flags)(FYPCF_QUIET | FYPCF_DEFAULT_VERSION_1_2 | FYPCF_JSON_NONE |
                                        FYPCF_SLOPPY_FLOW_INDENTATION);
  cfg.diag = fd;
  struct fy_parser *p = fy_parser_create(&cfg);
  bool ok = p && fy_parser_set_string(p, text, bytes) == 0;
  if (!ok) out_of_memory(b);
  while (ok) {
    struct fy_event *e = fy_parser_parse(p);
    if (!e) break;
    ok = accept(b, e);
    fy_parser_event_free(p, e);
  }
  if (ok && fy_parser_get_stream_error(p)) ok = syntax_error(b, fd, x);
  if (p) fy_parser_destroy(p);
  fy_diag_destroy(fd);
  return ok;
}

bool ds_doc_parse(const char *text, size_t bytes, const char *file, ds_doc *out, ds_diag *d) {
  extent x;
  memset(out, 0, sizeof *out);
  snprintf(out->file, sizeof out->file, "%s", file);
  builder b = {.doc = out, .d = d};
  if (bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) {
    text += 3;
    bytes -= 3;
  }
  if (!check_bytes(text, bytes, out->file, &x, d)) return false;
  if (bytes > 0 && !build(&b, text, bytes, x)) {
    out->root = NULL;
    return false;
  }
  if (out->root) return true;
  ds_diag_set(d, DS_EXIT_INPUT, out->file, 1, 1, "the file is empty");
  ds_diag_expected(d, "keys and values, such as scenario: 1");
  return false;
}

bool ds_file_read(const char *path, const char *name, char **text, size_t *bytes, ds_diag *d) {
  bool standard = strcmp(path, "-") == 0;
  FILE *f = standard ? stdin : fopen(path, "rb");
  if (!f) return ds_diag_set(d, DS_EXIT_INPUT, name, 0, 0, "cannot open: %s", strerror(errno));
  size_t cap = 16384, n = 0;
  char *buf = malloc(cap);
  while (buf) {
    size_t got = fread(buf + n, 1, cap - 1 - n, f);
    n += got;
    if (got == 0 || n > DS_DOC_MAX_BYTES) break;
    if (n < cap - 1) continue;
    char *more = realloc(buf, cap *= 2);
    if (!more) free(buf);
    buf = more;
  }
  int error = buf && ferror(f) ? errno : 0;
  if (!standard) fclose(f);
  if (!buf) return ds_diag_set(d, DS_EXIT_RUNTIME, name, 0, 0, "out of memory");
  if (error != 0) {
    free(buf);
    return ds_diag_set(d, DS_EXIT_INPUT, name, 0, 0, "cannot read: %s", strerror(error));
  }
  buf[n] = '\0';
  *text = buf;
  *bytes = n;
  return true;
}
