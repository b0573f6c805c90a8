// SPDX-License-Identifier: Apache-2.0
/* Speculative decoding: how many drafts are accepted, and what a verify step emits.
 *
 * A request that decodes speculatively stays among the prefilling ones with one known token to compute: its grant is
 * that token and `drafts` more. Of these the first so many are accepted, and one token more comes out, all at the end
 * of the iteration; KV of the rejected ones is overwritten by what comes next. What is accepted is drawn anew in every
 * step, by request and step, so that another draft length or scheduler sees the same luck at the same place. */
#include "engine/replica.h"

#include "base/rng.h"

static ds_status no_more(ds_sim *s, const ds_req_view *v, uint64_t step) {
  ds_error_begin(s->err, DS_E_INPUT, "pools.");
  ds_error_text(s->err, s->run.pool.name[0] != '\0' ? s->run.pool.name : "main");
  ds_error_text(s->err, ".speculative.acceptance: the file says nothing of step ");
  ds_error_int(s->err, (int64_t)step + 1);
  ds_error_text(s->err, " of request ");
  ds_error_int(s->err, (int64_t)v->index);
  ds_error_text(s->err, " (in order of arrival, from 0)");
  return DS_E_INPUT;
}

/* Accepted drafts of this verify step, of `drafts`. */
static ds_status draw(ds_sim *s, const ds_req_view *v, uint64_t step, uint32_t drafts, uint32_t *accepted) {
  const ds_speculation *p = &s->run.pool.speculative;
  if (p->replay_first != NULL) {
    uint64_t at = v->index < p->replay_requests ? p->replay_first[v->index] + step : UINT64_MAX;
    if (at == UINT64_MAX || at >= p->replay_first[v->index + 1]) return no_more(s, v, step);
    *accepted = p->replay_accepted[at] < drafts ? p->replay_accepted[at] : drafts;
    return DS_OK;
  }
  ds_rng r = ds_rng_stream(s->run.seed, DS_PURPOSE_ACCEPTANCE, v->index);
  r.counter[0] = (uint32_t)(step * (DS_DRAFTS_MAX / 2)); /* two draws a block */
  uint32_t n = 0;
  while (n < drafts && ds_rng_unit(&r) < p->acceptance[n]) n++;
  *accepted = n;
  return DS_OK;
}

ds_status ds_spec_verify(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t drafts, uint32_t *extra) {
  ds_slot *q = &s->slot[slot];
  const ds_req_view *v = &s->view[slot];
  ds_spec_totals *t = &r->totals.speculation;
  uint32_t accepted;
  DS_TRY(draw(s, v, q->verify_steps++, drafts, &accepted));
  t->drafts++;
  t->draft_tokens += drafts;
  t->accepted_tokens += accepted;
  for (uint32_t i = 0; i < accepted; i++) t->accepted_at[i]++;
  uint32_t left = q->output - v->emitted - 1; /* behind the token that comes out in any case */
  *extra = accepted < left ? accepted : left;
  return DS_OK;
}

void ds_spec_view(const ds_sim *s, ds_replica *r) {
  const ds_speculation *p = &s->run.pool.speculative;
  r->v.drafts = (uint32_t)ds_drafts_for(p, r->v.n_running);
  r->v.lookahead = (uint32_t)p->lookahead;
}

void ds_spec_price(ds_sim *s, ds_replica *r, ds_shape *shape) {
  ds_current *c = &r->cur;
  ds_mixed_price m;
  shape->draft_passes = r->v.drafts;
  ds_price_verify(s->pricer, shape, &m);
  c->rows = (uint32_t)shape->decode_seqs;
  c->dt_ns = c->alone_ns = m.total_ns;
  for (int p = 0; p < DS_PART_N; p++) c->fixed_ns[p] = m.part_ns[p];
  c->attention_part = DS_PART_MEMORY;
  c->price = NULL;
  r->work.decode_seqs += shape->decode_seqs;
  r->work.draft_tokens += shape->draft_tokens;
  ds_wide_add(&r->work_ctx, (uint64_t)shape->decode_ctx);
  if (s->reach > 0) ds_wide_add(&r->work_near, (uint64_t)shape->decode_near);
}
