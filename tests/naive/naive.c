// SPDX-License-Identifier: GPL-3.0-or-later
/* A deliberately naive simulator of serving, to hold the real one against.
 *
 * It shares nothing with the program but the formats of the files: it reads a scenario (YAML
 * written as JSON, lines that start with # are comments) with `cost: {model: linear, ...}`, and
 * walks every request of every replica at every iteration, with KV blocks as numbered things in
 * real lists. Nothing is kept incrementally that can be counted again. Written from the description
 * of the engines, not from the program.
 *
 *   naive SCENARIO [--steps FILE.jsonl] [--requests FILE.jsonl]
 *
 * --steps writes the lines of the program's --steps. --requests writes a line per request in order
 * of the file, with the time of each of its tokens.
 * Exit status: 0 done, 3 input that it cannot take. With NAIVE_LIBRARY it is the function of naive_library.h instead of a
 * program. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "naive_library.h"

typedef int64_t i64;

typedef struct request {
  char *id; /* as JSON text: "R1" or 17 */
  i64 index, arrival, p, o, max_tokens, priority;
  /* progress */
  i64 emitted, computed, granted, reserved;
  bool decoding; /* the tokens granted in this iteration are one decode */
  bool finished;
  i64 *blocks, n_blocks; /* held, in order of position */
  i64 *token_time;
  i64 replica, scheduled, preemptions, cached;
  /* what its tokens are: ids of blocks of id_tokens, or a named prefix */
  i64 *ids, n_ids, id_tokens, prefix_tokens;
  char *prefix;
  i64 published; /* so many of its first blocks others can find */
} request;

typedef struct list { /* of requests, or of blocks */
  void **item;
  i64 n, cap;
} list;

typedef struct block {
  request *content; /* whose tokens it holds, for all to find; NULL: nothing of use */
  i64 position;     /* which block of that request */
  i64 refs;         /* requests that use it; 0: it lies in the free list */
  list copies;      /* blocks with the same content, computed while it was in use */
} block;

typedef struct replica {
  i64 index;
  list waiting, running; /* static: running is the batch, finished rows included */
  bool busy;
  i64 started, ends;
  list batch;     /* requests that were granted tokens in the iteration under way, in list order */
  list preempted; /* in this iteration */
  list free_list; /* block numbers, head first */
  block *blocks;
  i64 reserved;       /* static: blocks set aside */
  bool prefill_phase; /* static: the iteration under way is the first of its batch */
} replica;

static struct {
  bool is_static;
  i64 step_ns, prefill_ns, decode_ns;
  i64 n_replicas, kv_blocks /* -1 unlimited */, block_tokens, max_model_len;
  bool prefix_cache, least_outstanding;
  /* vllm-v1 */
  i64 max_num_seqs, budget, threshold, watermark;
  bool chunked, full_must_fit, by_priority;
  /* static */
  i64 max_batch, max_delay, preferred[64], n_preferred;
  bool hold, pad, batch_end;
  /* requests */
  request *r;
  i64 n, cap;
} S;

static FILE *steps_file;
static naive_escape *escape; /* of the library */

__attribute__((format(printf, 1, 2))) static _Noreturn void die(const char *format, ...) {
  va_list ap;
  va_start(ap, format);
  if (escape) naive_out(escape, 3, format, ap);
  fputs("naive: ", stderr);
  vfprintf(stderr, format, ap);
  fputc('\n', stderr);
  va_end(ap);
  exit(3);
}

static void *get(size_t bytes) {
  void *p = calloc(1, bytes ? bytes : 1);
  if (!p) die("out of memory");
  return p;
}

/* --- lists --- */

static void insert_at(list *l, i64 at, void *x) {
  if (l->n == l->cap) {
    l->cap = l->cap ? 2 * l->cap : 16;
    l->item = realloc(l->item, (size_t)l->cap * sizeof *l->item);
    if (!l->item) die("out of memory");
  }
  memmove(l->item + at + 1, l->item + at, (size_t)(l->n - at) * sizeof *l->item);
  l->item[at] = x;
  l->n++;
}
static void append(list *l, void *x) { insert_at(l, l->n, x); }
static void *remove_at(list *l, i64 at) {
  void *x = l->item[at];
  memmove(l->item + at, l->item + at + 1, (size_t)(l->n - at - 1) * sizeof *l->item);
  l->n--;
  return x;
}
static i64 find(const list *l, const void *x) {
  for (i64 i = 0; i < l->n; i++)
    if (l->item[i] == x) return i;
  return -1;
}

#include "naive_reading.h"

/* --- KV blocks --- */

static i64 blocks_for(i64 tokens) { return (tokens + S.block_tokens - 1) / S.block_tokens; }
static i64 least(i64 a, i64 b) { return a < b ? a : b; }
static i64 known(const request *r) { return r->p + r->emitted; }
/* --- what tokens are --- */

/* How many of the first tokens of r anybody may share. */
static i64 shareable(const request *r) {
  i64 whole = r->p + r->o, tokens = r->prefix_tokens;
  if (r->n_ids) {
    tokens = r->n_ids * r->id_tokens;
    if (r->n_ids <= (r->p + r->id_tokens - 1) / r->id_tokens && tokens > r->p) tokens = r->p;
  }
  if (tokens > whole - 1) tokens = whole - 1;
  return tokens / S.block_tokens * S.block_tokens; /* whole blocks */
}

static bool same_token(const request *a, const request *b, i64 t) {
  if (a == b) return true;
  if (t >= shareable(a) || t >= shareable(b)) return false;
  if (a->n_ids || b->n_ids)
    return a->n_ids && b->n_ids && a->id_tokens == b->id_tokens &&
           a->ids[t / a->id_tokens] == b->ids[t / b->id_tokens];
  return a->prefix && b->prefix && !strcmp(a->prefix, b->prefix);
}

/* The first n blocks of a and b hold the same. */
static bool same_blocks(const request *a, const request *b, i64 n) {
  for (i64 t = 0; a != b && t < n * S.block_tokens; t++)
    if (!same_token(a, b, t)) return false;
  return true;
}

/* A block that holds what position i of r does; -1 none. */
static i64 lookup(const replica *q, const request *r, i64 position) {
  for (i64 i = 0; i < S.kv_blocks; i++) {
    const block *b = &q->blocks[i];
    if (b->content && b->position == position && same_blocks(b->content, r, position + 1)) return i;
  }
  return -1;
}

/* Position i of r has been computed. What is there already is shared: the new copy takes its place
 * if nobody uses it, else it is kept apart, and the next to leave gives it back. */
static void computed_block(replica *q, request *r, i64 i) {
  block *mine = &q->blocks[r->blocks[i]];
  i64 there = lookup(q, r, i);
  if (there >= 0 && q->blocks[there].refs > 0) {
    block *b = &q->blocks[there];
    b->refs++;
    append(&b->copies, mine);
    r->blocks[i] = there;
    return;
  }
  if (there >= 0) q->blocks[there].content = NULL;
  mine->content = r;
  mine->position = i;
}

/* Shareable blocks among the first n are found by others from now on. */
static void publish(replica *q, request *r, i64 n) {
  i64 most = shareable(r) / S.block_tokens;
  if (!S.prefix_cache || S.kv_blocks < 0 || S.is_static) return;
  for (; r->published < n && r->published < most; r->published++) computed_block(q, r, r->published);
}

/* Give everything back, last block first. Full blocks of computed tokens stay recognisable. */
static void give_back(replica *q, request *r) {
  publish(q, r, r->computed / S.block_tokens);
  for (i64 i = r->n_blocks; i-- > 0;) {
    block *b = &q->blocks[r->blocks[i]];
    if (i >= r->published) {
      b->content = S.prefix_cache && (i + 1) * S.block_tokens <= r->computed ? r : NULL;
      b->position = i;
    }
    b->refs--;
    if (b->copies.n) {
      block *copy = remove_at(&b->copies, b->copies.n - 1);
      copy->refs = 0;
      append(&q->free_list, copy);
    } else if (b->refs == 0) {
      append(&q->free_list, b);
    }
  }
  r->n_blocks = r->published = 0;
}

/* Tokens of r that need not be computed again: whole blocks from its first on, at least one token
 * left to compute. *shared: how many of those blocks somebody uses. */
static i64 hit_tokens(const replica *q, const request *r, i64 *shared) {
  i64 n = 0, at;
  *shared = 0;
  if (!S.prefix_cache || S.kv_blocks < 0) return 0;
  while ((n + 1) * S.block_tokens <= known(r) - 1 && (at = lookup(q, r, n)) >= 0)
    n++, *shared += q->blocks[at].refs > 0;
  return n * S.block_tokens;
}

static bool fits(const replica *q, const request *r, i64 tokens, i64 spare) {
  return S.kv_blocks < 0 || blocks_for(tokens) - r->n_blocks + spare <= q->free_list.n;
}

static void hold(request *r, i64 number) {
  r->blocks = realloc(r->blocks, (size_t)(r->n_blocks + 1) * sizeof *r->blocks);
  if (!r->blocks) die("out of memory");
  r->blocks[r->n_blocks++] = number;
}

static void take_hits(replica *q, request *r, i64 hit) {
  for (i64 i = 0; i < hit / S.block_tokens; i++) {
    i64 at = lookup(q, r, i);
    block *b = &q->blocks[at];
    hold(r, at);
    if (b->refs++ == 0) remove_at(&q->free_list, find(&q->free_list, b));
  }
  r->published = least(hit, shareable(r)) / S.block_tokens;
}

static void grow(replica *q, request *r, i64 tokens) {
  while (S.kv_blocks >= 0 && r->n_blocks < blocks_for(tokens)) {
    block *b = remove_at(&q->free_list, 0);
    b->content = NULL;
    b->refs = 1;
    hold(r, b - q->blocks);
  }
}

/* --- vLLM V1 --- */

static bool worse(const request *a, const request *b) { /* a is less important than b */
  if (a->priority != b->priority) return a->priority > b->priority;
  if (a->arrival != b->arrival) return a->arrival > b->arrival;
  return a->index > b->index;
}

static i64 best_waiting(const replica *q) {
  i64 best = 0;
  for (i64 i = 1; S.by_priority && i < q->waiting.n; i++)
    if (worse(q->waiting.item[best], q->waiting.item[i])) best = i;
  return best;
}

static i64 victim(const replica *q) {
  i64 v = q->running.n - 1;
  for (i64 i = 0; S.by_priority && i < q->running.n; i++)
    if (worse(q->running.item[i], q->running.item[v])) v = i;
  return v;
}

/* Preempt until r can hold `tokens`; false when r itself had to go. */
static bool make_room(replica *q, const request *r, i64 tokens, i64 *budget, i64 *at) {
  while (!fits(q, r, tokens, 0)) {
    i64 v = victim(q);
    request *out = remove_at(&q->running, v);
    if (v < *at) --*at;
    *budget += out->granted;
    out->granted = 0;
    give_back(q, out);
    out->computed = 0;
    out->preemptions++;
    insert_at(&q->waiting, 0, out);
    append(&q->preempted, out);
    if (out == r) return false;
  }
  return true;
}

static void grant(request *r, i64 n, i64 *budget) {
  r->decoding = r->emitted > 0 && known(r) - r->computed == 1;
  r->granted = n;
  *budget -= n;
}

/* What is planned can be found at once, by those who enter. */
static void publish_granted(replica *q, request *r) {
  if (r->granted && !r->decoding) publish(q, r, (r->computed + r->granted) / S.block_tokens);
}

static void plan_vllm(replica *q, i64 now) {
  i64 budget = S.budget, preempted_before = q->preempted.n;
  for (i64 i = 0; i < q->running.n && budget > 0; i++) {
    request *r = q->running.item[i];
    i64 n = known(r) - r->computed;
    if (S.threshold > 0) n = least(n, S.threshold);
    n = least(n, budget);
    if (!make_room(q, r, r->computed + n, &budget, &i)) break;
    grow(q, r, r->computed + n);
    grant(r, n, &budget);
  }
  for (i64 i = 0; i < q->running.n; i++) publish_granted(q, q->running.item[i]);
  while (q->preempted.n == preempted_before && q->waiting.n && budget > 0 &&
         q->running.n < S.max_num_seqs) {
    i64 at = best_waiting(q);
    request *r = q->waiting.item[at];
    i64 shared, hit = hit_tokens(q, r, &shared), n = known(r) - hit;
    if (S.threshold > 0) n = least(n, S.threshold);
    if (!S.chunked && n > budget) break;
    n = least(n, budget);
    i64 spare = q->running.n ? S.watermark : 0;
    /* Hit blocks that nobody uses lie in the free list too: all but the shared ones come from
     * there. */
    if (!fits(q, r, S.full_must_fit ? known(r) : hit + n, spare - shared)) break;
    remove_at(&q->waiting, at);
    append(&q->running, r);
    take_hits(q, r, hit);
    grow(q, r, hit + n);
    r->computed = hit;
    if (r->scheduled < 0) r->scheduled = now, r->cached = hit;
    grant(r, n, &budget);
    publish_granted(q, r);
  }
  for (i64 i = 0; i < q->running.n; i++) {
    request *r = q->running.item[i];
    if (r->granted) append(&q->batch, r);
    r->computed += r->granted;
  }
}

static void end_vllm(replica *q, i64 now) {
  for (i64 i = 0; i < q->batch.n; i++) {
    request *r = q->batch.item[i];
    r->granted = 0;
    if (r->computed < known(r)) continue;
    r->token_time[r->emitted++] = now;
    if (r->emitted < r->o) continue;
    r->finished = true;
    give_back(q, r);
    remove_at(&q->running, find(&q->running, r));
  }
}

/* --- static --- */

static i64 reservation(const request *r) {
  return blocks_for(S.max_model_len ? S.max_model_len : r->p + r->max_tokens);
}

/* How many of the queue's head to send now; 0: wait. */
static i64 batch_to_form(const replica *q, i64 now) {
  i64 pending = 0, preferred = 0, largest = 0, blocks = 0;
  bool send_now = false;
  for (i64 i = 0; i < S.n_preferred; i++)
    if (S.preferred[i] > largest) largest = S.preferred[i];
  for (; pending < q->waiting.n; pending++) {
    blocks += reservation(q->waiting.item[pending]);
    if (pending == S.max_batch || (S.kv_blocks >= 0 && blocks > S.kv_blocks)) {
      send_now = true;
      break;
    }
    for (i64 i = 0; i < S.n_preferred; i++)
      if (S.preferred[i] == pending + 1) preferred = pending + 1;
  }
  bool late = pending && now - ((request *)q->waiting.item[0])->arrival >= S.max_delay;
  if (preferred && !late) return preferred;
  return send_now || pending >= largest || late ? pending : 0;
}

static void plan_static(replica *q, i64 now) {
  q->prefill_phase = !q->running.n;
  for (i64 n = q->running.n ? 0 : batch_to_form(q, now); n > 0; n--) {
    request *r = remove_at(&q->waiting, 0);
    r->scheduled = now;
    r->reserved = reservation(r);
    q->reserved += r->reserved;
    append(&q->running, r);
  }
  for (i64 i = 0; i < q->running.n; i++) {
    request *r = q->running.item[i];
    if (r->emitted == r->o) continue;
    r->granted = q->prefill_phase ? r->p : 1;
    r->decoding = !q->prefill_phase;
    append(&q->batch, r);
  }
}

static void end_static(replica *q, i64 now) {
  bool all = true;
  for (i64 i = 0; i < q->batch.n; i++) {
    request *r = q->batch.item[i];
    r->granted = 0;
    r->token_time[r->emitted++] = now;
    if (r->emitted < r->o)
      all = false;
    else if (!S.batch_end)
      r->finished = true;
  }
  for (i64 i = 0; i < q->running.n; i++) {
    request *r = q->running.item[i];
    if (all) r->finished = true;
    for (i64 k = 0; all && S.batch_end && k < r->o; k++) r->token_time[k] = now;
    if (all || (r->emitted == r->o && !S.hold)) q->reserved -= r->reserved, r->reserved = 0;
  }
  if (all) q->running.n = 0;
}

/* --- iterations --- */

static void ids(const char *name, const list *l,
                int kind) { /* kind 0: prefills, 1: decodes, 2: all */
  fprintf(steps_file, ",\"%s\":[", name);
  const char *comma = "";
  for (i64 i = 0; i < l->n; i++) {
    const request *r = l->item[i];
    if (kind == 0 && !r->decoding)
      fprintf(steps_file, "%s[%s,%lld]", comma, r->id, (long long)r->granted);
    else if (kind == 2 || (kind == 1 && r->decoding))
      fprintf(steps_file, "%s%s", comma, r->id);
    else
      continue;
    comma = ",";
  }
  fputc(']', steps_file);
}

static void start(replica *q, i64 now) {
  i64 prefill = 0, decode = 0, rows = 0, longest = 0;
  for (i64 i = 0; i < q->batch.n; i++) {
    const request *r = q->batch.item[i];
    if (r->decoding) {
      decode++;
    } else {
      prefill += r->granted;
      rows++;
      if (r->granted > longest) longest = r->granted;
    }
  }
  if (S.is_static && S.pad) prefill = rows * longest;
  if (S.is_static && S.hold && !q->prefill_phase) decode = q->running.n;
  q->busy = true;
  q->started = now;
  q->ends = now + S.step_ns + S.prefill_ns * prefill + S.decode_ns * decode;
  if (!steps_file) return;
  i64 unused = S.kv_blocks < 0 ? -1 : S.is_static ? S.kv_blocks - q->reserved : q->free_list.n;
  fprintf(steps_file,
          "{\"replica\":%lld,\"start_ns\":%lld,\"end_ns\":%lld,\"prefill_tokens\":%lld,\"decode_"
          "sequences\":%lld",
          (long long)q->index, (long long)now, (long long)q->ends, (long long)prefill,
          (long long)decode);
  ids("prefill", &q->batch, 0);
  ids("decode", &q->batch, 1);
  ids("preempted", &q->preempted, 2);
  fprintf(steps_file, ",\"free_blocks\":%lld}\n", (long long)unused);
}

static void plan(replica *q, i64 now) {
  q->batch.n = q->preempted.n = 0;
  if (S.is_static) plan_static(q, now);
  /* By priority a request may preempt itself before anyone is granted a token: nothing would run,
   * so plan again. */
  for (i64 n = -1; !S.is_static && !q->batch.n && q->preempted.n > n;)
    n = q->preempted.n, plan_vllm(q, now);
  if (q->batch.n) start(q, now);
}

static void end(replica *q) {
  q->busy = false;
  if (S.is_static)
    end_static(q, q->ends);
  else
    end_vllm(q, q->ends);
}

/* --- the clock --- */

static i64 route(i64 i) {
  if (!S.least_outstanding) return i % S.n_replicas;
  i64 best = 0, fewest = INT64_MAX;
  for (i64 k = 0; k < S.n_replicas; k++) {
    i64 outstanding = 0;
    for (i64 j = 0; j < i; j++) outstanding += S.r[j].replica == k && !S.r[j].finished;
    if (outstanding < fewest) fewest = outstanding, best = k;
  }
  return best;
}

/* The next instant at which anything can happen after `now`; INT64_MAX when nothing can. */
static i64 next_instant(const replica *q, i64 arrived, i64 now) {
  i64 t = arrived < S.n ? S.r[arrived].arrival : INT64_MAX;
  for (i64 k = 0; k < S.n_replicas; k++) {
    if (q[k].busy)
      t = least(t, q[k].ends);
    else if (S.is_static && q[k].waiting.n) {
      i64 timer = ((request *)q[k].waiting.item[0])->arrival + S.max_delay;
      if (timer > now) t = least(t, timer);
    }
  }
  return t;
}

static void simulate(void) {
  replica *q = get((size_t)S.n_replicas * sizeof *q);
  for (i64 k = 0; k < S.n_replicas; k++) {
    q[k].index = k;
    q[k].blocks = get((size_t)(S.kv_blocks > 0 ? S.kv_blocks : 1) * sizeof *q[k].blocks);
    for (i64 i = 0; i < S.kv_blocks; i++) append(&q[k].free_list, &q[k].blocks[i]);
  }
  i64 arrived = 0;
  for (i64 now = -1; (now = next_instant(q, arrived, now)) != INT64_MAX;) {
    for (i64 k = 0; k < S.n_replicas; k++)
      if (q[k].busy && q[k].ends == now) end(&q[k]);
    for (; arrived < S.n && S.r[arrived].arrival == now; arrived++) {
      request *r = &S.r[arrived];
      r->replica = route(arrived);
      append(&q[r->replica].waiting, r);
    }
    for (i64 k = 0; k < S.n_replicas; k++)
      if (!q[k].busy) plan(&q[k], now);
  }
  for (i64 k = 0; k < S.n_replicas; k++) {
    if (q[k].waiting.n || q[k].running.n) die("replica %lld is stuck", (long long)k);
    if (S.kv_blocks >= 0 && (q[k].free_list.n != S.kv_blocks || q[k].reserved))
      die("blocks are missing");
    free(q[k].waiting.item), free(q[k].running.item), free(q[k].batch.item),
        free(q[k].preempted.item);
    for (i64 i = 0; i < S.kv_blocks; i++) free(q[k].blocks[i].copies.item);
    free(q[k].free_list.item), free(q[k].blocks);
  }
  free(q);
}

static void write_requests(FILE *f) {
  for (i64 i = 0; i < S.n; i++) {
    const request *r = &S.r[i];
    fprintf(f,
            "{\"id\":%s,\"replica\":%lld,\"arrival_ns\":%lld,\"scheduled_ns\":%lld,\"preemptions\":"
            "%lld,\"tokens_ns\":[",
            r->id, (long long)r->replica, (long long)r->arrival, (long long)r->scheduled,
            (long long)r->preemptions);
    for (i64 k = 0; k < r->o; k++) fprintf(f, "%s%lld", k ? "," : "", (long long)r->token_time[k]);
    fputs("]}\n", f);
  }
}

static void forget(void) {
  for (i64 i = 0; i < S.n; i++) free(S.r[i].id), free(S.r[i].token_time), free(S.r[i].blocks), free(S.r[i].ids),
        free(S.r[i].prefix);
  free(S.r);
  memset(&S, 0, sizeof S);
}

#ifdef NAIVE_LIBRARY

int naive_run(char *scenario, FILE *steps, FILE *requests, char *why, size_t n) {
  naive_escape e = {.why = why, .n = n};
  escape = &e;
  steps_file = steps;
  if (setjmp(e.at) == 0) {
    read_scenario(scenario, "");
    simulate();
    write_requests(requests);
  }
  forget();
  escape = NULL;
  return e.status;
}

#else

int main(int argc, char **argv) {
  const char *scenario = NULL;
  FILE *requests = NULL;
  for (int i = 1; i < argc; i++) {
    bool steps = !strcmp(argv[i], "--steps");
    if ((steps || !strcmp(argv[i], "--requests")) && i + 1 < argc) {
      FILE *f = fopen(argv[++i], "w");
      if (!f) die("cannot write %s", argv[i]);
      if (steps) steps_file = f;
      else requests = f;
    } else if (!scenario && argv[i][0] != '-') {
      scenario = argv[i];
    } else {
      die("usage: naive SCENARIO [--steps FILE] [--requests FILE]");
    }
  }
  if (!scenario) die("usage: naive SCENARIO [--steps FILE] [--requests FILE]");
  char *s = slurp(scenario);
  read_scenario(s, scenario);
  free(s);
  simulate();
  if (requests) write_requests(requests);
  if ((steps_file && fclose(steps_file)) || (requests && fclose(requests))) die("cannot write");
  forget();
  return 0;
}

#endif
