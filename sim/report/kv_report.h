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

ds_cache_summary ds_cache_summary_of(const ds_report *r);
/* One line for people; empty where there is nothing to tell. */
void ds_cache_line(const ds_report *r, char *text, size_t cap);
void ds_json_cache(ds_json *j, const ds_report *r);

#endif
