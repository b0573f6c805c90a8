// SPDX-License-Identifier: GPL-3.0-or-later
/* The table of trace formats: what can be named, what says so in a file, who reads it. A format is
 * added by a line here and a reader. */
#ifndef DS_IO_TRACE_FORMATS_H
#define DS_IO_TRACE_FORMATS_H

#include "io/trace_source.h"

typedef struct ds_trace_reader {
  const char *name;
  const char *medium;  /* CSV | JSONL | JSON */
  const char *summary; /* columns, and where it comes from */
  ds_source_open open;
  bool takes_size, takes_tail; /* import.block_tokens and block_tail mean something there */
} ds_trace_reader;

extern const ds_trace_reader ds_trace_readers[];
extern const size_t ds_n_trace_readers;
const ds_trace_reader *ds_trace_reader_named(const char *name); /* NULL: none */

bool ds_mooncake_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_bailian_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_llmservingsim_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_ragpulse_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_weka_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_litellm_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_otel_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_dynamo_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_bench_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_burstgpt_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_vidur_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_splitwise_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_tracev2_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_servegen_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_map_csv_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);
bool ds_map_jsonl_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);

#endif
