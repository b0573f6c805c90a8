// SPDX-License-Identifier: Apache-2.0
/* The linked lists of a replica, through next and prev of its requests' views: the queue, the running set in order of
 * admission, and those whose KV is in host memory. Inline: every request goes through the first two. */
#ifndef DS_ENGINE_LISTS_H
#define DS_ENGINE_LISTS_H

#include "engine/replica.h"

static inline void ds_queue_push_back(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  v->next = DS_SLOT_NONE;
  v->prev = r->queue_tail;
  if (r->queue_tail != DS_SLOT_NONE) s->view[r->queue_tail].next = slot;
  else r->v.queue_head = slot;
  r->queue_tail = slot;
  r->v.n_queue++;
}

static inline void ds_queue_push_front(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  v->prev = DS_SLOT_NONE;
  v->next = r->v.queue_head;
  if (r->v.queue_head != DS_SLOT_NONE) s->view[r->v.queue_head].prev = slot;
  else r->queue_tail = slot;
  r->v.queue_head = slot;
  r->v.n_queue++;
}

static inline void ds_queue_remove(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  if (v->prev != DS_SLOT_NONE) s->view[v->prev].next = v->next;
  else r->v.queue_head = v->next;
  if (v->next != DS_SLOT_NONE) s->view[v->next].prev = v->prev;
  else r->queue_tail = v->prev;
  r->v.n_queue--;
}

/* The newest in the queue: tell who was queued DS_QUEUE_AHEAD places before it. */
static inline void ds_queue_hint(ds_sim *s, ds_replica *r, uint32_t slot) {
  uint32_t *place = &r->recent[r->n_recent++ % DS_QUEUE_AHEAD];
  s->slot[*place].ahead = slot;
  *place = slot;
}

static DS_ALWAYS_INLINE void ds_queue_fetch(const ds_sim *s, uint32_t slot) {
  uint32_t ahead = s->slot[slot].ahead;
  if (ahead == slot) return;
  const char *v = (const char *)&s->view[ahead], *q = (const char *)&s->slot[ahead];
  for (size_t at = 0; at < sizeof *s->slot; at += 64) DS_PREFETCH(q + at);
  for (size_t at = 0; at < sizeof *s->view; at += 64) DS_PREFETCH(v + at);
  DS_PREFETCH(&s->link[ahead]);
}

static inline void ds_swapped_push(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  v->next = DS_SLOT_NONE;
  v->prev = r->swapped_tail;
  if (r->swapped_tail != DS_SLOT_NONE) s->view[r->swapped_tail].next = slot;
  else r->v.swapped_head = slot;
  r->swapped_tail = slot;
  r->v.n_swapped++;
}

static inline void ds_swapped_remove(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  if (v->prev != DS_SLOT_NONE) s->view[v->prev].next = v->next;
  else r->v.swapped_head = v->next;
  if (v->next != DS_SLOT_NONE) s->view[v->next].prev = v->prev;
  else r->swapped_tail = v->prev;
  r->v.n_swapped--;
}

static inline void ds_running_push(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_req_view *v = &s->view[slot];
  v->next = DS_SLOT_NONE;
  v->prev = r->v.running_tail;
  if (r->v.running_tail != DS_SLOT_NONE) s->view[r->v.running_tail].next = slot;
  else r->v.running_head = slot;
  r->v.running_tail = slot;
  s->slot[slot].run_order = r->next_order++;
  r->v.n_running++;
}

static inline void ds_running_remove(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  if (v->prev != DS_SLOT_NONE) s->view[v->prev].next = v->next;
  else r->v.running_head = v->next;
  if (v->next != DS_SLOT_NONE) s->view[v->next].prev = v->prev;
  else r->v.running_tail = v->prev;
  r->v.n_running--;
}

#endif
