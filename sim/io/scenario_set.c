// SPDX-License-Identifier: GPL-3.0-or-later
/* --set pools.main.replicas=8: change the tree as if the file had said so. A key that is not there
 * is made; whether it may be there is for the sections to say, with their usual complaint. */
#include <ctype.h>
#include <string.h>

#include "io/scenario_read.h"

/* Where a scalar is short for a mapping with this key. */
static const struct {
  const char *key, *promoted;
} shorthands[] = {{"hardware", "base"}, {"router", "policy"}, {"cost", "model"}};

static bool usage(ds_reader *r, const char *assignment, const char *what) {
  ds_diag_set(r->d, DS_EXIT_USAGE, "command line", 0, 0, "--set %.200s: %s", assignment, what);
  ds_diag_expected(r->d, "--set KEY=VALUE, such as --set pools.main.replicas=8");
  return false;
}

static bool out_of_memory(ds_reader *r) {
  return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "out of memory");
}

/* Nothing that comes from the command line has a line. */
static void unplace(ds_node *n, const char *file) {
  n->file = file;
  n->line = n->column = n->key_line = n->key_column = 0;
  for (ds_node *c = n->first; c; c = c->next) unplace(c, file);
}

static ds_node *value_node(ds_reader *r, const char *value, const char *file) {
  while (*value == ' ') ++value;
  size_t n = strlen(value);
  while (n > 0 && value[n - 1] == ' ') --n;
  if (*value != '\0' && strchr("[{\"'", *value)) {
    ds_doc *doc = &r->extra[r->n_extra];
    bool ok = ds_doc_parse(value, n, file, doc, r->d);
    ++r->n_extra;
    if (!ok) {
      r->d->exit = DS_EXIT_USAGE;
      return NULL;
    }
    unplace(doc->root, file);
    return doc->root;
  }
  ds_node *node = ds_doc_node(r->doc, DS_NODE_SCALAR, NULL);
  char *text = ds_doc_text(r->doc, value, n);
  if (!node || !text) {
    out_of_memory(r);
    return NULL;
  }
  node->text = text;
  node->file = file;
  return node;
}

/* Puts `child` in the place of the entry `key`, or at the end. */
static void put(ds_node *map, const char *key, ds_node *child) {
  child->key = key;
  for (ds_node **at = &map->first; *at; at = &(*at)->next) {
    if (strcmp((*at)->key, key) != 0) continue;
    child->next = (*at)->next;
    if (map->last == *at) map->last = child;
    *at = child;
    return;
  }
  child->next = NULL;
  ds_node_append(map, child);
}

/* The entry of a list that a part names: its `name`, or its index; the only one may be called main.
 */
static ds_node *list_entry(ds_node *list, const char *part, size_t n) {
  size_t index = 0, i = 0;
  bool digits = n > 0 && n < 10;
  for (size_t k = 0; k < n; ++k) {
    digits = digits && isdigit((unsigned char)part[k]);
    if (digits) index = index * 10 + (size_t)(part[k] - '0');
  }
  for (ds_node *c = list->first; c; c = c->next, ++i) {
    const ds_node *name = ds_node_get(c, "name");
    if (name ? name->kind == DS_NODE_SCALAR && strlen(name->text) == n &&
                   memcmp(name->text, part, n) == 0
             : list->n == 1 && n == 4 && memcmp(part, "main", 4) == 0)
      return c;
    if (digits && i == index) return c;
  }
  return NULL;
}

static ds_node *promote(ds_reader *r, ds_node *scalar, const char *file) {
  for (size_t i = 0; i < sizeof shorthands / sizeof shorthands[0]; ++i) {
    if (!scalar->key || strcmp(scalar->key, shorthands[i].key) != 0) continue;
    ds_node *inner = ds_doc_node(r->doc, DS_NODE_SCALAR, NULL);
    if (!inner) return NULL;
    *inner = *scalar;
    inner->next = NULL;
    scalar->kind = DS_NODE_MAP;
    scalar->first = scalar->last = NULL;
    scalar->n = 0;
    scalar->file = file;
    put(scalar, shorthands[i].promoted, inner);
    return scalar;
  }
  return NULL;
}

static bool not_a_mapping(ds_reader *r, const ds_node *n, const char *file, const char *key,
                          size_t bytes) {
  ds_diag_set(r->d, DS_EXIT_INPUT, file, 0, 0, "%.*s is %s", (int)bytes, key,
              n->kind == DS_NODE_LIST ? "a list without such an entry" : "not a mapping");
  if (n->kind == DS_NODE_LIST)
    ds_diag_expected(r->d, "the name of an entry, such as pools.main");
  else
    ds_diag_expected(r->d, "a key of a mapping; set %.*s itself instead", (int)bytes, key);
  return false;
}

/* One step down from *at, making a mapping where there is nothing. */
static bool descend(ds_reader *r, ds_node **at, const char *key, const char *part, size_t n,
                    const char *file) {
  ds_node *here = *at, *next = NULL;
  if (here->kind == DS_NODE_LIST) {
    next = list_entry(here, part, n);
    if (!next) return not_a_mapping(r, here, file, key, (size_t)(part - key - 1));
  } else {
    for (next = here->first; next; next = next->next)
      if (strlen(next->key) == n && memcmp(next->key, part, n) == 0) break;
  }
  if (!next) {
    char *name = ds_doc_text(r->doc, part, n);
    next = ds_doc_node(r->doc, DS_NODE_MAP, NULL);
    if (!next || !name) return out_of_memory(r);
    next->file = file;
    put(here, name, next);
  }
  if (next->kind == DS_NODE_SCALAR) {
    if (ds_node_is_null(next)) {
      next->kind = DS_NODE_MAP;
    } else if (!promote(r, next, file)) {
      return not_a_mapping(r, next, file, key, (size_t)(part - key) + n);
    }
  }
  *at = next;
  return true;
}

/* Replaces the entry of a list (there must be one). */
static bool put_in_list(ds_reader *r, ds_node *list, const char *key, const char *part,
                        ds_node *child, const char *file) {
  ds_node *old = list_entry(list, part, strlen(part));
  if (!old) return not_a_mapping(r, list, file, key, (size_t)(part - key - 1));
  ds_node *next = old->next;
  *old = *child;
  old->next = next;
  return true;
}

static bool is_long_slo_key(const char *key) {
  return strcmp(key, "request") == 0 || strcmp(key, "run") == 0 || strcmp(key, "window") == 0;
}

/* slo has two forms, and --set should work with the one that the file happens to use: slo.ttft of
 * the long form is slo.request.ttft, and slo.run.p99_ttft turns the short form into the long one.
 */
static char *adapt_slo(ds_reader *r, char *key) {
  ds_node *slo = NULL;
  bool is_long = false;
  if (strncmp(key, "slo.", 4) != 0) return key;
  for (ds_node *c = r->doc->root->first; c; c = c->next)
    if (strcmp(c->key, "slo") == 0 && c->kind == DS_NODE_MAP) slo = c;
  if (!slo) return key;
  for (const ds_node *c = slo->first; c; c = c->next) is_long = is_long || is_long_slo_key(c->key);
  size_t n = strcspn(key + 4, ".");
  char part[16];
  snprintf(part, sizeof part, "%.*s", n < sizeof part ? (int)n : 0, key + 4);
  static const char *const limits[] = {"ttft", "tpot", "itl", "e2e"};
  for (size_t i = 0; is_long && i < sizeof limits / sizeof limits[0]; ++i) {
    char longer[24];
    if (strcmp(key + 4, limits[i]) != 0) continue;
    int bytes = snprintf(longer, sizeof longer, "slo.request.%s", limits[i]);
    return ds_doc_text(r->doc, longer, (size_t)bytes);
  }
  if (is_long || slo->n == 0 || !is_long_slo_key(part)) return key;
  ds_node *request = ds_doc_node(r->doc, DS_NODE_MAP, slo);
  if (!request) return NULL;
  request->first = slo->first;
  request->last = slo->last;
  request->n = slo->n;
  request->key_line = slo->key_line;
  request->key_column = slo->key_column;
  slo->first = slo->last = NULL;
  slo->n = 0;
  put(slo, "request", request);
  return key;
}

bool ds_apply_set(ds_reader *r, const char *assignment) {
  const char *equals = strchr(assignment, '=');
  if (!equals) return usage(r, assignment, "there is no '='");
  size_t n = (size_t)(equals - assignment);
  while (n > 0 && assignment[n - 1] == ' ') --n;
  if (n == 0) return usage(r, assignment, "there is no key");
  if (!ds_utf8_valid(assignment, strlen(assignment)))
    return usage(r, assignment, "the value is not UTF-8");
  if (strlen(assignment) > DS_DOC_MAX_BYTES) return usage(r, "...", "the value is too long");
  for (size_t i = 0; i < n; ++i) {
    bool dot = assignment[i] == '.';
    if (dot && (i == 0 || i + 1 == n || assignment[i + 1] == '.'))
      return usage(r, assignment, "a part of the key is empty");
    if (!dot && !isalnum((unsigned char)assignment[i]) && assignment[i] != '_' &&
        assignment[i] != '-')
      return usage(r, assignment, "the key has a character that no key has");
  }
  char label[160];
  snprintf(label, sizeof label, "command line --set %.*s", n < 120 ? (int)n : 120, assignment);
  char *key = ds_doc_text(r->doc, assignment, n), *file = ds_doc_text(r->doc, label, strlen(label));
  if (!key || !file) return out_of_memory(r);
  ds_node *value = value_node(r, equals + 1, file), *at = r->doc->root;
  if (!value) return false;
  if (at->kind != DS_NODE_MAP) return true; /* the sections will say so */
  key = adapt_slo(r, key);
  if (!key) return out_of_memory(r);
  const char *part = key;
  for (const char *dot = strchr(part, '.'); dot; dot = strchr(part, '.')) {
    /* a percentile has a dot of its own: slo.run.p99.9_ttft */
    if (at->key && strcmp(at->key, "run") == 0) break;
    if (!descend(r, &at, key, part, (size_t)(dot - part), file)) return false;
    part = dot + 1;
  }
  if (at->kind == DS_NODE_LIST) return put_in_list(r, at, key, part, value, file);
  put(at, part, value);
  return true;
}
