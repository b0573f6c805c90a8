// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve trace: look at a trace, and make another one of it. Import options are those of a
 * scenario's workload: the command writes a small scenario round the file and reads it. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "cli/trace_edit.h"
#include "report/trace_info.h"

static const ds_option options[] = {
    {"-o", "FILE", "where the new trace goes (default: standard output)"},
    {"--to", "FORMAT", "its format: jsonl (default), azure, mooncake, burstgpt, vidur, tracev2"},
    {"--format", "FORMAT", "how to read FILE, where its content does not tell"},
    {"--import", "RULES", "lenient, or as in a scenario: '{zero: drop, unsorted: sort}'"},
    {"--map", "COLUMNS",
     "of any flat file: '{arrival: ts:ms, input_tokens: n_in, output_tokens: n_out}'"},
    {"--first", "N", "only the first N requests"},
    {"--window", "SPAN", "only those that arrive in it: '0 s .. 600 s'"},
    {"--whole-sessions", NULL, "the window takes or leaves sessions by their first request"},
    {"--time", "FACTOR", "multiply times: 0.5 is twice as fast"},
    {"--share", "P",
     "keep this share of the sessions, at random (without sessions: of the requests)"},
    {"--seed", "N", "of what is done at random"},
    {"--set", "KEY=VALUE", "any other key of a scenario's workload: import.dequantize='3 s'"},
    {"--json", "FILE", "info: the same numbers as JSON ('-': standard output)"},
};

static const ds_example examples[] = {
    {"dryserve trace info conversation_trace.jsonl", "what is in it"},
    {"dryserve trace cut big.csv --window '0 s .. 600 s' --whole-sessions \\\n"
     "               -o ten-minutes.jsonl",
     "its first ten minutes, sessions whole"},
    {"dryserve trace convert log.jsonl --to azure -o log.csv",
     "as Azure's CSV; what that cannot hold is said"},
};

static ds_command command_of(void) {
  ds_command c = {
      .name = "trace",
      .synopsis = "info|convert|cut|scale|merge|anonymise FILE... [options]",
      .summary = "Look at a trace, and make another one of it.",
      .text = "info: counts, rates, bursts, lengths, prefix reuse, oddities. convert: the same "
              "requests in "
              "another format. cut: some of them. scale: other times, or a share. merge: several "
              "traces by "
              "arrival, each from its own time zero. anonymise: only times, lengths, sessions and "
              "blocks, "
              "renumbered. `dryserve list formats` names what is read.",
      .options = options,
      .n_options = sizeof options / sizeof options[0],
      .examples = examples,
      .n_examples = sizeof examples / sizeof examples[0],
  };
  return c;
}

static const char *const verbs[] = {"info", "convert", "cut", "scale", "merge", "anonymise"};
enum { VERB_INFO, VERB_CONVERT, VERB_CUT, VERB_SCALE, VERB_MERGE, VERB_ANONYMISE, VERB_N };

typedef struct trace_args {
  int verb;
  const char **file;
  size_t n_files;
  const char **set; /* "workload.KEY=VALUE", owned */
  size_t n_sets;
  const char *out, *to, *json;
  bool selects, scales;
} trace_args;

static bool add_set(trace_args *a, const char *key, const char *value, ds_diag *d) {
  size_t n = strlen(key) + strlen(value) + 16;
  char *s = malloc(n);
  if (s == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  snprintf(s, n, "%s%s%s", key, key[0] != '\0' ? "=" : "", value);
  a->set[a->n_sets++] = s;
  return true;
}

/* Options that set one key of a scenario. */
static const struct {
  const char *name, *key;
} map[] = {{"--format", "workload.format"},
           {"--import", "workload.import"},
           {"--map", "workload.map"},
           {"--first", "workload.select.first"},
           {"--window", "workload.select.window"},
           {"--time", "workload.time_scale"},
           {"--share", "workload.select.share"},
           {"--seed", "seed"}};

/* A complaint about a key that the user never typed names the option that set it. */
static void name_the_option(ds_diag *d) {
  static const char set[] = "command line --set ";
  if (strncmp(d->file, set, sizeof set - 1) != 0) return;
  for (size_t i = 0; i < sizeof map / sizeof map[0]; i++) {
    if (strcmp(d->file + sizeof set - 1, map[i].key) != 0) continue;
    snprintf(d->file, sizeof d->file, "%s", map[i].name);
    const char *rest = ds_diag_without(d->text, map[i].key);
    memmove(d->text, rest, strlen(rest) + 1);
    return;
  }
}

static bool take_option(trace_args *a, const char *name, const char *value, ds_diag *d) {
  if (strcmp(name, "-o") == 0) return (a->out = value) != NULL;
  if (strcmp(name, "--to") == 0) return (a->to = value) != NULL;
  if (strcmp(name, "--json") == 0) return (a->json = value) != NULL;
  a->selects = a->selects || strcmp(name, "--first") == 0 || strcmp(name, "--window") == 0;
  a->scales = a->scales || strcmp(name, "--time") == 0 || strcmp(name, "--share") == 0;
  if (strcmp(name, "--whole-sessions") == 0)
    return add_set(a, "workload.select.sessions", "whole", d);
  for (size_t i = 0; i < sizeof map / sizeof map[0]; i++)
    if (strcmp(name, map[i].name) == 0) return add_set(a, map[i].key, value, d);
  char key[300];
  if (snprintf(key, sizeof key, "workload.%s", value) >= (int)sizeof key)
    return ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--set is too long");
  return add_set(a, "", key, d);
}

static bool check(const trace_args *a, ds_diag *d) {
  if (a->n_files == 0 || (a->verb == VERB_MERGE ? a->n_files < 2 : a->n_files > 1)) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace %s: %zu file%s", verbs[a->verb], a->n_files,
                a->n_files == 1 ? "" : "s");
    ds_diag_expected(d, a->verb == VERB_MERGE ? "two or more files" : "one file");
    return false;
  }
  if (a->verb == VERB_CUT && !a->selects) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace cut: nothing says what to keep");
    ds_diag_expected(d, "--first N or --window '0 s .. 600 s'");
    return false;
  }
  if (a->verb == VERB_SCALE && !a->scales) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace scale: nothing says by how much");
    ds_diag_expected(d, "--time FACTOR (0.5 is twice as fast) or --share P (0.5 keeps half)");
    return false;
  }
  if (a->json != NULL && a->verb != VERB_INFO) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace %s: --json goes with info", verbs[a->verb]);
    return false;
  }
  if ((a->out != NULL || a->to != NULL) && a->verb == VERB_INFO) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace info writes no trace");
    ds_diag_expected(d, "convert, cut, scale, merge or anonymise with -o and --to");
    return false;
  }
  return true;
}

/* 1: go on; 0: help; -1: wrong. */
static int parse(const ds_command *c, int argc, char **argv, trace_args *a, ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  a->verb = -1;
  for (;;) {
    const ds_option *o;
    const char *value;
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_END:
      if (a->verb < 0) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "trace: nothing to do");
        ds_diag_expected(d, "info, convert, cut, scale, merge or anonymise");
        return -1;
      }
      return check(a, d) ? 1 : -1;
    case DS_ARG_HELP:
      return 0;
    case DS_ARG_WRONG:
      return -1;
    case DS_ARG_OPTION:
      if (!take_option(a, o->name, value, d)) return -1;
      break;
    case DS_ARG_OPERAND:
      if (a->verb >= 0) {
        a->file[a->n_files++] = value;
        break;
      }
      for (int i = 0; i < VERB_N; i++)
        if (strcmp(value, verbs[i]) == 0 ||
            (i == VERB_ANONYMISE && strcmp(value, "anonymize") == 0))
          a->verb = i;
      if (a->verb < 0) {
        ds_unknown(d, "command of trace", value, verbs, VERB_N);
        return -1;
      }
      break;
    }
  }
}

/* A scenario round the file. */
static bool load(const trace_args *a, const char *file, const ds_data_dirs *dirs, ds_scenario *sc,
                 ds_diag *d) {
  static const char head[] =
      "scenario: 1\n"
      "cost: {model: linear, step: 1 ms, prefill_token: 0 ms, decode_sequence: 0 ms, "
      "draft_token: 0 ms}\n"
      "pools: [{name: main, scheduler: vllm-v1, kv_blocks: 1000000}]\n"
      "workload: {trace: \"";
  size_t n = sizeof head + 2 * strlen(file) + 8, used = sizeof head - 1;
  char *text = malloc(n);
  if (text == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  memcpy(text, head, used);
  for (const char *s = file; *s != '\0'; s++) {
    if (*s == '"' || *s == '\\') text[used++] = '\\';
    text[used++] = *s;
  }
  memcpy(text + used, "\"}\n", 4);
  bool good = ds_scenario_parse(text, used + 3, "command line", "", a->set, a->n_sets, dirs, sc, d);
  free(text);
  return good;
}

static bool print(const char *path, bool json, const char *name, ds_trace *t,
                  const ds_trace_stats *s, ds_diag *d) {
  ds_outfile *out = ds_outfile_open(path, d);
  if (out == NULL) return false;
  (json ? ds_trace_info_json : ds_trace_info)(out, name, t, s);
  if (ds_outfile_close(out, d)) return ds_outfile_publish(out, d);
  ds_outfile_discard(out);
  return false;
}

static bool info(const trace_args *a, const ds_scenario *sc, ds_diag *d) {
  ds_trace *t;
  if (!ds_trace_open(&sc->workload, sc->run.seed, &t, d)) return false;
  ds_trace_stats *s = calloc(1, sizeof *s);
  bool good = s != NULL ? ds_trace_stats_of(t, s, d)
                        : ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  bool alone = a->json != NULL && strcmp(a->json, "-") == 0;
  const char *name = sc->workload.path_given;
  if (good && a->json != NULL) good = print(a->json, true, name, t, s, d);
  if (good && !alone) good = print("-", false, name, t, s, d);
  free(s);
  ds_trace_close(t);
  return good;
}

static bool edit(const trace_args *a, const ds_scenario *sc, ds_diag *d) {
  ds_trace_edit e = {.n = a->n_files,
                     .to = a->to != NULL ? a->to : "jsonl",
                     .out = a->out != NULL ? a->out : "-",
                     .anonymise = a->verb == VERB_ANONYMISE,
                     .merge = a->verb == VERB_MERGE};
  const ds_workload **w = calloc(a->n_files + 1, sizeof *w);
  if (w == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  for (size_t i = 0; i < a->n_files; i++) w[i] = &sc[i].workload;
  e.workload = w;
  e.seed = sc->run.seed;
  bool good = ds_trace_edit_run(&e, d);
  free(w);
  return good;
}

int ds_cmd_trace(int argc, char **argv, const ds_data_dirs *dirs) {
  const ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  trace_args a;
  memset(&a, 0, sizeof a);
  a.file = calloc((size_t)argc + 1, sizeof *a.file);
  a.set = calloc((size_t)argc + 1, sizeof *a.set);
  ds_scenario *sc = calloc((size_t)argc + 1, sizeof *sc);
  int go = -1;
  bool good = false;
  if (a.file == NULL || a.set == NULL || sc == NULL) {
    ds_diag_set(&d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  } else {
    go = parse(&c, argc, argv, &a, &d);
  }
  size_t loaded = 0;
  if (go > 0) {
    good = true;
    while (good && loaded < a.n_files) {
      good = load(&a, a.file[loaded], dirs, &sc[loaded], &d);
      loaded += good;
    }
    if (good) good = a.verb == VERB_INFO ? info(&a, sc, &d) : edit(&a, sc, &d);
  }
  for (size_t i = 0; i < loaded; i++) ds_scenario_free(&sc[i]);
  for (size_t i = 0; i < a.n_sets; i++) free((char *)(uintptr_t)a.set[i]);
  free(a.file);
  free(a.set);
  free(sc);
  if (go == 0) return ds_help_exit(&c);
  name_the_option(&d);
  return good ? DS_EXIT_OK : ds_fail(&d, c.name);
}
