// SPDX-License-Identifier: GPL-3.0-or-later
/* The native trace: one JSON object a line. jansson decides what is JSON; a small scanner beside it
 * knows where each value stands, for messages, and reads `blocks`, whose ids may be larger than
 * jansson's integers. Block ids and named prefixes become spans (kv/span.h); sessions and turns
 * matter to a closed loop. */
#include "io/span_ids.h"
#include "io/trace_rows.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX (64u << 20) /* an agent's request with 4 million block ids */
#define ID_BYTES_MAX   200
#define MEMBERS_MAX    64

enum {
  KEY_ID,
  KEY_ARRIVAL,
  KEY_INPUT,
  KEY_OUTPUT,
  KEY_MAX,
  KEY_PRIORITY,
  KEY_IMAGES,
  KEY_IMAGE_TOKENS,
  KEY_IMAGE_AT,
  KEY_TENANT,
  KEY_SESSION,
  KEY_TURN,
  KEY_THINK,
  KEY_CLASS,
  KEY_BLOCK_TOKENS,
  KEY_BLOCKS,
  KEY_PREFIX,
  KEY_N
};
typedef enum kind {
  KIND_COUNT,
  KIND_TEXT,
  KIND_NAME,
  KIND_BLOCKS,
  KIND_PREFIX
} kind; /* name: text or a whole number */

static const struct {
  const char *name;
  kind kind;
  int64_t min, max; /* of a count */
} keys[KEY_N] = {
    [KEY_ID] = {"id", KIND_NAME, 0, 0},
    [KEY_ARRIVAL] = {"arrival_ns", KIND_COUNT, 0, INT64_MAX},
    [KEY_INPUT] = {"input_tokens", KIND_COUNT, 0, DS_TOKENS_MAX},
    [KEY_OUTPUT] = {"output_tokens", KIND_COUNT, 0, DS_TOKENS_MAX},
    [KEY_MAX] = {"max_tokens", KIND_COUNT, 1, DS_TOKENS_MAX},
    [KEY_PRIORITY] = {"priority", KIND_COUNT, INT32_MIN, INT32_MAX},
    [KEY_IMAGES] = {"images", KIND_COUNT, 0, DS_TOKENS_MAX},
    [KEY_IMAGE_TOKENS] = {"image_tokens", KIND_COUNT, 0, DS_TOKENS_MAX},
    [KEY_IMAGE_AT] = {"image_at", KIND_COUNT, 0, DS_TOKENS_MAX},
    [KEY_TENANT] = {"tenant", KIND_NAME, 0, 0},
    [KEY_SESSION] = {"session", KIND_NAME, 0, 0},
    [KEY_TURN] = {"turn", KIND_COUNT, 0, INT32_MAX},
    [KEY_THINK] = {"think_ns", KIND_COUNT, 0, INT64_MAX},
    [KEY_CLASS] = {"class", KIND_TEXT, 0, 0},
    [KEY_BLOCK_TOKENS] = {"block_tokens", KIND_COUNT, 1, 1 << 20},
    [KEY_BLOCKS] = {"blocks", KIND_BLOCKS, 0, 0},
    [KEY_PREFIX] = {"prefix", KIND_PREFIX, 0, DS_TOKENS_MAX},
};

typedef struct member { /* of the line's object, byte offsets */
  size_t key, key_end, value, value_end;
} member;

typedef struct jsonl {
  ds_source source;
  ds_rows aux; /* memory of what rows say beyond their lengths */
  char *ids; /* per id: int64 line, then the text and a zero; a handle is the offset of the line */
  size_t ids_used, ids_room;
  int64_t *table; /* open addressing by hash of the text: handle, or -1 */
  size_t table_size, n_ids;
  member member[MEMBERS_MAX];
  size_t n_members;
  uint64_t *block; /* ids of the line at hand */
  ds_span *span;   /* and what they mean; room for as many */
  size_t n_blocks, block_room;
  bool failed; /* out of memory: no further rows */
} jsonl;

static bool out_of_memory(jsonl *j, ds_diag *d) {
  j->failed = true;
  return ds_diag_set(d, DS_EXIT_RUNTIME, j->source.input->name, j->source.input->line, 0,
                     "out of memory");
}

/* ---- where things stand in a line ---- */

static size_t skip_blanks(const char *s, size_t i, size_t n) {
  while (i < n && (s[i] == ' ' || s[i] == '\t' || s[i] == '\r' || s[i] == '\n')) i++;
  return i;
}

/* i at a quote: offset behind the closing one, or n. */
static size_t skip_string(const char *s, size_t i, size_t n) {
  for (i++; i < n; i++) {
    if (s[i] == '\\')
      i++;
    else if (s[i] == '"')
      return i + 1;
  }
  return n;
}

/* Behind a value, taken as everything up to the comma or bracket that ends it. */
static size_t skip_value(const char *s, size_t i, size_t n) {
  size_t depth = 0;
  while (i < n) {
    char c = s[i];
    if (c == '"') {
      i = skip_string(s, i, n);
      continue;
    }
    if (c == '[' || c == '{') depth++;
    if (depth == 0 && (c == ',' || c == '}' || c == ']')) return i;
    if (c == ']' || c == '}') depth--;
    i++;
  }
  return n;
}

/* Note the members of the outermost object as far as the line looks like one; jansson judges it
 * afterwards. */
static void find_members(jsonl *j, const char *s, size_t n) {
  j->n_members = 0;
  size_t i = skip_blanks(s, 0, n);
  if (i >= n || s[i] != '{') return;
  for (i++; j->n_members < MEMBERS_MAX; i++) {
    i = skip_blanks(s, i, n);
    if (i >= n || s[i] != '"') return;
    member *m = &j->member[j->n_members];
    m->key = i + 1;
    i = skip_string(s, i, n);
    m->key_end = i - 1;
    i = skip_blanks(s, i, n);
    if (i >= n || s[i] != ':') return;
    m->value = skip_blanks(s, i + 1, n);
    i = skip_value(s, m->value, n);
    m->value_end = i;
    while (m->value_end > m->value &&
           skip_blanks(s, m->value_end - 1, m->value_end) == m->value_end)
      m->value_end--;
    j->n_members++;
    if (i >= n || s[i] != ',') return;
  }
}

static const member *find(const jsonl *j, const char *s, const char *name) {
  size_t n = strlen(name);
  for (size_t i = 0; i < j->n_members; i++) {
    const member *m = &j->member[i];
    if (m->key_end - m->key == n && memcmp(s + m->key, name, n) == 0) return m;
  }
  return NULL;
}

/* ---- complaints ---- */

/* About the value of a key: its column, its name, what is wrong, the value as it stands. */
static bool bad_value(jsonl *j, const char *s, int key, const char *wrong, ds_diag *d) {
  const ds_input *in = j->source.input;
  const member *m = find(j, s, keys[key].name);
  if (m == NULL)
    return ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, 0, "%s %s", keys[key].name, wrong);
  ds_excerpt e = ds_excerpt_of(s + m->value, m->value_end - m->value);
  /* The excerpt's own quotes are only good for text, which here has brought its own. */
  int shown = (int)strlen(e.text) - 2;
  return ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, (int64_t)m->value + 1, "%s %s: %.*s",
                     keys[key].name, wrong, shown, e.text + 1);
}

static bool bad_json(const jsonl *j, const json_error_t *e, ds_diag *d) {
  const ds_input *in = j->source.input;
  int64_t column = e->position > 0 ? e->position : 1;
  for (size_t i = 0; i < j->n_members;
       i++) { /* jansson points behind what it choked on: point at the value instead */
    const member *m = &j->member[i];
    if ((int64_t)m->value < column && column <= (int64_t)m->value_end)
      column = (int64_t)m->value + 1;
  }
  enum json_error_code code = json_error_code(e);
  if (code == json_error_premature_end_of_input) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, column,
                "the line ends inside its JSON object");
  } else if (code == json_error_duplicate_key) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, column, "a key appears twice: %.150s",
                e->text);
  } else if (code == json_error_end_of_input_expected) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, column, "something follows the JSON object");
  } else {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, column, "not JSON: %.150s", e->text);
  }
  ds_diag_expected(d, "one JSON object a line, each key once");
  return false;
}

static bool unknown_key(jsonl *j, const char *s, const char *key, ds_diag *d) {
  const char *names[KEY_N];
  for (size_t i = 0; i < KEY_N; i++) names[i] = keys[i].name;
  const ds_input *in = j->source.input;
  const member *m = find(j, s, key);
  ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line, m != NULL ? (int64_t)m->key : 0,
              "unknown key %s", ds_excerpt_of(key, strlen(key)).text);
  ds_diag_expected(d, "id, arrival_ns, input_tokens, output_tokens, and perhaps max_tokens, "
                      "priority, tenant, session, turn, "
                      "think_ns, class, block_tokens, blocks, prefix");
  const char *near = ds_nearest(key, names, KEY_N);
  if (near != NULL) ds_diag_hint(d, "did you mean %s?", near);
  return false;
}

/* ---- block ids ---- */

/* i at an unsigned 64-bit number in JSON's form: offset behind it, or 0. */
static size_t skip_u64(const char *s, size_t i, size_t n, uint64_t *value) {
  size_t start = i;
  uint64_t v = 0;
  for (; i < n && s[i] >= '0' && s[i] <= '9'; i++) {
    uint64_t digit = (uint64_t)(s[i] - '0');
    if (v > (UINT64_MAX - digit) / 10) return 0;
    v = v * 10 + digit;
  }
  *value = v;
  return i == start || (s[start] == '0' && i > start + 1) ? 0 : i;
}

static bool keep_block(jsonl *j, uint64_t id) {
  if (j->n_blocks == j->block_room) {
    size_t room = j->block_room == 0 ? 256 : 2 * j->block_room;
    uint64_t *block = realloc(j->block, room * sizeof *block);
    if (block == NULL) return false;
    j->block = block;
    ds_span *span = realloc(j->span, room * sizeof *span);
    if (span == NULL) return false;
    j->span = span;
    j->block_room = room;
  }
  j->block[j->n_blocks++] = id;
  return true;
}

/* Take the ids of `blocks` and blank its elements, so that jansson need not read them. What is no list is
 * left to the others. */
static bool take_blocks(jsonl *j, char *s, ds_diag *d) {
  const member *m = find(j, s, keys[KEY_BLOCKS].name);
  j->n_blocks = 0;
  if (m == NULL || m->value >= m->value_end || s[m->value] != '[' || s[m->value_end - 1] != ']')
    return true;
  size_t end = m->value_end - 1, i = skip_blanks(s, m->value + 1, end);
  while (i < end) {
    uint64_t id;
    size_t behind = skip_u64(s, i, end, &id);
    size_t comma = skip_blanks(s, behind, end);
    bool last = comma >= end;
    if (behind == 0 || (!last && s[comma] != ',')) {
      size_t stop = skip_value(s, i, end);
      ds_diag_set(d, DS_EXIT_INPUT, j->source.input->name, j->source.input->line, (int64_t)i + 1,
                  "blocks holds %s", ds_excerpt_of(s + i, stop > i ? stop - i : 1).text);
      ds_diag_expected(d, "whole numbers from 0 to 18446744073709551615");
      return false;
    }
    if (!keep_block(j, id)) return out_of_memory(j, d);
    if (last) break;
    i = skip_blanks(s, comma + 1, end);
    if (i >= end) return true; /* a comma at the end: jansson says so */
  }
  memset(s + m->value + 1, ' ', end - m->value - 1);
  return true;
}

/* ---- ids ---- */

static uint64_t hash_of(const char *s) { /* FNV-1a */
  uint64_t h = 14695981039346656037u;
  for (; *s != '\0'; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
  return h;
}

static const char *id_text(const ds_source *source, int64_t id) {
  return ((const jsonl *)source)->ids + id + sizeof(int64_t);
}

static size_t slot_of(const jsonl *j, const char *text) {
  size_t i = (size_t)hash_of(text) & (j->table_size - 1);
  while (j->table[i] >= 0 && strcmp(id_text(&j->source, j->table[i]), text) != 0)
    i = (i + 1) & (j->table_size - 1);
  return i;
}

static bool grow_table(jsonl *j) {
  size_t old_size = j->table_size, size = old_size == 0 ? 1024 : old_size * 2;
  int64_t *old = j->table, *table = malloc(size * sizeof *table);
  if (table == NULL) return false;
  for (size_t i = 0; i < size; i++) table[i] = -1;
  j->table = table;
  j->table_size = size;
  for (size_t i = 0; i < old_size; i++) {
    if (old[i] >= 0) table[slot_of(j, id_text(&j->source, old[i]))] = old[i];
  }
  free(old);
  return true;
}

/* Keep an id, which must be new. */
static bool keep_id(jsonl *j, const char *s, const char *text, int64_t *id, ds_diag *d) {
  if (j->n_ids * 2 >= j->table_size && !grow_table(j)) return out_of_memory(j, d);
  size_t slot = slot_of(j, text), need = sizeof(int64_t) + strlen(text) + 1;
  if (j->table[slot] >= 0) {
    int64_t first;
    memcpy(&first, j->ids + j->table[slot], sizeof first);
    bad_value(j, s, KEY_ID, "appears a second time", d);
    ds_diag_expected(d, "an id of its own for every request; line %lld has this one",
                     (long long)first);
    return false;
  }
  if (j->ids_room - j->ids_used < need) {
    size_t room = j->ids_room == 0 ? 1u << 16 : j->ids_room * 2;
    char *ids = realloc(j->ids, room);
    if (ids == NULL) return out_of_memory(j, d);
    j->ids = ids;
    j->ids_room = room;
  }
  *id = (int64_t)j->ids_used;
  memcpy(j->ids + j->ids_used, &j->source.input->line, sizeof(int64_t));
  memcpy(j->ids + j->ids_used + sizeof(int64_t), text, need - sizeof(int64_t));
  j->ids_used += need;
  j->table[slot] = *id;
  j->n_ids++;
  return true;
}

/* ---- a row ---- */

static bool take_count(jsonl *j, const char *s, int key, const json_t *v, int64_t *out,
                       ds_diag *d) {
  const char *wrong = NULL;
  *out = json_integer_value(v); /* 0 when it is none */
  if (json_is_real(v))
    wrong = "is not a whole number";
  else if (!json_is_integer(v))
    wrong = "is not a number";
  else if (*out < keys[key].min)
    wrong = *out < 0 && keys[key].min >= 0 ? "is negative" : "is too small";
  else if (*out > keys[key].max)
    wrong = "is too large";
  if (wrong == NULL) return true;
  bad_value(j, s, key, wrong, d);
  bool tokens = key == KEY_INPUT || key == KEY_OUTPUT;
  ds_diag_expected(d, "a whole number%s from %lld to %lld", tokens ? " of tokens" : "",
                   (long long)(tokens ? 1 : keys[key].min), (long long)keys[key].max);
  return false;
}

static bool take_text(jsonl *j, const char *s, int key, const json_t *v,
                      char text[ID_BYTES_MAX + 1], ds_diag *d) {
  bool number = keys[key].kind == KIND_NAME && json_is_integer(v);
  size_t n = json_string_length(v);
  if (number) {
    snprintf(text, ID_BYTES_MAX + 1, "%lld", (long long)json_integer_value(v));
    return true;
  }
  if (json_is_string(v) && n > 0 && n <= ID_BYTES_MAX) {
    memcpy(text, json_string_value(v), n + 1);
    return true;
  }
  bad_value(j, s, key,
            !json_is_string(v) ? "is not a text"
            : n == 0           ? "is empty"
                               : "is too long",
            d);
  ds_diag_expected(d, "a text of 1 to %d bytes%s", ID_BYTES_MAX,
                   keys[key].kind == KIND_NAME ? ", or a whole number" : "");
  return false;
}

/* Lists: only their form is looked at. */
static bool check_list(jsonl *j, const char *s, int key, const json_t *v, ds_diag *d) {
  if (key == KEY_BLOCKS) {
    bool good = json_is_array(v);
    for (size_t i = 0; good && i < json_array_size(v); i++) {
      const json_t *e = json_array_get(v, i);
      good = json_is_integer(e) && json_integer_value(e) >= 0;
    }
    if (good) return true;
    bad_value(j, s, key, "is not a list of block ids", d);
    ds_diag_expected(d, "[id, id, ...], whole numbers from 0 to 18446744073709551615");
    return false;
  }
  const json_t *name = json_array_get(v, 0), *tokens = json_array_get(v, 1);
  if (json_array_size(v) == 2 && (json_is_string(name) || json_is_integer(name)) &&
      json_is_integer(tokens) && json_integer_value(tokens) >= 0 &&
      json_integer_value(tokens) <= keys[key].max) {
    return true;
  }
  bad_value(j, s, key, "is not a name and a count of tokens", d);
  ds_diag_expected(d, "[name, tokens]");
  return false;
}

static uint32_t column_of(const jsonl *j, const char *s, int key) {
  const member *m = find(j, s, keys[key].name);
  return m != NULL && m->value < UINT32_MAX ? (uint32_t)m->value + 1 : 0;
}

static int key_of(const char *name) {
  for (int i = 0; i < KEY_N; i++) {
    if (strcmp(name, keys[i].name) == 0) return i;
  }
  return -1;
}

/* The identity of the row's tokens. Block ids say more than a prefix and win over it. */
static bool take_spans(jsonl *j, const char *s, const json_t *prefix, uint32_t block_tokens,
                       ds_row *row, ds_diag *d) {
  if (j->n_blocks == 0 && prefix == NULL) return true;
  if (row->input_tokens == 0 || row->output_tokens == 0) return true; /* judged elsewhere */
  if (j->n_blocks == 0) {
    char number[24];
    const json_t *name = json_array_get(prefix, 0);
    const char *text = json_string_value(name);
    size_t bytes = json_string_length(name);
    if (text == NULL) {
      bytes = (size_t)snprintf(number, sizeof number, "%lld", (long long)json_integer_value(name));
      text = number;
    }
    if (j->block_room == 0 && (!keep_block(j, 0) || (j->n_blocks = 0, false)))
      return out_of_memory(j, d);
    row->n_spans = ds_spans_of_prefix(text, bytes,
                                      (uint32_t)json_integer_value(json_array_get(prefix, 1)),
                                      row->input_tokens, row->output_tokens, j->span);
  } else if (block_tokens == 0) {
    bad_value(j, s, KEY_BLOCKS, "stands without block_tokens", d);
    ds_diag_expected(d, "block_tokens: how many tokens a block has, beside blocks");
    return false;
  } else {
    size_t most = ds_spans_most_ids(block_tokens, row->input_tokens, row->output_tokens);
    if (j->n_blocks > most) {
      bad_value(j, s, KEY_BLOCKS, "has more blocks than the request has tokens for", d);
      ds_diag_expected(d, "at most %zu blocks of %u tokens", most, block_tokens);
      return false;
    }
    row->n_spans = ds_spans_of_ids(j->block, j->n_blocks, block_tokens, 0, row->input_tokens,
                                   row->output_tokens, j->span);
  }
  row->spans = j->span;
  return true;
}

static bool keep_text(jsonl *j, const char *text, const char **out, ds_diag *d) {
  *out = ds_rows_keep(&j->aux, text, strlen(text));
  return *out != NULL || out_of_memory(j, d);
}

/* What the row says beyond its lengths, where it does. */
static bool take_more(jsonl *j, const int64_t *count, const bool *present, const char *const *named,
                      const json_t *prefix, ds_row *row, ds_diag *d) {
  static const int keys_of_more[] = {KEY_TENANT, KEY_SESSION, KEY_TURN, KEY_THINK, KEY_CLASS, KEY_PREFIX};
  bool any = j->n_blocks > 0;
  for (size_t i = 0; i < DS_ARRAY_LEN(keys_of_more); i++) any = any || present[keys_of_more[i]];
  if (!any) return true;
  ds_more *m = ds_rows_more(&j->aux);
  if (m == NULL) return out_of_memory(j, d);
  row->more = m;
  m->tenant = named[KEY_TENANT];
  m->session = named[KEY_SESSION];
  m->class_name = named[KEY_CLASS];
  m->has_turn = present[KEY_TURN];
  m->turn = (uint32_t)count[KEY_TURN];
  if (present[KEY_THINK]) m->think_ns = count[KEY_THINK];
  if (prefix != NULL) {
    char number[24];
    const char *name = json_string_value(json_array_get(prefix, 0));
    snprintf(number, sizeof number, "%lld", (long long)json_integer_value(json_array_get(prefix, 0)));
    if (!keep_text(j, name != NULL ? name : number, &m->prefix, d)) return false;
    m->prefix_tokens = (uint32_t)json_integer_value(json_array_get(prefix, 1));
  }
  if (j->n_blocks == 0) return true;
  uint64_t *block = ds_arena_take(&j->aux.rows, j->n_blocks * sizeof *block);
  if (block == NULL) return out_of_memory(j, d);
  memcpy(block, j->block, j->n_blocks * sizeof *block);
  m->blocks = block;
  m->n_blocks = j->n_blocks;
  m->block_tokens = (uint32_t)count[KEY_BLOCK_TOKENS];
  return true;
}

static bool take_row(jsonl *j, const char *s, json_t *object, ds_row *row, ds_diag *d) {
  int64_t count[KEY_N] = {0};
  bool present[KEY_N] = {false};
  const json_t *prefix = NULL;
  char id[ID_BYTES_MAX + 1] = "", tenant[ID_BYTES_MAX + 1] = "", text[ID_BYTES_MAX + 1] = "";
  const char *named[KEY_N] = {NULL};
  for (void *at = json_object_iter(object); at != NULL; at = json_object_iter_next(object, at)) {
    const json_t *v = json_object_iter_value(at);
    int key = key_of(json_object_iter_key(at));
    if (key < 0) return unknown_key(j, s, json_object_iter_key(at), d);
    present[key] = true;
    bool good;
    if (keys[key].kind == KIND_COUNT)
      good = take_count(j, s, key, v, &count[key], d);
    else if (keys[key].kind == KIND_TEXT || keys[key].kind == KIND_NAME)
      good = take_text(j, s, key, v, key == KEY_ID ? id : key == KEY_TENANT ? tenant : text, d) &&
             (key == KEY_ID || keep_text(j, key == KEY_TENANT ? tenant : text, &named[key], d));
    else
      good = check_list(j, s, key, v, d);
    if (key == KEY_PREFIX) prefix = v;
    if (!good) return false;
  }
  static const int needed[] = {KEY_ARRIVAL, KEY_INPUT, KEY_OUTPUT};
  for (size_t i = 0; i < DS_ARRAY_LEN(needed); i++) {
    if (present[needed[i]]) continue;
    ds_diag_set(d, DS_EXIT_INPUT, j->source.input->name, j->source.input->line, 0,
                "a request without %s", keys[needed[i]].name);
    ds_diag_expected(d, "arrival_ns, input_tokens and output_tokens in every line");
    return false;
  }
  *row = (ds_row){.time_ns = count[KEY_ARRIVAL],
                  .line = j->source.input->line,
                  .id = DS_ROW_NO_ID,
                  .input_tokens = (uint32_t)count[KEY_INPUT],
                  .output_tokens = (uint32_t)count[KEY_OUTPUT],
                  .max_tokens = (uint32_t)count[KEY_MAX],
                  .priority = (int32_t)count[KEY_PRIORITY],
                  .images = (uint32_t)count[KEY_IMAGES],
                  .image_tokens = (uint32_t)count[KEY_IMAGE_TOKENS],
                  .image_at = (uint32_t)count[KEY_IMAGE_AT],
                  .image_placed = present[KEY_IMAGE_AT],
                  .tenant = ds_tenant_number(named[KEY_TENANT]),
                  .time_column = column_of(j, s, KEY_ARRIVAL),
                  .input_column = column_of(j, s, KEY_INPUT),
                  .output_column = column_of(j, s, KEY_OUTPUT)};
  return take_spans(j, s, prefix, (uint32_t)count[KEY_BLOCK_TOKENS], row, d) &&
         take_more(j, count, present, named, prefix, row, d) && (!present[KEY_ID] || keep_id(j, s, id, &row->id, d));
}

static bool one_line(jsonl *j, char *s, size_t n, ds_row *row, ds_diag *d) {
  find_members(j, s, n);
  if (!take_blocks(j, s, d)) return false;
  json_error_t error;
  json_t *object = json_loadb(s, n, JSON_REJECT_DUPLICATES, &error);
  if (object == NULL)
    return json_error_code(&error) == json_error_out_of_memory ? out_of_memory(j, d)
                                                               : bad_json(j, &error, d);
  bool good;
  if (json_is_object(object)) {
    good = take_row(j, s, object, row, d);
  } else {
    good = ds_diag_set(d, DS_EXIT_INPUT, j->source.input->name, j->source.input->line, 1,
                       "not a JSON object: %s", ds_excerpt_of(s, n).text);
    ds_diag_expected(d, "one JSON object a line");
  }
  json_decref(object);
  return good;
}

static bool jsonl_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  jsonl *j = (jsonl *)source;
  (void)cap; /* one at a time: a bad row must not hide the good ones before it */
  *n = 0;
  if (j->failed) return out_of_memory(j, d);
  j->aux.source.keep_more = source->keep_more;
  ds_rows_begin(&j->aux);
  for (;;) {
    char *s;
    size_t bytes;
    if (!ds_input_line(source->input, LINE_BYTES_MAX, &s, &bytes, d)) return false;
    if (bytes == 0) return true;
    if (skip_blanks(s, 0, bytes) == bytes) continue;
    *n = 1;
    if (one_line(j, s, bytes, rows, d)) return true;
    *n = 0;
    return false;
  }
}

static void jsonl_close(ds_source *source) {
  jsonl *j = (jsonl *)source;
  ds_rows_free(&j->aux);
  free(j->ids);
  free(j->table);
  free(j->block);
  free(j->span);
  free(j);
}

bool ds_jsonl_open(ds_input *in, ds_source **out, ds_diag *d) {
  jsonl *j = calloc(1, sizeof *j);
  *out = NULL;
  if (j == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, in->name, 0, 0, "out of memory");
  j->source = (ds_source){.format = "jsonl",
                          .time_name = keys[KEY_ARRIVAL].name,
                          .input_name = keys[KEY_INPUT].name,
                          .output_name = keys[KEY_OUTPUT].name,
                          .input = in,
                          .rebase = true,
                          .rows = jsonl_rows,
                          .id = id_text,
                          .close = jsonl_close};
  *out = &j->source;
  return true;
}
