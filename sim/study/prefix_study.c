// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/prefix_study.h"

#include <stdlib.h>
#include <string.h>

#include "kv/prefix.h"

#define NOBODY UINT32_MAX

typedef struct known_block {
  uint64_t stream;
  uint32_t space, parent, next; /* parent: block before it, NOBODY at the start; next: in the hash */
  uint32_t depth;
} known_block;

struct ds_prefix_study {
  uint32_t block_tokens;
  bool partial;
  ds_prefix_found found;
  known_block *block; /* unique ones */
  size_t n_block, cap_block;
  uint32_t *bucket;
  size_t n_bucket;
  uint32_t *access; /* blocks in the order of prompts */
  size_t n_access, cap_access;
  size_t *row; /* where each prompt begins */
  size_t n_row, cap_row;
  ds_kv_part *part;
  size_t cap_part;
  uint64_t *lru; /* [d]: blocks found by caches of d blocks or more; n_block + 1 entries once closed */
};

static bool grow(void *p, size_t *cap, size_t need, size_t size) {
  void *old;
  memcpy(&old, p, sizeof old);
  if (need <= *cap) return true;
  size_t want = *cap == 0 ? 1024 : *cap;
  while (want < need) {
    if (want > SIZE_MAX / 2 / size) return false;
    want *= 2;
  }
  void *more = realloc(old, want * size);
  if (more == NULL) return false;
  memcpy(p, &more, sizeof more);
  *cap = want;
  return true;
}

bool ds_prefix_study_new(uint32_t block_tokens, bool partial, ds_prefix_study **out) {
  *out = calloc(1, sizeof **out);
  if (*out == NULL) return false;
  (*out)->block_tokens = block_tokens;
  (*out)->partial = partial;
  return true;
}

void ds_prefix_study_free(ds_prefix_study *s) {
  if (s == NULL) return;
  free(s->block);
  free(s->bucket);
  free(s->access);
  free(s->row);
  free(s->part);
  free(s->lru);
  free(s);
}

static size_t hash(uint32_t parent, uint32_t space, uint64_t stream) {
  uint64_t h = (stream ^ ((uint64_t)parent << 32 | space)) * 0x9e3779b97f4a7c15u;
  h = (h ^ (h >> 32)) * 0xd6e8feb86659fd93u;
  return (size_t)(h ^ (h >> 32));
}

static bool rehash(ds_prefix_study *s) {
  size_t n = s->n_bucket == 0 ? 1024 : 4 * s->n_bucket;
  uint32_t *bucket = malloc(n * sizeof *bucket);
  if (bucket == NULL) return false;
  for (size_t i = 0; i < n; i++) bucket[i] = NOBODY;
  for (size_t i = 0; i < s->n_block; i++) {
    known_block *b = &s->block[i];
    uint32_t *at = &bucket[hash(b->parent, b->space, b->stream) & (n - 1)];
    b->next = *at;
    *at = (uint32_t)i;
  }
  free(s->bucket);
  s->bucket = bucket;
  s->n_bucket = n;
  return true;
}

/* The block that continues `parent` like this; *fresh when nobody has had it before. */
static bool block_of(ds_prefix_study *s, uint32_t parent, const ds_kv_part *p, uint32_t depth,
                     uint32_t *id, bool *fresh) {
  if (s->n_block >= s->n_bucket && !rehash(s)) return false;
  uint32_t *at = &s->bucket[hash(parent, p->space, p->stream) & (s->n_bucket - 1)];
  for (*id = *at; *id != NOBODY; *id = s->block[*id].next) {
    const known_block *b = &s->block[*id];
    if (b->parent == parent && b->space == p->space && b->stream == p->stream) return true;
  }
  if (s->n_block >= NOBODY || !grow(&s->block, &s->cap_block, s->n_block + 1, sizeof *s->block))
    return false;
  *id = (uint32_t)s->n_block++;
  s->block[*id] = (known_block){p->stream, p->space, parent, *at, depth};
  *at = *id;
  *fresh = true;
  return true;
}

static bool add_one(ds_prefix_study *s, const ds_request *r) {
  uint32_t blocks, at = 0, hits = 0, before = NOBODY;
  uint64_t tokens = r->input_tokens;
  if (r->span_tokens > 0 && r->span_tokens < tokens) tokens = r->span_tokens;
  s->found.requests++;
  s->found.input_tokens += r->input_tokens;
  if (r->n_spans == 0) return true;
  if (!grow(&s->part, &s->cap_part, 2 * (size_t)r->n_spans, sizeof *s->part)) return false;
  uint32_t n = ds_kv_parts(r->spans, r->n_spans, tokens, s->block_tokens, s->partial, s->part, &blocks);
  if (!grow(&s->row, &s->cap_row, s->n_row + 1, sizeof *s->row) ||
      !grow(&s->access, &s->cap_access, s->n_access + blocks, sizeof *s->access))
    return false;
  s->row[s->n_row++] = s->n_access;
  bool fresh = false;
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < s->part[i].blocks; k++, at++) {
      uint32_t id;
      if (!block_of(s, before, &s->part[i], at, &id, &fresh)) return false;
      hits += !fresh;
      s->access[s->n_access++] = before = id;
    }
  }
  uint64_t found = (uint64_t)hits * s->block_tokens;
  s->found.identified++;
  s->found.blocks += blocks;
  s->found.hit_blocks += hits;
  s->found.hit_tokens += found < r->input_tokens ? found : r->input_tokens;
  s->found.full_hits += blocks > 0 && hits == blocks;
  return true;
}

bool ds_prefix_study_add(ds_prefix_study *s, const ds_request *r, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (!add_one(s, &r[i])) return false;
  s->found.unique = s->n_block;
  return true;
}

static size_t row_end(const ds_prefix_study *s, size_t row) {
  return row + 1 < s->n_row ? s->row[row + 1] : s->n_access;
}

/* ---- LRU: how many blocks were touched since; counted in a tree over the times of touches ---- */

static void count_at(uint32_t *tree, size_t n, size_t i, uint32_t by) {
  for (i++; i <= n; i += i & (~i + 1)) tree[i] += by;
}
static uint64_t count_up_to(const uint32_t *tree, size_t i) { /* touches before time i */
  uint64_t sum = 0;
  for (; i > 0; i -= i & (~i + 1)) sum += tree[i];
  return sum;
}

bool ds_prefix_study_close(ds_prefix_study *s) {
  size_t n = s->n_access, now = 0, alive = 0;
  s->lru = calloc(s->n_block + 2, sizeof *s->lru);
  uint32_t *tree = calloc(n + 2, sizeof *tree);
  size_t *touched = malloc((s->n_block + 1) * sizeof *touched);
  bool good = s->lru != NULL && tree != NULL && touched != NULL;
  for (size_t i = 0; good && i < s->n_block; i++) touched[i] = SIZE_MAX;
  for (size_t row = 0; good && row < s->n_row; row++) {
    for (size_t i = s->row[row]; i < row_end(s, row); i++) {
      size_t at = touched[s->access[i]];
      if (at == SIZE_MAX) break; /* nor is anything behind it known */
      s->lru[alive - count_up_to(tree, at)]++;
    }
    for (size_t i = row_end(s, row); i-- > s->row[row];) {
      size_t *at = &touched[s->access[i]];
      if (*at != SIZE_MAX) count_at(tree, n, *at, UINT32_MAX); /* minus one */
      else alive++;
      *at = now;
      count_at(tree, n, now++, 1);
    }
  }
  for (size_t d = 1; good && d <= s->n_block; d++) s->lru[d] += s->lru[d - 1];
  free(tree);
  free(touched);
  return good;
}

const ds_prefix_found *ds_prefix_study_found(const ds_prefix_study *s) { return &s->found; }

uint64_t ds_prefix_study_lru(const ds_prefix_study *s, uint64_t cache_blocks) {
  return s->lru[cache_blocks < s->n_block ? cache_blocks : s->n_block];
}

/* ---- the bound ---- */

typedef struct need { /* a block by when it is needed next; deeper ones first, which lose nothing else */
  size_t row;
  uint32_t depth, id;
} need;

static bool later(const need *a, const need *b) {
  return a->row != b->row ? a->row > b->row : a->depth > b->depth;
}

static void push(need *h, size_t *n, need x) {
  size_t i = (*n)++;
  for (; i > 0 && later(&x, &h[(i - 1) / 2]); i = (i - 1) / 2) h[i] = h[(i - 1) / 2];
  h[i] = x;
}

static need pop(need *h, size_t *n) {
  need top = h[0], x = h[--*n];
  size_t i = 0;
  for (size_t c; (c = 2 * i + 1) < *n; i = c) {
    if (c + 1 < *n && later(&h[c + 1], &h[c])) c++;
    if (!later(&h[c], &x)) break;
    h[i] = h[c];
  }
  h[i] = x;
  return top;
}

bool ds_prefix_study_bound(const ds_prefix_study *s, uint64_t cache_blocks, uint64_t *hits) {
  size_t *next = malloc((s->n_access + 1) * sizeof *next); /* row that needs an access's block again */
  size_t *due = malloc((s->n_block + 1) * sizeof *due);    /* by block: SIZE_MAX - 1: not kept */
  need *heap = malloc((s->n_access + 1) * sizeof *heap);
  bool good = next != NULL && due != NULL && heap != NULL;
  const size_t absent = SIZE_MAX - 1;
  size_t n = 0, kept = 0;
  *hits = 0;
  for (size_t i = 0; good && i < s->n_block; i++) due[i] = SIZE_MAX;
  for (size_t row = s->n_row; good && row-- > 0;)
    for (size_t i = s->row[row]; i < row_end(s, row); i++) {
      next[i] = due[s->access[i]];
      due[s->access[i]] = row;
    }
  for (size_t i = 0; good && i < s->n_block; i++) due[i] = absent;
  for (size_t row = 0; good && row < s->n_row; row++) {
    bool leading = true;
    for (size_t i = s->row[row]; i < row_end(s, row); i++) {
      uint32_t id = s->access[i];
      leading = leading && due[id] != absent;
      *hits += leading;
      kept += due[id] == absent;
      due[id] = next[i];
      push(heap, &n, (need){next[i], s->block[id].depth, id});
    }
    while (kept > cache_blocks) {
      need x = pop(heap, &n);
      if (due[x.id] != x.row) continue; /* it has been needed since */
      due[x.id] = absent;
      kept--;
    }
  }
  free(next);
  free(due);
  free(heap);
  return good;
}
