// SPDX-License-Identifier: GPL-3.0-or-later
/* One pool: hardware, engine, parallelism, scheduler and its options, KV cache. */
#include <ctype.h>
#include <string.h>

#include "core/registry.h"
#include "io/scenario_read.h"
#include "spec/arith.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

static const char *const pool_keys[] = {"name",
                                        "role",
                                        "hardware",
                                        "engine",
                                        "replicas",
                                        "tensor_parallel",
                                        "pipeline_parallel",
                                        "data_parallel",
                                        "expert_parallel",
                                        "scheduler",
                                        "scheduler_options",
                                        "max_model_len",
                                        "kv_blocks",
                                        "kv_block_tokens",
                                        "gpu_memory_utilization",
                                        "prefix_cache",
                                         "cache_eviction",
                                         "initial_cache",
                                         "speculative",
                                         "power_cap",
                                         "two_batch_overlap",
                                         "redundant_experts",
                                         "attention_8bit"};

bool ds_is_pool_key(const char *key) {
  size_t i = 0;
  while (i < LEN(pool_keys) && strcmp(pool_keys[i], key) != 0) ++i;
  return i < LEN(pool_keys);
}

/* --- hardware and engine ------------------------------------------------------------------- */

/* A changed part is noted value by value, so that the list can be read back. */
static bool note_override(ds_reader *r, const ds_node *map, const char *base) {
  const ds_card_schema *s = &ds_card_schemas[DS_CARD_HARDWARE];
  const ds_hw *hw = &r->s->run.pool.hw;
  const ds_node *n = ds_node_get(map, "base");
  static const char *const texts[] = {"name", "vendor"};
  char text[64], key[160];
  if (n && !ds_note_text(r, "hardware.base", n, "", base)) return false;
  for (size_t i = 0; i < LEN(texts); ++i) {
    snprintf(key, sizeof key, "hardware.%s", texts[i]);
    if ((n = ds_node_get(map, texts[i])) && !ds_note_text(r, key, n, "", n->text)) return false;
  }
  for (size_t i = 0; i < s->n_fields; ++i) {
    double value;
    n = ds_card_value(map, &s->fields[i], NULL);
    if (!n) continue;
    memcpy(&value, (const char *)hw + s->fields[i].offset, sizeof value);
    ds_quantity_format(value, s->fields[i].dim, text, sizeof text);
    /* price is a value and, in a mapping, also a group */
    const ds_node *price = ds_node_get(map, "price");
    bool whole = strcmp(s->fields[i].path, "price") == 0 && price && price->kind == DS_NODE_MAP;
    snprintf(key, sizeof key, "hardware.%s%s", s->fields[i].path, whole ? ".value" : "");
    if (!ds_note(r, key, n, "", "%s", text)) return false;
  }
  return true;
}

static bool read_card(ds_reader *r, const ds_node *at, const char *name) {
  ds_doc doc;
  char from[320];
  if (!ds_open_card(r, DS_CARD_HARDWARE, name, at, &doc, from)) return false;
  bool ok = ds_card_hardware(&doc, &r->s->run.pool.hw, r->d);
  ds_card_title(&doc, r->s->hardware_title, sizeof r->s->hardware_title);
  ds_doc_free(&doc);
  return ok;
}

static bool read_hardware(ds_reader *r, const ds_node *pool) {
  const ds_node *n = ds_node_get(pool, "hardware");
  ds_hw *hw = &r->s->run.pool.hw;
  char name[256], key[160];
  if (!n && r->s->run.cost_tier == DS_COST_LINEAR) return true;
  if (!n) {
    ds_complain(r->d, pool, "%s is missing", ds_name(r, "hardware"));
    ds_diag_expected(r->d, "hardware: a name that `dryserve list hardware` shows");
    return false;
  }
  if (n->kind != DS_NODE_MAP)
    return ds_want_text(n, ds_name(r, "hardware"), name, sizeof name, r->d) &&
           read_card(r, n, name) && ds_note_text(r, "hardware", n, "", name);
  const ds_node *base = ds_node_get(n, "base");
  name[0] = '\0';
  if (base && (!ds_want_text(base, ds_name(r, "hardware.base"), name, sizeof name, r->d) ||
               !read_card(r, base, name)))
    return false;
  snprintf(key, sizeof key, "%s", ds_name(r, "hardware"));
  if (!ds_hardware_override(n, key, base != NULL, hw, r->d) || !note_override(r, n, name))
    return false;
  /* A part that was changed is no longer what the title says. */
  if (!base || n->n > 1)
    snprintf(r->s->hardware_title, sizeof r->s->hardware_title, "%s", hw->name);
  return true;
}

static bool read_engine(ds_reader *r, const ds_node *pool) {
  const ds_node *n = ds_node_get(pool, "engine");
  char name[128] = "", from[320];
  if (!n && r->s->run.cost_tier == DS_COST_LINEAR) return true;
  if (n) {
    if (!ds_want_text(n, ds_name(r, "engine"), name, sizeof name, r->d)) return false;
  } else {
    snprintf(name, sizeof name, "%s", r->s->sched->engine ? r->s->sched->engine : "generic");
  }
  ds_doc doc;
  if (!ds_open_card(r, DS_CARD_ENGINE, name, n ? n : pool, &doc, from)) return false;
  bool ok = ds_card_engine(&doc, &r->s->run.pool.engine, r->d);
  ds_doc_free(&doc);
  if (!ok) return false;
  /* A family's name is noted as the card that it led to; a path stays a path. */
  bool path = strchr(name, '/') || strstr(name, ".yaml");
  char why[128];
  snprintf(why, sizeof why, "default of %s", r->s->sched->name);
  return ds_note_text(r, "engine", n, why, path ? name : r->s->run.pool.engine.name);
}

/* --- scheduler ----------------------------------------------------------------------------- */

static bool unknown_policy(ds_reader *r, const ds_node *at, const char *what,
                           const char *const *names, size_t n) {
  char list[256] = "";
  size_t used = 0;
  ds_complain(r->d, at, "no %s is called '%.60s'", what, at->text);
  for (size_t i = 0; i < n && used < sizeof list; ++i)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "", names[i]);
  ds_diag_expected(r->d, "%s%s", n > 1 ? "one of " : "", list);
  const char *near = ds_nearest(at->text, names, n);
  if (near) ds_diag_hint(r->d, "did you mean %s?", near);
  return false;
}

static bool find_scheduler(ds_reader *r, const ds_node *pool) {
  const ds_node *n = ds_node_get(pool, "scheduler");
  char name[DS_NAME_MAX] = "vllm-v1";
  if (n && !ds_want_text(n, ds_name(r, "scheduler"), name, sizeof name, r->d)) return false;
  r->s->sched = ds_scheduler_find(name);
  if (r->s->sched) {
    snprintf(r->s->run.pool.scheduler, DS_NAME_MAX, "%s", name);
    return true;
  }
  const char *names[64];
  size_t k = 0;
  while (k < ds_n_schedulers && k < LEN(names)) {
    names[k] = ds_schedulers[k]->name;
    ++k;
  }
  if (n) return unknown_policy(r, n, "scheduler", names, k);
  return ds_complain(r->d, pool, "%s is missing", ds_name(r, "scheduler"));
}

static bool read_scheduler(ds_reader *r, const ds_node *pool) {
  const ds_sched_ops *ops = r->s->sched;
  ds_pool *p = &r->s->run.pool;
  if (!ds_note(r, "scheduler", ds_node_get(pool, "scheduler"), "default", "%s", ops->name))
    return false;
  if (ops->config_bytes > sizeof p->scheduler_config)
    return ds_diag_set(r->d, DS_EXIT_RUNTIME, "", 0, 0, "the options of %s need more room",
                       ops->name);
  char outer[sizeof r->prefix], inner[sizeof r->prefix + 24];
  snprintf(outer, sizeof outer, "%s", r->prefix);
  snprintf(inner, sizeof inner, "%s.scheduler_options", outer);
  snprintf(r->prefix, sizeof r->prefix, "%.*s", (int)sizeof r->prefix - 1, inner);
  bool ok = ds_read_params(r, ds_node_get(pool, "scheduler_options"), "", ops->name, ops->params,
                           ops->n_params, p->hw.big_default, &p->scheduler_config);
  snprintf(r->prefix, sizeof r->prefix, "%s", outer);
  if (ops->max_seqs) p->max_num_seqs = ops->max_seqs(&p->scheduler_config);
  if (ops->max_batch_tokens)
    p->max_num_batched_tokens = ops->max_batch_tokens(&p->scheduler_config);
  return ok;
}

/* --- KV cache ------------------------------------------------------------------------------ */

static bool word_is(const ds_node *n, const char *word) {
  return n && n->kind == DS_NODE_SCALAR && strcmp(n->text, word) == 0; /* JSON must quote it */
}

static bool read_max_model_len(ds_reader *r, const ds_node *pool) {
  const ds_node *n = ds_node_get(pool, "max_model_len");
  ds_pool *p = &r->s->run.pool;
  if (!n || word_is(n, "none")) return ds_note(r, "max_model_len", n, "default", "none");
  return ds_want_integer(n, ds_name(r, "max_model_len"), 1, 2147483647, &p->max_model_len, r->d) &&
         ds_note(r, "max_model_len", n, "", "%lld", (long long)p->max_model_len);
}

static bool read_kv_blocks(ds_reader *r, const ds_node *pool) {
  const ds_node *n = ds_node_get(pool, "kv_blocks");
  ds_pool *p = &r->s->run.pool;
  bool linear = r->s->run.cost_tier == DS_COST_LINEAR;
  if (word_is(n, "unlimited") || (!n && linear && r->s->sched->reserves)) {
    p->kv_blocks = DS_KV_UNLIMITED;
    return ds_note(r, "kv_blocks", n, "default", "unlimited");
  }
  if (linear && (!n || word_is(n, "auto"))) {
    ds_complain(r->d, n ? n : pool, n ? "%s is 'auto'" : "%s is missing", ds_name(r, "kv_blocks"));
    ds_diag_expected(
        r->d,
        "a count or `unlimited`: with cost: {model: linear} there is no memory to size it from");
    return false;
  }
  if (!n || word_is(n, "auto")) return ds_note(r, "kv_blocks", n, "default", "auto");
  if (n->kind == DS_NODE_SCALAR && isalpha((unsigned char)n->text[0])) {
    ds_complain(r->d, n, "%s is '%.60s'", ds_name(r, "kv_blocks"), n->text);
    ds_diag_expected(r->d, "a count, auto or unlimited");
    return false;
  }
  return ds_want_integer(n, ds_name(r, "kv_blocks"), 1, (int64_t)1 << 40, &p->kv_blocks, r->d) &&
         ds_note(r, "kv_blocks", n, "", "%lld", (long long)p->kv_blocks);
}

/* Tokens of a KV block, as each engine has them unless told otherwise. */
static int64_t usual_block(const ds_reader *r) {
  if (strcmp(r->s->sched->name, "sglang") == 0) return 1;
  return strcmp(r->s->sched->name, "trtllm") == 0 ? 32 : 16;
}

/* Where nothing can be found nobody may believe that something was. vLLM's V1 engine has its prefix cache on unless told
 * otherwise; the others have it off, or have none here. */
static bool read_prefix_cache(ds_reader *r, const ds_node *pool) {
  ds_pool *p = &r->s->run.pool;
  const ds_sched_ops *sched = r->s->sched;
  const ds_node *n = ds_node_get(pool, "prefix_cache");
  bool unlimited = p->kv_blocks == DS_KV_UNLIMITED, usual = strcmp(sched->name, "vllm-v1") == 0 && !unlimited;
  if (!ds_opt_bool(r, pool, "prefix_cache", usual, &p->prefix_cache)) return false;
  if (!p->prefix_cache || (sched->finds_prefixes && !unlimited)) return true;
  if (!sched->finds_prefixes) {
    ds_complain(r->d, n, "scheduler %s has no prefix cache here: %s is not modelled with it", sched->name, ds_name(r, "prefix_cache"));
    ds_diag_expected(r->d, "prefix_cache: false, or scheduler: vllm-v1, sglang or trtllm");
    return false;
  }
  ds_complain(r->d, n, "%s is true, but kv_blocks is unlimited: blocks without a number are not remembered", ds_name(r, "prefix_cache"));
  ds_diag_expected(r->d, "kv_blocks: a count (a large one holds everything), or prefix_cache: false");
  return false;
}

/* What is only said where there is a prefix cache that it can be about. */
static bool read_cache(ds_reader *r, const ds_node *pool) {
  static const char *const evictions[] = {"lru", "lfu", "fifo"}, *const initial[] = {"empty", "warm"};
  static const char *const about[] = {"cache_eviction", "initial_cache"};
  ds_pool *p = &r->s->run.pool;
  size_t eviction, warm;
  bool none = !p->prefix_cache;
  for (size_t i = 0; i < LEN(about); ++i) {
    const ds_node *n = ds_node_get(pool, about[i]);
    if (!n || !none || word_is(n, "empty") || word_is(n, "lru")) continue;
    ds_complain(r->d, n, "%s is %.20s without a prefix cache", ds_name(r, about[i]),
                n->kind == DS_NODE_SCALAR ? n->text : "no word");
    ds_diag_expected(r->d, "prefix_cache: true, and a scheduler that uses it, such as vllm-v1");
    return false;
  }
  if (ds_node_get(pool, "cache_eviction") || r->s->run.pool.prefix_cache) {
    if (!ds_opt_choice(r, pool, "cache_eviction", evictions, LEN(evictions), 0, &eviction)) return false;
    p->eviction = (ds_eviction)eviction;
  }
  if (!ds_opt_choice(r, pool, "initial_cache", initial, LEN(initial), 0, &warm)) return false;
  p->warm_cache = warm == 1;
  return true;
}

static bool read_kv(ds_reader *r, const ds_node *pool) {
  ds_pool *p = &r->s->run.pool;
  return read_max_model_len(r, pool) && read_kv_blocks(r, pool) &&
         ds_opt_integer(r, pool, "kv_block_tokens", 1, 1048576, usual_block(r), &p->kv_block_tokens) &&
         ds_opt_number(r, pool, "gpu_memory_utilization", 0.01, 1, 0.90, &p->memory_utilization) &&
         read_prefix_cache(r, pool) && read_cache(r, pool);
}

/* --- pool ---------------------------------------------------------------------------------- */

static bool read_name(ds_reader *r, const ds_node *pool, char *out) {
  const ds_node *n = ds_node_get(pool, "name");
  snprintf(out, DS_NAME_MAX, "main");
  if (!n) return true;
  if (!ds_want_text(n, "pools.name", out, DS_NAME_MAX, r->d)) return false;
  for (const char *s = out; *s; ++s) {
    if (isalnum((unsigned char)*s) || *s == '_' || *s == '-') continue;
    ds_complain(r->d, n, "pools.name is '%.60s'", out);
    ds_diag_expected(r->d,
                     "letters, digits, - and _, so that --set pools.NAME.replicas=8 can name it");
    return false;
  }
  return true;
}

/* Some engines always multiply in fp8 on an fp8 cache where the part can. */
static bool read_attention(ds_reader *r, const ds_node *pool) {
  ds_pool *p = &r->s->run.pool;
  p->attention_8bit = ds_attention_8bit_of(&p->hw, &p->engine);
  return !ds_node_get(pool, "attention_8bit") ||
         ds_opt_bool(r, pool, "attention_8bit", p->attention_8bit, &p->attention_8bit);
}

/* What most scenarios leave alone is noted only where it is given. */
static bool read_options(ds_reader *r, const ds_node *pool) {
  ds_pool *p = &r->s->run.pool;
  const ds_node *cap = ds_node_get(pool, "power_cap");
  if (cap) {
    double most = p->hw.power_w > 0 ? p->hw.power_w : 1e6;
    if (!ds_want_quantity(cap, ds_name(r, "power_cap"), DS_DIM_POWER, 0.2 * most, most,
                          &p->power_cap_w, r->d) ||
        !ds_note(r, "power_cap", cap, "", "%.17g W", p->power_cap_w))
      return false;
  }
  return (!ds_node_get(pool, "two_batch_overlap") ||
          ds_opt_bool(r, pool, "two_batch_overlap", false, &p->two_batch_overlap)) &&
         read_attention(r, pool) &&
         (!ds_node_get(pool, "redundant_experts") ||
          ds_opt_integer(r, pool, "redundant_experts", 0, 65536, 0, &p->redundant_experts));
}

static bool read_parallelism(ds_reader *r, const ds_node *pool) {
  ds_pool *p = &r->s->run.pool;
  return ds_opt_integer(r, pool, "replicas", 1, 1000000, 1, &p->replicas) &&
         ds_opt_integer(r, pool, "tensor_parallel", 1, 65536, 1, &p->tensor_parallel) &&
         ds_opt_integer(r, pool, "pipeline_parallel", 1, 4096, 1, &p->pipeline_parallel) &&
         ds_opt_integer(r, pool, "data_parallel", 1, 4096, 1, &p->data_parallel) &&
         ds_opt_integer(r, pool, "expert_parallel", 1, 4096, 1, &p->expert_parallel) &&
         read_options(r, pool);
}

bool ds_read_pool(ds_reader *r, const ds_node *pool) {
  static const char *const roles[] = {"unified", "prefill", "decode"};
  ds_pool *p = &r->s->run.pool;
  size_t role;
  if (!ds_want_map(pool, "an entry of pools", r->d) || !read_name(r, pool, p->name)) return false;
  snprintf(r->prefix, sizeof r->prefix, "pools.%s", p->name);
  if (!ds_section(r, pool, pool_keys, LEN(pool_keys), NULL, 0) ||
      !find_scheduler(r, pool) ||
      !ds_note(r, "name", ds_node_get(pool, "name"), "default", "%s", p->name) ||
      !ds_opt_choice(r, pool, "role", roles, LEN(roles), 0, &role))
    return false;
  if (role != DS_ROLE_UNIFIED) {
    ds_complain(r->d, ds_node_get(pool, "role"),
                "%s is %s: this version does not model split prefill and decode",
                ds_name(r, "role"), roles[role]);
    ds_diag_expected(r->d, "unified");
    return false;
  }
  p->role = (ds_role)role;
  bool ok = read_hardware(r, pool) && read_engine(r, pool) && read_parallelism(r, pool) &&
            read_scheduler(r, pool) && read_kv(r, pool) && ds_read_speculative(r, pool);
  r->prefix[0] = '\0';
  return ok;
}
