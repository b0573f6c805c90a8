// SPDX-License-Identifier: GPL-3.0-or-later
/* Deliberately naive versions of more schedulers than naive.c has: orca, sarathi, vllm-v0 and
 * triton-dynamic.
 *
 * It shares nothing with the program but the formats of the files: it reads a scenario (YAML
 * written as JSON, lines that start with # are comments) with requests inline and `cost: {model:
 * linear, ...}`. Every list is a list, free KV blocks are counted by walking all requests, and each
 * policy is its description read aloud. Replicas are served round-robin.
 *
 *   naive_policies SCENARIO [--steps FILE.jsonl] [--requests FILE.jsonl]
 *
 * Files as those of naive.c. Exit status: 0 done, 3 input that it cannot take, 5 somebody waits for
 * ever. With NAIVE_LIBRARY it is the function of naive_library.h instead of a program. */
#include <jansson.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naive_library.h"

typedef int64_t i64;

typedef struct request {
  char *id;
  i64 index, arrival, p, o, cap, priority;
  i64 emitted, computed, held /* blocks */, granted;
  bool on_host, decodes;
  bool prompt_done; /* sarathi: what it had to compute since its admission is computed */
  i64 token[4096];
  i64 scheduled, preemptions, replica;
  i64 turned_away; /* when; -1: it was not */
} request;

typedef struct list {
  request *item[512];
  int n;
} list;

typedef struct replica {
  list waiting, running, swapped;
  list batch, preempted; /* of the iteration under way, or about to begin */
  bool busy, prompts;
  i64 started, ends, moved;   /* blocks to or from the host */
  i64 planned, last_prompt;   /* vllm-v0: for delay_factor */
  i64 timer;                  /* triton */
  bool planned_prompts;
} replica;

static struct {
  const char *policy;
  i64 step, prefill, decode, swap_time;
  i64 replicas, kv_blocks /* -1: unlimited */, block_tokens, max_model_len;
  i64 max_batch, slots, max_delay, preferred[16], n_preferred;
  bool hold, batch_end;
  i64 seqs, budget, watermark, host;
  i64 partials, longs, long_tokens;                /* vllm-v0 */
  bool dynamic;                                    /* sarathi */
  i64 low, high, stages, schedule_tokens;
  i64 reserve; /* orca: 0 cap, 1 the longest sequence of the model, 2 power of two, 3 exactly */
  i64 levels, level, timeout, max_queue; /* triton */
  bool reject, reject_while_busy, preferred_without_delay;
  bool swap, chunked;
  double delay_factor;
  request *r;
  i64 n;
  json_t *root;
} S;

static FILE *steps_file;
static naive_escape *escape; /* of the library */

__attribute__((format(printf, 2, 3), noreturn)) static void die(int status, const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  if (escape) naive_out(escape, status, format, ap);
  fputs("naive_policies: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(status);
}

/* --- lists --- */

static void put_at(list *l, int at, request *r) {
  if (l->n == 512) die(3, "too many requests");
  for (int i = l->n++; i > at; i--) l->item[i] = l->item[i - 1];
  l->item[at] = r;
}
static void append(list *l, request *r) { put_at(l, l->n, r); }
static request *take(list *l, int at) {
  request *r = l->item[at];
  l->n--;
  for (int i = at; i < l->n; i++) l->item[i] = l->item[i + 1];
  return r;
}
static int find(const list *l, const request *r) {
  for (int i = 0; i < l->n; i++)
    if (l->item[i] == r) return i;
  return -1;
}

/* --- reading --- */

static i64 integer(const json_t *o, const char *key, i64 otherwise) {
  const json_t *v = json_object_get(o, key);
  return v ? (i64)json_integer_value(v) : otherwise;
}
static const char *word(const json_t *o, const char *key, const char *otherwise) {
  const json_t *v = json_object_get(o, key);
  return v ? json_string_value(v) : otherwise;
}
static i64 duration(const json_t *o, const char *key) {
  const char *s = word(o, key, "0 ns");
  char *unit;
  double x = strtod(s, &unit);
  while (*unit == ' ') unit++;
  return (i64)(x * (*unit == 'n' ? 1 : *unit == 'u' ? 1e3 : *unit == 'm' ? 1e6 : 1e9) + 0.5);
}

static void read_scenario(char *text) {
  for (char *c = text; c; c = strchr(c, '\n') ? strchr(c, '\n') + 1 : NULL)
    if (*c == '#') memset(c, ' ', strcspn(c, "\n"));
  S.root = json_loads(text, 0, NULL);
  if (!S.root) die(3, "the scenario is not JSON");
  json_t *root = S.root, *cost = json_object_get(root, "cost");
  json_t *pool = json_array_get(json_object_get(root, "pools"), 0),
         *opt = json_object_get(pool, "scheduler_options"), *v;
  S.policy = word(pool, "scheduler", "");
  S.step = duration(cost, "step");
  S.prefill = duration(cost, "prefill_token");
  S.decode = duration(cost, "decode_sequence");
  S.replicas = integer(pool, "replicas", 1);
  S.kv_blocks = integer(pool, "kv_blocks", -1);
  S.block_tokens = integer(pool, "kv_block_tokens", 16);
  S.max_model_len = integer(pool, "max_model_len", 0);
  bool triton = !strcmp(S.policy, "triton-dynamic");
  S.max_batch = integer(opt, "max_batch_size", triton ? 8 : 256);
  S.slots = integer(opt, "kv_slots", 0);
  static const char *const reservations[] = {"cap", "max-model-len", "pow2", "oracle"};
  for (int i = 0; i < 4; i++)
    if (!strcmp(word(opt, "reservation", "cap"), reservations[i])) S.reserve = i;
  S.partials = integer(opt, "max_num_partial_prefills", 1);
  S.longs = integer(opt, "max_long_partial_prefills", 1);
  S.long_tokens = integer(opt, "long_prefill_token_threshold", 0);
  if (!S.long_tokens) S.long_tokens = S.max_model_len / 25;
  S.dynamic = json_is_true(json_object_get(opt, "enable_dynamic_chunking_schedule"));
  S.low = integer(opt, "low_chunk_size", 128);
  S.high = integer(opt, "high_chunk_size", 1024);
  S.stages = integer(opt, "chunk_schedule_stages", 8);
  S.schedule_tokens = integer(opt, "chunk_schedule_max_tokens", 131072);
  S.levels = integer(opt, "priority_levels", 0);
  S.level = integer(opt, "default_priority_level", 1);
  S.timeout = duration(opt, "default_timeout");
  S.max_delay = duration(opt, "max_queue_delay");
  S.preferred_without_delay = json_is_true(json_object_get(opt, "preferred_without_delay"));
  S.max_queue = integer(opt, "max_queue_size", 0);
  S.reject = !strcmp(word(opt, "timeout_action", "delay"), "reject");
  S.reject_while_busy = !json_is_false(json_object_get(opt, "reject_while_busy"));
  S.hold = json_is_true(json_object_get(opt, "hold_finished_slots"));
  S.batch_end = !strcmp(word(opt, "emit", "batch-end"), "batch-end");
  json_t *sizes = json_object_get(opt, "preferred_batch_sizes");
  for (size_t i = 0; i < json_array_size(sizes); i++)
    S.preferred[S.n_preferred++] = (i64)json_integer_value(json_array_get(sizes, i));
  if (!S.n_preferred) S.preferred[S.n_preferred++] = S.max_batch;
  bool sarathi = !strcmp(S.policy, "sarathi");
  S.seqs = integer(opt, "max_num_seqs", sarathi ? 128 : 256);
  S.budget = integer(opt, "chunk_size", sarathi ? 512 : integer(opt, "max_num_batched_tokens", 16384));
  S.watermark = integer(opt, "watermark_blocks", -1);
  double fraction = 0.01;
  if ((v = json_object_get(opt, "watermark"))) fraction = json_number_value(v);
  if (S.watermark < 0) S.watermark = (i64)((double)S.kv_blocks * fraction);
  S.swap = !strcmp(word(opt, "preemption_mode", "recompute"), "swap");
  S.swap_time = duration(opt, "swap_time_per_block");
  S.host = integer(opt, "cpu_blocks", 0);
  S.chunked = json_is_true(json_object_get(opt, "enable_chunked_prefill"));
  S.delay_factor = json_number_value(json_object_get(opt, "delay_factor"));
  json_t *all = json_object_get(json_object_get(root, "workload"), "requests");
  S.n = (i64)json_array_size(all);
  S.r = calloc((size_t)S.n + 1, sizeof *S.r);
  if (!S.r || !S.n) die(3, "no requests");
  for (i64 i = 0; i < S.n; i++) {
    request *r = &S.r[i];
    v = json_array_get(all, (size_t)i);
    char number[24];
    snprintf(number, sizeof number, "%lld", (long long)i);
    json_t *id = json_object_get(v, "id");
    r->id = id ? json_dumps(id, JSON_ENCODE_ANY) : strcpy(malloc(sizeof number), number);
    r->index = i;
    r->arrival = integer(v, "arrival_ns", 0) - (i ? integer(json_array_get(all, 0), "arrival_ns", 0) : 0);
    if (!i) r->arrival = 0;
    r->p = integer(v, "input_tokens", 0);
    r->o = integer(v, "output_tokens", 0);
    r->cap = integer(v, "max_tokens", r->o);
    r->priority = integer(v, "priority", 0);
    r->scheduled = r->turned_away = -1;
    r->replica = i % S.replicas;
    if (r->p < 1 || r->o < 1 || r->o > 4096) die(3, "request %s: tokens", r->id);
  }
}

/* --- what can be counted --- */

static i64 known(const request *r) { return r->p + r->emitted; }
static i64 missing(const request *r) { return known(r) - r->computed; }
static i64 blocks(i64 tokens) { return (tokens + S.block_tokens - 1) / S.block_tokens; }
static i64 least(i64 a, i64 b) { return a < b ? a : b; }
static i64 most(i64 a, i64 b) { return a > b ? a : b; }

static i64 unused(i64 replica_index) {
  i64 n = S.kv_blocks;
  for (i64 i = 0; i < S.n; i++)
    if (S.r[i].replica == replica_index && !S.r[i].on_host) n -= S.r[i].held;
  return S.kv_blocks < 0 ? INT64_MAX / 2 : n;
}
static i64 host_room(i64 replica_index) {
  i64 n = S.host ? S.host : INT64_MAX / 2;
  for (i64 i = 0; i < S.n; i++)
    if (S.r[i].replica == replica_index && S.r[i].on_host) n -= S.r[i].held;
  return n;
}

static replica *Q;
static i64 index_of(const replica *q) { return q - Q; }
static i64 vacant(const replica *q) { return unused(index_of(q)); }

static void grant(replica *q, request *r, i64 n, i64 now) {
  r->decodes = r->emitted > 0 && missing(r) == 1;
  r->granted = n;
  r->held = most(r->held, blocks(r->computed + n));
  if (r->scheduled < 0) r->scheduled = now;
  append(&q->batch, r);
}

static void admit(replica *q, request *r, i64 whole_blocks, i64 n, i64 now) {
  take(&q->waiting, find(&q->waiting, r));
  append(&q->running, r);
  r->held = whole_blocks;
  grant(q, r, n, now);
}

static void preempt(replica *q, request *r, bool swap) {
  take(&q->running, find(&q->running, r));
  append(&q->preempted, r);
  r->preemptions++;
  if (swap) {
    if (r->held > host_room(r->replica)) die(5, "no room on the host");
    q->moved += r->held;
    r->on_host = true;
    append(&q->swapped, r);
  } else {
    r->held = r->computed = 0;
    r->prompt_done = false;
  }
}

/* --- orca: Algorithm 1 --- */

static i64 reservation(const request *r) {
  i64 room = 1;
  if (S.reserve == 1) return S.max_model_len;
  if (S.reserve == 3) return r->p + r->o;
  if (S.reserve == 0) return r->p + r->cap;
  while (room < r->o) room += room;
  return r->p + room;
}

static void plan_orca(replica *q, i64 now) {
  i64 reserved = 0;
  for (int i = 0; i < q->running.n; i++) {
    reserved += reservation(q->running.item[i]);
    grant(q, q->running.item[i], 1, now);
  }
  while (q->waiting.n && q->running.n < S.max_batch) {
    request *r = q->waiting.item[0];
    if (S.slots && reserved + reservation(r) > S.slots) break;
    if (blocks(reservation(r)) > vacant(q)) break;
    reserved += reservation(r);
    admit(q, r, blocks(reservation(r)), r->p, now);
  }
}

/* --- sarathi --- */

/* Tokens of an iteration as far as this prompt may fill them. */
static i64 chunk_of(const request *r) {
  if (!S.dynamic) return S.budget;
  i64 stage = r->computed / ((S.schedule_tokens + S.stages - 1) / S.stages), unit = least(32, S.low);
  double x = (double)S.low;
  if (S.stages > 1) x = (double)(i64)(x + (double)((S.high - S.low) * (S.stages - 1 - stage)) / (double)(S.stages - 1));
  x /= (double)unit;
  i64 n = (i64)x;
  if (x - (double)n > 0.5 || (x - (double)n == 0.5 && n % 2)) n++;
  return n * unit;
}

static list by_arrival(const list *l) {
  list out = {.n = 0};
  for (int i = 0; i < l->n; i++) {
    int at = 0;
    while (at < out.n && out.item[at]->index < l->item[i]->index) at++;
    put_at(&out, at, l->item[i]);
  }
  return out;
}

static void plan_sarathi(replica *q, i64 now) {
  list unserved = by_arrival(&q->running), prompts = {.n = 0}, victims = {.n = 0};
  i64 used = 0;
  while (unserved.n) { /* decodes, and prompts put aside */
    request *r = take(&unserved, 0);
    if (!r->prompt_done) {
      append(&prompts, r);
      continue;
    }
    bool alive = true;
    while (alive && vacant(q) < 1) {
      request *victim = unserved.n ? take(&unserved, unserved.n - 1) : r;
      preempt(q, victim, false);
      append(&victims, victim);
      alive = victim != r;
    }
    if (!alive) break;
    grant(q, r, 1, now);
    used++;
  }
  for (int i = 0; i < prompts.n; i++) {
    request *r = prompts.item[i];
    i64 n = least(missing(r), chunk_of(r) - used);
    if (n <= 0) continue;
    grant(q, r, n, now);
    used += n;
  }
  while (!victims.n && q->waiting.n) {
    request *r = q->waiting.item[0];
    if (vacant(q) - blocks(known(r)) < S.watermark || q->running.n >= S.seqs || used >= chunk_of(r)) break;
    i64 n = least(known(r), chunk_of(r) - used);
    admit(q, r, blocks(known(r)), n, now);
    used += n;
  }
  for (int i = 0; i < victims.n; i++) put_at(&q->waiting, 0, victims.item[i]);
}

/* --- vllm-v0 --- */

static bool in_prompt(const request *r) { return !r->emitted || missing(r) > 1; }

/* What one prompt may take of the budget, and how many long ones are in progress. */
static i64 v0_share(const replica *q, i64 *longs) {
  i64 prompts = 0, all_longs;
  *longs = 0;
  if (!S.chunked || S.partials < 2) return INT64_MAX / 2;
  for (int i = 0; i < q->running.n; i++) {
    if (!in_prompt(q->running.item[i])) continue;
    prompts++;
    if (missing(q->running.item[i]) > S.long_tokens) ++*longs;
  }
  all_longs = *longs;
  for (int i = 0; i < q->waiting.n && prompts < S.partials; i++) {
    bool is_long = known(q->waiting.item[i]) > S.long_tokens;
    if (is_long && all_longs >= S.longs) continue;
    all_longs += is_long;
    prompts++;
  }
  if (prompts > S.partials) prompts = S.partials;
  return prompts ? S.budget / prompts : INT64_MAX / 2;
}

static void v0_queue(replica *q, i64 now, i64 *tokens, i64 seats_taken, i64 share, i64 longs) {
  for (int at = 0; at < q->waiting.n;) {
    request *r = q->waiting.item[at];
    i64 n = S.chunked ? least(known(r), least(*tokens, share)) : known(r);
    if (S.chunked && S.partials > 1 && known(r) > S.long_tokens && longs >= S.longs) {
      at++; /* it waits, others pass */
      continue;
    }
    if (vacant(q) - blocks(known(r)) < S.watermark || seats_taken >= S.seqs || n > *tokens || n < 1) break;
    longs += known(r) > S.long_tokens;
    admit(q, r, blocks(known(r)), n, now);
    *tokens -= n;
    seats_taken++;
  }
}

/* The running requests in order; those that got nothing stay in *unserved. */
static void v0_running(replica *q, list *unserved, i64 now, i64 *tokens, i64 share, list *victims) {
  while (unserved->n) {
    request *r = unserved->item[0];
    i64 n = S.chunked ? least(missing(r), least(*tokens, share)) : 1;
    if (n < 1) break;
    take(unserved, 0);
    bool alive = true;
    while (alive && vacant(q) < 1) {
      request *victim = unserved->n ? take(unserved, unserved->n - 1) : r;
      preempt(q, victim, S.swap);
      append(victims, victim);
      alive = victim != r;
    }
    if (!alive) break;
    grant(q, r, n, now);
    *tokens -= n;
  }
}

static void v0_swap_in(replica *q, i64 now, i64 *tokens) {
  while (q->swapped.n) {
    request *r = q->swapped.item[0];
    i64 n = S.chunked ? least(missing(r), *tokens) : 1;
    if (vacant(q) - (r->held + 1) < S.watermark || q->running.n >= S.seqs || n < 1) break;
    take(&q->swapped, 0);
    r->on_host = false;
    q->moved += r->held;
    append(&q->running, r);
    grant(q, r, n, now);
    *tokens -= n;
  }
}

/* The list for the next iteration: unserved, swapped in, decodes, prompts that end now, others, new ones. */
static void v0_relist(replica *q, const list *unserved, const list *old, const list *swapped) {
  list out = *unserved;
  for (int kind = 0; kind < 6; kind++)
    for (int i = 0; i < q->batch.n; i++) {
      request *r = q->batch.item[i];
      bool was_running = find(old, r) >= 0, was_swapped = find(swapped, r) >= 0;
      int own = was_swapped ? in_prompt(r) : !was_running ? 5 : !in_prompt(r) ? 2 : r->granted == missing(r) ? 3 : 4;
      if (own == kind) append(&out, r);
    }
  q->running = out;
}

static bool v0_delay_passed(replica *q, i64 now) {
  if (q->planned_prompts) q->last_prompt = now - q->planned;
  q->planned_prompts = false;
  q->planned = now;
  i64 oldest = INT64_MAX;
  for (int i = 0; i < q->waiting.n; i++) oldest = least(oldest, q->waiting.item[i]->arrival);
  if (S.delay_factor <= 0 || !q->waiting.n || !q->running.n) return true;
  return (double)(now - oldest) > S.delay_factor * (double)q->last_prompt;
}

static void plan_v0(replica *q, i64 now) {
  i64 tokens = S.budget, longs, share = v0_share(q, &longs);
  list victims = {.n = 0}, unserved = q->running, old = q->running, swapped = q->swapped;
  if (!S.chunked) {
    bool passed = v0_delay_passed(q, now);
    if (!q->swapped.n && passed) v0_queue(q, now, &tokens, q->running.n, share, 0);
    q->planned_prompts = q->batch.n > 0;
    if (q->batch.n) return;
    tokens = INT64_MAX / 2;
    v0_running(q, &unserved, now, &tokens, share, &victims);
    if (!victims.n) v0_swap_in(q, now, &tokens);
  } else {
    v0_running(q, &unserved, now, &tokens, share, &victims);
    if (!victims.n) v0_swap_in(q, now, &tokens);
    v0_queue(q, now, &tokens, q->running.n, share, longs);
    v0_relist(q, &unserved, &old, &swapped);
  }
  if (!S.swap)
    for (int i = 0; i < victims.n; i++) put_at(&q->waiting, 0, victims.item[i]);
}

/* --- triton-dynamic --- */

static i64 triton_level(const request *r) {
  return !S.levels ? 0 : r->priority >= 1 && r->priority <= S.levels ? r->priority : S.level;
}
static bool triton_expired(const request *r, i64 now) { return S.timeout && now > r->arrival + S.timeout; }

static void turn_away(replica *q, request *r, i64 now) {
  int at = find(&q->waiting, r);
  if (at >= 0) take(&q->waiting, at);
  r->turned_away = now;
}

static void triton_arrival(replica *q, request *r, i64 now) {
  i64 n = 0;
  for (int i = 0; i < q->waiting.n; i++) n += triton_level(q->waiting.item[i]) == triton_level(r);
  if (S.max_queue && n >= S.max_queue) turn_away(q, r, now);
  else append(&q->waiting, r);
}

/* Who is next: by level, 1 first; the expired behind the others of their level, or in front where the walk rejects them. */
static list triton_line(const replica *q, i64 now) {
  list out = {.n = 0};
  for (i64 level = S.levels ? 1 : 0; level <= S.levels; level++)
    for (int second = 0; second < 2; second++)
      for (int i = 0; i < q->waiting.n; i++) {
        request *r = q->waiting.item[i];
        if (triton_level(r) == level && triton_expired(r, now) == (S.reject ? !second : second)) append(&out, r);
      }
  return out;
}

static void plan_triton(replica *q, i64 now) {
  q->prompts = !q->running.n;
  q->timer = -1;
  if (!q->prompts) {
    list all = q->waiting;
    for (int i = 0; i < all.n; i++)
      if (S.reject && S.reject_while_busy && triton_expired(all.item[i], now)) turn_away(q, all.item[i], now);
    for (int i = 0; i < q->running.n; i++)
      if (q->running.item[i]->emitted < q->running.item[i]->o) grant(q, q->running.item[i], 1, now);
    return;
  }
  if (!q->waiting.n) return;
  i64 pending = 0, good = 0, largest = 0, taken = 0, oldest = INT64_MAX;
  list line = triton_line(q, now), ready = {.n = 0};
  bool send_now = false;
  for (i64 i = 0; i < S.n_preferred; i++) largest = most(largest, S.preferred[i]);
  for (int i = 0; i < line.n; i++) {
    if (S.reject && triton_expired(line.item[i], now)) {
      turn_away(q, line.item[i], now);
      continue;
    }
    ready.item[ready.n] = line.item[i];
    taken += blocks(line.item[i]->p + line.item[i]->cap);
    send_now = pending == S.max_batch || (S.kv_blocks >= 0 && taken > S.kv_blocks);
    if (send_now) break;
    pending++;
    ready.n++;
    oldest = least(oldest, line.item[i]->arrival);
    for (i64 k = 0; k < S.n_preferred; k++)
      if (S.preferred[k] == pending) good = pending;
  }
  if (!pending) return;
  bool late = now >= oldest + S.max_delay;
  q->timer = oldest + (S.reject ? least(S.max_delay, S.timeout + 1) : S.max_delay);
  if (S.preferred_without_delay && !S.max_delay && good) pending = good;
  i64 n = good && !late ? good : send_now || pending >= largest || late ? pending : 0;
  for (int i = 0; i < n; i++) admit(q, ready.item[i], blocks(ready.item[i]->p + ready.item[i]->cap), ready.item[i]->p, now);
}

/* --- iterations --- */

static bool is(const char *name) { return !strcmp(S.policy, name); }

static void ids(const char *name, const list *l, int kind) { /* 0 prompts, 1 decodes, 2 all */
  const char *comma = "";
  fprintf(steps_file, ",\"%s\":[", name);
  for (int i = 0; i < l->n; i++) {
    const request *r = l->item[i];
    if (kind != 2 && r->decodes != (kind == 1)) continue;
    if (kind) fprintf(steps_file, "%s%s", comma, r->id);
    else fprintf(steps_file, "%s[%s,%lld]", comma, r->id, (long long)r->granted);
    comma = ",";
  }
  fputc(']', steps_file);
}

static void begin(replica *q, i64 now) {
  i64 p = 0, d = 0;
  list rows = {.n = 0};
  for (int i = 0; i < q->batch.n; i++) {
    if (q->batch.item[i]->decodes) d++;
    else p += q->batch.item[i]->granted;
  }
  for (int i = 0; i < q->running.n; i++) /* decodes are listed in order of the running list */
    if (find(&q->batch, q->running.item[i]) >= 0) append(&rows, q->running.item[i]);
  if (is("triton-dynamic") && S.hold && !q->prompts) d = q->running.n;
  q->busy = true;
  q->started = now;
  q->ends = now + S.step + S.prefill * p + S.decode * d + S.swap_time * q->moved;
  q->moved = 0;
  if (!steps_file) return;
  fprintf(steps_file,
          "{\"replica\":%lld,\"start_ns\":%lld,\"end_ns\":%lld,\"prefill_tokens\":%lld,\"decode_"
          "sequences\":%lld",
          (long long)index_of(q), (long long)now, (long long)q->ends, (long long)p, (long long)d);
  ids("prefill", &q->batch, 0);
  ids("decode", &rows, 1);
  ids("preempted", &q->preempted, 2);
  fprintf(steps_file, ",\"free_blocks\":%lld}\n",
          S.kv_blocks < 0 ? -1LL : (long long)unused(index_of(q)));
}

static void plan(replica *q, i64 now) {
  q->batch.n = q->preempted.n = 0;
  for (int before = -1; !q->batch.n && q->preempted.n > before;) { /* a step may only preempt */
    before = q->preempted.n;
    if (is("orca")) plan_orca(q, now);
    else if (is("sarathi")) plan_sarathi(q, now);
    else if (is("vllm-v0")) plan_v0(q, now);
    else if (is("triton-dynamic")) plan_triton(q, now);
    else die(3, "no such scheduler: %s", S.policy);
  }
  if (q->batch.n) begin(q, now);
}

static void end(replica *q) {
  bool together = is("triton-dynamic"), all = true;
  q->busy = false;
  for (int i = 0; i < q->batch.n; i++) {
    request *r = q->batch.item[i];
    r->computed += r->granted;
    r->granted = 0;
    if (missing(r) > 0) continue;
    r->prompt_done = true;
    r->token[r->emitted++] = q->ends;
    if (r->emitted < r->o) continue;
    if (together && S.hold) continue;
    r->held = 0;
    if (!together) take(&q->running, find(&q->running, r));
  }
  for (int i = 0; i < q->running.n; i++) all = all && q->running.item[i]->emitted == q->running.item[i]->o;
  for (int i = 0; together && all && i < q->running.n; i++) {
    request *r = q->running.item[i];
    r->held = 0;
    for (i64 k = 0; S.batch_end && k < r->o; k++) r->token[k] = q->ends;
  }
  if (together && all) q->running.n = 0;
}

static i64 next_instant(i64 arrived, i64 now) {
  i64 t = arrived < S.n ? S.r[arrived].arrival : INT64_MAX;
  for (i64 k = 0; k < S.replicas; k++) {
    if (Q[k].busy) {
      t = least(t, Q[k].ends);
    } else if (is("triton-dynamic") && Q[k].waiting.n) {
      if (Q[k].timer > now) t = least(t, Q[k].timer);
    }
  }
  return t;
}

static void simulate(void) {
  i64 arrived = 0, instants = 0;
  Q = calloc((size_t)S.replicas, sizeof *Q);
  if (!Q) die(3, "out of memory");
  for (i64 now = -1; (now = next_instant(arrived, now)) != INT64_MAX;) {
    if (++instants > 1000000) die(5, "this takes for ever");
    for (i64 k = 0; k < S.replicas; k++)
      if (Q[k].busy && Q[k].ends == now) end(&Q[k]);
    for (; arrived < S.n && S.r[arrived].arrival == now; arrived++)
      if (is("triton-dynamic")) triton_arrival(&Q[S.r[arrived].replica], &S.r[arrived], now);
      else append(&Q[S.r[arrived].replica].waiting, &S.r[arrived]);
    for (i64 k = 0; k < S.replicas; k++)
      if (!Q[k].busy) plan(&Q[k], now);
  }
  for (i64 k = 0; k < S.replicas; k++) {
    if (Q[k].waiting.n || Q[k].running.n || Q[k].swapped.n) die(5, "somebody waits for ever");
    if (S.kv_blocks >= 0 && unused(k) != S.kv_blocks) die(5, "blocks are missing");
  }
}

static void write_requests(FILE *f) {
  for (i64 i = 0; i < S.n; i++) {
    const request *r = &S.r[i];
    fprintf(f,
            "{\"id\":%s,\"replica\":%lld,\"arrival_ns\":%lld,\"scheduled_ns\":%lld,\"preemptions\":"
            "%lld,\"tokens_ns\":[",
            r->id, (long long)r->replica, (long long)r->arrival, (long long)r->scheduled,
            (long long)r->preemptions);
    for (i64 k = 0; k < r->o && r->turned_away < 0; k++) fprintf(f, "%s%lld", k ? "," : "", (long long)r->token[k]);
    if (r->turned_away >= 0) fprintf(f, "],\"turned_away_ns\":%lld}\n", (long long)r->turned_away);
    else fputs("]}\n", f);
  }
}

static void forget(void) {
  for (i64 i = 0; S.r && i < S.n; i++) free(S.r[i].id);
  free(S.r);
  free(Q);
  json_decref(S.root);
  memset(&S, 0, sizeof S);
  Q = NULL;
}

#ifdef NAIVE_LIBRARY

int naive_policies_run(char *scenario, FILE *steps, FILE *requests, char *why, size_t n) {
  naive_escape e = {.why = why, .n = n};
  escape = &e;
  steps_file = steps;
  if (setjmp(e.at) == 0) {
    read_scenario(scenario);
    simulate();
    write_requests(requests);
  }
  forget();
  escape = NULL;
  return e.status;
}

#else

static char *slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  static char s[1 << 20];
  if (!f) die(3, "cannot open %s", path);
  s[fread(s, 1, sizeof s - 1, f)] = 0;
  fclose(f);
  return s;
}

int main(int argc, char **argv) {
  FILE *requests = NULL;
  if (argc < 2) die(3, "usage: naive_policies SCENARIO [--steps FILE] [--requests FILE]");
  read_scenario(slurp(argv[1]));
  for (int i = 2; i + 1 < argc; i += 2) {
    FILE *f = fopen(argv[i + 1], "w");
    if (!f) die(3, "cannot write %s", argv[i + 1]);
    if (!strcmp(argv[i], "--steps")) steps_file = f;
    else requests = f;
  }
  simulate();
  if (requests) write_requests(requests);
  if ((steps_file && fclose(steps_file)) || (requests && fclose(requests))) die(3, "cannot write");
  forget();
  return 0;
}

#endif
