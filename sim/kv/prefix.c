// SPDX-License-Identifier: Apache-2.0
#include "kv/prefix.h"

#define USES_SHIFT 40 /* rank of lfu: uses above, order of release below */

/* ---- parts ---- */

static void put_part(ds_kv_part *out, uint32_t *k, uint64_t stream, uint32_t space, uint64_t blocks) {
  if (blocks == 0) return;
  if (*k > 0 && out[*k - 1].stream == stream && out[*k - 1].space == space) {
    out[*k - 1].blocks += (uint32_t)blocks;
    return;
  }
  out[(*k)++] = (ds_kv_part){stream, space, (uint32_t)blocks};
}

static uint64_t mixed(uint64_t h, const ds_span *s) {
  h = (h ^ s->stream) * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 32) ^ s->space) * 0xbf58476d1ce4e5b9u;
  return h ^ (h >> 29);
}

uint32_t ds_kv_parts(const ds_span *spans, uint32_t n, uint64_t tokens, uint32_t block_tokens, bool tail,
                     ds_kv_part *out, uint32_t *blocks) {
  if (n == 1 && !tail) { /* a conversation, most often */
    uint64_t known = tokens > 0 && tokens < spans->tokens ? tokens : spans->tokens;
    *blocks = (uint32_t)known / block_tokens;
    out[0] = (ds_kv_part){spans->stream, spans->space, *blocks};
    return *blocks > 0;
  }
  uint64_t a = 0, h = 0; /* h: of the spans that began in the block that is not full yet */
  uint32_t k = 0, begun = 0;
  for (uint32_t i = 0; i < n && (tokens == 0 || a < tokens); i++) {
    uint64_t b = a + spans[i].tokens;
    for (; i + 1 < n && spans[i + 1].stream == spans[i].stream && spans[i + 1].space == spans[i].space; i++) {
      b += spans[i + 1].tokens;
    }
    if (tokens > 0 && b > tokens) b = tokens;
    uint64_t first = a / block_tokens, end = b / block_tokens;
    if (begun > 0 && end > first) { /* a block that several spans meet in */
      put_part(out, &k, mixed(h, &spans[i]), DS_SPACE_MIXED, 1);
      first++;
      begun = 0;
      h = 0;
    }
    if (end > first) put_part(out, &k, spans[i].stream, spans[i].space, end - first);
    if (b % block_tokens != 0) {
      h = mixed(h, &spans[i]);
      begun++;
      if (tail && (i + 1 == n || b == tokens)) {
        put_part(out, &k, begun == 1 ? spans[i].stream : h, begun == 1 ? spans[i].space : DS_SPACE_MIXED, 1);
      }
    }
    a = b;
  }
  *blocks = 0;
  for (uint32_t i = 0; i < k; i++) *blocks += out[i].blocks;
  return k;
}

uint32_t ds_kv_parts_common(const ds_kv_part *a, uint32_t n_a, const ds_kv_part *b, uint32_t n_b) {
  uint32_t common = 0;
  for (uint32_t i = 0; i < n_a && i < n_b; i++) {
    if (a[i].stream != b[i].stream || a[i].space != b[i].space) break;
    common += a[i].blocks < b[i].blocks ? a[i].blocks : b[i].blocks;
    if (a[i].blocks != b[i].blocks) break;
  }
  return common;
}

/* ---- hash ---- */

static uint32_t bucket_of(const ds_kv_pool *p, uint32_t parent, uint32_t space, uint64_t stream) {
  uint64_t h = (stream + parent * 0x9e3779b97f4a7c15u) * 0xbf58476d1ce4e5b9u;
  h = (h ^ (h >> 31) ^ space) * 0x94d049bb133111ebu;
  return (uint32_t)(h >> 33) & (p->n_buckets - 1);
}

static uint32_t child_of(const ds_kv_pool *p, uint32_t parent, uint32_t space, uint64_t stream) {
  if (p->run[parent].children == 0) return DS_KV_NONE; /* the end of most paths */
  uint32_t id = p->bucket[bucket_of(p, parent, space, stream)];
  while (id != DS_KV_NONE) {
    const ds_kv_run *r = &p->run[id];
    if (r->stream == stream && r->parent == parent && r->space == space) return id;
    id = r->hash_next;
  }
  return DS_KV_NONE;
}

static void hash_add(ds_kv_pool *p, uint32_t id) {
  ds_kv_run *r = &p->run[id];
  uint32_t *b = &p->bucket[bucket_of(p, r->parent, r->space, r->stream)];
  r->hash_next = *b;
  *b = id;
}

static void hash_remove(ds_kv_pool *p, uint32_t id) {
  const ds_kv_run *r = &p->run[id];
  uint32_t *at = &p->bucket[bucket_of(p, r->parent, r->space, r->stream)];
  while (*at != id) at = &p->run[*at].hash_next;
  *at = r->hash_next;
}

static ds_status hash_room(ds_kv_pool *p, const ds_alloc *a) {
  if (p->n_shared < p->n_buckets) return DS_OK;
  uint32_t n = p->n_buckets * 4;
  uint32_t *bigger = ds_alloc_zeroed(a, n, sizeof *bigger);
  if (bigger == NULL) return DS_E_NOMEM;
  for (uint32_t i = 0; i < n; i++) bigger[i] = DS_KV_NONE;
  ds_alloc_free(a, p->bucket, p->n_buckets, sizeof *p->bucket);
  p->bucket = bigger;
  p->n_buckets = n;
  for (uint32_t id = 1; id < p->n_runs; id++) {
    if (p->run[id].kind == DS_KV_SHARED) hash_add(p, id);
  }
  return DS_OK;
}

/* ---- free runs in order of eviction ---- */

static uint64_t rank_of(const ds_kv_pool *p, const ds_kv_run *r) {
  if (p->eviction == DS_EVICT_LFU) return (uint64_t)r->uses << USES_SHIFT | (r->seq & ((1ull << USES_SHIFT) - 1));
  return r->seq + (uint64_t)r->blocks - 1; /* fifo: the tail was made last */
}

static ds_status offer(ds_kv_pool *p, uint32_t id, const ds_alloc *a) {
  const ds_kv_run *r = &p->run[id];
  if (p->eviction == DS_EVICT_LRU || r->refs > 0 || r->children > 0) return DS_OK;
  return ds_heap_push(&p->leaves, (ds_heap_item){rank_of(p, r), r->generation, id}, a);
}

/* The heap has room: whatever is pushed while blocks are handed out was in it as part of a longer run, or is the parent
 * of one that was dropped. */
uint32_t ds_kv_victim(ds_kv_pool *p) {
  while (p->leaves.n > 0) {
    ds_heap_item top = p->leaves.item[0];
    const ds_kv_run *r = &p->run[top.id];
    if (r->kind == DS_KV_SHARED && r->generation == top.order && r->refs == 0 && r->children == 0 &&
        rank_of(p, r) == top.key) {
      return top.id;
    }
    ds_heap_pop(&p->leaves);
  }
  return DS_KV_NONE;
}

static const ds_alloc no_alloc = {NULL, NULL};

static void drop(ds_kv_pool *p, uint32_t id) {
  uint32_t parent = p->run[id].parent;
  hash_remove(p, id);
  p->n_shared--;
  p->run[parent].children--;
  ds_kv_entry_drop(p, id);
}

void ds_kv_evict(ds_kv_pool *p, uint32_t id, int64_t n) {
  ds_kv_run *r = &p->run[id];
  DS_ASSERT(r->refs == 0 && r->children == 0 && r->extra == 0 && n <= r->blocks);
  p->shared_free -= n;
  p->stats.evicted += (uint64_t)n;
  if (p->eviction != DS_EVICT_LRU) ds_heap_pop(&p->leaves); /* it was the first */
  r->blocks -= n;
  r->seq += p->eviction == DS_EVICT_FIFO ? 0 : (uint64_t)n;
  if (r->blocks > 0) {
    (void)offer(p, id, &no_alloc);
    return;
  }
  uint32_t parent = r->parent;
  if (p->eviction == DS_EVICT_LRU) ds_kv_queue_remove(p, id);
  drop(p, id);
  if (parent != DS_KV_ROOT) (void)offer(p, parent, &no_alloc);
}

static void leave_queue(ds_kv_pool *p, uint32_t id) {
  if (p->eviction == DS_EVICT_LRU) ds_kv_queue_remove(p, id);
  p->shared_free -= p->run[id].blocks;
}

static ds_status enter_queue(ds_kv_pool *p, uint32_t id, const ds_alloc *a) {
  ds_kv_run *r = &p->run[id];
  p->free_blocks += r->blocks;
  p->shared_free += r->blocks;
  DS_ASSERT(p->free_blocks <= p->total_blocks);
  if (p->eviction != DS_EVICT_FIFO) r->seq = p->released;
  p->released += (uint64_t)r->blocks;
  if (p->eviction != DS_EVICT_LRU) return offer(p, id, a);
  ds_kv_queue_behind(p, id, p->tail);
  return DS_OK;
}

/* ---- the tree ---- */

/* The first `blocks` of a run become a run of their own, in front of the rest, which keeps its name. */
static ds_status split(ds_kv_pool *p, uint32_t id, uint32_t blocks, uint32_t *front, const ds_alloc *a) {
  DS_TRY(hash_room(p, a));
  DS_TRY(ds_kv_entry_new(p, DS_KV_SHARED, blocks, front, a));
  ds_kv_run *r = &p->run[id], *f = &p->run[*front];
  hash_remove(p, id);
  f->parent = r->parent;
  f->stream = r->stream;
  f->space = r->space;
  f->refs = r->refs;
  f->extra = r->extra;
  f->uses = r->uses;
  f->children = 1;
  f->mark = r->mark;
  f->leaving = r->leaving;
  f->claimed = r->claimed < blocks ? r->claimed : blocks;
  r->claimed -= f->claimed;
  r->parent = *front;
  r->blocks -= blocks;
  if (p->eviction == DS_EVICT_FIFO) { /* made front first, freed tail first */
    f->seq = r->seq;
    r->seq += blocks;
  } else {
    f->seq = r->seq + (uint64_t)r->blocks;
  }
  hash_add(p, *front);
  hash_add(p, id);
  p->n_shared++;
  if (r->refs == 0 && p->eviction == DS_EVICT_LRU) ds_kv_queue_behind(p, *front, id);
  return offer(p, id, a); /* its rank has changed when order of making counts */
}

bool ds_kv_walk_next(const ds_kv_pool *p, ds_kv_walk *w, uint32_t *id, uint32_t *match) {
  if (w->i >= w->n || w->at >= w->limit) return false;
  const ds_kv_part *part = &w->part[w->i];
  *id = child_of(p, w->node, part->space, part->stream);
  if (*id == DS_KV_NONE) return false;
  uint32_t left = part->blocks - w->off, room = w->limit - w->at;
  if (left > room) left = room;
  const ds_kv_run *r = &p->run[*id];
  *match = r->blocks < left ? (uint32_t)r->blocks : left;
  w->at += *match;
  w->off += *match;
  w->node = *id;
  if (w->off == part->blocks) {
    w->i++;
    w->off = 0;
  }
  if (*match < r->blocks) w->i = w->n; /* nothing continues the middle of a run */
  return true;
}

static void count_reuse(ds_kv_pool *p, const ds_kv_run *r, uint32_t blocks) {
  uint32_t b = DS_KV_REUSE_BUCKETS - 1;
  if (r->refs == 0) {
    uint64_t d = p->eviction == DS_EVICT_FIFO ? 0 : p->released - r->seq;
    b = d > 0 ? 64 - (uint32_t)__builtin_clzll(d) : 0;
    if (b > DS_KV_REUSE_BUCKETS - 2) b = DS_KV_REUSE_BUCKETS - 2;
  }
  p->stats.reuse[b] += blocks;
  p->stats.found += blocks;
}

ds_status ds_kv_hold(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t blocks, uint32_t *leaf, const ds_alloc *a) {
  ds_kv_walk w = {.part = part, .n = n, .limit = blocks, .node = DS_KV_ROOT};
  uint32_t id, match;
  *leaf = DS_KV_ROOT;
  while (ds_kv_walk_next(p, &w, &id, &match)) {
    if (match < p->run[id].blocks) DS_TRY(split(p, id, match, &id, a));
    ds_kv_run *r = &p->run[id];
    count_reuse(p, r, match);
    if (r->refs == 0) {
      leave_queue(p, id);
      p->free_blocks -= r->blocks;
    }
    r->refs++;
    r->uses++;
    *leaf = id;
  }
  return w.at == blocks ? DS_OK : DS_E_STATE;
}

/* Compute again what is there. */
static ds_status copy(ds_kv_pool *p, uint32_t id, const ds_alloc *a) {
  p->stats.copied += (uint64_t)p->run[id].blocks;
  p->run[id].uses++;
  if (p->run[id].refs++ > 0) {
    p->run[id].extra++;
    return DS_OK;
  }
  uint32_t plain;
  if (p->eviction != DS_EVICT_LRU) {
    leave_queue(p, id);
    p->free_blocks -= p->run[id].blocks;
    return ds_kv_give(p, p->run[id].blocks, a);
  }
  DS_TRY(ds_kv_entry_new(p, DS_KV_PLAIN, p->run[id].blocks, &plain, a));
  ds_kv_queue_behind(p, plain, id);
  leave_queue(p, id);
  return DS_OK;
}

static ds_status grow(ds_kv_pool *p, const ds_kv_part *part, uint32_t blocks, uint32_t *leaf, const ds_alloc *a) {
  ds_kv_run *l = &p->run[*leaf];
  p->stats.made += blocks;
  p->made += blocks;
  if (p->eviction == DS_EVICT_LRU && *leaf != DS_KV_ROOT && l->refs == 1 && l->extra == 0 && l->children == 0 &&
      l->stream == part->stream && l->space == part->space) {
    l->blocks += blocks;
    return DS_OK;
  }
  uint32_t id;
  DS_TRY(hash_room(p, a));
  DS_TRY(ds_kv_entry_new(p, DS_KV_SHARED, blocks, &id, a));
  ds_kv_run *r = &p->run[id];
  r->parent = *leaf;
  r->stream = part->stream;
  r->space = part->space;
  r->refs = r->uses = 1;
  r->seq = p->made - blocks;
  p->run[*leaf].children++;
  hash_add(p, id);
  p->n_shared++;
  *leaf = id;
  return DS_OK;
}

ds_status ds_kv_extend(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t from, uint32_t to, uint32_t *leaf,
                       const ds_alloc *a) {
  uint32_t i = 0, off = from;
  while (i < n && off >= part[i].blocks) off -= part[i++].blocks;
  for (uint32_t at = from; at < to;) {
    DS_ASSERT(i < n);
    uint32_t left = part[i].blocks - off, step = to - at < left ? to - at : left;
    uint32_t id = child_of(p, *leaf, part[i].space, part[i].stream);
    if (id == DS_KV_NONE) {
      DS_TRY(grow(p, &part[i], step, leaf, a));
    } else {
      if (p->run[id].blocks > step) DS_TRY(split(p, id, step, &id, a));
      step = (uint32_t)p->run[id].blocks;
      DS_TRY(copy(p, id, a));
      *leaf = id;
    }
    at += step;
    off += step;
    if (off == part[i].blocks) {
      off = 0;
      i++;
    }
  }
  return DS_OK;
}

/* c, the only run that continues q, is the last of the queue, and q was about to follow it there: one run again. */
static bool rejoin(ds_kv_pool *p, uint32_t c, uint32_t q) {
  ds_kv_run *x = &p->run[c], *y = &p->run[q];
  if (p->eviction != DS_EVICT_LRU || y->children != 1 || x->parent != q || x->refs > 0 || p->tail != c ||
      x->stream != y->stream || x->space != y->space) {
    return false;
  }
  hash_remove(p, c);
  hash_remove(p, q);
  x->blocks += y->blocks;
  x->parent = y->parent;
  p->free_blocks += y->blocks;
  p->shared_free += y->blocks;
  p->released += (uint64_t)y->blocks;
  hash_add(p, c);
  p->n_shared--;
  ds_kv_entry_drop(p, q);
  return true;
}

ds_status ds_kv_release(ds_kv_pool *p, uint32_t leaf, const ds_alloc *a) {
  uint32_t last = DS_KV_NONE;
  for (uint32_t id = leaf, up; id != DS_KV_ROOT; id = up) {
    ds_kv_run *r = &p->run[id];
    up = r->parent;
    DS_ASSERT(r->refs > 0);
    r->refs--;
    if (r->extra > 0) {
      r->extra--;
      DS_TRY(ds_kv_give(p, r->blocks, a));
    } else if (r->refs == 0 && (last == DS_KV_NONE || !rejoin(p, last, id))) {
      DS_TRY(enter_queue(p, id, a));
      last = id;
    }
  }
  return DS_OK;
}

/* ---- what a plan may count on ---- */

void ds_kv_plan(ds_kv_pool *p) { p->plan++; }

static uint32_t claimed(const ds_kv_pool *p, const ds_kv_run *r) { return r->mark == p->plan ? r->claimed : 0; }

static ds_kv_run *marked(ds_kv_pool *p, uint32_t id) {
  ds_kv_run *r = &p->run[id];
  if (r->mark != p->plan) r->claimed = r->leaving = 0;
  r->mark = p->plan;
  return r;
}

static void claim(ds_kv_pool *p, uint32_t id, uint32_t blocks) {
  ds_kv_run *r = marked(p, id);
  if (r->claimed < blocks) r->claimed = blocks;
}

void ds_kv_leave(ds_kv_pool *p, uint32_t leaf) {
  for (uint32_t id = leaf; id != DS_KV_ROOT; id = p->run[id].parent) marked(p, id)->leaving++;
}

int64_t ds_kv_freed(const ds_kv_pool *p, uint32_t leaf) {
  int64_t blocks = 0;
  for (uint32_t id = leaf; id != DS_KV_ROOT; id = p->run[id].parent) {
    const ds_kv_run *r = &p->run[id];
    uint32_t turn = 1 + (r->mark == p->plan ? r->leaving : 0); /* it is the turn-th to go */
    if (turn <= r->extra || turn == r->refs) blocks += r->blocks;
  }
  return blocks;
}

void ds_kv_claim(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t blocks) {
  ds_kv_walk w = {.part = part, .n = n, .limit = blocks, .node = DS_KV_ROOT};
  uint32_t id, match;
  while (ds_kv_walk_next(p, &w, &id, &match)) claim(p, id, match);
}

void ds_kv_claim_own(ds_kv_pool *p, uint64_t run, uint32_t blocks) {
  if (ds_kv_left(p, run) > 0) claim(p, ds_kv_entry(run), blocks);
}

/* Blocks of a free run that are left when `taken` are handed out. In another order than lru a run of the index may go as
 * soon as what no one can find does not suffice: then it is not counted on. */
static int64_t lasting(const ds_kv_pool *p, uint32_t want, int64_t taken) {
  const ds_kv_run *w = &p->run[want];
  if (p->eviction != DS_EVICT_LRU && w->kind == DS_KV_SHARED) {
    return taken <= p->free_blocks - p->shared_free ? w->blocks : claimed(p, w);
  }
  for (uint32_t id = p->head; id != DS_KV_NONE && taken > 0; id = p->run[id].next) {
    int64_t here = p->run[id].blocks - claimed(p, &p->run[id]);
    if (id == want) return p->run[id].blocks - (here < taken ? here : taken);
    taken -= here;
  }
  return w->blocks;
}

uint32_t ds_kv_lasting(ds_kv_pool *p, const ds_kv_part *part, uint32_t n, uint32_t limit, int64_t taken, uint32_t *held) {
  ds_kv_walk w = {.part = part, .n = n, .limit = limit, .node = DS_KV_ROOT};
  uint32_t id, match, blocks = 0;
  *held = 0;
  while (ds_kv_walk_next(p, &w, &id, &match)) {
    const ds_kv_run *r = &p->run[id];
    if (r->refs > 0) {
      *held += match;
    } else {
      if (r->prev != DS_KV_NONE) DS_PREFETCH(&p->run[r->prev]); /* neighbours in the queue, which it is about to leave */
      if (r->next != DS_KV_NONE) DS_PREFETCH(&p->run[r->next]);
      int64_t left = lasting(p, id, taken);
      uint32_t kept = claimed(p, r);
      *held += kept < match ? kept : match;
      if (left < match) return blocks + (uint32_t)left;
    }
    blocks += match;
  }
  return blocks;
}

int64_t ds_kv_lasting_own(ds_kv_pool *p, uint64_t run, int64_t taken) {
  return ds_kv_left(p, run) > 0 ? lasting(p, ds_kv_entry(run), taken) : 0;
}

int64_t ds_kv_shared_in_use(const ds_kv_pool *p) {
  int64_t in_use = 0, in_queue = 0, shared_free = 0;
  for (uint32_t id = 1; p->ordered && id < p->n_runs; id++) {
    const ds_kv_run *r = &p->run[id];
    if (r->kind == DS_KV_UNUSED) continue;
    DS_ASSERT(r->blocks > 0);
    if (r->kind != DS_KV_SHARED) {
      in_queue += r->blocks;
      continue;
    }
    DS_ASSERT(r->refs == 0 || p->run[r->parent].refs >= r->refs || r->parent == DS_KV_ROOT);
    DS_ASSERT(r->extra < r->refs || r->extra == 0);
    if (r->refs > 0) {
      in_use += r->blocks * (1 + (int64_t)r->extra);
    } else {
      in_queue += r->blocks;
      shared_free += r->blocks;
    }
  }
  DS_ASSERT(!p->ordered || (in_queue == p->free_blocks && shared_free == p->shared_free));
  (void)in_queue, (void)shared_free;
  return in_use;
}
