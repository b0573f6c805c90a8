// SPDX-License-Identifier: Apache-2.0
/* What the policies for teaching share: iteration-level batching of whole prompts with KV set aside from admission to
 * finish, so that policies differ in nothing but whom they take next. */
#ifndef DS_SCHED_WHOLE_PROMPTS_H
#define DS_SCHED_WHOLE_PROMPTS_H

#include "base/num.h"
#include "engine/sched.h"

/* KV that a request may come to need: its prompt and its output cap, or the true output where the policy is told. */
static inline int64_t ds_whole_tokens(const ds_req_view *r) {
  return (int64_t)r->prompt_tokens + (r->true_output > 0 ? r->true_output : r->max_tokens) - 1;
}

/* Admit the queue's first requests while seats and blocks last; the first that does not fit stops it. */
static inline void ds_whole_prompts(const ds_sched_view *v, int64_t seats, int64_t blocks, ds_plan *out) {
  uint32_t slot = v->queue_head;
  for (; slot != DS_SLOT_NONE && seats > 0; slot = v->req[slot].next, seats--) {
    int64_t tokens = ds_whole_tokens(&v->req[slot]), need = ds_div_up(tokens, v->block_tokens);
    if (need > blocks) {
      out->blocked = DS_BLOCKED_KV;
      break;
    }
    blocks -= need;
    out->grants[out->n_grants++] =
        (ds_grant){.slot = slot, .tokens = ds_view_known(v, slot), .reserve_tokens = tokens};
  }
  if (slot != DS_SLOT_NONE && seats <= 0) out->blocked = DS_BLOCKED_SEQS;
  out->decode_all = true;
  out->hold = out->n_grants == 0;
}

/* Refuse what could never be admitted. */
static inline ds_status ds_whole_accepts(const char *name, const ds_pool *pool, int64_t total_blocks, uint32_t prompt,
                                         uint32_t most_output, ds_error *err) {
  int64_t need = ds_div_up((int64_t)prompt + most_output - 1, pool->kv_block_tokens);
  if (pool->kv_blocks == DS_KV_UNLIMITED || need <= total_blocks) return DS_OK;
  ds_error_begin(err, DS_E_INPUT, name);
  ds_error_text(err, " sets aside ");
  ds_error_int(err, need);
  ds_error_text(err, " KV blocks for a request, more than the whole pool of ");
  ds_error_int(err, total_blocks);
  return DS_E_INPUT;
}

#endif
