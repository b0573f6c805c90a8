// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/card.h"
#include "spec/arith.h"

#include <openssl/sha.h>
#include <stdlib.h>
#include <string.h>

void ds_sha256_hex(const void *bytes, size_t n, char *out) {
  static const char hex[] = "0123456789abcdef";
  unsigned char md[SHA256_DIGEST_LENGTH];
  SHA256(bytes, n, md);
  for (size_t i = 0; i < SHA256_DIGEST_LENGTH; ++i) {
    out[2 * i] = hex[md[i] >> 4];
    out[2 * i + 1] = hex[md[i] & 15];
  }
  out[2 * SHA256_DIGEST_LENGTH] = '\0';
}

/* --- fields -------------------------------------------------------------------------------- */

const ds_node *ds_card_value(const ds_node *root, const ds_card_field *f, const ds_node **group) {
  const ds_node *n = root, *outer = root;
  char part[64];
  for (const char *s = f->path; n && *s;) {
    size_t len = strcspn(s, ".");
    snprintf(part, sizeof part, "%.*s", (int)len, s);
    outer = n;
    n = ds_node_get(n, part);
    s += len + (s[len] == '.');
  }
  if (n && n->kind == DS_NODE_MAP) {
    outer = n;
    n = ds_node_get(n, "value");
  }
  if (group) *group = outer == root ? NULL : outer;
  return n;
}

static const char *const provenance[] = {"source", "date", "grade", "error", "note"};
#define N_PROVENANCE (sizeof provenance / sizeof provenance[0])

static void dotted(char *out, size_t cap, const char *prefix, const char *key) {
  snprintf(out, cap, "%s%s%s", prefix, prefix[0] ? "." : "", key);
}

/* Is `path` a field, or does it lead to fields? */
static void classify(const ds_card_schema *s, const char *path, bool *field, bool *branch) {
  size_t n = strlen(path);
  *field = *branch = false;
  for (size_t i = 0; i < s->n_fields; ++i) {
    if (strncmp(s->fields[i].path, path, n) != 0) continue;
    if (s->fields[i].path[n] == '\0') *field = true;
    if (s->fields[i].path[n] == '.') *branch = true;
  }
}

/* Keys that may stand in the mapping at `prefix`: the next parts of the fields' paths. */
static size_t allowed_keys(const ds_card_schema *s, const char *prefix, char (*room)[48],
                           const char **keys, size_t cap) {
  size_t n = 0, len = strlen(prefix);
  for (size_t i = 0; i < s->n_fields && n < cap; ++i) {
    const char *p = s->fields[i].path;
    if (len > 0 && (strncmp(p, prefix, len) != 0 || p[len] != '.')) continue;
    p += len > 0 ? len + 1 : 0;
    snprintf(room[n], sizeof room[n], "%.*s", (int)strcspn(p, "."), p);
    size_t j = 0;
    while (j < n && strcmp(room[j], room[n]) != 0) ++j;
    if (j == n) {
      keys[n] = room[n];
      ++n;
    }
  }
  return n;
}

#define MAX_KEYS 64

/* prefix: place in the schema; shown: the same for messages. extra: further keys of this mapping.
 */
static bool check_keys(const ds_card_schema *s, const ds_node *map, const char *prefix,
                       const char *shown, const char *const *extra, size_t n_extra, ds_diag *d) {
  char room[MAX_KEYS][48];
  const char *keys[MAX_KEYS + 16];
  bool field, branch;
  size_t n = allowed_keys(s, prefix, room, keys, MAX_KEYS);
  for (size_t i = 0; i < n_extra && n < MAX_KEYS + 16; ++i) keys[n++] = extra[i];
  if (!ds_want_keys(map, shown, keys, n, d)) return false;
  for (const ds_node *c = map->first; c; c = c->next) {
    char path[128], name[256];
    dotted(path, sizeof path, prefix, c->key);
    dotted(name, sizeof name, shown, c->key);
    classify(s, path, &field, &branch);
    if (!field && !branch) continue;
    if (c->kind != DS_NODE_MAP) {
      if (!field && !ds_want_map(c, name, d)) return false;
      continue;
    }
    const char *inner[N_PROVENANCE + 1];
    size_t n_inner = 0;
    if (field) inner[n_inner++] = "value";
    for (size_t i = 0; i < N_PROVENANCE; ++i) inner[n_inner++] = provenance[i];
    if (!check_keys(s, c, path, name, inner, n_inner, d)) return false;
  }
  return true;
}

static bool read_field(const ds_card_field *f, const ds_node *n, const char *key, void *out,
                       ds_diag *d) {
  char *to = (char *)out + f->offset;
  double x;
  int64_t i;
  bool b;
  size_t k;
  switch (f->type) {
  case DS_FIELD_QUANTITY:
    if (!ds_want_quantity(n, key, f->dim, f->min, f->max, &x, d)) return false;
    memcpy(to, &x, sizeof x);
    return true;
  case DS_FIELD_INTEGER:
    if (!ds_want_integer(n, key, (int64_t)f->min, (int64_t)f->max, &i, d)) return false;
    memcpy(to, &i, sizeof i);
    return true;
  case DS_FIELD_BOOL:
    if (!ds_want_bool(n, key, &b, d)) return false;
    memcpy(to, &b, sizeof b);
    return true;
  case DS_FIELD_FORMAT:
    if (!ds_want_choice(n, key, ds_format_names, DS_FMT_N, &k, d)) return false;
    ds_format fmt = (ds_format)k;
    memcpy(to, &fmt, sizeof fmt);
    return true;
  }
  return false;
}

/* Every field that the mapping has into *out; with `all`, the required ones must be there. */
static bool read_fields(ds_card_kind kind, const ds_node *root, const char *shown, bool all,
                        void *out, ds_diag *d) {
  const ds_card_schema *s = &ds_card_schemas[kind];
  for (size_t i = 0; i < s->n_fields; ++i) {
    char name[256];
    const ds_node *group, *n = ds_card_value(root, &s->fields[i], &group);
    dotted(name, sizeof name, shown, s->fields[i].path);
    if (n && !read_field(&s->fields[i], n, name, out, d)) return false;
    if (n || !all || !s->fields[i].required) continue;
    ds_complain(d, group ? group : root, "%s is missing (%s)", name, s->fields[i].help);
    ds_diag_expected(d, "every required value of a %s card, as `dryserve list %s` shows them",
                     s->noun,
                     kind == DS_CARD_HARDWARE ? "hardware"
                     : kind == DS_CARD_MODEL  ? "models"
                                              : "engines");
    return false;
  }
  return true;
}

static bool read_name(const ds_node *root, const char *key, char *out, size_t cap, bool required,
                      ds_diag *d) {
  const ds_node *n = ds_node_get(root, key);
  if (n) return ds_want_text(n, key, out, cap, d);
  if (!required) return true;
  ds_complain(d, root, "%s is missing", key);
  ds_diag_expected(d, "the card's %s", key);
  return false;
}

/* --- opening ------------------------------------------------------------------------------- */

bool ds_card_open(ds_card_kind kind, const char *path, ds_doc *doc, char *sha256, ds_diag *d) {
  char *text;
  size_t bytes;
  memset(doc, 0, sizeof *doc);
  if (!ds_file_read(path, path, &text, &bytes, d)) return false;
  if (sha256) ds_sha256_hex(text, bytes, sha256);
  bool ok = ds_doc_parse(text, bytes, path, doc, d);
  free(text);
  if (ok && (kind != DS_CARD_MODEL || !ds_is_config_json(doc->root))) {
    const char *noun = ds_card_schemas[kind].noun;
    const ds_node *mark = ds_node_get(doc->root, noun);
    if (!mark) {
      ok = ds_complain(d, doc->root, "this is no %s card: it does not say `%s: 1`", noun, noun);
      ds_diag_expected(d, "a %s card%s", noun,
                       kind == DS_CARD_MODEL ? ", or the config.json of a Hugging Face model" : "");
    } else if (mark->kind != DS_NODE_SCALAR || strcmp(mark->text, "1") != 0) {
      const char *said = mark->kind == DS_NODE_SCALAR ? mark->text : "...";
      ok = ds_complain(d, mark, "this is no %s card: it says `%s: %.60s`", noun, noun, said);
      ds_diag_expected(d, "%s: 1, the version of this form of card", noun);
    }
  }
  if (!ok) ds_doc_free(doc);
  return ok;
}

void ds_card_title(const ds_doc *doc, char *out, size_t cap) {
  const ds_node *n = ds_node_get(doc->root, "title");
  if (!n) n = ds_node_get(doc->root, "name");
  snprintf(out, cap, "%s", n && n->kind == DS_NODE_SCALAR ? n->text : "");
}

bool ds_card_model(const ds_doc *doc, ds_model *out, ds_diag *d) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_MODEL];
  if (ds_is_config_json(doc->root)) return ds_config_json_model(doc, out, d);
  memset(out, 0, sizeof *out);
  if (!check_keys(s, doc->root, "", "", s->texts, s->n_texts, d) ||
      !read_name(doc->root, "name", out->name, sizeof out->name, true, d) ||
      !read_fields(DS_CARD_MODEL, doc->root, "", true, out, d))
    return false;
  if (!ds_node_get(doc->root, "expert_weights")) out->expert_weights = out->weights;
  if (out->ffn > 0 || (out->layers > 0 && ds_model_moe_layers(out) == out->layers)) return true;
  const ds_node *dimensions = ds_node_get(doc->root, "dimensions");
  ds_complain(d, dimensions ? dimensions : doc->root,
              "dimensions.ffn is missing (inner width of the feed-forward layer)");
  ds_diag_expected(d, "ffn, unless every layer is a mixture of experts");
  return false;
}

bool ds_card_engine(const ds_doc *doc, ds_engine_card *out, ds_diag *d) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_ENGINE];
  memset(out, 0, sizeof *out);
  return check_keys(s, doc->root, "", "", s->texts, s->n_texts, d) &&
         read_name(doc->root, "name", out->name, sizeof out->name, true, d) &&
         read_name(doc->root, "family", out->family, sizeof out->family, true, d) &&
         read_fields(DS_CARD_ENGINE, doc->root, "", true, out, d);
}

/* --- hardware ------------------------------------------------------------------------------ */

/* The efficiencies are as good as the least sure of the groups that every run needs. */
static bool read_grade(const ds_node *root, ds_grade *out, ds_diag *d) {
  static const char *const names[] = {"estimate", "datasheet", "measured"};
  static const char *const groups[] = {"gemm_bf16", "attn_decode_kv16", "attn_prefill_16"};
  const ds_node *eff = ds_node_get(root, "efficiencies");
  size_t least = DS_GRADE_MEASURED;
  for (size_t i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    const ds_node *n = ds_node_get(ds_node_get(eff, groups[i]), "grade");
    size_t g = DS_GRADE_ESTIMATE;
    if (n && !ds_want_choice(n, "grade", names, 3, &g, d)) return false;
    if (g < least) least = g;
  }
  *out = (ds_grade)least;
  return true;
}

static bool is_estimated(const ds_node *root, const char *group) {
  const ds_node *n = ds_node_get(ds_node_get(ds_node_get(root, "efficiencies"), group), "grade");
  return !n || n->kind != DS_NODE_SCALAR || strcmp(n->text, "estimate") == 0;
}

static void read_estimated(const ds_node *root, ds_hw *hw) {
  for (int g = 0; g < DS_GEMM_GROUPS; ++g)
    hw->gemm_estimated[g] = is_estimated(root, ds_gemm_group_name((ds_gemm_group)g));
  for (int g = 0; g < DS_MOE_GROUPS; ++g)
    hw->moe_estimated[g] = is_estimated(root, ds_moe_group_name((ds_moe_group)g));
  hw->decode_kv8_estimated = is_estimated(root, "attn_decode_kv8");
  hw->latent_estimated[0] = is_estimated(root, "mla_decode_kv16");
  hw->latent_estimated[1] = is_estimated(root, "mla_decode_kv8");
  hw->exchange_estimated = is_estimated(root, "dispatch_low");
}

static bool check_exponents(const ds_node *root, const char *shown, ds_diag *d) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_HARDWARE];
  for (size_t i = 0; i < s->n_fields; ++i) {
    const char *path = s->fields[i].path;
    if ((strstr(path, ".attn_decode") == NULL && strstr(path, ".mla_decode") == NULL) ||
        strcmp(path + strlen(path) - 2, ".p") != 0)
      continue;
    const ds_node *n = ds_card_value(root, &s->fields[i], NULL);
    if (!n || strcmp(n->text, "1") == 0 || strcmp(n->text, "2") == 0 || strcmp(n->text, "4") == 0)
      continue;
    char name[256];
    dotted(name, sizeof name, shown, path);
    ds_complain(d, n, "%s is '%.60s'", name, n->text);
    ds_diag_expected(d, "1, 2 or 4");
    return false;
  }
  return true;
}

/* What follows from the values, for a card and for changed hardware alike. */
static void derive(ds_hw *hw, const ds_node *root) {
  const ds_node *price = ds_node_get(root, "price");
  if (price && price->kind == DS_NODE_SCALAR) {
    hw->price_low_usd_per_h = hw->price_high_usd_per_h = hw->price_usd_per_h;
    hw->price_date[0] = '\0';
  }
  const ds_node *date = ds_node_get(price, "date");
  if (date && date->kind == DS_NODE_SCALAR)
    snprintf(hw->price_date, sizeof hw->price_date, "%.15s", date->text);
  if (hw->price_low_usd_per_h == 0) hw->price_low_usd_per_h = hw->price_usd_per_h;
  if (hw->price_high_usd_per_h == 0) hw->price_high_usd_per_h = hw->price_usd_per_h;
  if (hw->sustained_clock == 0) hw->sustained_clock = 1;
  /* vLLM gives parts of 70 GiB or more its larger default limits, except A100 (EngineArgs,
   * usage-context defaults). */
  hw->big_default = hw->memory_bytes >= 70.0 * 1073741824.0 && strncmp(hw->name, "a100", 4) != 0;
}

bool ds_card_hardware(const ds_doc *doc, ds_hw *out, ds_diag *d) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_HARDWARE];
  memset(out, 0, sizeof *out);
  if (!check_keys(s, doc->root, "", "", s->texts, s->n_texts, d) ||
      !read_name(doc->root, "name", out->name, sizeof out->name, true, d) ||
      !read_name(doc->root, "vendor", out->vendor, sizeof out->vendor, false, d) ||
      !read_fields(DS_CARD_HARDWARE, doc->root, "", true, out, d) ||
      !check_exponents(doc->root, "", d) || !read_grade(doc->root, &out->grade, d))
    return false;
  read_estimated(doc->root, out);
  derive(out, doc->root);
  return true;
}

bool ds_hardware_override(const ds_node *map, const char *key, bool has_base, ds_hw *hw,
                          ds_diag *d) {
  static const char *const extra[] = {"base", "name", "vendor"};
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_HARDWARE];
  bool changed = false;
  if (!check_keys(s, map, "", key, extra, 3, d) ||
      !read_fields(DS_CARD_HARDWARE, map, key, !has_base, hw, d) || !check_exponents(map, key, d))
    return false;
  for (const ds_node *c = map->first; c; c = c->next)
    changed = changed || (strcmp(c->key, "base") != 0 && strcmp(c->key, "name") != 0 &&
                          strcmp(c->key, "vendor") != 0 && strcmp(c->key, "price") != 0);
  if (!has_base) snprintf(hw->name, sizeof hw->name, "custom");
  if (has_base && changed)
    snprintf(hw->name + strlen(hw->name), sizeof hw->name - strlen(hw->name), " (changed)");
  if (changed) hw->grade = DS_GRADE_ESTIMATE;
  if (!read_name(map, "name", hw->name, sizeof hw->name, false, d) ||
      !read_name(map, "vendor", hw->vendor, sizeof hw->vendor, false, d))
    return false;
  derive(hw, map);
  return true;
}
