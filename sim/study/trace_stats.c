// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/trace_stats.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "io/trace_hold.h"
#include "io/trace_rows.h"
#include "study/driver.h"

#define CHUNK 1024

const uint64_t ds_trace_lru_blocks[DS_TRACE_LRU] = {1000, 3000, 10000, 30000, 50000, 100000};

/* ---- blocks ---- */

typedef struct lru {     /* a list over the numbers of blocks; NONE ends it */
  uint32_t *next, *prev; /* next: towards the cold end */
  unsigned char *in;
  uint32_t hot, cold;
  uint64_t n, capacity;
} lru;
#define NONE UINT32_MAX

typedef struct blocks {
  uint64_t *id; /* open addressing: id, and its number */
  uint32_t *number;
  size_t room, n, cap; /* cap: of the arrays by number */
  lru lru[DS_TRACE_LRU];
  uint32_t *row; /* numbers of the request at hand */
  size_t row_room;
} blocks;

static bool grow_table(blocks *b) {
  size_t room = b->room == 0 ? 4096 : 2 * b->room;
  uint64_t *id = malloc(room * sizeof *id);
  uint32_t *number = malloc(room * sizeof *number);
  if (id == NULL || number == NULL) {
    free(id);
    free(number);
    return false;
  }
  for (size_t i = 0; i < room; i++) number[i] = NONE;
  for (size_t i = 0; i < b->room; i++) {
    if (b->number[i] == NONE) continue;
    size_t k = (size_t)ds_mix64(b->id[i]) & (room - 1);
    while (number[k] != NONE) k = (k + 1) & (room - 1);
    id[k] = b->id[i];
    number[k] = b->number[i];
  }
  free(b->id);
  free(b->number);
  b->id = id;
  b->number = number;
  b->room = room;
  return true;
}

static bool grow_lists(blocks *b) {
  if (b->n < b->cap) return true;
  size_t cap = b->cap == 0 ? 4096 : 2 * b->cap;
  for (int i = 0; i < DS_TRACE_LRU; i++) {
    lru *l = &b->lru[i];
    uint32_t *next = realloc(l->next, cap * sizeof *next);
    if (next != NULL) l->next = next;
    uint32_t *prev = realloc(l->prev, cap * sizeof *prev);
    if (prev != NULL) l->prev = prev;
    unsigned char *in = realloc(l->in, cap);
    if (in != NULL) l->in = in;
    if (next == NULL || prev == NULL || in == NULL) return false;
    memset(in + b->cap, 0, cap - b->cap);
  }
  b->cap = cap;
  return true;
}

/* Number of a block; *fresh: it was not seen before. */
static bool number_of(blocks *b, uint64_t id, uint32_t *number, bool *fresh) {
  if (b->n * 2 >= b->room && !grow_table(b)) return false;
  size_t k = (size_t)ds_mix64(id) & (b->room - 1);
  while (b->number[k] != NONE && b->id[k] != id) k = (k + 1) & (b->room - 1);
  *fresh = b->number[k] == NONE;
  if (*fresh) {
    if (!grow_lists(b)) return false;
    b->id[k] = id;
    b->number[k] = (uint32_t)b->n++;
  }
  *number = b->number[k];
  return true;
}

static void unlink_block(lru *l, uint32_t x) {
  if (l->prev[x] != NONE)
    l->next[l->prev[x]] = l->next[x];
  else
    l->hot = l->next[x];
  if (l->next[x] != NONE)
    l->prev[l->next[x]] = l->prev[x];
  else
    l->cold = l->prev[x];
  l->in[x] = 0;
  l->n--;
}

static void touch(lru *l, uint32_t x) {
  if (l->in[x]) unlink_block(l, x);
  l->prev[x] = NONE;
  l->next[x] = l->hot;
  if (l->hot != NONE)
    l->prev[l->hot] = x;
  else
    l->cold = x;
  l->hot = x;
  l->in[x] = 1;
  l->n++;
}

/* The leading run that is there; then all blocks are touched from the last to the first, so that
 * the head is warmest, and what is too much goes from the cold end. */
static uint64_t lru_pass(lru *l, const uint32_t *row, size_t n_prompt, size_t n) {
  uint64_t run = 0;
  while (run < n_prompt && l->in[row[run]]) run++;
  for (size_t i = n; i-- > 0;) touch(l, row[i]);
  while (l->n > l->capacity) unlink_block(l, l->cold);
  return run;
}

static bool add_blocks(blocks *b, const ds_more *m, uint32_t input, ds_trace_stats *s) {
  size_t n = (size_t)m->n_blocks;
  /* Blocks behind the prompt are of its output: there for others, but not looked for. */
  size_t n_prompt = (input + m->block_tokens - 1) / m->block_tokens;
  if (n_prompt > n) n_prompt = n;
  if (n > b->row_room) {
    uint32_t *row = realloc(b->row, 2 * n * sizeof *row);
    if (row == NULL) return false;
    b->row = row;
    b->row_room = 2 * n;
  }
  uint64_t run = 0;
  bool leading = true;
  for (size_t i = 0; i < n; i++) {
    bool fresh;
    if (!number_of(b, m->blocks[i] + m->scope, &b->row[i], &fresh)) return false;
    leading = leading && !fresh && i < n_prompt;
    run += leading;
  }
  uint64_t tokens = run * m->block_tokens < input ? run * m->block_tokens : input;
  s->blocks += n_prompt;
  s->hit_blocks += run;
  s->hit_tokens += tokens;
  s->full_hits += n_prompt > 0 && run == n_prompt;
  s->block_input += input;
  for (int i = 0; i < DS_TRACE_LRU; i++)
    s->lru_hits[i] += lru_pass(&b->lru[i], b->row, n_prompt, n);
  uint64_t whole = n * m->block_tokens < input ? n * m->block_tokens : input;
  for (size_t i = 0; i < s->n_sizes; i++) {
    s->size[i].blocks += whole / s->size[i].tokens;
    s->size[i].hits += tokens / s->size[i].tokens;
  }
  return true;
}

static void blocks_free(blocks *b) {
  free(b->id);
  free(b->number);
  free(b->row);
  for (int i = 0; i < DS_TRACE_LRU; i++) {
    free(b->lru[i].next);
    free(b->lru[i].prev);
    free(b->lru[i].in);
  }
}

static void sizes_of(ds_trace_stats *s) {
  for (uint32_t size = 2 * s->block_tokens; s->n_sizes < DS_TRACE_SIZES && size <= 2048;
       size *= 2) {
    s->size[s->n_sizes++].tokens = size;
  }
}

/* ---- columns ---- */

typedef struct columns {
  int64_t *at_ns;
  double *input, *output;
  size_t n, room;
} columns;

static bool put(columns *c, const ds_request *r) {
  if (c->n == c->room) {
    size_t room = c->room == 0 ? 4096 : 2 * c->room;
    int64_t *at = realloc(c->at_ns, room * sizeof *at);
    if (at != NULL) c->at_ns = at;
    double *in = realloc(c->input, room * sizeof *in);
    if (in != NULL) c->input = in;
    double *out = realloc(c->output, room * sizeof *out);
    if (out != NULL) c->output = out;
    if (at == NULL || in == NULL || out == NULL) return false;
    c->room = room;
  }
  c->at_ns[c->n] = r->arrival_ns;
  c->input[c->n] = r->input_tokens;
  c->output[c->n++] = r->output_tokens;
  return true;
}

static bool lengths(const double *x, size_t n, ds_length_stats *l) {
  static const double pct[5] = {50, 90, 95, 99, 100};
  l->stats = ds_stats_of(x, n);
  for (size_t i = 0; i < n; i++) {
    l->sum += (uint64_t)x[i];
    l->at_max += x[i] >= l->stats.max;
  }
  return ds_percentiles(x, n, pct, 5, l->pct, &ds_heap) == DS_OK;
}

static double dispersion(const columns *c, int64_t bin_ns) {
  int64_t first = c->at_ns[0], bins = (c->at_ns[c->n - 1] - first) / bin_ns, bin = 0;
  double sum2 = 0, count = 0, n = 0; /* whole bins only */
  if (bins < 3) return 0;
  for (size_t i = 0; i < c->n; i++) {
    int64_t b = (c->at_ns[i] - first) / bin_ns;
    if (b >= bins) break;
    n += 1;
    if (b != bin) {
      sum2 += count * count;
      count = 0;
      bin = b;
    }
    count += 1;
  }
  sum2 += count * count;
  double mean = n / (double)bins;
  return (sum2 / (double)bins - mean * mean) / mean;
}

static int by_value(const void *a, const void *b) {
  int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
  return x < y ? -1 : x > y;
}

static bool times(const columns *c, ds_trace_stats *s) {
  s->first_ns = c->at_ns[0];
  s->last_ns = c->at_ns[c->n - 1];
  s->ticks = 1;
  if (c->n < 2) return true;
  int64_t *gap = malloc(c->n * sizeof *gap);
  if (gap == NULL) return false;
  size_t k = 0;
  double sum = 0, sum2 = 0;
  s->min_gap_ns = INT64_MAX;
  uint64_t in_second = 1;
  for (size_t i = 1; i < c->n; i++) {
    int64_t g = c->at_ns[i] - c->at_ns[i - 1];
    double x = (double)g;
    sum += x;
    sum2 += x * x;
    if (g < s->min_gap_ns) s->min_gap_ns = g;
    if (g > s->max_gap_ns) s->max_gap_ns = g;
    if (g > 0) gap[k++] = g;
    bool same =
        (c->at_ns[i] - s->first_ns) / DS_NS_PER_S == (c->at_ns[i - 1] - s->first_ns) / DS_NS_PER_S;
    in_second = same ? in_second + 1 : 1;
    if (in_second > s->peak_per_s) s->peak_per_s = in_second;
  }
  double n = (double)(c->n - 1), mean = sum / n, variance = sum2 / n - mean * mean;
  if (mean > 0 && variance > 0) s->gap_cv = ds_sqrt(variance) / mean;
  s->ticks = k + 1;
  s->ties = c->n - 1 - k;
  if (k > 0) {
    qsort(gap, k, sizeof *gap, by_value);
    s->tick_ns = gap[k / 2];
  }
  free(gap);
  static const int64_t bins[3] = {1, 10, 60};
  for (int i = 0; i < 3; i++) s->dispersion[i] = dispersion(c, bins[i] * DS_NS_PER_S);
  return true;
}

/* ---- rows ---- */

typedef struct work {
  columns c;
  blocks b;
  ds_sessions sessions, names;
  ds_seen seen;
  ds_arena kept; /* the blocks of each session's last turn */
  ds_request r[CHUNK];
  const ds_more *more[CHUNK];
  bool mixed; /* blocks of several sizes */
} work;

/* Whether a turn's blocks begin with those of the turn before; its own are kept for the next. */
static bool follow(work *w, const ds_more *m, ds_trace_stats *s) {
  ds_session_state *t = ds_sessions_of(&w->sessions, m->session);
  if (t == NULL) return false;
  s->sessions += t->rows == 0;
  s->in_sessions++;
  if (++t->rows > s->max_turns) s->max_turns = t->rows;
  if (m->n_blocks == 0) return true;
  if (t->rows > 1 && t->n_blocks > 0) {
    uint64_t n = t->n_blocks < m->n_blocks ? t->n_blocks : m->n_blocks, same = 0;
    while (same < n && t->blocks[same] == m->blocks[same]) same++;
    s->broken += same + 1 < t->n_blocks; /* a partial last block may change */
  }
  /* In place where it fits: a growing session costs the sum of its growth, not of its turns. */
  size_t n = (size_t)m->n_blocks;
  if (t->n_blocks < m->n_blocks || t->blocks == NULL) {
    uint64_t *copy = ds_arena_take(&w->kept, n * 2 * sizeof *copy);
    if (copy == NULL) return false;
    memcpy(copy, m->blocks, n * sizeof *copy);
    t->blocks = copy;
  } else {
    memcpy((uint64_t *)(uintptr_t)t->blocks, m->blocks, n * sizeof(uint64_t));
  }
  t->n_blocks = n;
  return true;
}

/* A named prefix is there as far as an earlier request had it. */
static bool name(work *w, const ds_request *r, const ds_more *m, ds_trace_stats *s) {
  ds_session_state *t = ds_sessions_of(&w->names, m->prefix);
  if (t == NULL) return false;
  uint64_t known = t->rows++ > 0 ? t->input_tokens : 0;
  uint64_t own = m->prefix_tokens, hit = known < own ? known : own;
  s->named_hits += hit < r->input_tokens ? hit : r->input_tokens;
  s->named_input += r->input_tokens;
  if (own > known) t->input_tokens = own;
  return true;
}

static bool add(work *w, const ds_request *r, const ds_more *m, ds_trace_stats *s) {
  bool fresh;
  uint64_t h =
      ds_mix64((uint64_t)r->arrival_ns) ^ ((uint64_t)r->input_tokens << 32 | r->output_tokens);
  if (m != NULL && m->n_blocks > 0) h = ds_mix64(h) ^ (m->blocks[m->n_blocks - 1] + m->scope);
  if (m != NULL && m->session != NULL) h = ds_mix64(h) ^ ds_hash_text(m->session);
  if (!put(&w->c, r) || !ds_seen_add(&w->seen, ds_mix64(h), &fresh)) return false;
  s->copies += !fresh;
  uint64_t context = (uint64_t)r->input_tokens + r->output_tokens;
  if (context > s->max_context) s->max_context = context;
  s->with_priority += r->priority != 0;
  s->with_cap += r->max_tokens > r->output_tokens;
  s->with_images += r->images > 0;
  s->images += r->images;
  s->image_tokens += r->image_tokens;
  if (m == NULL) return true;
  s->with_prefix += m->prefix != NULL;
  if (m->prefix != NULL && m->n_blocks == 0 && !name(w, r, m, s)) return false;
  s->with_class += m->class_name != NULL;
  s->with_blocks += m->n_blocks > 0;
  if (m->session != NULL && !follow(w, m, s)) return false;
  if (m->n_blocks == 0) return true;
  if (s->block_tokens == 0 && !w->mixed) {
    s->block_tokens = m->block_tokens;
    sizes_of(s);
  }
  if (m->block_tokens != s->block_tokens) {
    w->mixed = true;
    s->block_tokens = 0;
  }
  return w->mixed || add_blocks(&w->b, m, r->input_tokens, s);
}

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

static bool collect(ds_trace *t, work *w, ds_trace_stats *s, ds_diag *d) {
  for (;;) {
    size_t n;
    if (!ds_trace_read_more(t, w->r, w->more, CHUNK, &n, d)) return false;
    if (n == 0) break;
    for (size_t i = 0; i < n; i++)
      if (!add(w, &w->r[i], w->more[i], s)) return out_of_memory(d);
  }
  s->n = w->c.n;
  s->unique_blocks = w->b.n;
  s->report = *ds_trace_report_of(t);
  if (s->n == 0) return true;
  return (lengths(w->c.input, w->c.n, &s->input) && lengths(w->c.output, w->c.n, &s->output) &&
          times(&w->c, s)) ||
         out_of_memory(d);
}

bool ds_trace_stats_of(ds_trace *t, ds_trace_stats *out, ds_diag *d) {
  memset(out, 0, sizeof *out);
  work *w = calloc(1, sizeof *w);
  if (w == NULL) return out_of_memory(d);
  for (int i = 0; i < DS_TRACE_LRU; i++) {
    w->b.lru[i].hot = w->b.lru[i].cold = NONE;
    w->b.lru[i].capacity = ds_trace_lru_blocks[i];
  }
  bool good = collect(t, w, out, d);
  free(w->c.at_ns);
  free(w->c.input);
  free(w->c.output);
  blocks_free(&w->b);
  ds_sessions_free(&w->sessions);
  ds_sessions_free(&w->names);
  ds_seen_free(&w->seen);
  ds_arena_free(&w->kept);
  free(w);
  return good;
}
