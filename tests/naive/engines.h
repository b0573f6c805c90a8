// SPDX-License-Identifier: GPL-3.0-or-later
/* SGLang, TensorRT-LLM and Text Generation Inference once more, in the plainest way: one replica, the linear cost, every
 * request walked at every iteration and nothing kept that can be counted again. Prompts that begin alike are only for KV
 * that never runs out: each family of them is one chain, of which so much is cached as anybody has computed. Written from the
 * description of the engines; shares nothing with the program. */
#ifndef TESTS_NAIVE_ENGINES_H
#define TESTS_NAIVE_ENGINES_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_MAX = 24, N_STEPS = 4096, N_TOKENS = 64 };
enum n_engine { N_SGLANG, N_TRTLLM, N_TGI };
enum { N_NO_EVICT, N_MAX_UTIL, N_STATIC };
enum n_order { N_FCFS, N_LOF, N_LPM, N_DFS };
enum { N_FAMILIES = 4 };

typedef struct n_request {
  int64_t arrival, p, o, max;
  int64_t out, computed, blocks, granted;
  bool waiting, running, reserved;
  int family;        /* whose prompts begin alike, if shared > 0 */
  int64_t shared;    /* so many of its first tokens; at most its prompt */
  int preemptions;
  int64_t at[N_TOKENS]; /* of its tokens */
} n_request;

typedef struct n_step {
  int64_t from, to, P, D, free;
  int preempted[N_MAX], n_preempted;
} n_step;

typedef struct n_world {
  enum n_engine engine;
  int64_t step_ns, prefill_ns, decode_ns, blocks, block_tokens;
  /* SGLang */
  int64_t max_running, max_prefill, chunk /* <= 0: off */;
  bool mixed;
  enum n_order order;
  int64_t check, late; /* of prompts that wait and begin alike */
  double ratio0, ratio_min, decay;
  /* TensorRT-LLM */
  int capacity;
  bool equal, chunked_context;
  int64_t max_batch, max_tokens, unit, wait_most, held_back;
  double wait_ratio;
  /* TGI */
  int64_t prefill_budget, total, patience;
  double served_ratio;
  n_request r[N_MAX];
  int n;
  /* while it runs */
  int64_t now, free;
  int queue[N_MAX], n_queue, run[N_MAX], n_run; /* in order */
  double ratio;
  bool full, was_decode, join;
  int64_t cached[N_FAMILIES];
  int chunking; /* -1: nobody */
  int64_t waited;
  n_step *s;
  int n_steps;
} n_world;

static int64_t n_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
static int64_t n_min(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t n_known(const n_request *r) { return r->p + r->out; }

static void n_take_out(int *list, int *n, int who) {
  int i = 0;
  while (list[i] != who) i++;
  for (--*n; i < *n; i++) list[i] = list[i + 1];
}

static void n_hold(n_world *w, n_request *r, int64_t tokens) {
  int64_t more = n_up(tokens, w->block_tokens) - r->blocks;
  if (more > 0) r->blocks += more, w->free -= more;
}

static int64_t n_common(const n_world *w, const n_request *a, const n_request *b) {
  if (a->family != b->family) return 0;
  return n_min(n_min(a->shared, b->shared), n_min(n_known(a), n_known(b))) / w->block_tokens * w->block_tokens;
}

static int64_t n_hit(const n_world *w, const n_request *r) {
  int64_t n = n_min(n_min(r->shared, n_known(r) - 1) / w->block_tokens * w->block_tokens, w->cached[r->family]);
  return r->shared > 0 ? n : 0;
}

static void n_admit(n_world *w, int who) {
  n_take_out(w->queue, &w->n_queue, who);
  w->run[w->n_run++] = who;
}

/* Away with its KV; it begins again later, at the front of the queue or at its back. */
static void n_evict(n_world *w, int who, bool to_back) {
  n_request *r = &w->r[who];
  w->free += r->blocks;
  r->blocks = r->computed = 0;
  r->preemptions++;
  n_take_out(w->run, &w->n_run, who);
  if (to_back) {
    w->queue[w->n_queue++] = who;
  } else {
    for (int i = w->n_queue++; i > 0; i--) w->queue[i] = w->queue[i - 1];
    w->queue[0] = who;
  }
  n_step *s = &w->s[w->n_steps];
  s->preempted[s->n_preempted++] = who;
}

/* Its next token, with KV for what it computes. */
static void n_decode(n_world *w, int who) {
  n_request *r = &w->r[who];
  r->granted = 1;
  if (!r->reserved) n_hold(w, r, r->computed + 1);
}

static int64_t n_decode_blocks(const n_world *w, int except) {
  int64_t n = 0;
  for (int i = 0; i < w->n_run; i++) {
    const n_request *r = &w->r[w->run[i]];
    if (w->run[i] != except) n += n_up(r->computed + 1, w->block_tokens) - r->blocks;
  }
  return n;
}

/* ---- SGLang ---- */

static int64_t n_cap(const n_world *w, const n_request *r) { /* cut so that it fits an empty pool */
  return n_min(r->max, w->blocks * w->block_tokens - r->p - w->block_tokens - 1);
}
static int64_t n_future(const n_world *w, const n_request *r) {
  int64_t left = n_cap(w, r) - r->out;
  return left < 0 ? 0 : n_min(left, 4096);
}

/* By a key, largest first, the earlier of equals. */
static void n_sort(int *order, int n, const int64_t *key) {
  for (int i = 0; i < n; i++)
    for (int k = n - 1; k > 0; k--)
      if (key[order[k]] > key[order[k - 1]]) {
        int swap = order[k];
        order[k] = order[k - 1];
        order[k - 1] = swap;
      }
}

static void n_sglang_order(const n_world *w, int *order) {
  int n = w->n_queue, first[N_FAMILIES];
  int64_t key[N_MAX] = {0}, wanted[N_FAMILIES] = {0};
  bool inserted[N_MAX] = {false};
  for (int i = 0; i < n; i++) order[i] = w->queue[i];
  if (w->order == N_FCFS) return;
  for (int i = n - 1; i >= 0; i--)
    if (n_hit(w, &w->r[order[i]]) > 0) {
      wanted[w->r[order[i]].family]++;
      first[w->r[order[i]].family] = i;
    }
  for (int i = 0; i < n; i++) {
    const n_request *r = &w->r[order[i]];
    int64_t hit = n_hit(w, r);
    if (w->order == N_LOF) key[order[i]] = n_cap(w, r);
    if (w->order == N_DFS && hit > 0) key[order[i]] = (wanted[r->family] * 1000 - first[r->family]) * 1000 + hit;
    if (w->order != N_LPM) continue;
    key[order[i]] = hit;
    if (hit > w->check) continue;
    inserted[i] = true;
    for (int k = 0; k < i; k++)
      if (inserted[k] && n_common(w, r, &w->r[order[k]]) >= w->late) inserted[i] = false;
    if (!inserted[i]) key[order[i]] = -1;
  }
  n_sort(order, n, key);
}

static bool n_sglang_prefill(n_world *w) {
  const int64_t B = w->block_tokens;
  int chunk = w->chunking, order[N_MAX], n_order = w->n_queue, admitted = 0;
  int64_t running = w->n_run - (chunk >= 0), mixed = w->mixed ? running : 0;
  if ((w->full || w->n_queue == 0) && chunk < 0) return false;
  if (running >= w->max_running && chunk < 0) {
    w->full = true;
    return false;
  }
  int64_t set_aside = mixed ? n_decode_blocks(w, chunk) : 0, room = w->free - set_aside;
  if (room < 0) return false;
  double rem = (double)(w->free * B) - (double)mixed;
  for (int i = 0; i < w->n_run; i++)
    if (w->run[i] != chunk) rem -= (double)n_future(w, &w->r[w->run[i]]) * w->ratio;
  bool split = w->chunk > 0;
  int64_t C = w->chunk - mixed, I = w->max_prefill - mixed;
  if (chunk >= 0) {
    n_request *r = &w->r[chunk];
    int64_t left = n_known(r) - r->computed, n = n_min(n_min(left, C), (r->blocks + room) * B - r->computed);
    if (n < left) n = n / B * B;
    if (n <= 0) return false;
    int64_t before = r->blocks;
    n_hold(w, r, r->computed + n);
    room -= r->blocks - before;
    r->granted = n;
    admitted++;
    rem -= (double)(n_up(n, B) * B + (n < left ? 0 : n_min(n_cap(w, r), 4096)) + B);
    C -= n_up(n, B) * B;
    I -= n_up(n, B) * B;
    if (n == left) w->chunking = -1;
  }
  n_sglang_order(w, order);
  for (int i = 0; i < n_order; i++) {
    n_request *r = &w->r[order[i]];
    if (running + admitted >= w->max_running) {
      w->full = true;
      break;
    }
    int64_t hit = n_hit(w, r), extend = n_known(r) - hit, pages = n_up(extend, B) * B, n = extend;
    if ((double)(extend + n_future(w, r) + B) >= rem) {
      w->full = true;
      break;
    }
    if (!split && admitted > 0 && extend >= I) break;
    if (split && pages > C) n = C > 0 ? C / B * B : 0;
    if (n <= 0) break;
    if (n_up(n, B) > room) {
      w->full = true;
      break;
    }
    n_admit(w, order[i]);
    r->computed = hit;
    n_hold(w, r, hit + n);
    room -= n_up(n, B);
    r->granted = n;
    admitted++;
    bool whole = n == extend;
    rem -= (double)(n_up(n, B) * B + (whole ? n_min(n_cap(w, r), 4096) : 0) + B);
    C -= n_up(n, B) * B;
    I -= n_up(n, B) * B;
    if (!whole) {
      w->chunking = order[i];
      break;
    }
    if (rem <= 0) w->full = true;
    if (rem <= 0 || (split && C <= 0) || I <= 0) break;
  }
  if (admitted == 0) return false;
  for (int i = 0; mixed && i < w->n_run; i++)
    if (w->r[w->run[i]].granted == 0) n_decode(w, w->run[i]);
  return true;
}

static void n_sglang(n_world *w) {
  if (n_sglang_prefill(w)) return;
  if (n_decode_blocks(w, w->chunking) <= w->free) {
    w->ratio -= w->decay;
    if (w->ratio < w->ratio_min) w->ratio = w->ratio_min;
  } else {
    while (n_decode_blocks(w, w->chunking) > w->free && w->n_run - (w->chunking >= 0) > 1) {
      int worst = -1;
      for (int i = 0; i < w->n_run; i++) {
        const n_request *r = &w->r[w->run[i]], *b = worst >= 0 ? &w->r[worst] : NULL;
        if (w->run[i] == w->chunking) continue;
        if (!b || r->out < b->out || (r->out == b->out && r->p >= b->p)) worst = w->run[i];
      }
      n_evict(w, worst, true);
    }
    if (n_decode_blocks(w, w->chunking) > w->free && w->chunking >= 0) {
      n_evict(w, w->chunking, true);
      w->chunking = -1;
    }
    double written = 0, caps = 0;
    for (int i = 0; i < w->n_run; i++) {
      if (w->run[i] == w->chunking) continue;
      written += (double)w->r[w->run[i]].out + 20;
      caps += (double)n_cap(w, &w->r[w->run[i]]);
    }
    w->ratio = written / (caps + 1) < 1 ? written / (caps + 1) : 1;
    w->full = false;
  }
  for (int i = 0; i < w->n_run; i++)
    if (w->run[i] != w->chunking) n_decode(w, w->run[i]);
}

/* ---- TensorRT-LLM ---- */

static bool n_generates(const n_request *r) { return r->out > 0 && n_known(r) - r->computed == 1; }
static int64_t n_to_end(const n_world *w, const n_request *r) { return n_up(r->p + r->max, w->block_tokens); }

static void n_trtllm(n_world *w) {
  const int64_t B = w->block_tokens;
  bool paused = false;
  int64_t room = w->free, tokens = w->max_tokens, n_context = 0;
  /* Capacity: does everybody who runs fit the next iteration? */
  for (int i = 0; i < w->n_run; i++) {
    const n_request *r = &w->r[w->run[i]];
    int64_t need = n_generates(r) ? n_up(r->computed + 1, B) - r->blocks : 0;
    while (need > room && i < w->n_run) {
      int last = w->run[w->n_run - 1];
      room += w->r[last].blocks;
      n_evict(w, last, false);
      paused = true;
    }
    if (i < w->n_run) room -= need;
  }
  int context[N_MAX];
  for (int i = 0; i < w->n_run && tokens > 0; i++)
    if (n_generates(&w->r[w->run[i]])) {
      n_decode(w, w->run[i]);
      tokens--;
    }
  const int64_t generating = w->max_tokens - tokens;
  for (int i = 0; i < w->n_run; i++)
    if (!n_generates(&w->r[w->run[i]])) context[n_context++] = w->run[i];
  int64_t promised = 0, running = w->n_run, begun = n_context;
  for (int i = 0; i < w->n_run; i++) promised += n_to_end(w, &w->r[w->run[i]]);
  for (int i = 0; i < w->n_queue && !paused && !(w->capacity == N_STATIC && w->n_run > 0); i++) {
    n_request *r = &w->r[w->queue[i]];
    bool waits = false;
    r->computed = n_hit(w, r); /* of one that waits: where it would begin */
    for (int k = 0; w->capacity != N_STATIC && k < n_context; k++) {
      const n_request *q = &w->r[context[k]];
      if (q->computed / B * B == r->computed && n_common(w, r, q) > r->computed) waits = true;
    }
    if (waits) continue;
    if (running >= w->max_batch) break;
    if (w->capacity == N_MAX_UTIL ? n_up(n_known(r), B) > room : promised + n_to_end(w, r) > w->blocks) break;
    room -= n_up(n_known(r), B);
    promised += n_to_end(w, r);
    running++;
    context[n_context++] = w->queue[i];
  }
  if (w->equal && w->chunked_context) {
    for (bool more = true; more;) {
      more = false;
      for (int i = 0; i < n_context; i++) {
        n_request *r = &w->r[context[i]];
        int64_t n = n_min(w->unit, n_known(r) - r->computed - r->granted);
        if (n < 1 || n > tokens) continue;
        r->granted += n;
        tokens -= n;
        more = true;
      }
    }
  } else {
    for (int i = 0; i < n_context; i++) {
      n_request *r = &w->r[context[i]];
      int64_t left = n_known(r) - r->computed, n = n_min(left, tokens);
      if (n < left) n = w->chunked_context ? n / w->unit * w->unit : 0;
      if (n == 0) break;
      r->granted = n;
      tokens -= n;
    }
  }
  int64_t full = generating, prompts = 0; /* what the iteration would hold, by whole prompts */
  for (int i = 0; i < n_context; i++) {
    const n_request *r = &w->r[context[i]];
    if (r->granted == 0) continue;
    prompts++;
    full += n_known(r) - (i >= begun ? r->computed : 0);
  }
  if (w->wait_most > 0 && prompts > 0 && generating > 0) {
    if (w->held_back >= w->wait_most || (double)full >= w->wait_ratio * (double)w->max_tokens) {
      w->held_back = 0;
    } else {
      w->held_back++;
      for (int i = 0; i < n_context; i++) w->r[context[i]].granted = 0;
    }
  }
  for (int i = 0; i < n_context; i++) {
    n_request *r = &w->r[context[i]];
    if (r->granted == 0) continue;
    if (i >= begun) n_admit(w, context[i]);
    n_hold(w, r, n_known(r));
  }
}

/* ---- Text Generation Inference ---- */

static bool n_tgi_batch(n_world *w, int64_t fewest) {
  const int64_t B = w->block_tokens;
  int64_t total = w->total > 0 ? w->total : w->blocks * B, prompts = 0, caps = 0, blocks = w->free;
  int n = 0;
  for (int i = 0; i < w->n_run; i++) total -= w->r[w->run[i]].blocks * B;
  for (; n < w->n_queue; n++) {
    const n_request *r = &w->r[w->queue[n]];
    if (w->max_batch > 0 && w->n_run + n >= w->max_batch) break;
    prompts += r->p;
    caps += r->max;
    if (prompts > n_up(w->prefill_budget, B) * B || prompts + caps > total) break;
    if (n_up(r->p + r->max - 1, B) > blocks) break;
    blocks -= n_up(r->p + r->max - 1, B);
  }
  if (n == 0 || n < fewest) return false;
  while (n-- > 0) {
    int who = w->queue[0];
    n_request *r = &w->r[who];
    n_admit(w, who);
    n_hold(w, r, r->p + r->max - 1);
    r->reserved = true;
    r->granted = r->p;
  }
  return true;
}

static void n_tgi(n_world *w) {
  bool ask = !w->join;
  int64_t fewest = w->n_run == 0 || w->waited >= w->patience ? 0 : (int64_t)((float)w->n_run * (float)w->served_ratio);
  w->join = false;
  if (ask && w->n_queue > 0) {
    bool beside = w->n_run > 0;
    if (n_tgi_batch(w, fewest)) {
      w->join = beside;
      w->waited = 1;
      return;
    }
  }
  for (int i = 0; i < w->n_run; i++) n_decode(w, w->run[i]);
  w->waited++;
}

/* ---- time ---- */

static void n_finish(n_world *w, int who) {
  w->free += w->r[who].blocks;
  w->r[who].blocks = 0;
  n_take_out(w->run, &w->n_run, who);
  w->full = false;
}

static void n_end(n_world *w) {
  int order[N_MAX], n = w->n_run;
  memcpy(order, w->run, sizeof order);
  for (int i = 0; i < n; i++) {
    n_request *r = &w->r[order[i]];
    int64_t missing = n_known(r) - r->computed;
    if (r->granted == 0) continue;
    r->computed += r->granted;
    if (r->out == 0 || missing > 1) {
      int64_t now = n_min(r->shared, r->computed) / w->block_tokens * w->block_tokens;
      if (now > w->cached[r->family]) w->cached[r->family] = now;
    }
    if (r->granted == missing) {
      r->at[r->out++] = w->now;
      if (r->out == r->o) n_finish(w, order[i]);
    }
    r->granted = 0;
  }
}

/* The whole run; false when it is stuck or longer than there is room for. */
static bool n_simulate(n_world *w) {
  int arrived = 0;
  bool idle = true;
  w->free = w->blocks;
  w->ratio = w->ratio0;
  w->chunking = -1;
  while (w->n_steps < N_STEPS) {
    while (arrived < w->n && w->r[arrived].arrival <= w->now) w->queue[w->n_queue++] = arrived++;
    n_step *s = &w->s[w->n_steps];
    *s = (n_step){.from = w->now};
    if (w->n_run + w->n_queue > 0) {
      if (idle) w->ratio = w->ratio0;
      if (w->engine == N_SGLANG) n_sglang(w);
      else if (w->engine == N_TRTLLM) n_trtllm(w);
      else n_tgi(w);
    }
    bool work = false;
    for (int i = 0; i < w->n_run; i++) {
      const n_request *r = &w->r[w->run[i]];
      if (r->granted == 0) continue;
      work = true;
      if (n_generates(r)) s->D++;
      else s->P += r->granted;
    }
    if (!work) {
      if (w->n_run + w->n_queue > 0) return false;
      if (arrived == w->n) return true;
      w->now = w->r[arrived].arrival;
      idle = true;
      continue;
    }
    idle = false;
    s->to = w->now + w->step_ns + s->P * w->prefill_ns + s->D * w->decode_ns;
    s->free = w->free;
    w->n_steps++;
    w->now = s->to;
    n_end(w);
  }
  return false;
}

#endif
