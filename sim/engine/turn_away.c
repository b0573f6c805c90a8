// SPDX-License-Identifier: Apache-2.0
/* Servers that answer with an error: at the door, where the policy refuses who arrives, or out of the queue, where a plan
 * says so. Such an attempt is in vain like one that its client has given up; the client may ask again. */
#include "engine/lists.h"

bool ds_refused(ds_sim *s, ds_replica *r, uint32_t slot) {
  if (s->sched->refuses == NULL) return false;
  r->v.req = s->view;
  return s->sched->refuses(&r->v, &s->view[slot]);
}

/* It is in no list of the replica's. */
ds_status ds_turn_away(ds_sim *s, ds_replica *r, uint32_t slot, int64_t t_ns) {
  const ds_slot *q = &s->slot[slot];
  bool late = s->run.patience.timeout_ns > 0 && q->deadline_ns <= t_ns; /* its client was gone before */
  if (!q->gone) {
    DS_TRY(ds_attempt_failed(s, slot, late ? q->deadline_ns : t_ns, late ? DS_FAILED_TIMEOUT : DS_FAILED_TURNED_AWAY));
  }
  s->view[slot].phase = DS_PHASE_DONE;
  ds_slot_free(s, r, slot);
  return DS_OK;
}

ds_status ds_turn_away_planned(ds_sim *s, ds_replica *r) {
  const ds_plan *plan = &r->plan;
  for (uint32_t i = 0; i < plan->n_turned_away; i++) {
    uint32_t slot = plan->turned_away[i];
    const ds_req_view *v = slot < s->n_slots ? &s->view[slot] : NULL;
    if (v == NULL || v->phase != DS_PHASE_WAITING || s->slot[slot].in_inbox || s->slot[slot].replica != r->index ||
        v->admitted_before) {
      ds_error_begin(s->err, DS_E_POLICY, "scheduler ");
      ds_error_text(s->err, s->sched->name);
      ds_error_text(s->err, " broke a rule: turns away who does not wait, or was admitted before");
      return DS_E_POLICY;
    }
    if (s->sched->on_abort != NULL) s->sched->on_abort(r->policy, slot, v);
    ds_queue_remove(s, r, slot);
    DS_TRY(ds_turn_away(s, r, slot, r->v.now_ns));
  }
  return DS_OK;
}
