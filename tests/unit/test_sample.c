// SPDX-License-Identifier: GPL-3.0-or-later
/* The sample trace that ships, and the public traces where they are at hand ($DRYSERVE_SHARED,
 * default ../shared). */
#include <criterion/criterion.h>

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/trace.h"

/* The program that made the sample is part of this test. */
#define main make_azure
#include "../bench/make_azure.c"
#undef main

#define SAMPLE "traces/azure-conv-sample.csv"

typedef struct columns {
  size_t n;
  double *in, *out;
  int64_t *at_ns;
  char sha256[65];
} columns;

static columns read_columns(const char *path) {
  columns c = {0};
  ds_workload w;
  ds_diag d;
  ds_trace *t;
  memset(&w, 0, sizeof w);
  memset(&d, 0, sizeof d);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1.0;
  snprintf(w.path, sizeof w.path, "%s", path);
  cr_assert(ds_trace_open(&w, 1, &t, &d), "%s: %s", path, d.text);
  for (;;) {
    ds_request r[512];
    size_t got;
    cr_assert(ds_trace_read(t, r, 512, &got, &d), "%s:%lld: %s", path, (long long)d.line, d.text);
    if (got == 0) break;
    c.in = realloc(c.in, (c.n + got) * sizeof *c.in);
    c.out = realloc(c.out, (c.n + got) * sizeof *c.out);
    c.at_ns = realloc(c.at_ns, (c.n + got) * sizeof *c.at_ns);
    for (size_t i = 0; i < got; i++, c.n++) {
      c.in[c.n] = r[i].input_tokens;
      c.out[c.n] = r[i].output_tokens;
      c.at_ns[c.n] = r[i].arrival_ns;
    }
  }
  strcpy(c.sha256, ds_trace_sha256(t));
  ds_trace_close(t);
  return c;
}

static void free_columns(columns *c) {
  free(c->in);
  free(c->out);
  free(c->at_ns);
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double mean_of(const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

/* Linear interpolation between order statistics; sorts x. */
static double percentile(double *x, size_t n, double p) {
  qsort(x, n, sizeof *x, ascending);
  double k = (double)(n - 1) * p / 100;
  size_t i = (size_t)k;
  return i + 1 < n ? x[i] + (x[i + 1] - x[i]) * (k - (double)i) : x[i];
}

/* Mean and p50, p90, p99 of both lengths within 5 % of the public conversation trace's (measured
 * over its 19,366 rows). */
Test(sample, has_the_length_statistics_of_the_public_trace) {
  static const struct {
    double mean, p50, p90, p99;
  } public_in = {1154.6974, 1020, 2734.5, 4142}, public_out = {211.1259, 129, 424, 601};
  columns c = read_columns(SAMPLE);
  cr_assert_geq(c.n, 2000u);
  const double got[8] = {mean_of(c.in, c.n),         percentile(c.in, c.n, 50),
                         percentile(c.in, c.n, 90),  percentile(c.in, c.n, 99),
                         mean_of(c.out, c.n),        percentile(c.out, c.n, 50),
                         percentile(c.out, c.n, 90), percentile(c.out, c.n, 99)};
  const double want[8] = {public_in.mean,  public_in.p50,  public_in.p90,  public_in.p99,
                          public_out.mean, public_out.p50, public_out.p90, public_out.p99};
  for (int i = 0; i < 8; i++)
    cr_assert_lt(fabs(got[i] / want[i] - 1), 0.05, "figure %d: %g, public %g", i, got[i], want[i]);
  /* Arrivals as of a Poisson process: rate 5.53 /s, coefficient of variation of the gaps 1, within
   * five deviations. */
  double sum = 0, squares = 0, n = (double)(c.n - 1);
  for (size_t i = 1; i < c.n; i++) {
    double gap = (double)(c.at_ns[i] - c.at_ns[i - 1]) * 1e-9;
    cr_assert_geq(gap, 0);
    sum += gap;
    squares += gap * gap;
  }
  double mean = sum / n, cv = sqrt(squares / n - mean * mean) / mean;
  cr_assert_lt(fabs(mean * 5.53 - 1), 5 / sqrt(n), "rate %g", 1 / mean);
  cr_assert_lt(fabs(cv - 1), 5 * sqrt(2 / n), "coefficient of variation %g",
               cv); /* its deviation is sqrt(2 / n) for n exponential gaps */
  free_columns(&c);
}

/* The sample is what its program makes, byte for byte, in the public file's form: CR LF, no line
 * end after the last row. */
Test(sample, is_made_by_its_program) {
  char path[] = "/tmp/dryserve-sample-XXXXXX";
  int fd = mkstemp(path);
  cr_assert(fd >= 0 && freopen(path, "w", stdout) != NULL);
  char name[] = "make_azure", requests[] = "3000", seed[] = "1",
       *argv[] = {name, requests, seed, NULL};
  cr_assert_eq(make_azure(3, argv), 0);
  fclose(stdout);
  FILE *made = fopen(path, "rb"), *kept = fopen(SAMPLE, "rb");
  cr_assert(made != NULL && kept != NULL);
  long n = 0;
  int a, b, before = 0;
  do {
    a = fgetc(made);
    b = fgetc(kept);
    cr_assert_eq(a, b, "byte %ld", n);
    if (a == '\n') cr_assert_eq(before, '\r');
    if (a == EOF) cr_assert(before >= '0' && before <= '9');
    before = a;
    n++;
  } while (a != EOF);
  fclose(made);
  fclose(kept);
  close(fd);
  unlink(path);
}

/* The public traces against their known counts: exact sums, span in nanoseconds, percentiles, hash.
 */
Test(sample, public_azure_traces_are_read_exactly) {
  const char *shared = getenv("DRYSERVE_SHARED");
  char path[512];
  if (shared == NULL) shared = "../shared";
  snprintf(path, sizeof path, "%s/data/traces/expected.json", shared);
  json_t *all = json_load_file(path, 0, NULL);
  if (all == NULL) cr_skip_test("no public traces in %s", shared);
  static const char *const key[] = {"azure2023_conv", "azure2023_code"};
  for (size_t k = 0; k < 2; k++) {
    const json_t *e = json_object_get(all, key[k]);
    snprintf(path, sizeof path, "%s/data/traces/%s", shared,
             json_string_value(json_object_get(e, "file")));
    columns c = read_columns(path);
    cr_assert_eq((json_int_t)c.n, json_integer_value(json_object_get(e, "requests")));
    double in = 0, out = 0;
    int64_t least = INT64_MAX, most = 0;
    for (size_t i = 0; i < c.n; i++) {
      in += c.in[i];
      out += c.out[i];
      int64_t gap = i > 0 ? c.at_ns[i] - c.at_ns[i - 1] : INT64_MAX;
      if (gap < least) least = gap;
      if (i > 0 && gap > most) most = gap;
    }
    cr_assert_eq((json_int_t)in, json_integer_value(json_object_get(e, "sum_input_tokens")));
    cr_assert_eq((json_int_t)out, json_integer_value(json_object_get(e, "sum_output_tokens")));
    cr_assert_eq(c.at_ns[0], 0);
    cr_assert_eq(c.at_ns[c.n - 1], json_integer_value(json_object_get(e, "duration_ns")));
    cr_assert_eq(least, json_integer_value(json_object_get(e, "min_iat_ns")));
    cr_assert_eq(most, json_integer_value(json_object_get(e, "max_iat_ns")));
    cr_assert_str_eq(c.sha256, json_string_value(json_object_get(e, "sha256")));
    static const char *const p_name[] = {"p50", "p90", "p99"};
    static const double p[] = {50, 90, 99};
    for (size_t i = 0; i < 3; i++) {
      cr_assert_float_eq(percentile(c.in, c.n, p[i]),
                         json_number_value(json_object_get(json_object_get(e, "input"), p_name[i])),
                         1e-6);
      cr_assert_float_eq(
          percentile(c.out, c.n, p[i]),
          json_number_value(json_object_get(json_object_get(e, "output"), p_name[i])), 1e-6);
    }
    free_columns(&c);
  }
  json_decref(all);
}
