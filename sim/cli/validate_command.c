// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve validate: simulate measured runs, and say how far the simulation is from them. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "report/validate_report.h"

#define BARS_MAX 8
#define ONLY_MAX 16

static const ds_option options[] = {
    {"--json", "FILE", "every row, predicted and measured, and every cell; - is standard output"},
    {"--jobs", "N", "rows simulated at the same time (default: one a processor)"},
    {"--split", "NAME", "only rows of this split, e.g. validate_dev"},
    {"--only", "NAME=VALUE", "only rows whose column has this value; NAME~VALUE: contains it; source is the first part of the "
                             "id; may be repeated"},
    {"--bar", "METRIC=PERCENT", "exit 4 when the error is larger: tpot, ttft, e2e or throughput, the mean over cells of "
                                "their medians on rows never fitted; may be repeated"},
    {"--bands", "FILE", "write the bands that these errors support, in the form that run reads"},
    {"--quiet", NULL, "no report, only files and the exit status"},
};

static const ds_example examples[] = {
    {"dryserve validate runs.csv", "how far to trust the simulator"},
    {"dryserve validate runs.csv --only gpu=H200-SXM-141GB --only model~Llama", "one part and model family"},
    {"dryserve validate runs.csv --bar tpot=10 --quiet", "for a script: exit status 4 when it got worse"},
};

static ds_command command_of(void) {
  return (ds_command){.name = "validate",
                      .synopsis = "MEASURED.csv [options]",
                      .summary = "Simulate measured runs, each as its source measured it, and print the errors.",
                      .text = "MEASURED.csv has a row per run, found by column names: id, engine, model, gpu, workload_kind "
                              "and at least one of out_tok_s_total, ttft_mean_ms, tpot_mean_ms, e2e_mean_ms; docs/accuracy.md "
                              "lists the others and how blanks are filled.",
                      .options = options,
                      .n_options = sizeof options / sizeof options[0],
                      .examples = examples,
                      .n_examples = sizeof examples / sizeof examples[0]};
}

typedef struct bar {
  char metric[32];
  double percent;
} bar;

typedef struct validate_args {
  const char *file, *json, *split, *bands;
  const char *only[ONLY_MAX];
  size_t n_only;
  bar bars[BARS_MAX];
  size_t n_bars;
  int jobs;
  bool quiet;
} validate_args;

static bool usage(ds_diag *d, const char *what, const char *value, const char *expected) {
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s '%s'", what, value);
  ds_diag_expected(d, "%s", expected);
  return false;
}

static bool take_bar(validate_args *a, const char *value, ds_diag *d) {
  static const char *const names[] = {"tpot", "ttft", "e2e", "throughput"};
  size_t n = strcspn(value, "=");
  bar *b = &a->bars[a->n_bars];
  bool known = false;
  char *end;
  snprintf(b->metric, sizeof b->metric, "%.*s", (int)(n < 31 ? n : 31), value);
  for (size_t i = 0; i < 4; i++) known = known || strcmp(b->metric, names[i]) == 0;
  b->percent = value[n] == '=' ? strtod(value + n + 1, &end) : -1;
  if (!known || value[n] != '=' || end == value + n + 1 || *end != '\0' || !(b->percent > 0) || a->n_bars + 1 >= BARS_MAX)
    return usage(d, "--bar", value, "tpot=PERCENT, ttft=, e2e= or throughput=, at most seven");
  a->n_bars++;
  return true;
}

static bool take(validate_args *a, const ds_option *o, const char *value, ds_diag *d) {
  if (strcmp(o->name, "--json") == 0) a->json = value;
  else if (strcmp(o->name, "--split") == 0) a->split = value;
  else if (strcmp(o->name, "--bands") == 0) a->bands = value;
  else if (strcmp(o->name, "--quiet") == 0) a->quiet = true;
  else if (strcmp(o->name, "--bar") == 0) return take_bar(a, value, d);
  else if (strcmp(o->name, "--jobs") == 0) return ds_take_jobs(value, 256, &a->jobs, d);
  else {
    if (a->n_only == ONLY_MAX) return usage(d, "one --only too many:", value, "at most 16");
    if (strpbrk(value, "=~") == NULL) return usage(d, "--only", value, "NAME=VALUE or NAME~VALUE");
    a->only[a->n_only++] = value;
  }
  return true;
}

static int parse(validate_args *a, int argc, char **argv, const ds_command *c, ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  const ds_option *o;
  const char *value;
  for (;;) {
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_END:
      if (a->file != NULL) return 1;
      ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "no measured runs given");
      ds_diag_expected(d, "a CSV file, e.g. dryserve validate runs.csv");
      return -1;
    case DS_ARG_OPTION:
      if (!take(a, o, value, d)) return -1;
      break;
    case DS_ARG_OPERAND:
      if (a->file != NULL) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "one file at a time: '%s' comes after '%s'", value, a->file);
        return -1;
      }
      a->file = value;
      break;
    case DS_ARG_HELP:
      return 0;
    case DS_ARG_WRONG:
      return -1;
    }
  }
}

static const struct {
  const char *name;
  ds_run_text text;
} columns[] = {{"id", DS_RUN_ID},         {"split", DS_RUN_SPLIT},           {"engine", DS_RUN_ENGINE},     {"engine_version", DS_RUN_VERSION},
               {"model", DS_RUN_MODEL},   {"weight_precision", DS_RUN_WEIGHTS}, {"kv_precision", DS_RUN_KV},  {"gpu", DS_RUN_GPU},
               {"workload_kind", DS_RUN_KIND}, {"source", DS_RUN_TEXTS}};
#define N_COLUMNS (sizeof columns / sizeof columns[0])

static bool passes(const ds_measured_run *m, const char *only, bool *known) {
  size_t n = strcspn(only, "=~");
  for (size_t i = 0; i < N_COLUMNS; i++) {
    if (strlen(columns[i].name) != n || strncmp(columns[i].name, only, n) != 0) continue;
    char source[80];
    ds_measured_source(m, source, sizeof source);
    const char *text = columns[i].text == DS_RUN_TEXTS ? source : m->text[columns[i].text];
    *known = true;
    return only[n] == '=' ? strcmp(text, only + n + 1) == 0 : strstr(text, only + n + 1) != NULL;
  }
  *known = false;
  return false;
}

static bool choose(const validate_args *a, const ds_measured_runs *runs, bool *wanted, ds_diag *d) {
  size_t n = 0;
  for (size_t i = 0; i < runs->n; i++) {
    wanted[i] = a->split == NULL || strcmp(runs->run[i].text[DS_RUN_SPLIT], a->split) == 0;
    for (size_t k = 0; k < a->n_only; k++) {
      bool known;
      wanted[i] = passes(&runs->run[i], a->only[k], &known) && wanted[i];
      if (known) continue;
      return usage(d, "--only names no column that it knows:", a->only[k],
                   "id, source, split, engine, engine_version, model, weight_precision, kv_precision, gpu or workload_kind");
    }
    n += wanted[i];
  }
  if (n > 0) return true;
  return ds_diag_set(d, DS_EXIT_INPUT, a->file, 0, 0, "no row is left by --split and --only");
}

static bool put(const char *path, const ds_validation *x, bool (*write)(ds_outfile *, const ds_validation *), ds_diag *d) {
  ds_outfile *out = ds_outfile_open(path, d);
  if (out == NULL) return false;
  if (!write(out, x)) {
    ds_outfile_discard(out);
    return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  }
  if (ds_outfile_close(out, d)) return ds_outfile_publish(out, d);
  ds_outfile_discard(out);
  return false;
}

static bool report(const validate_args *a, const ds_validation *x, ds_diag *d) {
  bool taken = a->json != NULL && strcmp(a->json, "-") == 0;
  return (a->json == NULL || put(a->json, x, ds_validation_json, d)) && (a->bands == NULL || put(a->bands, x, ds_validation_bands, d)) &&
         (a->quiet || taken || put("-", x, ds_validation_text, d));
}

/* Bars are judged on what was asked for; a figure without rows does not pass. */
static bool bars_held(const validate_args *a, const ds_validation *x) {
  bool held = true;
  for (size_t i = 0; i < a->n_bars; i++) {
    double v = ds_validation_figure(x, a->bars[i].metric);
    if (v >= 0 && 100 * v <= a->bars[i].percent) continue;
    held = false;
    if (v < 0)
      fprintf(stderr, "dryserve: --bar %s: no row to judge by\n", a->bars[i].metric);
    else
      fprintf(stderr, "dryserve: --bar %s: the error is %.1f %%, more than %g %%\n", a->bars[i].metric, 100 * v, a->bars[i].percent);
  }
  return held;
}

static int validate(const validate_args *a, const ds_data_dirs *dirs, ds_diag *d) {
  ds_measured_runs runs;
  ds_residuals residuals = {NULL, 0};
  ds_bands bands = {0};
  bool held = true, good = ds_measured_open(a->file, &runs, d) && ds_bands_open(dirs, &bands, d);
  bool *wanted = good ? calloc(runs.n, sizeof *wanted) : NULL;
  ds_validated *v = good ? calloc(runs.n, sizeof *v) : NULL;
  if (good && (wanted == NULL || v == NULL)) good = ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  good = good && wanted != NULL && choose(a, &runs, wanted, d);
  ds_card_cache *cards = good ? ds_card_cache_new(&runs, dirs) : NULL;
  if (cards != NULL) {
    good = ds_validate_all(&runs, wanted, cards, dirs, ds_jobs_or_all(a->jobs), !a->quiet, v, d);
    ds_validation x = {.path = a->file, .runs = &runs, .wanted = wanted, .v = v, .residuals = &residuals, .bands = &bands};
    good = good && ds_residuals_of(&runs, v, &residuals) && report(a, &x, d);
    held = good && bars_held(a, &x);
  }
  ds_card_cache_free(cards);
  ds_residuals_free(&residuals);
  ds_bands_free(&bands);
  free(v);
  free(wanted);
  ds_measured_free(&runs);
  if (!good) return ds_fail(d, "validate");
  return held ? DS_EXIT_OK : DS_EXIT_CHECK;
}

int ds_cmd_validate(int argc, char **argv, const ds_data_dirs *dirs) {
  const ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  validate_args a;
  memset(&a, 0, sizeof a);
  int go = parse(&a, argc, argv, &c, &d);
  if (go == 0) return ds_help_exit(&c);
  return go < 0 ? ds_fail(&d, "validate") : validate(&a, dirs, &d);
}
