// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/digest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "study/driver.h"

/* Kinds: prompt tokens by powers of two, decoding rows by half powers. */
#define PREFILL_KINDS 20
#define DECODE_KINDS  36

typedef struct sums { /* of the iterations of one kind */
  double n, decode_seqs, decode_ctx, decode_near, prefill_tokens, chunks, finished, pairs, kv, tiles, near_pairs, near_kv;
  double weight[DS_DIGEST_SUMS];
} sums;

typedef struct tally {
  const ds_expressed *x;
  sums *of; /* PREFILL_KINDS x DECODE_KINDS */
  uint32_t *context, *emitted; /* of every request */
  size_t arrived, finished;
  int64_t reach;
  bool chunked;
} tally;

static size_t log_kind(double x, double per_doubling, size_t most) {
  if (!(x > 0)) return 0;
  size_t k = 1 + (size_t)(per_doubling * log2(x) + 0.5);
  return k < most ? k : most - 1;
}

/* Requests that are there, on one of the replicas. */
static double in_flight(tally *t, int64_t now_ns) {
  const ds_expressed *x = t->x;
  if (x->protocol == DS_PROTOCOL_OPEN)
    while (t->arrived < x->n && x->request[t->arrived].arrival_ns <= now_ns) t->arrived++;
  else
    t->arrived = x->n;
  double there = (double)(t->arrived - t->finished), seats = (double)x->options.concurrency;
  if (x->protocol == DS_PROTOCOL_CLOSED && seats > 0 && there > seats) there = seats;
  return there / (double)x->scenario->run.pool.replicas;
}

static void emit(tally *t, uint64_t i) {
  t->emitted[i]++;
  t->finished += t->emitted[i] == t->x->request[i].output_tokens;
}

static void watch(void *user, const ds_step *s) {
  tally *t = user;
  double there = in_flight(t, s->start_ns), reach = (double)t->reach;
  sums *k = &t->of[log_kind((double)s->prefill_tokens, 1, PREFILL_KINDS) * DECODE_KINDS + log_kind((double)s->decode_seqs, 2, DECODE_KINDS)];
  const uint64_t *at = s->lists;
  k->n++;
  k->decode_seqs += (double)s->decode_seqs;
  k->prefill_tokens += (double)s->prefill_tokens;
  k->chunks += s->n_prefill;
  for (uint32_t i = 0; i < s->n_prefill; i++, at += 2) {
    const ds_request *q = &t->x->request[at[0]];
    /* What its prompt shares with others was found in the cache, unless it was cut by the budget. */
    if (q->n_spans > 0 && t->context[at[0]] == 0 && at[1] < q->input_tokens) t->context[at[0]] = q->input_tokens - (uint32_t)at[1];
    double c = t->context[at[0]], n = (double)at[1];
    k->pairs += ds_attention_pairs(n, c, 0, false);
    k->kv += n + c;
    k->tiles += ceil(n / 128);
    if (reach > 0) k->near_pairs += ds_attention_pairs(n, c, reach, t->chunked), k->near_kv += ds_attention_kv(n, c, reach, t->chunked);
    t->context[at[0]] += (uint32_t)at[1];
    if (t->context[at[0]] < q->input_tokens + t->emitted[at[0]]) continue;
    k->finished++;
    emit(t, at[0]);
  }
  for (uint32_t i = 0; i < s->n_decode; i++, at++) {
    uint32_t c = ++t->context[*at];
    k->decode_ctx += c;
    if (reach > 0) k->decode_near += (double)ds_attention_near(c, t->reach, t->chunked);
    emit(t, *at);
  }
  for (uint32_t i = 0; i < s->n_preempted; i++) t->context[at[i]] = 0;
  double decoding = (double)s->n_decode;
  k->weight[DS_DIGEST_SPAN] += 1;
  k->weight[DS_DIGEST_DECODE] += decoding;
  k->weight[DS_DIGEST_FIRST] += there > decoding ? there - decoding : 0;
  k->weight[DS_DIGEST_FLIGHT] += there > decoding ? there : decoding;
}

static int64_t whole(double x) { return (int64_t)(x + 0.5); }

static void keep(const sums *k, ds_digest_kind *out) {
  ds_shape *s = &out->shape;
  *s = (ds_shape){.decode_seqs = whole(k->decode_seqs / k->n),
                  .decode_ctx = k->decode_ctx / k->n,
                  .decode_near = k->decode_near / k->n,
                  .prefill_tokens = whole(k->prefill_tokens / k->n),
                  .prefill_chunks = whole(k->chunks / k->n),
                  .finished_chunks = whole(k->finished / k->n),
                  .prefill_pairs = k->pairs / k->n,
                  .prefill_kv_tokens = k->kv / k->n,
                  .prefill_tiles = whole(k->tiles / k->n),
                  .prefill_near_pairs = k->near_pairs / k->n,
                  .prefill_near_kv = k->near_kv / k->n};
  if (s->prefill_tokens > 0 && s->prefill_chunks < 1) s->prefill_chunks = 1;
  memcpy(out->weight, k->weight, sizeof out->weight);
}

static bool price(const ds_digest *g, const ds_run *run, double seconds[DS_DIGEST_SUMS]) {
  ds_pricer *p;
  ds_error err;
  for (int i = 0; i < DS_DIGEST_SUMS; i++) seconds[i] = 0;
  if (ds_pricer_new(run, 1, 1, &ds_heap, &p, &err) != DS_OK) return false;
  for (size_t k = 0; k < g->n; k++) {
    ds_mixed_price t;
    ds_price_mixed(p, &g->kind[k].shape, &t);
    for (int i = 0; i < DS_DIGEST_SUMS; i++) seconds[i] += g->kind[k].weight[i] * (double)t.total_ns * 1e-9;
  }
  ds_pricer_free(p);
  return true;
}

static double api_of(const ds_run *run) { return run->pool.engine.api_per_request_s + run->pool.engine.api_per_token_s; }

static bool tally_new(tally *t, const ds_expressed *x) {
  const ds_model *m = &x->scenario->run.model;
  *t = (tally){.x = x,
               .of = calloc((size_t)PREFILL_KINDS * DECODE_KINDS, sizeof *t->of),
               .context = calloc(x->n, sizeof *t->context),
               .emitted = calloc(x->n, sizeof *t->emitted),
               .reach = ds_model_reach(m),
               .chunked = m->chunked};
  return t->of != NULL && t->context != NULL && t->emitted != NULL;
}

static void tally_free(tally *t) {
  free(t->of);
  free(t->context);
  free(t->emitted);
}

bool ds_digest_of(const ds_expressed *x, ds_digest *out) {
  tally t;
  memset(out, 0, sizeof *out);
  snprintf(out->exact.why, sizeof out->exact.why, "out of memory");
  bool ok = tally_new(&t, x) && ds_validate_watched(x, watch, &t, &out->exact);
  for (size_t k = 0; ok && k < (size_t)PREFILL_KINDS * DECODE_KINDS; k++) out->n += t.of[k].n > 0;
  if (ok) out->kind = calloc(out->n + 1, sizeof *out->kind);
  ok = ok && out->kind != NULL;
  out->n = 0;
  for (size_t k = 0; ok && k < (size_t)PREFILL_KINDS * DECODE_KINDS; k++)
    if (t.of[k].n > 0) keep(&t.of[k], &out->kind[out->n++]);
  tally_free(&t);
  out->requests = (double)x->n;
  out->replicas = (double)x->scenario->run.pool.replicas;
  out->api_s = api_of(&x->scenario->run);
  if (ok && price(out, &x->scenario->run, out->start_s)) return true;
  ds_digest_free(out);
  return false;
}

/* A mean latency, in ms, by the change of its sum over all requests; no shorter than a twentieth of what it was. */
static double moved(double exact_ms, double by_s, double requests) {
  double v = exact_ms + 1e3 * by_s / requests;
  return v > exact_ms / 20 ? v : exact_ms / 20;
}

bool ds_digest_predict(const ds_digest *g, const ds_run *run, double predicted[DS_CMP_N]) {
  double s[DS_DIGEST_SUMS];
  const double *old = g->start_s, *p = g->exact.predicted;
  if (!price(g, run, s)) return false;
  double api_s = (api_of(run) - g->api_s) * g->requests;
  if (p[DS_CMP_TTFT_MEAN] > 0)
    predicted[DS_CMP_TTFT_MEAN] = moved(p[DS_CMP_TTFT_MEAN], s[DS_DIGEST_FIRST] - old[DS_DIGEST_FIRST] + api_s, g->requests);
  if (p[DS_CMP_E2E_MEAN] > 0)
    predicted[DS_CMP_E2E_MEAN] = moved(p[DS_CMP_E2E_MEAN], s[DS_DIGEST_FLIGHT] - old[DS_DIGEST_FLIGHT] + api_s, g->requests);
  if (p[DS_CMP_TPOT_MEAN] > 0 && old[DS_DIGEST_DECODE] > 0)
    predicted[DS_CMP_TPOT_MEAN] = p[DS_CMP_TPOT_MEAN] * s[DS_DIGEST_DECODE] / old[DS_DIGEST_DECODE];
  if (p[DS_CMP_OUT_TOK_S] > 0 && s[DS_DIGEST_SPAN] > 0)
    predicted[DS_CMP_OUT_TOK_S] = p[DS_CMP_OUT_TOK_S] * old[DS_DIGEST_SPAN] / s[DS_DIGEST_SPAN];
  return true;
}

void ds_digest_free(ds_digest *g) {
  free(g->kind);
  g->kind = NULL;
  g->n = 0;
}
