// SPDX-License-Identifier: GPL-3.0-or-later
/* What a client sees of a run: a round trip later, and nothing before the end when it does not
 * stream. */
#ifndef DS_STUDY_CLIENT_H
#define DS_STUDY_CLIENT_H

#include "io/scenario.h"
#include "study/by_arrival.h"

static inline bool ds_client_plain(const ds_workload *w) { return !w->no_stream && w->rtt_ns == 0; }

/* When the server's clients give up, as the server sees it. */
ds_patience ds_client_patience(const ds_workload *w);

/* Limits at the server that stand for these at the client: the engine counts who is good. */
void ds_client_limits(const ds_workload *w, ds_slo_request *q);
/* Make a result the client's: times are from sending to receiving, each request's round trip is
 * blamed on `client`. *view is a copy when it is empty, else changed in place. False when out of
 * memory. */
bool ds_client_view(const ds_workload *w, const ds_result *from, ds_by_arrival *view);

#endif
