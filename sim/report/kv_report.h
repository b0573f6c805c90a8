// SPDX-License-Identifier: GPL-3.0-or-later
/* What the KV cache did: hits of the prefix cache, evictions, reuse, and how much of the memory that
 * was reserved held tokens. */
#ifndef DS_REPORT_KV_REPORT_H
#define DS_REPORT_KV_REPORT_H

#include "report/json_writer.h"
#include "report/report.h"

typedef struct ds_cache_summary {
  bool known; /* there is a prefix cache, and something was asked of it */
  double tokens_frac, blocks_frac, requests_frac; /* of prompts when first admitted: found */
  ds_cache_totals t;                              /* over all replicas */
  double reuse_p50_blocks, reuse_p90_blocks;      /* upper ends of buckets; 0: in use, or nothing */
  bool waste_known;
  double reserved_blocks; /* in use, mean over busy time, a replica */
  double tokens;          /* with KV of running requests, mean over busy time, a replica */
  double token_frac;      /* tokens over the slots of the reserved blocks; above 1: shared */
} ds_cache_summary;

/* KV in use over time, from readings at every full second: shares of all blocks of all replicas. */
typedef struct ds_kv_series {
  size_t n;       /* points; 0: nothing was read, or KV is unlimited */
  double point_s; /* seconds of each but for the last, which may be shorter */
  double used_frac[DS_OCCUPANCY_POINTS];   /* mean of the readings */
  double token_frac[DS_OCCUPANCY_POINTS];  /* the part of it that holds tokens; above used_frac: shared */
  double most_frac[DS_OCCUPANCY_POINTS];   /* of one replica's blocks, the highest reading */
  double used_mean, token_mean;            /* over all readings */
} ds_kv_series;

void ds_kv_series_of(const ds_report *r, ds_kv_series *out);
/* Two lines for people; empty where there is nothing to tell. */
void ds_kv_series_line(const ds_report *r, char *text, size_t cap);

ds_cache_summary ds_cache_summary_of(const ds_report *r);
/* One line for people; empty where there is nothing to tell. */
void ds_cache_line(const ds_report *r, char *text, size_t cap);
void ds_json_cache(ds_json *j, const ds_report *r);

#endif
