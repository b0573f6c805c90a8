// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/kv_report.h"

#include <stdio.h>
#include <string.h>

static void add(ds_cache_totals *sum, const ds_cache_totals *t) {
  sum->asked_tokens += t->asked_tokens;
  sum->asked_blocks += t->asked_blocks;
  sum->asked_requests += t->asked_requests;
  sum->hit_tokens += t->hit_tokens;
  sum->hit_blocks += t->hit_blocks;
  sum->hit_requests += t->hit_requests;
  sum->blocks.found += t->blocks.found;
  sum->blocks.made += t->blocks.made;
  sum->blocks.copied += t->blocks.copied;
  sum->blocks.evicted += t->blocks.evicted;
  for (int i = 0; i < DS_KV_REUSE_BUCKETS; i++) sum->blocks.reuse[i] += t->blocks.reuse[i];
  sum->resident_blocks += t->resident_blocks;
}

/* Upper end of the bucket that holds this share of the found blocks. */
static double reuse(const ds_kv_stats *s, double share) {
  uint64_t below = 0;
  if (s->found == 0) return 0;
  below = s->reuse[DS_KV_REUSE_BUCKETS - 1]; /* those in use: no distance at all */
  for (int b = 0; b < DS_KV_REUSE_BUCKETS - 1; b++) {
    if (below > 0 && (double)below >= share * (double)s->found)
      return b == 0 ? 0 : (double)((uint64_t)1 << (b - 1));
    below += s->reuse[b];
  }
  return (double)((uint64_t)1 << (DS_KV_REUSE_BUCKETS - 2));
}

static double over(uint64_t a, uint64_t b) { return b > 0 ? (double)a / (double)b : 0; }

ds_cache_summary ds_cache_summary_of(const ds_report *r) {
  const ds_result *res = r->drive->result;
  ds_cache_summary s = {0};
  double busy_ns = 0, block_ns = 0, token_ns = 0;
  for (size_t i = 0; i < res->n_replicas; i++) {
    const ds_replica_totals *t = &res->replicas[i];
    add(&s.t, &t->cache);
    busy_ns += (double)t->busy_ns;
    block_ns += ds_wide_double(t->kv_block_ns);
    token_ns += ds_wide_double(t->token_ns);
  }
  s.known = s.t.asked_requests > 0;
  s.tokens_frac = over(s.t.hit_tokens, s.t.asked_tokens);
  s.blocks_frac = over(s.t.hit_blocks, s.t.asked_blocks);
  s.requests_frac = over(s.t.hit_requests, s.t.asked_requests);
  s.reuse_p50_blocks = reuse(&s.t.blocks, 0.5);
  s.reuse_p90_blocks = reuse(&s.t.blocks, 0.9);
  s.waste_known = r->summary->kv_known && block_ns > 0;
  if (s.waste_known) {
    s.reserved_blocks = block_ns / busy_ns;
    s.tokens = token_ns / busy_ns;
    s.token_frac = s.tokens / (s.reserved_blocks * (double)r->scenario->run.pool.kv_block_tokens);
  }
  return s;
}

void ds_kv_series_of(const ds_report *r, ds_kv_series *out) {
  const ds_result *res = r->drive->result;
  const ds_occupancy *o = res->occupancy;
  memset(out, 0, sizeof *out);
  if (o == NULL || o->last_s == 0 || !r->summary->kv_known) return;
  const double one = (double)res->memory.kv_blocks, all = one * (double)res->n_replicas,
               slots = all * (double)r->scenario->run.pool.kv_block_tokens;
  double blocks = 0, tokens = 0;
  out->point_s = (double)o->width_s;
  for (int64_t from = 0; from < o->last_s; from += o->width_s) {
    const ds_occupancy_point *p = &o->point[out->n];
    double readings = (double)(o->last_s - from < o->width_s ? o->last_s - from : o->width_s);
    out->used_frac[out->n] = (double)p->blocks / readings / all;
    out->token_frac[out->n] = (double)p->tokens / readings / slots;
    out->most_frac[out->n++] = (double)p->most_blocks / one;
    blocks += (double)p->blocks;
    tokens += (double)p->tokens;
  }
  out->used_mean = blocks / (double)o->last_s / all;
  out->token_mean = tokens / (double)o->last_s / slots;
}

#define SERIES_LEAST 3 /* points worth a line */

void ds_kv_series_line(const ds_report *r, char *text, size_t cap) {
  ds_kv_series s;
  ds_kv_series_of(r, &s);
  text[0] = '\0';
  if (s.n < SERIES_LEAST) return;
  char tenths[DS_OCCUPANCY_POINTS + 1];
  bool any = false;
  for (size_t i = 0; i < s.n; i++) {
    int t = (int)(10 * s.used_frac[i]);
    tenths[i] = (char)('0' + (t < 9 ? t : 9));
    any = any || t > 0;
  }
  tenths[s.n] = '\0';
  if (!any) return; /* how little it was at most is said already */
  snprintf(text, cap, "%.0f %% in use on average, %.0f %% with tokens; in tenths, %g s each: %s", 100 * s.used_mean,
           100 * s.token_mean, s.point_s, tenths);
}

static void json_fractions(ds_json *j, const char *key, const double *v, size_t n) {
  ds_json_array(j, key);
  for (size_t i = 0; i < n; i++) ds_json_number(j, NULL, v[i]);
  ds_json_end_array(j);
}

static void json_series(ds_json *j, const ds_report *r) {
  ds_kv_series s;
  ds_kv_series_of(r, &s);
  if (s.n == 0) {
    ds_json_null(j, "kv_over_time");
    return;
  }
  ds_json_object(j, "kv_over_time");
  ds_json_number(j, "point_s", s.point_s);
  json_fractions(j, "used_fraction", s.used_frac, s.n);
  json_fractions(j, "token_fraction", s.token_frac, s.n);
  json_fractions(j, "replica_max_fraction", s.most_frac, s.n);
  ds_json_end_object(j);
}

static ds_tier_totals tier_totals(const ds_report *r, int64_t tier) {
  ds_tier_totals sum = {0};
  for (size_t i = 0; i < r->drive->result->n_replicas; i++) {
    const ds_tier_totals *t = &r->drive->result->replicas[i].tier[tier];
    sum.loads += t->loads;
    sum.loaded_blocks += t->loaded_blocks;
    sum.stored_blocks += t->stored_blocks;
    sum.recomputed_blocks += t->recomputed_blocks;
    sum.load_ns += t->load_ns;
    sum.lost_blocks += t->lost_blocks;
    sum.store_ns += t->store_ns;
  }
  return sum;
}

void ds_cache_line(const ds_report *r, char *text, size_t cap) {
  ds_cache_summary s = ds_cache_summary_of(r);
  text[0] = '\0';
  if (r->drive->result->identified > 0 && s.known) {
    snprintf(text, cap,
             "%.1f %% of prompt tokens found, by %.0f %% of requests; %llu cached blocks evicted",
             100 * s.tokens_frac, 100 * s.requests_frac, (unsigned long long)s.t.blocks.evicted);
    for (int64_t i = 0; i < r->scenario->run.n_tiers; i++) {
      ds_tier_totals t = tier_totals(r, i);
      size_t used = strlen(text);
      snprintf(text + used, cap - used, "; %llu loaded from %s", (unsigned long long)t.loaded_blocks,
               r->scenario->run.tier[i].name);
      used = strlen(text);
      if (t.lost_blocks > 0)
        snprintf(text + used, cap - used, ", %llu lost before they were copied there", (unsigned long long)t.lost_blocks);
    }
  } else if (s.waste_known && s.token_frac < 0.75) {
    snprintf(text, cap, "%.0f %% of the reserved KV memory holds tokens, the rest is wasted",
             100 * s.token_frac);
  }
}

static void maybe(ds_json *j, const char *key, bool known, double v) {
  if (known)
    ds_json_number(j, key, v);
  else
    ds_json_null(j, key);
}

void ds_json_cache(ds_json *j, const ds_report *r) {
  ds_cache_summary s = ds_cache_summary_of(r);
  maybe(j, "kv_reserved_blocks_mean", s.waste_known, s.reserved_blocks);
  maybe(j, "kv_tokens_mean", s.waste_known, s.tokens);
  maybe(j, "kv_token_fraction", s.waste_known, s.token_frac);
  maybe(j, "kv_wasted_fraction", s.waste_known && s.token_frac <= 1, 1 - s.token_frac);
  json_series(j, r);
  maybe(j, "prefix_cache_hit_rate", s.known, s.tokens_frac);
  maybe(j, "prefix_cache_hit_rate_blocks", s.known, s.blocks_frac);
  maybe(j, "prefix_cache_hit_rate_requests", s.known, s.requests_frac);
  ds_json_count(j, "prefix_cache_queries", s.t.asked_tokens); /* tokens, as vLLM counts them */
  ds_json_count(j, "prefix_cache_hits", s.t.hit_tokens);
  ds_json_count(j, "prefix_cache_evicted_blocks", s.t.blocks.evicted);
  ds_json_count(j, "prefix_cache_resident_blocks",
                s.t.resident_blocks > 0 ? (uint64_t)s.t.resident_blocks : 0);
  maybe(j, "prefix_cache_reuse_distance_p50_blocks", s.t.blocks.found > 0, s.reuse_p50_blocks);
  maybe(j, "prefix_cache_reuse_distance_p90_blocks", s.t.blocks.found > 0, s.reuse_p90_blocks);
  const ds_run *run = &r->scenario->run;
  if (run->n_tiers == 0) return;
  ds_json_array(j, "tiers");
  for (int64_t i = 0; i < run->n_tiers; i++) {
    ds_tier_totals t = tier_totals(r, i);
    ds_json_object(j, NULL);
    ds_json_text(j, "name", run->tier[i].name);
    ds_json_count(j, "loads", t.loads);
    ds_json_count(j, "loaded_blocks", t.loaded_blocks);
    ds_json_count(j, "stored_blocks", t.stored_blocks);
    ds_json_count(j, "recomputed_blocks", t.recomputed_blocks);
    ds_json_number(j, "load_s", (double)t.load_ns / 1e9);
    ds_json_count(j, "lost_blocks", t.lost_blocks);
    ds_json_number(j, "store_s", (double)t.store_ns / 1e9);
    ds_json_end_object(j);
  }
  ds_json_end_array(j);
}
