// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/generator_laws.h"

#include <string.h>

#include "io/trace_source.h"

_Static_assert(DS_LENGTH_MAX <= DS_TOKENS_MAX,
               "a generated request must be one that a trace may hold");
_Static_assert(DS_CHAIN_STATES <= DS_STATES_MAX && DS_CHAINS_MAX <= DS_MODULATORS_MAX,
               "a scenario's chains must fit a process");

static bool too_large(const char *key, const char *what, double x, ds_diag *d) {
  ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate.%s.%s: %g tokens", key, what, x);
  ds_diag_expected(d, strcmp(what, "mean") == 0 ? "at most %d" : "1 to %d", DS_LENGTH_MAX);
  return false;
}

static bool lognormal(const ds_length_law *law, const char *key, ds_length *out, ds_diag *d) {
  bool by_p99 = law->p99 > 0.0;
  double value = by_p99 ? law->p99 : law->median;
  switch (ds_length_lognormal(law->mean, by_p99 ? 0.99 : 0.5, value, law->min, law->max, out)) {
  case DS_FIT_OK:
    return law->mean <= DS_LENGTH_MAX || too_large(key, "mean", law->mean, d);
  case DS_FIT_SHAPE:
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                "workload.generate.%s: no lognormal has mean %g and %s %g", key, law->mean,
                by_p99 ? "p99" : "median", value);
    ds_diag_expected(d, by_p99 ? "a p99 from the mean to 14.9 times the mean"
                               : "a median of at most the mean");
    return false;
  case DS_FIT_LIMITS:
    break;
  }
  ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
              "workload.generate.%s: no such lognormal has mean %g between min %g and max %g", key,
              law->mean, law->min, law->max);
  ds_diag_expected(d, "limits well around the mean");
  return false;
}

static bool one_of(const ds_length_law *law, const char *key, ds_length *out, ds_diag *d) {
  switch (law->law) {
  case DS_LAW_FIXED:
    *out = ds_length_fixed(law->value);
    return (law->value >= 1.0 && law->value <= DS_LENGTH_MAX) ||
           too_large(key, "value", law->value, d);
  case DS_LAW_LOGNORMAL:
    return lognormal(law, key, out, d);
  case DS_LAW_UNIFORM:
    *out = ds_length_uniform(law->min, law->max);
    return true;
  case DS_LAW_NORMAL:
    if (ds_length_normal(law->mean, law->sd, law->min, law->max, law->clamp, out)) return true;
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                "workload.generate.%s: no normal law with sd %g has mean %g within its limits "
                "(at least 1)",
                key, law->sd, law->mean);
    ds_diag_expected(d, "a smaller sd, or limits well around the mean");
    return false;
  case DS_LAW_NORMAL_TOOL:
    *out = ds_length_normal_tool(law->mean, law->sd);
    return true;
  case DS_LAW_EXPONENTIAL:
    *out = ds_length_exponential(law->mean);
    return law->mean > 1.001 || too_large(key, "mean of an exponential law", law->mean, d);
  case DS_LAW_ZIPF:
    *out = ds_length_zipf(law->theta, law->min, law->max);
    return true;
  case DS_LAW_EMPIRICAL:
    *out = ds_length_table(law->table->q, law->table->n_q, law->mean);
    return true;
  case DS_LAW_MIXTURE:
  case DS_LAW_N:
    break;
  }
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "workload.generate.%s has no law", key);
}

bool ds_sampler_of(const ds_length_law *law, const char *key, ds_sampler *out, ds_diag *d) {
  if (law->law != DS_LAW_MIXTURE) return one_of(law, key, &out->law, d);
  const ds_law_table *t = law->table;
  for (size_t i = 0; i < t->n_part; i++) {
    char part[96];
    snprintf(part, sizeof part, "%.60s.parts.%zu", key, i);
    if (!one_of(&t->part[i], part, &out->part[i], d)) return false;
  }
  out->law = ds_length_mixture(out->part, t->weight, t->n_part);
  return true;
}

/* --- arrivals ------------------------------------------------------------------------------ */

static ds_process_kind kind_of(const ds_workload *w) {
  switch (w->process) {
  case DS_ARRIVAL_POISSON:
    return w->arrival.exact ? DS_PROCESS_RENEWAL : DS_PROCESS_POISSON;
  case DS_ARRIVAL_CONSTANT:
    return DS_PROCESS_CONSTANT;
  case DS_ARRIVAL_GAMMA:
  case DS_ARRIVAL_WEIBULL:
    return DS_PROCESS_RENEWAL;
  case DS_ARRIVAL_RAMP:
    return w->arrival.by_request ? DS_PROCESS_INDEXED : DS_PROCESS_PIECES;
  case DS_ARRIVAL_STEPS:
  case DS_ARRIVAL_SPIKE:
  case DS_ARRIVAL_DIURNAL:
    return DS_PROCESS_PIECES;
  case DS_ARRIVAL_MMPP:
  case DS_ARRIVAL_ONOFF:
    return DS_PROCESS_MODULATED;
  case DS_ARRIVAL_BURST:
  case DS_ARRIVAL_CLOSED:
  case DS_ARRIVAL_USERS:
  case DS_ARRIVAL_N:
    break;
  }
  return DS_PROCESS_BURST;
}

/* What scales N gaps so that the last arrival is at N / rate. */
static double exact_scale(const ds_process *p, uint64_t n) {
  double sum = 0.0;
  for (uint64_t i = 0; i < n; i++) sum += ds_gap_draw(p->gap, p->shape, p->seed, i);
  return sum > 0.0 ? (double)n / sum : 1.0;
}

void ds_arrival_maker_of(const ds_workload *w, uint64_t seed, ds_arrival_maker *out) {
  const ds_arrival_detail *a = &w->arrival;
  memset(out, 0, sizeof *out);
  for (size_t i = 0; i < a->n_span; i++)
    out->piece[i] = (ds_rate_piece){.length_s = a->span[i].length_s,
                                    .from_per_s = a->span[i].from_per_s,
                                    .to_per_s = a->span[i].to_per_s,
                                    .exponential = a->exponential};
  for (size_t k = 0; k < a->n_chain; k++) {
    out->modulator[k].n = a->chain[k].n;
    memcpy(out->modulator[k].rate_per_s, a->chain[k].rate_per_s, sizeof a->chain[k].rate_per_s);
    memcpy(out->modulator[k].dwell_s, a->chain[k].dwell_s, sizeof a->chain[k].dwell_s);
  }
  ds_process *p = &out->process;
  *p = (ds_process){.kind = kind_of(w),
                    .rate_per_s = a->by_request ? a->ramp_from_per_s : w->rate_per_s,
                    .end_rate_per_s = a->ramp_to_per_s,
                    .ramp = (uint64_t)w->requests,
                    .exponential = a->exponential,
                    .seed = seed,
                    .shape = a->shape < 0.0 ? ds_weibull_shape(-a->shape) : a->shape,
                    .piece = out->piece,
                    .n_piece = a->n_span,
                    .repeat = a->repeat,
                    .modulator = out->modulator,
                    .n_modulator = a->n_chain};
  p->gap = a->constant_gaps                   ? DS_GAP_CONSTANT
           : w->process == DS_ARRIVAL_WEIBULL ? DS_GAP_WEIBULL
           : a->shape > 0.0                   ? DS_GAP_GAMMA
                                              : DS_GAP_EXPONENTIAL;
  if (a->exact) p->scale = exact_scale(p, (uint64_t)w->requests);
}
