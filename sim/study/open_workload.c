// SPDX-License-Identifier: GPL-3.0-or-later
/* Opening a workload: a file or what the scenario states (io), or generated requests (gen). It
 * stands here, and not in io where its header is, because io and gen are neighbours that do not
 * know each other. */
#include "gen/lengths.h"
#include "gen/process.h"
#include "io/trace_source.h"

#include <stdlib.h>

_Static_assert(DS_LENGTH_MAX <= DS_TOKENS_MAX,
               "a generated request must be one that a trace may hold");

typedef struct generator {
  ds_source source;
  ds_process process;
  ds_length input, output;
  uint64_t seed, requests; /* requests 0: until the duration */
  int64_t duration_ns;     /* 0: no limit */
} generator;

static bool generator_rows(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  generator *g = (generator *)s;
  for (*n = 0; *n < cap; (*n)++) {
    uint64_t i = g->process.index;
    if (g->requests > 0 && i >= g->requests) return true;
    int64_t t = ds_process_next(&g->process);
    if (g->duration_ns > 0 && t >= g->duration_ns) {
      g->process.index = i; /* the next call stops at the same place */
      return true;
    }
    if (t == DS_TIME_NEVER) {
      *n = 0;
      ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                  "request %llu of the generated workload would arrive after more than 290 years",
                  (unsigned long long)i);
      ds_diag_expected(d, "a higher rate or fewer requests");
      return false;
    }
    rows[*n] =
        (ds_row){.time_ns = t,
                 .line = 0,
                 .id = DS_ROW_NO_ID,
                 .input_tokens = ds_length_draw(&g->input, g->seed, DS_PURPOSE_INPUT_TOKENS, i),
                 .output_tokens = ds_length_draw(&g->output, g->seed, DS_PURPOSE_OUTPUT_TOKENS, i)};
  }
  return true;
}

static void generator_close(ds_source *s) { free(s); }

static bool length_of(const ds_length_law *law, const char *key, ds_length *out, ds_diag *d) {
  double most = DS_LENGTH_MAX;
  if (law->law == DS_LAW_FIXED) {
    *out = ds_length_fixed(law->value);
    if (law->value >= 1.0 && law->value <= most) return true;
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate.%s.value: %g tokens", key,
                law->value);
    ds_diag_expected(d, "1 to %d", DS_LENGTH_MAX);
    return false;
  }
  bool by_p99 = law->p99 > 0.0;
  double value = by_p99 ? law->p99 : law->median;
  switch (ds_length_lognormal(law->mean, by_p99 ? 0.99 : 0.5, value, law->min, law->max, out)) {
  case DS_FIT_OK:
    if (law->mean <= most) return true;
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate.%s.mean: %g tokens", key,
                law->mean);
    ds_diag_expected(d, "at most %d", DS_LENGTH_MAX);
    return false;
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

static ds_process_kind process_of(ds_arrival_process p) {
  switch (p) {
  case DS_ARRIVAL_POISSON:
    return DS_PROCESS_POISSON;
  case DS_ARRIVAL_CONSTANT:
    return DS_PROCESS_CONSTANT;
  case DS_ARRIVAL_BURST:
    break;
  }
  return DS_PROCESS_BURST;
}

static bool generate_open(const ds_workload *w, uint64_t seed, ds_source **out, ds_diag *d) {
  *out = NULL;
  bool burst = w->process == DS_ARRIVAL_BURST;
  if (w->requests < 0 || w->duration_ns < 0 ||
      (w->requests == 0 && (w->duration_ns == 0 || burst))) {
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate: %s",
                burst ? "a burst without a number of requests" : "neither requests nor duration");
    ds_diag_expected(d, burst ? "requests: a count" : "requests: a count, or duration: a time");
    return false;
  }
  if (!burst && !(w->rate_per_s > 0.0 && w->rate_per_s <= 1e9)) {
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate.arrivals.rate: %g /s",
                w->rate_per_s);
    ds_diag_expected(d, "more than 0 and at most 1e9 /s");
    return false;
  }
  ds_length input, output;
  if (!length_of(&w->input, "input_tokens", &input, d) ||
      !length_of(&w->output, "output_tokens", &output, d))
    return false;
  generator *g = calloc(1, sizeof *g);
  if (g == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  g->source = (ds_source){.format = "generated",
                          .time_name = "arrival_ns",
                          .input_name = "input_tokens",
                          .output_name = "output_tokens",
                          .input = NULL,
                          .rebase = false,
                          .rows = generator_rows,
                          .id = NULL,
                          .close = generator_close};
  g->process =
      (ds_process){.kind = process_of(w->process), .rate_per_s = w->rate_per_s, .seed = seed};
  g->input = input;
  g->output = output;
  g->seed = seed;
  g->requests = (uint64_t)w->requests;
  g->duration_ns = w->duration_ns;
  *out = &g->source;
  return true;
}

bool ds_trace_open(const ds_workload *w, uint64_t seed, ds_trace **out, ds_diag *d) {
  ds_input *in = NULL;
  ds_source *source = NULL;
  bool good = false;
  *out = NULL;
  switch (w->kind) {
  case DS_WORKLOAD_TRACE:
    good = ds_trace_file_open(w, &in, &source, d);
    break;
  case DS_WORKLOAD_GENERATE:
    good = generate_open(w, seed, &source, d);
    break;
  case DS_WORKLOAD_INLINE:
    good = ds_inline_open(w, &source, d);
    break;
  }
  if (good) {
    if (!ds_trace_start(w, in, source, out, d)) return false;
    ds_trace_seed(*out, seed);
    return true;
  }
  ds_input_close(in);
  return false;
}
