// SPDX-License-Identifier: GPL-3.0-or-later
/* tiers: memory behind a replica's own in which KV blocks survive their eviction. */
#include <ctype.h>
#include <string.h>

#include "io/scenario_read.h"

#define LEN(a)    (sizeof(a) / sizeof((a)[0]))
#define DAY_NS    86400000000000LL
#define MOST_SIZE 1e18

static bool amount(ds_reader *r, const ds_node *map, const char *key, ds_dim dim, double *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = 0;
  if (!n) return true;
  if (!ds_want_quantity(n, ds_name(r, key), dim, 1, MOST_SIZE, out, r->d)) return false;
  ds_quantity_format(*out, dim, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

static bool span(ds_reader *r, const ds_node *map, const char *key, int64_t *out) {
  const ds_node *n = ds_node_get(map, key);
  char text[48];
  *out = 0;
  if (!n) return true;
  if (!ds_want_time(n, ds_name(r, key), 0, DAY_NS, out, r->d)) return false;
  ds_time_format(*out, text, sizeof text);
  return ds_note(r, key, n, "", "%s", text);
}

/* Exactly one of two keys. */
static bool one_of(ds_reader *r, const ds_node *map, const char *a, const char *b,
                   const char *expected) {
  bool has_a = ds_node_get(map, a) != NULL, has_b = ds_node_get(map, b) != NULL;
  if (has_a != has_b) return true;
  char section[sizeof r->prefix];
  snprintf(section, sizeof section, "%s", r->prefix);
  ds_complain(r->d, map, "%s has %s of %s and %s", section, has_a ? "both" : "neither", a, b);
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

/* Copying out: as fast as loading, unless one of two keys says otherwise. */
static bool read_writes(ds_reader *r, const ds_node *map, ds_tier *t) {
  char text[48];
  if (ds_node_get(map, "write_bandwidth") && ds_node_get(map, "store_time_per_block")) {
    ds_complain(r->d, map, "tiers.%s has both of write_bandwidth and store_time_per_block", t->name);
    ds_diag_expected(r->d, "one of them, or neither: as fast as loading");
    return false;
  }
  if (!amount(r, map, "write_bandwidth", DS_DIM_BYTES_PER_S, &t->write_bytes_per_s) ||
      !span(r, map, "store_time_per_block", &t->write_block_ns))
    return false;
  if (ds_node_get(map, "write_bandwidth") || ds_node_get(map, "store_time_per_block")) return true;
  t->write_bytes_per_s = t->bytes_per_s;
  t->write_block_ns = t->block_ns;
  if (t->bytes_per_s > 0) {
    ds_quantity_format(t->bytes_per_s, DS_DIM_BYTES_PER_S, text, sizeof text);
    return ds_note(r, "write_bandwidth", NULL, "as bandwidth", "%s", text);
  }
  ds_time_format(t->block_ns, text, sizeof text);
  return ds_note(r, "store_time_per_block", NULL, "as load_time_per_block", "%s", text);
}

static bool read_tier(ds_reader *r, const ds_node *map, ds_tier *t, size_t index) {
  static const char *const keys[] = {"name",      "scope",   "capacity",            "blocks",
                                     "bandwidth", "latency", "load_time_per_block", "fetch",
                                     "write_bandwidth", "store_time_per_block"};
  static const char *const scopes[] = {"replica", "node", "cluster"},
                           *const fetches[] = {"auto", "always", "never"};
  const ds_node *name = ds_node_get(map, "name"), *blocks = ds_node_get(map, "blocks");
  size_t scope, fetch;
  snprintf(t->name, sizeof t->name, "tier%zu", index);
  if (!ds_want_map(map, "an entry of tiers", r->d) ||
      (name && !ds_want_text(name, "tiers.name", t->name, sizeof t->name, r->d)))
    return false;
  for (const char *s = t->name; *s; ++s) {
    if (isalnum((unsigned char)*s) || *s == '_' || *s == '-') continue;
    ds_complain(r->d, name, "tiers.name is '%.60s'", t->name);
    ds_diag_expected(r->d, "letters, digits, - and _");
    return false;
  }
  snprintf(r->prefix, sizeof r->prefix, "tiers.%s", t->name);
  if (!ds_section(r, map, keys, LEN(keys), NULL, 0) ||
      !one_of(r, map, "capacity", "blocks", "one of capacity: 500 GB and blocks: 100000") ||
      !one_of(r, map, "bandwidth", "load_time_per_block",
              "one of bandwidth: 50 GB/s and load_time_per_block: 1 ms") ||
      !ds_note(r, "name", name, "default", "%s", t->name) ||
      !ds_opt_choice(r, map, "scope", scopes, LEN(scopes), 0, &scope) ||
      !amount(r, map, "capacity", DS_DIM_BYTES, &t->capacity_bytes))
    return false;
  if (blocks &&
      (!ds_want_integer(blocks, ds_name(r, "blocks"), 1, (int64_t)1 << 40, &t->blocks, r->d) ||
       !ds_note(r, "blocks", blocks, "", "%lld", (long long)t->blocks)))
    return false;
  if (!amount(r, map, "bandwidth", DS_DIM_BYTES_PER_S, &t->bytes_per_s) ||
      !span(r, map, "latency", &t->latency_ns) ||
      !span(r, map, "load_time_per_block", &t->block_ns) ||
      !read_writes(r, map, t) || !ds_opt_choice(r, map, "fetch", fetches, LEN(fetches), 0, &fetch))
    return false;
  t->scope = (ds_tier_scope)scope;
  t->fetch = (ds_tier_fetch)fetch;
  if (r->s->run.cost_tier != DS_COST_LINEAR || (t->capacity_bytes == 0 && t->bytes_per_s == 0 && t->write_bytes_per_s == 0))
    return true;
  ds_complain(r->d, map, "%s is in bytes, but with cost: {model: linear} a block has no size",
              t->name);
  ds_diag_expected(r->d, "blocks: a count, load_time_per_block and store_time_per_block: times");
  return false;
}

bool ds_read_tiers(ds_reader *r, const ds_node *list) {
  ds_run *run = &r->s->run;
  if (!list) return true;
  if (!ds_want_list(list, "tiers", r->d)) return false;
  if (list->n == 0 || list->n > DS_TIERS_MAX) {
    ds_complain(r->d, list, "tiers has %zu entries", list->n);
    ds_diag_expected(r->d, "1 to %d, the fastest first", DS_TIERS_MAX);
    return false;
  }
  if (!run->pool.prefix_cache) {
    ds_complain_key(r->d, list, "tiers stands beside a pool without a prefix cache");
    ds_diag_expected(r->d, "prefix_cache: true with limited kv_blocks, and a scheduler such as "
                           "vllm-v1 that uses it");
    return false;
  }
  for (const ds_node *n = list->first; n; n = n->next) {
    const ds_tier *t = &run->tier[run->n_tiers];
    if (!read_tier(r, n, &run->tier[run->n_tiers], (size_t)run->n_tiers)) return false;
    if (run->n_tiers > 0 && strcmp(t->name, run->tier[0].name) == 0) {
      ds_complain(r->d, ds_node_get(n, "name") ? ds_node_get(n, "name") : n, "tiers.name is '%s' twice", t->name);
      ds_diag_expected(r->d, "a name of its own for each tier");
      return false;
    }
    run->n_tiers++;
  }
  r->prefix[0] = '\0';
  return true;
}
