// SPDX-License-Identifier: GPL-3.0-or-later
/* The prefix index by runs against a cache that keeps every block by itself, on random requests, for
 * every order of eviction: the same hits, the same number of free blocks, the same blocks evicted.
 * And spans in blocks. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "kv/prefix.h"

static void *resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque, (void)old_bytes;
  if (new_bytes > 0) return realloc(old, new_bytes);
  free(old);
  return NULL;
}
static const ds_alloc heap_alloc = {resize, NULL};

static uint64_t draw_state;
static uint32_t draw(uint32_t below) {
  draw_state += 0x9e3779b97f4a7c15u;
  uint64_t z = (draw_state ^ (draw_state >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (uint32_t)((z ^ (z >> 31)) >> 16) % below;
}

/* --- the naive cache --- */

enum { MOST_BLOCKS = 64, MOST_CONTENTS = 60000, MOST_LENGTH = 24 };

typedef struct content { /* a block of tokens, after certain others */
  int parent;            /* -1: at the start */
  uint64_t stream;
} content;
static content contents[MOST_CONTENTS];
static int n_contents;

static int content_of(int parent, uint64_t stream) {
  for (int i = 0; i < n_contents; i++)
    if (contents[i].parent == parent && contents[i].stream == stream) return i;
  cr_assert(n_contents < MOST_CONTENTS);
  contents[n_contents] = (content){parent, stream};
  return n_contents++;
}

typedef struct slot {
  int content; /* -1: nothing that anybody can find */
  int refs, copies[MOST_LENGTH * 8], n_copies;
  uint64_t released, made, uses;
} slot;
typedef struct naive {
  slot block[MOST_BLOCKS];
  int queue[MOST_BLOCKS], n_queue, total; /* free blocks, oldest first */
  uint64_t clock, made, evicted;
  ds_eviction order;
} naive;

static int holder(const naive *c, int what) {
  for (int i = 0; i < c->total; i++)
    if (c->block[i].content == what) return i;
  return -1;
}
static void out_of_queue(naive *c, int at) {
  c->n_queue--;
  memmove(c->queue + at, c->queue + at + 1, (size_t)(c->n_queue - at) * sizeof *c->queue);
}
static void leave_queue(naive *c, int b) {
  int at = 0;
  while (c->queue[at] != b) at++;
  out_of_queue(c, at);
}
static void release(naive *c, int b) {
  c->block[b].released = c->clock++;
  c->queue[c->n_queue++] = b;
}
static bool continued(const naive *c, int what) { /* some block holds what follows it */
  for (int i = 0; i < c->total; i++)
    if (c->block[i].content >= 0 && contents[c->block[i].content].parent == what) return true;
  return false;
}
static bool before(const naive *c, int a, int b) { /* a is evicted before b */
  const slot *x = &c->block[a], *y = &c->block[b];
  if (c->order == DS_EVICT_FIFO) return x->made < y->made;
  return x->uses != y->uses ? x->uses < y->uses : x->released < y->released;
}
static int take(naive *c) {
  int best = 0;
  for (int i = 0; c->order != DS_EVICT_LRU && i < c->n_queue; i++) {
    int b = c->queue[i], x = c->queue[best];
    if (c->block[b].content < 0) {
      best = i;
      break;
    }
    if (!continued(c, c->block[b].content) &&
        (continued(c, c->block[x].content) || before(c, b, x)))
      best = i;
  }
  int b = c->queue[best];
  out_of_queue(c, best);
  c->evicted += c->block[b].content >= 0;
  c->block[b].content = -1;
  return b;
}

/* --- requests --- */

typedef struct request {
  bool live;
  ds_kv_part part[MOST_LENGTH];
  uint32_t n_parts, shared, own, leaf;
  int content[MOST_LENGTH], block[MOST_LENGTH * 2];
} request;

static void prompt(request *q, uint32_t *length) {
  uint32_t blocks = 1 + draw(MOST_LENGTH - 1);
  *length = 0;
  q->n_parts = 0;
  while (*length < blocks) { /* few streams, few lengths: prompts often begin alike */
    uint32_t n = 1 + draw(4) * 2, stream = draw(3);
    if (n > blocks - *length) n = blocks - *length;
    if (q->n_parts > 0 && q->part[q->n_parts - 1].stream == stream)
      q->part[q->n_parts - 1].blocks += n;
    else
      q->part[q->n_parts++] = (ds_kv_part){stream, DS_SPACE_FIRST, n};
    *length += n;
  }
  int parent = -1;
  for (uint32_t i = 0, k = 0; i < q->n_parts; i++)
    for (uint32_t j = 0; j < q->part[i].blocks; j++)
      q->content[k++] = parent = content_of(parent, q->part[i].stream);
}

static bool start(ds_kv_pool *p, naive *c, request *q) {
  uint32_t length, held, hit, naive_hit = 0, naive_held = 0;
  prompt(q, &length);
  uint32_t limit = draw(4) ? length : length - 1, own = draw(4);
  hit = ds_kv_lasting(p, q->part, q->n_parts, limit, 0, &held);
  for (int b; naive_hit < limit && (b = holder(c, q->content[naive_hit])) >= 0; naive_hit++)
    naive_held += c->block[b].refs > 0;
  cr_assert_eq(hit, naive_hit);
  cr_assert_eq(held, naive_held);
  if ((int64_t)(length - held + own) > p->free_blocks) return false;
  /* what a plan may count on when blocks are handed out first */
  uint32_t first = p->eviction == DS_EVICT_LRU ? draw(3) : 0;
  if (first > 0 && p->free_blocks >= (int64_t)(length - held + own + first)) {
    uint32_t lasting = ds_kv_lasting(p, q->part, q->n_parts, limit, first, &held);
    ds_kv_take(p, first);
    hit = ds_kv_lasting(p, q->part, q->n_parts, limit, 0, &held);
    cr_assert_eq(lasting, hit);
    cr_assert(ds_kv_give(p, first, &heap_alloc) == DS_OK);
    int taken[3];
    for (uint32_t i = 0; i < first; i++) taken[i] = take(c);
    for (uint32_t i = 0; i < first; i++) release(c, taken[i]);
  }
  cr_assert(ds_kv_hold(p, q->part, q->n_parts, hit, &q->leaf, &heap_alloc) == DS_OK);
  for (uint32_t i = 0; i < hit; i++) {
    int b = q->block[i] = holder(c, q->content[i]);
    if (c->block[b].refs++ == 0) leave_queue(c, b);
    c->block[b].uses++;
  }
  for (uint32_t from = hit; from < length;) { /* in chunks, as prompts are computed */
    uint32_t to = from + 1 + draw(length - from);
    ds_kv_take(p, to - from);
    cr_assert(ds_kv_extend(p, q->part, q->n_parts, from, to, &q->leaf, &heap_alloc) == DS_OK);
    for (uint32_t i = from; i < to; i++) {
      q->block[i] = take(c);
      c->block[q->block[i]].refs = 1;
    }
    for (; from < to; from++) {
      int mine = q->block[from], there = holder(c, q->content[from]);
      slot *m = &c->block[mine];
      if (there >= 0 && c->block[there].refs > 0) {
        c->block[there].refs++;
        c->block[there].uses++;
        c->block[there].copies[c->block[there].n_copies++] = mine;
        m->refs = 0;
        q->block[from] = there;
        continue;
      }
      m->made = there >= 0 ? c->block[there].made : c->made++;
      m->uses = there >= 0 ? c->block[there].uses + 1 : 1;
      m->content = q->content[from];
      if (there >= 0) c->block[there].content = -1;
    }
  }
  ds_kv_take(p, own);
  for (uint32_t i = 0; i < own; i++) q->block[length + i] = take(c);
  q->shared = length;
  q->own = own;
  return q->live = true;
}

static void finish(ds_kv_pool *p, naive *c, request *q) {
  int64_t frees = q->own + ds_kv_freed(p, q->leaf), had = p->free_blocks;
  cr_assert(ds_kv_give(p, q->own, &heap_alloc) == DS_OK);
  cr_assert(ds_kv_release(p, q->leaf, &heap_alloc) == DS_OK);
  cr_assert_eq(p->free_blocks - had, frees);
  for (uint32_t i = q->shared + q->own; i-- > 0;) {
    slot *b = &c->block[q->block[i]];
    if (i >= q->shared) {
      release(c, q->block[i]);
      continue;
    }
    b->refs--;
    if (b->n_copies > 0) release(c, b->copies[--b->n_copies]);
    else if (b->refs == 0) release(c, q->block[i]);
  }
  q->live = false;
}

static void hold_together(ds_eviction order, uint64_t seed) {
  ds_kv_pool p;
  naive c = {.order = order};
  request q[6];
  memset(q, 0, sizeof q);
  draw_state = seed;
  n_contents = 0;
  c.total = 20 + (int)draw(MOST_BLOCKS - 19);
  for (int i = 0; i < c.total; i++) {
    c.block[i].content = -1;
    c.queue[c.n_queue++] = i;
  }
  cr_assert(ds_kv_init(&p, c.total, true, order, &heap_alloc) == DS_OK);
  int64_t own = 0;
  for (int step = 0; step < 400; step++) {
    request *r = &q[draw(6)];
    if (r->live) {
      own -= r->own;
      finish(&p, &c, r);
    } else if (start(&p, &c, r)) {
      own += r->own;
    }
    cr_assert_eq(p.free_blocks, c.n_queue, "order %d, seed %d, step %d", (int)order, (int)seed, step);
    cr_assert_eq(p.stats.evicted, c.evicted);
    cr_assert_eq(p.free_blocks + own + ds_kv_shared_in_use(&p), c.total);
    int64_t found = 0;
    for (int i = 0; i < c.n_queue; i++) found += c.block[c.queue[i]].content >= 0;
    cr_assert_eq(p.shared_free, found);
  }
  cr_assert_gt(p.stats.evicted, 0);
  ds_kv_free(&p, &heap_alloc);
}

Test(kv, runs_are_as_blocks_by_themselves) {
  for (uint64_t seed = 1; seed <= 60; seed++) {
    hold_together(DS_EVICT_LRU, seed);
    hold_together(DS_EVICT_LFU, seed);
    hold_together(DS_EVICT_FIFO, seed);
  }
}

static uint32_t parts(const ds_span *s, uint32_t n, uint64_t tokens, bool tail, ds_kv_part *out, uint32_t *blocks) {
  return ds_kv_parts(s, n, tokens, 16, tail, out, blocks);
}

Test(kv, spans_in_blocks) {
  ds_kv_part a[8], b[8];
  uint32_t n, m, blocks;
  n = parts((ds_span[]){{7, 3, 512}, {9, 3, 100}}, 2, 0, false, a, &blocks);
  cr_assert(n == 2 && blocks == 38 && a[0].blocks == 32 && a[0].stream == 7 && a[1].blocks == 6);
  n = parts((ds_span[]){{7, 3, 512}, {9, 3, 100}}, 2, 0, true, a, &blocks);
  cr_assert(n == 2 && blocks == 39 && a[1].blocks == 7, "the partial block is one of its span");
  n = parts((ds_span[]){{7, 3, 512}}, 1, 40, false, a, &blocks);
  cr_assert(n == 1 && blocks == 2, "as many tokens as are spoken for");
  /* A block in which two spans meet is shared by those who have both, and only with whole blocks. */
  n = parts((ds_span[]){{1, 3, 20}, {2, 3, 28}}, 2, 0, false, a, &blocks);
  m = parts((ds_span[]){{1, 3, 20}, {2, 3, 60}}, 2, 0, false, b, &blocks);
  cr_assert(n == 3 && m == 3 && ds_kv_parts_common(a, n, b, m) == 3);
  m = parts((ds_span[]){{1, 3, 20}, {5, 3, 28}}, 2, 0, false, b, &blocks);
  cr_assert_eq(ds_kv_parts_common(a, n, b, m), 1);
  m = parts((ds_span[]){{4, 3, 5}, {2, 3, 43}}, 2, 0, false, b, &blocks);
  n = parts((ds_span[]){{6, 3, 5}, {2, 3, 43}}, 2, 0, false, a, &blocks);
  cr_assert_eq(ds_kv_parts_common(a, n, b, m), 0, "other tokens at the start, alike afterwards");
  /* Two spans of one stream are one. */
  n = parts((ds_span[]){{1, 3, 20}, {1, 3, 28}}, 2, 0, false, a, &blocks);
  cr_assert(n == 1 && blocks == 3);
  /* Ids that count up are one span; the scope tells equal ids apart. */
  ds_span s[4];
  n = 0;
  for (uint32_t i = 0; i < 3; i++) ds_span_block(s, &n, 3, 100 + i, i, 16);
  ds_span_block(s, &n, 3, 7, 3, 16);
  cr_assert(n == 2 && s[0].tokens == 48 && s[0].stream == 100 && s[1].stream == 4);
}
