// SPDX-License-Identifier: GPL-3.0-or-later
/* Presets against the traces that they were fitted to: dispersion of counts and prefix reuse
 * against figures of the traces (as counted once from the files), lengths against the files
 * themselves where they lie in $DRYSERVE_SHARED (default ../shared). */
#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "io/presets.h"
#include "study/measured.h"

enum { N = 60000 };

static const struct {
  const char *preset, *more;
  double dispersion[3]; /* at 1, 10 and 60 s; 0: not known */
  double reuse;
  double input_mean, output_mean;
  const char *file, *input_key, *output_key; /* JSON keys; NULL: Azure's columns */
} expected[] = {
    {"azure-conv",
     "",
     {1.385, 3.857, 16.128},
     0,
     1154.7,
     211.1,
     "azure/AzureLLMInferenceTrace_conv.csv",
     NULL,
     NULL},
    {"azure-code",
     "",
     {13.186, 71.641, 163.965},
     0,
     2047.8,
     27.88,
     "azure/AzureLLMInferenceTrace_code.csv",
     NULL,
     NULL},
    /* Its times were recorded in steps of 3 s. */
    {"mooncake-chat",
     ", arrivals: {quantise: 3 s}",
     {7.898, 2.099, 2.895},
     0.3736,
     12035.1,
     342.6,
     "mooncake/conversation_trace.jsonl",
     "\"input_length\":",
     "\"output_length\":"},
    {"rag",
     "",
     {1.014, 1.069, 1.732},
     0.315,
     2943.6,
     283.2,
     "ragpulse/0_trace.jsonl",
     "\"input_length\":",
     "\"output_length\":"},
    {"agent-code",
     "",
     {0, 0, 0},
     0.9518,
     0,
     459.4,
     "cc-weka/cc_requests_index_shared60.csv",
     "6",
     "7"},
    {"reasoning", "", {0, 0, 0}, 0, 1268.2, 1527.4, NULL, NULL, NULL},
};

typedef struct made {
  double *input, *output;
  size_t n;
  double dispersion[3], reuse;
} made;

static made generate(const char *preset, const char *more) {
  char text[400];
  snprintf(text, sizeof text,
           "scenario: 1\ncost: {model: linear, step: 10 ms}\npools: [{name: main, scheduler: "
           "vllm-v1, kv_blocks: 9}]\nworkload: {generate: {preset: %s, requests: %d%s}}\n",
           preset, N, more);
  ds_data_dirs dirs = {{"."}, 1};
  ds_scenario sc;
  ds_diag d = {0};
  cr_assert(ds_scenario_parse(text, strlen(text), "test", ".", NULL, 0, &dirs, &sc, &d), "%s: %s",
            preset, d.text);
  ds_generator *g;
  cr_assert(ds_generator_open(&sc.workload, 1, &g, &d), "%s", d.text);
  made m = {malloc(N * sizeof(double)), malloc(N * sizeof(double)), 0, {0}, 0};
  static ds_arrivals a;
  memset(&a, 0, sizeof a);
  ds_reuse u = {0};
  static ds_generated q[500];
  for (size_t n = 1; n > 0;) {
    cr_assert(ds_generator_next(g, q, 500, &n, &d), "%s", d.text);
    for (size_t i = 0; i < n; i++) {
      ds_request r = {.arrival_ns = q[i].arrival_ns,
                      .input_tokens = q[i].input_tokens,
                      .output_tokens = q[i].output_tokens};
      cr_assert(ds_arrivals_add(&a, &r, 1) && ds_reuse_add(&u, &q[i]));
      m.input[m.n] = q[i].input_tokens;
      m.output[m.n++] = q[i].output_tokens;
    }
  }
  ds_measured measured;
  ds_measured_of(&a, &measured);
  memcpy(m.dispersion, measured.dispersion, sizeof m.dispersion);
  m.reuse = (double)u.reused_tokens / (double)u.input_tokens;
  ds_reuse_free(&u);
  ds_arrivals_free(&a);
  ds_generator_close(g);
  ds_scenario_free(&sc);
  return m;
}

static int ascending(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double distance(double *x, size_t n, double *y, size_t m) {
  double d = 0;
  qsort(x, n, sizeof *x, ascending);
  qsort(y, m, sizeof *y, ascending);
  for (size_t i = 0, j = 0; i < n && j < m;) {
    double v = fmin(x[i], y[j]);
    while (i < n && x[i] <= v) i++;
    while (j < m && y[j] <= v) j++;
    d = fmax(d, fabs((double)i / (double)n - (double)j / (double)m));
  }
  return d;
}

static double mean(const double *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += x[i];
  return sum / (double)n;
}

/* The k-th cell of a CSV line, or what stands behind a key of a JSON line. */
static double cell(const char *line, const char *key) {
  if (key[0] == '"') {
    const char *at = strstr(line, key);
    return at != NULL ? strtod(at + strlen(key), NULL) : 0;
  }
  for (long k = strtol(key, NULL, 10); k > 0 && line != NULL; k--) {
    line = strchr(line, ',');
    if (line != NULL) line++;
  }
  return line != NULL ? strtod(line, NULL) : 0;
}

Test(presets, come_as_close_as_they_say) {
  for (size_t k = 0; k < DS_ARRAY_LEN(expected); k++) {
    made m = generate(expected[k].preset, expected[k].more);
    const char *name = expected[k].preset;
    cr_assert_eq(m.n, (size_t)N);
    for (size_t w = 0; w < 3; w++)
      if (expected[k].dispersion[w] > 0)
        cr_expect_float_eq(m.dispersion[w], expected[k].dispersion[w],
                           0.3 * expected[k].dispersion[w],
                           "%s: dispersion in %g s is %g, of the trace %g", name, ds_window_s[w],
                           m.dispersion[w], expected[k].dispersion[w]);
    cr_expect_float_eq(m.reuse, expected[k].reuse, 0.02, "%s: reuse %g", name, m.reuse);
    double output = mean(m.output, m.n), input = mean(m.input, m.n);
    if (expected[k].input_mean > 0)
      cr_expect_float_eq(input, expected[k].input_mean, 0.02 * expected[k].input_mean,
                         "%s: mean input %g", name, input);
    cr_expect_float_eq(output, expected[k].output_mean, 0.02 * expected[k].output_mean,
                       "%s: mean output %g", name, output);
    cr_log_info("%s: %.3f %.2f %.2f reuse %.4f means %.1f %.1f", name, m.dispersion[0],
                m.dispersion[1], m.dispersion[2], m.reuse, input, output);
    free(m.input);
    free(m.output);
  }
}

/* Lengths of the rows of a trace that are both above 0, at most N. */
static size_t recorded(FILE *f, size_t k, double *in, double *out) {
  static char line[1 << 20];
  const char *a = expected[k].input_key != NULL ? expected[k].input_key : "1";
  const char *b = expected[k].output_key != NULL ? expected[k].output_key : "2";
  size_t n = 0;
  while (n < N && fgets(line, sizeof line, f) != NULL) {
    in[n] = cell(line, a);
    out[n] = cell(line, b);
    n += in[n] > 0 && out[n] > 0;
  }
  return n;
}

Test(presets, have_the_lengths_of_the_public_traces) {
  const char *shared = getenv("DRYSERVE_SHARED");
  static double in[N], out[N];
  size_t compared = 0;
  for (size_t k = 0; k < DS_ARRAY_LEN(expected); k++) {
    if (expected[k].file == NULL) continue;
    char path[1000];
    snprintf(path, sizeof path, "%s/data/traces/%s", shared != NULL ? shared : "../shared",
             expected[k].file);
    FILE *f = fopen(path, "r");
    if (f == NULL) continue;
    size_t n = recorded(f, k, in, out);
    fclose(f);
    cr_assert_gt(n, 3000u);
    made m = generate(expected[k].preset, expected[k].more);
    double input_ks = distance(m.input, m.n, in, n), output_ks = distance(m.output, m.n, out, n);
    cr_expect_leq(input_ks, 0.05, "%s: input %g", expected[k].preset, input_ks);
    cr_expect_leq(output_ks, 0.05, "%s: output %g", expected[k].preset, output_ks);
    cr_log_info("%s: KS %.3f %.3f", expected[k].preset, input_ks, output_ks);
    free(m.input);
    free(m.output);
    compared++;
  }
  if (compared == 0) cr_skip_test("the public traces are not at hand");
}

Test(presets, have_names_sources_and_texts) {
  for (size_t i = 0; i < ds_n_presets; i++) {
    cr_assert(strlen(ds_presets[i].source) > 20 && strlen(ds_presets[i].closeness) > 20);
    for (size_t j = 0; j < i; j++) cr_assert_str_neq(ds_presets[i].name, ds_presets[j].name);
  }
}
