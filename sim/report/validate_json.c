// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdlib.h>

#include "report/json_writer.h"
#include "report/validate_report.h"

static const char *const protocols_blank[] = {"weights", "kv", "lengths", "parallel", "version", "requests", "part"};

static void metric_value(ds_json *j, const char *key, double v) {
  if (v > 0)
    ds_json_number(j, key, v);
  else
    ds_json_null(j, key);
}

static void row(ds_json *j, const ds_measured_run *m, const ds_validated *v) {
  ds_json_object(j, NULL);
  ds_json_text(j, "id", m->text[DS_RUN_ID]);
  ds_json_text(j, "split", m->text[DS_RUN_SPLIT]);
  if (!v->expressed) {
    ds_json_text(j, "not_simulated", v->why);
    ds_json_end_object(j);
    return;
  }
  ds_json_text(j, "hardware", v->hardware);
  ds_json_text(j, "model", v->model);
  ds_json_text(j, "engine", v->engine);
  ds_json_text(j, "load", ds_load_names[v->load]);
  const char stratum[2] = {"ABC"[v->stratum], '\0'};
  ds_json_text(j, "stratum", stratum);
  ds_json_array(j, "filled_in");
  for (unsigned i = 0; i < 7; i++)
    if ((v->blanks >> i & 1u) != 0) ds_json_text(j, NULL, protocols_blank[i]);
  ds_json_end_array(j);
  ds_json_object(j, "predicted");
  for (int i = 0; i < DS_CMP_N; i++) metric_value(j, ds_compared_names[i], v->predicted[i]);
  ds_json_end_object(j);
  ds_json_object(j, "measured");
  for (int i = 0; i < DS_CMP_N; i++) metric_value(j, ds_compared_names[i], v->measured[i]);
  ds_json_end_object(j);
  ds_json_number(j, "queue_share", v->queue_share);
  ds_json_number(j, "host_share", v->host_share);
  ds_json_number(j, "communication_share", v->comm_share);
  ds_json_count(j, "requests", v->requests);
  ds_json_end_object(j);
}

static bool cells(ds_json *j, const ds_validation *x) {
  ds_cell *c;
  size_t n;
  if (!ds_cells_of(x->residuals, NULL, NULL, &c, &n)) return false;
  ds_json_array(j, "cells");
  for (size_t i = 0; i < n; i++) {
    const ds_validated *v = c[i].first->row;
    ds_json_object(j, NULL);
    ds_json_text(j, "metric", ds_compared_names[c[i].first->metric]);
    ds_json_text(j, "hardware", v->hardware);
    ds_json_text(j, "model", v->model);
    ds_json_text(j, "engine", v->engine);
    ds_json_text(j, "load", ds_load_names[v->load]);
    ds_json_count(j, "runs", c[i].stats.n);
    ds_json_number(j, "median_error", c[i].stats.median);
    ds_json_number(j, "p90_error", c[i].stats.p90);
    ds_json_number(j, "signed_median_error", c[i].stats.signed_median);
    ds_json_end_object(j);
  }
  ds_json_end_array(j);
  free(c);
  return true;
}

bool ds_validation_json(ds_outfile *out, const ds_validation *x) {
  ds_json j = {out, 0, false};
  ds_pairs p;
  if (!ds_pairs_of(x->runs, x->v, &p)) return false;
  ds_json_object(&j, NULL);
  ds_json_text(&j, "measured", x->path);
  ds_json_text(&j, "sha256", x->runs->sha256);
  ds_json_object(&j, "pairs");
  ds_json_count(&j, "more_than_10_percent_apart", p.pairs);
  ds_json_count(&j, "in_order", p.ordered);
  ds_json_number(&j, "median_regret", p.regret_median);
  for (int k = 0; k < DS_STRATA; k++) { /* by the less trusted of the two */
    static const char *const names[DS_STRATA] = {"A", "B", "C"};
    ds_json_object(&j, names[k]);
    ds_json_count(&j, "more_than_10_percent_apart", p.pairs_of[k]);
    ds_json_count(&j, "in_order", p.ordered_of[k]);
    ds_json_end_object(&j);
  }
  ds_json_end_object(&j);
  bool ok = cells(&j, x);
  ds_json_array(&j, "runs");
  for (size_t i = 0; i < x->runs->n; i++)
    if (x->wanted[i]) row(&j, &x->runs->run[i], &x->v[i]);
  ds_json_end_array(&j);
  ds_json_end_object(&j);
  ds_out_text(out, "\n");
  return ok;
}
