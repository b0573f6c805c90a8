// SPDX-License-Identifier: GPL-3.0-or-later
/* What a trace is like, in numbers: counts, rates, how bursty, lengths, prefix reuse, oddities. */
#ifndef DS_STUDY_TRACE_STATS_H
#define DS_STUDY_TRACE_STATS_H

#include "io/trace.h"
#include "metric/select.h"

#define DS_TRACE_LRU 6
extern const uint64_t ds_trace_lru_blocks[DS_TRACE_LRU];
#define DS_TRACE_SIZES 8

typedef struct ds_length_stats {
  uint64_t sum;
  ds_stats stats;
  double pct[5];   /* 50, 90, 95, 99, 100 */
  uint64_t at_max; /* how many have the largest value */
} ds_length_stats;

typedef struct ds_trace_stats {
  ds_trace_report report;
  uint64_t n;
  int64_t first_ns, last_ns; /* offsets, after import */
  ds_length_stats input, output;
  double gap_cv;        /* of the times between arrivals; 0 for fewer than three */
  double dispersion[3]; /* variance / mean of the arrivals in 1, 10 and 60 s; 0: too short */
  int64_t min_gap_ns, max_gap_ns;
  uint64_t ties, ticks; /* arrivals equal to the one before; different times */
  int64_t tick_ns;      /* median gap between different times */
  uint64_t peak_per_s, copies;
  uint64_t max_context;
  uint64_t sessions, in_sessions, max_turns,
      broken; /* broken: turns whose blocks do not extend the one before */
  uint64_t with_blocks, with_prefix, with_class, with_priority, with_cap, with_images;
  uint64_t images, image_tokens; /* tokens: 0 where the trace says only how many images there are */
  /* Prefix reuse with a cache that holds everything at once; counts in blocks of block_tokens */
  uint32_t block_tokens; /* 0: no blocks, or of several sizes */
  uint64_t blocks, unique_blocks, hit_blocks, hit_tokens, full_hits, block_input;
  uint64_t named_hits,
      named_input; /* prompt tokens under a name that was there before, of so many */
  uint64_t lru_hits[DS_TRACE_LRU];
  struct {
    uint32_t tokens;
    uint64_t blocks, hits;
  } size[DS_TRACE_SIZES]; /* coarser blocks */
  size_t n_sizes;
} ds_trace_stats;

/* Read the whole trace. False with *d filled. */
bool ds_trace_stats_of(ds_trace *t, ds_trace_stats *out, ds_diag *d);

#endif
