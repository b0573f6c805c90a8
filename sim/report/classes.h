// SPDX-License-Identifier: GPL-3.0-or-later
/* Results of each of several workloads: the same figures as for all, over its own requests, judged
 * by its own slo. */
#ifndef DS_REPORT_CLASSES_H
#define DS_REPORT_CLASSES_H

#include "report/summary.h"
#include "study/driver.h"

typedef struct ds_class_result {
  const ds_workload *workload;
  ds_summary summary; /* its rates are over the whole run; without ITL, batch, KV and cost */
} ds_class_result;

typedef struct ds_classes {
  ds_class_result *of; /* in the order of the scenario; NULL with one workload */
  size_t n;
  bool slo_met; /* of all */
} ds_classes;

/* Call before the run, like ds_slo_complete, for the limits per request of each class. */
void ds_classes_complete(ds_scenario *sc);
/* False when out of memory. Free it either way. */
bool ds_classes_of(const ds_scenario *sc, const ds_drive *drive, ds_classes *out);
void ds_classes_free(ds_classes *c);

#endif
