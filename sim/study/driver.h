// SPDX-License-Identifier: GPL-3.0-or-later
/* One run from start to end: opens the workload, feeds it to the simulation in chunks, steps, shows
 * progress. */
#ifndef DS_STUDY_DRIVER_H
#define DS_STUDY_DRIVER_H

#include "io/trace.h"
#include "study/arrivals.h"
#include "study/by_arrival.h"
#include "study/merged.h"
#include "study/oversize.h"
#include "study/warmup.h"

/* The program's allocator for the core: malloc, realloc and free. */
extern const ds_alloc ds_heap;

typedef struct ds_drive ds_drive;

typedef struct ds_drive_options {
  ds_sim_options sim;
  size_t keep_first; /* copies of so many requests from the start, for re-runs at other rates */
  bool progress;     /* a line on standard error after half a second */
  void (*on_step)(void *user, const ds_step *step,
                  const ds_drive *drive); /* with sim.steps: every iteration, in order */
  void *user;
} ds_drive_options;

struct ds_drive { /* zero it before the first use; free it whatever happened */
  ds_sim *sim;
  ds_trace *trace; /* open until freed: it knows the ids; NULL for requests given as an array */
  ds_merged *merged; /* of several workloads; else NULL */
  const ds_result *result; /* columns in order of arrival, also of a closed loop */
  ds_arrivals arrivals;
  ds_request *first;
  ds_span_room first_spans; /* what these requests' tokens are */
  size_t n_first;
  ds_oversize oversize; /* what was turned away or cut short before the engine */
  ds_by_arrival ordered; /* of a closed loop */
  ds_warmup warmup; /* what has been left out of result and arrivals */
  char number[24];       /* scratch of ds_drive_id */
};

/* False with *d filled: bad input names file and line. */
bool ds_drive_run(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *out, ds_diag *d);

/* The same with these requests instead of the scenario's workload (whose import rule for oversize
 * ones holds). opt->sim.closed_loop: they may follow one another, and opt->sim.concurrency caps how
 * many are in flight; else they must be in order of arrival. r is not changed. */
bool ds_drive_requests(const ds_scenario *sc, const ds_drive_options *opt, const ds_request *r,
                       size_t n, ds_drive *out, ds_diag *d);
void ds_drive_free(ds_drive *drive);

/* The id of the k-th request that the engine saw, as the trace has it. Valid until the next call.
 */
const char *ds_drive_id(ds_drive *drive, uint64_t k);

/* Which of several workloads the request in column i of the result is of; 0 when there is one. */
size_t ds_drive_stream(const ds_drive *drive, size_t i);

/* Run these requests, arrival offsets from the first multiplied by stretch. The result is valid
 * until *sim is freed. */
bool ds_drive_again(const ds_scenario *sc, const ds_request *r, size_t n, double stretch,
                    ds_sim **sim, ds_diag *d);

#endif
