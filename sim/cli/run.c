// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve run: simulate one scenario, print the answer, write what was asked for. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "io/flags.h"
#include "report/report.h"
#include "report/requests.h"
#include "report/series.h"

#define SLOW_RUN_S 1.0 /* beyond it the answer does without re-runs */

static const ds_option options[] = {
    {"--set", "PATH=VALUE",
     "change one value of the scenario, e.g. pools.main.replicas=8; may be repeated"},
    {"--json", "FILE",
     "all metrics as one JSON object, under the names of vLLM's benchmark; - is standard output"},
    {"--requests", "FILE",
     "a row per request with where its time went; FILE ends in .csv or .jsonl"},
    {"--steps", "FILE", "a JSON line per engine iteration"},
    {"--seed", "N", "the same as --set seed=N"},
    {"--exact", NULL, "exact ITL percentiles beyond a million gaps, too"},
    {"--no-lease", NULL, "step every iteration on its own: the same result, slower"},
    {"--quiet", NULL, "print no answer, only write the files"},
    {"--explain-config", NULL, "print every effective value and where it came from, and stop"},
};

static const ds_example examples[] = {
    {"dryserve run studies/chat-h200.yaml", "a first answer"},
    {"dryserve run studies/chat-h200.yaml --set pools.main.replicas=8 \\\n"
     "               --set slo.run.p99_ttft='1 s'",
     "the same with other values"},
    {"dryserve run --model llama-3.1-8b --hardware h100-sxm \\\n"
     "               --trace traces/azure-conv-sample.csv --slo 'p99 ttft 2s'",
     "without a scenario file"},
    {"dryserve run studies/chat-h200.yaml --requests requests.csv --json - \\\n"
     "               | jq .p99_ttft_ms",
     "for programs"},
};

static const char *const later[] = {"--timeline",   "--plots",          "--html",
                                    "--prometheus", "--metrics-compat", NULL};

static ds_command command_of(void) {
  ds_command c = {
      .name = "run",
      .synopsis = "SCENARIO | FLAGS [options]",
      .summary = "Simulate a scenario and print what its users would see.",
      .text = "SCENARIO is a YAML or JSON file, or - for standard input. FLAGS describe a scenario "
              "without a file. The "
              "exit status is 4 when a limit of slo.run is missed.",
      .options = options,
      .n_options = sizeof options / sizeof options[0],
      .more_options = ds_flag_options,
      .n_more = ds_n_flag_options,
      .more_heading = "Flags, instead of a scenario file",
      .examples = examples,
      .n_examples = sizeof examples / sizeof examples[0],
      .later = later,
  };
  return c;
}

typedef struct run_args {
  const char *scenario, *json, *requests, *steps;
  const char **sets;
  size_t n_sets;
  ds_flag *flags;
  size_t n_flags;
  char seed[64];
  bool exact, no_lease, quiet, explain;
  ds_bands bands; /* how far such predictions were off */
  ds_series *series; /* of runs, of which the one at hand was chosen; NULL: it is alone */
  ds_outfile *command; /* what to type to run it again, without outputs */
} run_args;

/* A word as a shell would need it. */
static void put_word(ds_outfile *out, const char *word) {
  ds_out_text(out, " ");
  if (word[0] != '\0' &&
      strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
          strlen(word)) {
    ds_out_text(out, word);
    return;
  }
  ds_out_text(out, "'");
  for (const char *c = word; *c != '\0'; c++) {
    if (*c == '\'')
      ds_out_text(out, "'\\''");
    else
      ds_out_bytes(out, c, 1);
  }
  ds_out_text(out, "'");
}

static void remember(run_args *a, const char *name, const char *value) {
  put_word(a->command, name);
  if (value != NULL) put_word(a->command, value);
}

static bool take_file(const char **to, const ds_option *o, const char *value, ds_diag *d) {
  if (*to != NULL)
    return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "option %s is given twice", o->name);
  *to = value;
  return true;
}

static bool take_option(run_args *a, const ds_option *o, const char *value, ds_diag *d) {
  const char *name = o->name;
  if (strcmp(name, "--json") == 0) return take_file(&a->json, o, value, d);
  if (strcmp(name, "--requests") == 0) return take_file(&a->requests, o, value, d);
  if (strcmp(name, "--steps") == 0) return take_file(&a->steps, o, value, d);
  if (strcmp(name, "--exact") == 0) return a->exact = true;
  if (strcmp(name, "--no-lease") == 0) return a->no_lease = true;
  if (strcmp(name, "--quiet") == 0) return a->quiet = true;
  if (strcmp(name, "--explain-config") == 0) return a->explain = true;
  remember(a, name, value);
  if (strcmp(name, "--set") == 0) {
    a->sets[a->n_sets++] = value;
    return true;
  }
  if (strcmp(name, "--seed") == 0) {
    int n = snprintf(a->seed, sizeof a->seed, "seed=%s", value);
    if (n < 0 || (size_t)n >= sizeof a->seed)
      return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--seed '%s' is no seed", value);
    a->sets[a->n_sets++] = a->seed;
    return true;
  }
  a->flags[a->n_flags++] = (ds_flag){name, value};
  return true;
}

static bool take_operand(run_args *a, const char *value, ds_diag *d) {
  if (a->scenario != NULL)
    return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0,
                       "one scenario at a time: '%s' comes after '%s'", value, a->scenario);
  a->scenario = value;
  remember(a, value, NULL);
  return true;
}

/* 1: go on; 0: help was asked for; -1: wrong. */
static int parse(run_args *a, int argc, char **argv, const ds_command *c, ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  for (;;) {
    const ds_option *o;
    const char *value;
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_HELP:
      return 0;
    case DS_ARG_WRONG:
      return -1;
    case DS_ARG_OPTION:
      if (!take_option(a, o, value, d)) return -1;
      break;
    case DS_ARG_OPERAND:
      if (!take_operand(a, value, d)) return -1;
      break;
    case DS_ARG_END:
      if (a->scenario != NULL && a->n_flags > 0) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0,
                    "%s cannot be used with a scenario file; --set changes one", a->flags[0].name);
        return -1;
      }
      if (a->scenario == NULL && a->n_flags == 0) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "no scenario given");
        ds_diag_expected(d, "dryserve run SCENARIO, or flags such as --model and --hardware");
        return -1;
      }
      return 1;
    }
  }
}

static bool load(const run_args *a, const ds_data_dirs *dirs, ds_scenario *sc, ds_diag *d) {
  if (a->scenario != NULL) return ds_scenario_load(a->scenario, a->sets, a->n_sets, dirs, sc, d);
  char *text = NULL;
  if (!ds_flags_scenario(a->flags, a->n_flags, &text, d)) return false;
  bool good =
      ds_scenario_parse(text, strlen(text), "command line", ".", a->sets, a->n_sets, dirs, sc, d);
  free(text);
  return good;
}

typedef struct outputs {
  ds_outfile *json, *requests, *steps, *answer;
  bool jsonl;
} outputs;

static bool requests_format(const char *path, bool *jsonl, ds_diag *d) {
  const char *name = strrchr(path, '/'), *dot = strrchr(name != NULL ? name : path, '.');
  *jsonl = dot != NULL && strcmp(dot, ".jsonl") == 0;
  if (*jsonl || dot == NULL || strcmp(dot, ".csv") == 0) return true;
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--requests '%s': the format '%s' is not known", path,
              dot);
  ds_diag_expected(d, "a name that ends in .csv or .jsonl");
  return false;
}

static bool same_target(const char *a, const char *b) {
  return a != NULL && b != NULL && strcmp(a, b) == 0;
}

/* An output must not replace what the run reads. */
static bool is_input(const char *path, const char *input) {
  struct stat a, b;
  return path != NULL && input[0] != '\0' && stat(path, &a) == 0 && stat(input, &b) == 0 &&
         S_ISREG(a.st_mode) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static bool spare_inputs(const run_args *a, const ds_scenario *sc, ds_diag *d) {
  const char *written[] = {a->json, a->requests, a->steps};
  const char *inputs[] = {a->scenario != NULL ? a->scenario : "", sc->workload.path};
  for (size_t i = 0; i < 3; i++)
    for (size_t k = 0; k < 2; k++)
      if (is_input(written[i], inputs[k]))
        return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "output '%s' would replace what is read",
                           written[i]);
  for (size_t i = 0; i < 3; i++)
    for (size_t k = 0; k < sc->n_stream; k++)
      if (is_input(written[i], sc->stream[k].path))
        return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "output '%s' would replace what is read",
                           written[i]);
  return true;
}

static bool open_outputs(const run_args *a, outputs *o, ds_diag *d) {
  if (same_target(a->json, a->requests) || same_target(a->json, a->steps) ||
      same_target(a->requests, a->steps))
    return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "two outputs go to '%s'",
                       same_target(a->json, a->requests) || same_target(a->json, a->steps)
                           ? a->json
                           : a->requests);
  if (a->requests != NULL && !requests_format(a->requests, &o->jsonl, d)) return false;
  if (a->json != NULL && (o->json = ds_outfile_open(a->json, d)) == NULL) return false;
  if (a->requests != NULL && (o->requests = ds_outfile_open(a->requests, d)) == NULL) return false;
  if (a->steps != NULL && (o->steps = ds_outfile_open(a->steps, d)) == NULL) return false;
  int to_stdout = 0;
  ds_outfile *files[] = {o->json, o->requests, o->steps};
  for (size_t i = 0; i < 3; i++) to_stdout += files[i] != NULL && ds_outfile_is_stdout(files[i]);
  if (to_stdout > 1)
    return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "two outputs go to standard output");
  if (to_stdout > 0 || a->quiet) return true;
  o->answer = ds_outfile_open("-", d);
  return o->answer != NULL;
}

/* Everything is complete on disk before anything becomes visible. */
static bool publish(outputs *o, ds_diag *d) {
  ds_outfile **files[] = {&o->json, &o->requests, &o->steps, &o->answer};
  for (size_t i = 0; i < 4; i++)
    if (*files[i] != NULL && !ds_outfile_close(*files[i], d)) return false;
  for (size_t i = 0; i < 4; i++) {
    ds_outfile *f = *files[i];
    *files[i] = NULL;
    if (f != NULL && !ds_outfile_publish(f, d)) return false;
  }
  return true;
}

static void discard(outputs *o) {
  ds_outfile_discard(o->json);
  ds_outfile_discard(o->requests);
  ds_outfile_discard(o->steps);
  ds_outfile_discard(o->answer);
}

static void on_step(void *user, const ds_step *step, const ds_drive *drive) {
  ds_steps_line(user, step, drive);
}

static double clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

/* The clock decides whether the answer for people includes re-runs; nothing that a program reads
 * depends on it. */
static void answer(const run_args *a, outputs *o, ds_report *r, double wall_s) {
  ds_breaking breaking;
  memset(&breaking, 0, sizeof breaking);
  r->slow = wall_s > SLOW_RUN_S;
  if (!r->slow) ds_breaking_find(r->scenario, r->drive, &breaking);
  r->breaking = &breaking;
  const char *no_color = getenv("NO_COLOR");
  r->colour = isatty(STDOUT_FILENO) == 1 && (no_color == NULL || no_color[0] == '\0');
  r->command = ds_outfile_text(a->command, NULL);
  if (r->series != NULL) ds_series_table(o->answer, r->series);
  ds_answer(o->answer, r);
  ds_table(o->answer, r);
  r->breaking = NULL;
}

static bool write_reports(const run_args *a, outputs *o, ds_report *r, double wall_s, ds_diag *d) {
  if (o->json != NULL && !ds_json_report(o->json, r)) return out_of_memory(d);
  if (o->requests != NULL) {
    const char *class_name = r->scenario->workload.class_name;
    bool good = o->jsonl ? ds_requests_jsonl(o->requests, r->drive, class_name)
                         : ds_requests_csv(o->requests, r->drive, class_name);
    if (!good) return out_of_memory(d);
  }
  if (o->answer != NULL) answer(a, o, r, wall_s);
  return true;
}

static bool report(const run_args *a, const ds_scenario *sc, const ds_drive *drive, outputs *o,
                   double wall_s, bool *slo_met, ds_diag *d) {
  ds_summary summary;
  ds_classes classes;
  if (!ds_summary_of(&sc->run, drive->result, &drive->arrivals, drive->oversize.n, &summary))
    return out_of_memory(d);
  bool good = ds_classes_of(sc, drive, &classes) || out_of_memory(d);
  *slo_met = summary.slo_met && classes.slo_met;
  ds_warnings warnings;
  ds_warnings_of(sc, drive, &summary, &warnings);
  ds_report r = {.scenario = sc,
                 .drive = drive,
                 .summary = &summary,
                 .warnings = &warnings,
                 .bands = &a->bands,
                 .classes = &classes,
                 .series = a->series};
  good = good && write_reports(a, o, &r, wall_s, d);
  ds_classes_free(&classes);
  return good;
}

/* A value of many words over several lines. */
static void explain_long(ds_outfile *out, const ds_setting *s) {
  ds_out_printf(out, "%s", s->key);
  size_t column = 80;
  for (const char *word = s->value; *word != '\0';) {
    size_t n = strcspn(word, " ");
    if (column + 1 + n > 80) {
      ds_out_text(out, "\n   ");
      column = 3;
    }
    ds_out_printf(out, " %.*s", (int)n, word);
    column += 1 + n;
    word += n + (word[n] == ' ');
  }
  ds_out_text(out, "\n");
}

static bool explain(const ds_scenario *sc, ds_diag *d) {
  ds_outfile *out = ds_outfile_open("-", d);
  if (out == NULL) return false;
  int key = 0;
  for (size_t i = 0; i < sc->n_settings; i++) {
    int k = (int)strlen(sc->settings[i].key);
    if (k > key) key = k;
  }
  if (key > 36) key = 36; /* one long name must not push the rest away */
  for (size_t i = 0; i < sc->n_settings; i++) {
    const ds_setting *s = &sc->settings[i];
    int k = (int)strlen(s->key), v = (int)strlen(s->value), f = (int)strlen(s->from);
    if (k < key) k = key;
    if (k + 2 + v + 4 + f <= 80) {
      ds_out_printf(out, "%-*s  %s  # %s\n", key, s->key, s->value, s->from);
      continue;
    }
    if (k + 2 + v <= 80) ds_out_printf(out, "%-*s  %s\n", key, s->key, s->value);
    else explain_long(out, s);
    ds_out_printf(out, "%*s  # %s\n", 4 + f + key <= 80 ? key : 2, "", s->from);
  }
  if (ds_outfile_close(out, d)) return ds_outfile_publish(out, d);
  ds_outfile_discard(out);
  return false;
}

/* What became of the rows of a trace. */
static void account(const ds_scenario *sc, const ds_drive *drive) {
  if (sc->workload.kind != DS_WORKLOAD_TRACE || drive->trace == NULL) return;
  char text[600];
  ds_trace_account(drive->trace, text, sizeof text);
  ds_say("%s (%s): %s", sc->workload.path_given, ds_trace_format(drive->trace), text);
  if (ds_trace_note(drive->trace) != NULL) ds_say("%s", ds_trace_note(drive->trace));
}

static bool simulate(const run_args *a, ds_scenario *sc, bool *slo_met, ds_diag *d) {
  outputs o;
  memset(&o, 0, sizeof o);
  ds_drive *drive = calloc(1, sizeof *drive);
  if (drive == NULL) return out_of_memory(d);
  bool good =
      spare_inputs(a, sc, d) && open_outputs(a, &o, d) &&
      (a->quiet || o.answer != NULL || o.json != NULL || o.requests != NULL || o.steps != NULL);
  if (good) {
    ds_slo_complete(&sc->run.slo);
    ds_classes_complete(sc);
    ds_drive_options opt;
    memset(&opt, 0, sizeof opt);
    opt.sim.no_lease = a->no_lease || o.steps != NULL;
    opt.sim.records = o.requests != NULL;
    opt.sim.gaps = o.requests != NULL && o.jsonl;
    opt.sim.steps = o.steps != NULL;
    opt.sim.exact_itl = a->exact;
    opt.sim.occupancy = true;
    opt.keep_first = o.answer != NULL ? DS_BREAKING_REQUESTS : 0;
    opt.progress = !a->quiet;
    opt.on_step = o.steps != NULL ? on_step : NULL;
    opt.user = o.steps;
    double start_s = clock_s();
    good = ds_drive_run(sc, &opt, drive, d);
    good = good && report(a, sc, drive, &o, clock_s() - start_s, slo_met, d) && publish(&o, d);
    if (good && !a->quiet) account(sc, drive);
  }
  discard(&o);
  ds_drive_free(drive);
  free(drive);
  return good;
}

typedef struct reader {
  run_args *a;
  const ds_data_dirs *dirs;
} reader;

static bool load_changed(void *user, const char *change, ds_scenario *sc, ds_diag *d) {
  const reader *r = user;
  r->a->sets[r->a->n_sets++] = change;
  bool good = load(r->a, r->dirs, sc, d);
  r->a->n_sets--;
  return good;
}

/* A benchmark tool's series: all its runs, and then *sc is the one to look into. */
static bool run_series(run_args *a, const ds_data_dirs *dirs, ds_scenario *sc, ds_diag *d) {
  reader r = {a, dirs};
  if (a->scenario != NULL && strcmp(a->scenario, "-") == 0) {
    ds_diag_set(d, DS_EXIT_INPUT, sc->path, 0, 0, "a series of runs reads its scenario several times");
    ds_diag_expected(d, "a scenario in a file, not on standard input");
    return false;
  }
  a->series = calloc(1, sizeof *a->series);
  if (a->series == NULL) return out_of_memory(d);
  if (!ds_series_run(sc, load_changed, &r, a->series, d)) return false;
  const ds_series *s = a->series;
  size_t look = s->chosen < s->n ? s->chosen : s->kind == DS_SERIES_SWEEP ? 0 : s->n - 1;
  ds_scenario_free(sc);
  memset(sc, 0, sizeof *sc);
  remember(a, "--set", s->row[look].change);
  return load_changed(&r, s->row[look].change, sc, d);
}

static int run(run_args *a, const ds_data_dirs *dirs, ds_diag *d) {
  ds_scenario *sc = calloc(1, sizeof *sc);
  if (sc == NULL) {
    out_of_memory(d);
    return ds_fail(d, "run");
  }
  if (!ds_bands_open(dirs, &a->bands, d) || !load(a, dirs, sc, d)) {
    free(sc);
    return ds_fail(d, "run");
  }
  bool slo_met = true, good = a->explain || sc->workload.series == DS_SERIES_NONE || run_series(a, dirs, sc, d);
  good = good && (a->explain ? explain(sc, d) : simulate(a, sc, &slo_met, d));
  ds_scenario_free(sc);
  free(sc);
  if (!good) return ds_fail(d, "run");
  return slo_met ? DS_EXIT_OK : DS_EXIT_CHECK;
}

int ds_cmd_run(int argc, char **argv, const ds_data_dirs *dirs) {
  const ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  run_args a;
  memset(&a, 0, sizeof a);
  a.sets = calloc((size_t)argc + 2, sizeof *a.sets); /* one more for a series */
  a.flags = calloc((size_t)argc + 1, sizeof *a.flags);
  a.command = ds_outfile_memory();
  int status = DS_EXIT_RUNTIME;
  if (a.sets == NULL || a.flags == NULL || a.command == NULL) {
    out_of_memory(&d);
    status = ds_fail(&d, "run");
  } else {
    ds_out_text(a.command, "dryserve run");
    int go = parse(&a, argc, argv, &c, &d);
    status = go > 0 ? run(&a, dirs, &d) : go == 0 ? ds_help_exit(&c) : ds_fail(&d, "run");
  }
  ds_bands_free(&a.bands);
  free(a.series);
  free(a.sets);
  free(a.flags);
  ds_outfile_discard(a.command);
  return status;
}
