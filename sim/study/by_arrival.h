// SPDX-License-Identifier: GPL-3.0-or-later
/* A closed loop decides only during the run when a request arrives: its columns come in order of
 * the requests, and reports want them in order of arrival. */
#ifndef DS_STUDY_BY_ARRIVAL_H
#define DS_STUDY_BY_ARRIVAL_H

#include "study/arrivals.h"

typedef struct ds_by_arrival { /* owns its columns; zero before, free after */
  ds_result result;            /* a copy with columns in order of arrival (equal times: of index) */
  int64_t *time;               /* four columns of n */
  uint32_t *outputs;
  uint64_t *index;    /* of the request in each column */
  ds_record *records; /* as a client sees them (client.h); else NULL */
  uint64_t *bucket;
  ds_gaps no_gaps;
} ds_by_arrival;

/* Order the columns of a complete closed run, and put its arrivals with the lengths of r (one for
 * each request) into *a, which must be empty. False when out of memory. */
bool ds_by_arrival_of(const ds_result *from, const ds_request *r, ds_by_arrival *out,
                      ds_arrivals *a);
void ds_by_arrival_free(ds_by_arrival *b);

#endif
