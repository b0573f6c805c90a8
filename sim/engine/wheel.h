// SPDX-License-Identifier: Apache-2.0
/* When decoding requests finish, in iterations of their replica: a timing wheel. Putting in, taking out and finding the
 * next one cost the same however many there are, and hardly a branch that cannot be predicted (a heap has several).
 * Requests further away than the wheel is long wait in a list that is looked through when its first may be near. */
#ifndef DS_ENGINE_WHEEL_H
#define DS_ENGINE_WHEEL_H

#include "base/types.h"

#define DS_WHEEL_SIZE 1024u
#define DS_WHEEL_FAR DS_WHEEL_SIZE /* bucket number of the far list */
#define DS_WHEEL_NONE UINT32_MAX

typedef struct ds_wheel_link { /* one per slot */
  uint64_t at;                 /* iteration at which it is done */
  uint32_t next, prev, bucket;
} ds_wheel_link;

typedef struct ds_wheel {
  uint64_t bit[DS_WHEEL_SIZE / 64];
  uint64_t far_least; /* no request of the far list is done before it */
  uint32_t head[DS_WHEEL_SIZE + 1];
} ds_wheel;

static inline void ds_wheel_init(ds_wheel *w) {
  for (size_t i = 0; i < DS_ARRAY_LEN(w->bit); i++) w->bit[i] = 0;
  for (size_t i = 0; i < DS_ARRAY_LEN(w->head); i++) w->head[i] = DS_WHEEL_NONE;
  w->far_least = UINT64_MAX;
}

/* `now` is the number of iterations completed; at > now. */
static inline void ds_wheel_put(ds_wheel *w, ds_wheel_link *link, uint32_t slot, uint64_t at, uint64_t now) {
  uint32_t b = at - now < DS_WHEEL_SIZE ? (uint32_t)(at % DS_WHEEL_SIZE) : DS_WHEEL_FAR;
  if (b == DS_WHEEL_FAR) {
    if (at < w->far_least) w->far_least = at;
  } else {
    w->bit[b / 64] |= 1ull << (b % 64);
  }
  link[slot] = (ds_wheel_link){at, w->head[b], DS_WHEEL_NONE, b};
  if (w->head[b] != DS_WHEEL_NONE) link[w->head[b]].prev = slot;
  w->head[b] = slot;
}

static inline void ds_wheel_take(ds_wheel *w, ds_wheel_link *link, uint32_t slot) {
  const ds_wheel_link *l = &link[slot];
  if (l->next != DS_WHEEL_NONE) link[l->next].prev = l->prev;
  if (l->prev != DS_WHEEL_NONE) {
    link[l->prev].next = l->next;
    return;
  }
  w->head[l->bucket] = l->next;
  if (l->next == DS_WHEEL_NONE && l->bucket != DS_WHEEL_FAR) w->bit[l->bucket / 64] &= ~(1ull << (l->bucket % 64));
}

/* Bring what is near now from the far list onto the wheel. */
static inline void ds_wheel_gather(ds_wheel *w, ds_wheel_link *link, uint64_t now) {
  uint32_t slot = w->head[DS_WHEEL_FAR];
  w->head[DS_WHEEL_FAR] = DS_WHEEL_NONE;
  w->far_least = UINT64_MAX;
  while (slot != DS_WHEEL_NONE) {
    uint32_t next = link[slot].next;
    ds_wheel_put(w, link, slot, link[slot].at, now);
    slot = next;
  }
}

static inline void ds_wheel_look_ahead(ds_wheel *w, ds_wheel_link *link, uint64_t now) {
  if (DS_UNLIKELY(w->far_least != UINT64_MAX && w->far_least < now + DS_WHEEL_SIZE)) ds_wheel_gather(w, link, now);
}

/* The first iteration > now at which somebody is done; UINT64_MAX when nobody decodes. */
static inline uint64_t ds_wheel_next(ds_wheel *w, ds_wheel_link *link, uint64_t now) {
  ds_wheel_look_ahead(w, link, now);
  uint32_t start = (uint32_t)((now + 1) % DS_WHEEL_SIZE), word = start / 64;
  uint64_t bits = w->bit[word] & (UINT64_MAX << (start % 64));
  for (uint32_t i = 0; i <= DS_WHEEL_SIZE / 64; i++) {
    if (bits != 0) {
      uint32_t b = word * 64 + (uint32_t)__builtin_ctzll(bits);
      return now + 1 + (b - start) % DS_WHEEL_SIZE;
    }
    word = (word + 1) % (DS_WHEEL_SIZE / 64);
    bits = w->bit[word];
  }
  return w->far_least; /* all are far away */
}

/* Somebody who is done at iteration `now` (which has just been completed), or DS_WHEEL_NONE. */
static inline uint32_t ds_wheel_done(ds_wheel *w, ds_wheel_link *link, uint64_t now) {
  ds_wheel_look_ahead(w, link, now - 1);
  return w->head[now % DS_WHEEL_SIZE];
}

#endif
