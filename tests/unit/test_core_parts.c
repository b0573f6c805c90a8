// SPDX-License-Identifier: GPL-3.0-or-later
/* The small parts that the engine stands on, each against a slow and obvious version of itself. */
#include <criterion/criterion.h>

#include <stdlib.h>
#include <string.h>

#include "base/heap.h"
#include "base/rng.h"
#include "base/wide.h"
#include "engine/wheel.h"
#include "kv/pool.h"
#include "metric/gaps.h"
#include "metric/maxgap.h"
#include "metric/seconds.h"
#include "metric/select.h"

static void *resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque, (void)old_bytes;
  if (new_bytes == 0) {
    free(old);
    return NULL;
  }
  return realloc(old, new_bytes);
}
static const ds_alloc heap_alloc = {resize, NULL};

static ds_rng rng;
static uint32_t below(uint32_t n) { return (uint32_t)ds_rng_below(&rng, n); }

static int by_double(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

/* numpy's default percentile of a sorted array. */
static double linear(const double *sorted, size_t n, double pct) {
  double at = pct / 100.0 * (double)(n - 1);
  size_t k = (size_t)at;
  double next = k + 1 < n ? sorted[k + 1] : sorted[k];
  return sorted[k] + (next - sorted[k]) * (at - (double)k);
}

Test(select, percentiles_are_those_of_the_sorted_column) {
  rng = ds_rng_stream(7, DS_PURPOSE_ORDER, 0);
  for (int round = 0; round < 3000; round++) {
    double x[300], y[300], pct[4] = {0, 50, 95, 99.9}, out[4];
    size_t n = 1 + below(300);
    uint32_t kinds = 1 + below(400);
    double scale = round % 3 == 0 ? 1e-3 : round % 3 == 1 ? 1.0 : 7e11;
    for (size_t i = 0; i < n; i++) x[i] = y[i] = (double)below(kinds) * scale;
    qsort(y, n, sizeof *y, by_double);
    cr_assert(ds_percentiles(x, n, pct, 4, out, &heap_alloc) == DS_OK);
    for (int i = 0; i < 4; i++) cr_assert_eq(out[i], linear(y, n, pct[i]), "round %d: %g", round, out[i]);
  }
}

Test(gaps, percentiles_are_exact_up_to_a_million_and_within_a_bucket_after) {
  ds_gaps exact = {.exact = true}, coarse = {.exact = false};
  exact.bucket = ds_alloc_zeroed(&heap_alloc, DS_GAPS_BUCKETS, sizeof *exact.bucket);
  coarse.bucket = ds_alloc_zeroed(&heap_alloc, DS_GAPS_BUCKETS, sizeof *coarse.bucket);
  static double all[20000];
  size_t n = 0;
  rng = ds_rng_stream(8, DS_PURPOSE_ORDER, 0);
  double sum = 0, sq = 0;
  while (n < 19000) {
    int64_t gap = (int64_t)below(1u << (4 + below(27))) + 1;
    uint32_t count = 1 + below(9);
    ds_gaps_count(&exact, gap, count);
    cr_assert(ds_gaps_push_exact(&exact, gap, count, false, &heap_alloc) == DS_OK);
    ds_gaps_count(&coarse, gap, count);
    for (uint32_t i = 0; i < count; i++) all[n++] = (double)gap;
    sum += (double)gap * count;
    sq += (double)gap * (double)gap * count;
  }
  qsort(all, n, sizeof *all, by_double);
  double pct[] = {0, 10, 50, 90, 99, 100}, a[6], b[6];
  cr_assert(ds_gaps_percentiles(&exact, pct, 6, a, &heap_alloc) == DS_OK);
  cr_assert(ds_gaps_percentiles(&coarse, pct, 6, b, &heap_alloc) == DS_OK);
  for (int i = 0; i < 6; i++) {
    double want = linear(all, n, pct[i]);
    cr_assert_eq(a[i], want);
    cr_assert_leq(b[i] > want ? b[i] - want : want - b[i], want / 256.0 + 0.5, "p%g: %g for %g", pct[i], b[i], want);
  }
  cr_assert_float_eq(ds_gaps_mean_ns(&exact), sum / (double)n, 1e-6);
  double mean = sum / (double)n, std = ds_gaps_std_ns(&exact);
  cr_assert_float_eq(std * std / (sq / (double)n - mean * mean), 1.0, 1e-9);
  /* Beyond a million the list goes, the count stays. */
  ds_gaps_count(&exact, 5, 1000001);
  cr_assert(ds_gaps_push_exact(&exact, 5, 1000001, false, &heap_alloc) == DS_OK);
  cr_assert(!exact.exact && exact.run == NULL && exact.count == n + 1000001);
  free(exact.bucket);
  free(coarse.bucket);
}

Test(gaps, buckets_cover_every_duration_once) {
  for (uint32_t b = 0; b < 7000; b++) {
    cr_assert_eq(ds_gap_bucket(ds_gap_bucket_low(b)), b);
    cr_assert_eq(ds_gap_bucket(ds_gap_bucket_high(b) - 1), b);
    cr_assert_eq(ds_gap_bucket_high(b), ds_gap_bucket_low(b + 1));
    double width = (double)(ds_gap_bucket_high(b) - ds_gap_bucket_low(b));
    cr_assert(b < 128 || width <= (double)ds_gap_bucket_low(b) / 128.0);
  }
}

Test(wide, products_and_sums_are_exact) {
  /* (2^64 - 1)^2 = 2^128 - 2^65 + 1 */
  ds_wide w = ds_wide_mul(UINT64_MAX, UINT64_MAX);
  cr_assert(w.lo == 1 && w.hi == UINT64_MAX - 1);
  ds_wide_add(&w, UINT64_MAX);
  cr_assert(w.lo == 0 && w.hi == UINT64_MAX);
  w = ds_wide_mul(0x123456789abcdefull, 0xfedcba987654321ull);
  cr_assert(w.hi == 0x121fa00ad77d74ull && w.lo == 0x22236d88fe5618cfull);
  cr_assert_float_eq(ds_wide_double(w) / (81985529216486895.0 * 1147797409030816545.0), 1.0, 1e-15);
}

Test(maxgap, is_the_largest_since) {
  rng = ds_rng_stream(9, DS_PURPOSE_ORDER, 0);
  ds_maxgap m = {0};
  static int64_t gap[5000];
  uint64_t oldest = 0; /* nobody asks for what was forgotten */
  for (uint64_t i = 0; i < 5000; i++) {
    gap[i] = 1 + below(1000);
    cr_assert(ds_maxgap_push(&m, i, gap[i], &heap_alloc) == DS_OK);
    uint64_t since = oldest + below((uint32_t)(i - oldest) + 1);
    if (i % 500 == 499) ds_maxgap_forget(&m, oldest = since);
    int64_t want = 0;
    for (uint64_t k = since; k <= i; k++) want = gap[k] > want ? gap[k] : want;
    cr_assert_eq(ds_maxgap_since(&m, since), want);
    cr_assert_eq(ds_maxgap_since(&m, i + 1), 0);
  }
  free(m.e);
}

Test(heap, gives_the_smallest_first_and_ties_in_order) {
  rng = ds_rng_stream(10, DS_PURPOSE_ORDER, 0);
  ds_heap h = {0};
  for (int round = 0; round < 200; round++) {
    uint32_t n = 1 + below(60);
    for (uint32_t i = 0; i < n; i++) cr_assert(ds_heap_push(&h, (ds_heap_item){below(20), i, i}, &heap_alloc) == DS_OK);
    ds_heap_item last = {0, 0, 0};
    for (uint32_t i = 0; i < n; i++) {
      ds_heap_item x = h.item[0];
      cr_assert(i == 0 || last.key < x.key || (last.key == x.key && last.order < x.order));
      last = x;
      ds_heap_pop(&h);
    }
    cr_assert_eq(h.n, 0);
  }
  ds_heap_free(&h, &heap_alloc);
}

Test(wheel, finds_the_next_finish_near_and_far) {
  enum { SLOTS = 64 };
  rng = ds_rng_stream(11, DS_PURPOSE_ORDER, 0);
  static ds_wheel w;
  static ds_wheel_link link[SLOTS];
  uint64_t at[SLOTS] = {0}, now = 0;
  ds_wheel_init(&w);
  for (int step = 0; step < 200000; step++) {
    uint32_t slot = below(SLOTS), kind = below(8);
    if (at[slot] == 0 && kind < 5) {
      at[slot] = now + 1 + below(kind == 0 ? 9000 : kind == 1 ? 1030 : 60);
      ds_wheel_put(&w, link, slot, at[slot], now);
    } else if (at[slot] != 0 && kind == 7) {
      ds_wheel_take(&w, link, slot);
      at[slot] = 0;
    }
    uint64_t want = UINT64_MAX;
    for (int i = 0; i < SLOTS; i++) want = at[i] != 0 && at[i] < want ? at[i] : want;
    bool ask = below(2) == 0; /* with and without leases: the wheel must not depend on being asked */
    if (ask) {
      uint64_t next = ds_wheel_next(&w, link, now);
      cr_assert(next == want || (want > now + DS_WHEEL_SIZE && next <= want && next > now), "step %d", step);
    }
    now++;
    for (uint32_t done; (done = ds_wheel_done(&w, link, now)) != DS_WHEEL_NONE;) {
      cr_assert_eq(at[done], now, "step %d", step);
      ds_wheel_take(&w, link, done);
      at[done] = 0;
    }
    for (int i = 0; i < SLOTS; i++) cr_assert(at[i] == 0 || at[i] > now, "step %d: missed one", step);
  }
}

/* A free queue of single blocks, as the engine it models has it. */
enum { BLOCKS = 40, OWNERS = 6 };
typedef struct naive_queue {
  int owner[BLOCKS + 1], position[BLOCKS + 1]; /* whose block it was, and which of his */
  int n;
} naive_queue;

static void naive_take(naive_queue *q, int n) {
  memmove(q->owner, q->owner + n, (size_t)(q->n - n) * sizeof *q->owner);
  memmove(q->position, q->position + n, (size_t)(q->n - n) * sizeof *q->position);
  q->n -= n;
}

static int naive_left(const naive_queue *q, int owner) { /* leading blocks of his that are still there */
  for (int k = 0;; k++) {
    bool found = false;
    for (int i = 0; i < q->n; i++) found = found || (q->owner[i] == owner && q->position[i] == k);
    if (!found) return k;
  }
}

static void naive_reclaim(naive_queue *q, int owner, int n) {
  int kept = 0;
  for (int i = 0; i < q->n; i++) {
    if (q->owner[i] == owner && q->position[i] < n) continue;
    q->owner[kept] = q->owner[i] == owner ? -1 : q->owner[i];
    q->position[kept++] = q->position[i];
  }
  q->n = kept;
}

Test(kv_pool, runs_keep_the_order_of_single_blocks) {
  rng = ds_rng_stream(12, DS_PURPOSE_ORDER, 0);
  for (int round = 0; round < 300; round++) {
    ds_kv_pool p;
    naive_queue q = {.n = BLOCKS};
    for (int i = 0; i < BLOCKS; i++) q.owner[i] = -1;
    cr_assert(ds_kv_init(&p, BLOCKS, true, DS_EVICT_LRU, &heap_alloc) == DS_OK);
    int held[OWNERS] = {0};
    uint64_t run[OWNERS];
    for (int i = 0; i < OWNERS; i++) run[i] = DS_KV_NO_RUN;
    for (int step = 0; step < 400; step++) {
      int o = (int)below(OWNERS), n = (int)below(9);
      if (held[o] == 0) { /* comes back for what is left, or starts anew, and takes some more */
        int left = (int)ds_kv_left(&p, run[o]);
        cr_assert_eq(left, naive_left(&q, o), "round %d step %d", round, step);
        int back = left > 0 ? (int)below((uint32_t)left + 1) : 0;
        ds_kv_reclaim(&p, run[o], back);
        naive_reclaim(&q, o, back);
        run[o] = DS_KV_NO_RUN;
        if (n > p.free_blocks) n = (int)p.free_blocks;
        ds_kv_take(&p, n);
        naive_take(&q, n);
        held[o] = back + n;
      } else {
        bool owned = below(2) == 0;
        if (owned) cr_assert(ds_kv_give_owned(&p, held[o], &run[o], &heap_alloc) == DS_OK);
        else cr_assert(ds_kv_give(&p, held[o], &heap_alloc) == DS_OK);
        for (int k = held[o] - 1; k >= 0; k--) { /* last block first */
          q.owner[q.n] = owned ? o : -1;
          q.position[q.n++] = k;
        }
        held[o] = 0;
      }
      cr_assert_eq(p.free_blocks, q.n);
    }
    ds_kv_free(&p, &heap_alloc);
  }
}

Test(seconds, pages_come_as_time_reaches_them) {
  ds_seconds s = {.last = -1};
  ds_seconds_at(&s, 5, &heap_alloc)->tokens += 3;
  ds_seconds_at(&s, 100000, &heap_alloc)->arrived += 2;
  cr_assert(ds_seconds_get(&s, 5).tokens == 3 && ds_seconds_get(&s, 100000).arrived == 2);
  cr_assert(ds_seconds_get(&s, 6).tokens == 0 && ds_seconds_get(&s, 50000).tokens == 0 && ds_seconds_get(&s, 1 << 30).tokens == 0);
  cr_assert_eq(s.last, 100000);
  cr_assert(ds_seconds_at(&s, DS_SECONDS_MAX, &heap_alloc) == NULL && s.overflow);
  ds_seconds_free(&s, &heap_alloc);
}
