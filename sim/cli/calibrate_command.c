// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve calibrate: fit a card to measured runs. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "study/calibrate.h"
#include "study/source_rules.h"

static const ds_option options[] = {
    {"--hardware", "CARD", "the part whose efficiencies to fit (needed)"},
    {"--engine", "CARD", "fit this engine card's times instead, on the rows that lead to it; with --fit both"},
    {"--fit", "NAMES", "only values whose names begin so, separated by commas, e.g. gemm_bf16,attn_decode"},
    {"--noise", "PERCENT", "how far a good measurement may be off (default 5): decides what can be told apart"},
    {"-o", "FILE", "write the fitted card: the hardware's, or with --engine the engine's"},
    {"--jobs", "N", "runs simulated at the same time (default: one a processor)"},
    {"--plan", NULL, "print the five shortest measurements that would tell most about the card, and stop"},
};

static const ds_example examples[] = {
    {"dryserve calibrate runs.csv --hardware h100-sxm -o my-h100.yaml", "a card of one's own machines"},
    {"dryserve calibrate runs.csv --hardware h100-sxm --engine vllm-2025 -o v.yaml", "what the engine adds"},
    {"dryserve calibrate --plan --hardware mi300x", "what to measure first"},
};

static ds_command command_of(void) {
  return (ds_command){.name = "calibrate",
                      .synopsis = "MEASURED.csv --hardware CARD [options]",
                      .summary = "Fit a card's efficiencies or an engine's times to measured runs.",
                      .text = "MEASURED.csv is what dryserve validate reads. Rows whose split does not begin with calibrate (where there "
                              "is such a column) are not touched. A value is fitted when it moves at least three figures and the data can "
                              "tell its effect from that of others; the rest keeps its value, and the report says why.",
                      .options = options,
                      .n_options = sizeof options / sizeof options[0],
                      .examples = examples,
                      .n_examples = sizeof examples / sizeof examples[0]};
}

typedef struct calibrate_args {
  const char *file, *hardware, *engine, *fit, *out;
  double noise;
  int jobs;
  bool plan;
} calibrate_args;

static bool take(calibrate_args *a, const ds_option *o, const char *value, ds_diag *d) {
  char *end;
  if (strcmp(o->name, "--hardware") == 0) a->hardware = value;
  else if (strcmp(o->name, "--engine") == 0) a->engine = value;
  else if (strcmp(o->name, "--fit") == 0) a->fit = value;
  else if (strcmp(o->name, "-o") == 0) a->out = value;
  else if (strcmp(o->name, "--plan") == 0) a->plan = true;
  else if (strcmp(o->name, "--noise") == 0) {
    a->noise = strtod(value, &end) / 100;
    if (*end == '\0' && end != value && a->noise > 0 && a->noise < 1) return true;
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--noise '%s'", value);
    ds_diag_expected(d, "a percentage, e.g. 5");
    return false;
  } else {
    return ds_take_jobs(value, 64, &a->jobs, d);
  }
  return true;
}

static int parse(calibrate_args *a, int argc, char **argv, const ds_command *c, ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  const ds_option *o;
  const char *value;
  for (;;) {
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_END:
      if (a->hardware != NULL && (a->file != NULL || a->plan)) return 1;
      ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "%s", a->hardware == NULL ? "no --hardware given" : "no measured runs given");
      ds_diag_expected(d, "dryserve calibrate MEASURED.csv --hardware CARD");
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

static bool open_card(ds_card_kind kind, const char *name, const ds_data_dirs *dirs, ds_calibration *c, ds_doc *doc, ds_diag *d) {
  char *path = kind == DS_CARD_HARDWARE ? c->hardware_path : c->engine_path;
  ds_node at = {.kind = DS_NODE_SCALAR, .file = "command line", .text = name};
  if (!ds_card_find(kind, name, ".", dirs, &at, path, sizeof c->hardware_path, d) || !ds_card_open(kind, path, doc, NULL, d)) return false;
  return kind == DS_CARD_HARDWARE ? ds_card_hardware(doc, &c->hw, d) : ds_card_engine(doc, &c->engine, d);
}

/* Rows name a part by its card's name or an alias, whether or not the card lies in a data folder. */
static void name_parts(const ds_measured_runs *runs, const ds_doc *doc, const ds_calibration *c, ds_card_cache *cards) {
  const ds_node *aliases = ds_node_get(doc->root, "aliases");
  for (size_t i = 0; i < runs->n; i++) {
    const char *gpu = ds_part_of(&runs->run[i]);
    bool same = strcmp(gpu, c->hw.name) == 0;
    for (const ds_node *n = aliases != NULL ? aliases->first : NULL; n != NULL; n = n->next)
      same = same || (n->text != NULL && strcmp(n->text, gpu) == 0);
    if (same) ds_card_cache_hardware(cards, gpu, &c->hw, c->hardware_path);
  }
}

static void shown(char *out, size_t cap, const ds_card_field *f, double v) {
  if (f->dim == DS_DIM_TIME) snprintf(out, cap, "%.4g us", v * 1e6);
  else snprintf(out, cap, "%.4g", v);
}

static const char *short_path(const ds_card_field *f) {
  return strncmp(f->path, "efficiencies.", 13) == 0 ? f->path + 13 : strncmp(f->path, "libraries.", 10) == 0 ? f->path + 10 : f->path;
}

static void value_line(ds_outfile *out, const ds_calibration *c, size_t k) {
  const ds_fit_param *p = &c->fit.param[k];
  const ds_card_field *f = c->param[k].field;
  char start[32], value[32], from[32], to[32], range[72];
  shown(start, sizeof start, f, p->start);
  shown(value, sizeof value, f, p->value);
  shown(from, sizeof from, f, p->from);
  shown(to, sizeof to, f, p->to);
  snprintf(range, sizeof range, "%s to %s", from, to);
  if (p->state == DS_FIT_FITTED) ds_out_printf(out, "  %-25s %9s %9s  %-21s %6zu\n", short_path(f), start, value, range, p->points);
  else if (p->state == DS_FIT_TANGLED) ds_out_printf(out, "  %-25s %9s %9s  %-21s %6zu\n", short_path(f), start, "kept", "not told apart", p->points);
}

/* Values that nothing depends on, or next to nothing: by name where they were asked for or move anything at all. */
static void refused(ds_outfile *out, const ds_calibration *c) {
  size_t others = 0;
  for (size_t k = 0; k < c->fit.n_params; k++) {
    const ds_fit_param *p = &c->fit.param[k];
    if (c->param[k].field == NULL || p->state != DS_FIT_NO_EFFECT) continue;
    if (c->only == NULL && p->points == 0) others++;
    else ds_out_printf(out, "  %-25s %9.4g %9s  refused: moves %zu figures, needs %d\n", short_path(c->param[k].field), p->start, "kept", p->points, DS_FIT_POINTS_NEEDED);
  }
  if (others > 0) ds_out_printf(out, "  %zu other values of the card are kept: no figure depends on them\n", others);
}

static void offsets(ds_outfile *out, const ds_calibration *c) {
  bool any = false;
  for (size_t k = 0; k < c->fit.n_params; k++) {
    const ds_fit_param *p = &c->fit.param[k];
    if (c->param[k].field != NULL) continue;
    if (!any) ds_out_text(out, "\nWhat is left of whole sources and engines (not in the card)\n");
    any = true;
    ds_out_printf(out, "  %-44.44s %+4.0f %% of the time  [%+.0f, %+.0f]\n", c->group[c->param[k].group].name, 100 * (p->value - 1),
                  100 * (p->from - 1), 100 * (p->to - 1));
  }
}

static void report(ds_outfile *out, const ds_calibration *c) {
  ds_out_printf(out, "%s%s%s: %zu of %zu rows, %zu figures\n", c->hw.name, c->engine_path[0] != '\0' ? " with " : "",
                c->engine_path[0] != '\0' ? c->engine.name : "", c->n_runs, c->n_offered, c->fit.n_points);
  if (c->n_guessed > 0) ds_out_printf(out, "%zu more rows are of engines whose cards are guesses: with --engine they are used\n", c->n_guessed);
  ds_out_text(out, "\n  value                        before    fitted  95 % interval         figures\n");
  for (size_t k = 0; k < c->fit.n_params; k++)
    if (c->param[k].field != NULL) value_line(out, c, k);
  refused(out, c);
  offsets(out, c);
  ds_out_printf(out, "\nMedian error of these rows: %.1f %% before, %.1f %% after (%d rounds of simulation)\n", 100 * c->fit.before,
                100 * c->fit.after, c->rounds);
  if (c->judged.figures == 0) return;
  ds_out_printf(out, "Of %zu rows kept aside, %zu figures: %.1f %% before, %.1f %% after\n", c->judged.rows, c->judged.figures,
                100 * c->judged.before, 100 * c->judged.after);
  if (c->judged.after > c->judged.before)
    ds_out_text(out, "The fit does worse than the card on what it has not seen: keep the card, or fit less\n(--fit), or rows that are more alike.\n");
}

static bool put(const char *path, const char *text, ds_diag *d) {
  ds_outfile *out = ds_outfile_open(path, d);
  if (out == NULL) return false;
  ds_out_text(out, text);
  if (ds_outfile_close(out, d)) return ds_outfile_publish(out, d);
  ds_outfile_discard(out);
  return false;
}

/* The name of a card is that of its file. */
static void stem_of(const char *path, char *out, size_t cap) {
  const char *base = strrchr(path, '/');
  base = base != NULL ? base + 1 : path;
  size_t n = strlen(base);
  if (n > 5 && strcmp(base + n - 5, ".yaml") == 0) n -= 5;
  snprintf(out, cap, "%.*s", (int)(n < 60 ? n : 60), base);
}

static bool write_card(const calibrate_args *a, const ds_measured_runs *runs, const ds_calibration *c, ds_diag *d) {
  char name[64], data[160];
  if (a->out == NULL) return true;
  stem_of(a->out, name, sizeof name);
  const char *base = strrchr(a->file, '/');
  snprintf(data, sizeof data, "%.80s (sha256 %.16s)", base != NULL ? base + 1 : a->file, runs->sha256);
  char *text = ds_calibration_card(c, a->engine == NULL, name, data, d);
  bool good = text != NULL && put(a->out, text, d);
  free(text);
  return good;
}

static bool print(const ds_calibration *c, ds_diag *d) {
  ds_outfile *out = ds_outfile_open("-", d);
  if (out == NULL) return false;
  report(out, c);
  if (ds_outfile_close(out, d)) return ds_outfile_publish(out, d);
  ds_outfile_discard(out);
  return false;
}

static bool plan(ds_calibration *c, const ds_data_dirs *dirs, ds_diag *d) {
  ds_planned best[DS_PLAN_RUNS];
  memset(best, 0, sizeof best);
  ds_calibration_params(c);
  c->fit.noise = c->noise;
  if (!ds_calibration_plan(c, dirs, best, d)) return false;
  for (int i = 0; i < DS_PLAN_RUNS && best[i].command[0] != '\0'; i++)
    if (printf("# about %.2g s a batch\n%s\n", best[i].seconds, best[i].command) < 0) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "cannot write to standard output");
  return fflush(stdout) == 0 || ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "cannot write to standard output");
}

static bool calibrate(const calibrate_args *a, const ds_data_dirs *dirs, ds_diag *d) {
  ds_calibration *c = calloc(1, sizeof *c);
  ds_measured_runs runs = {NULL, 0, "", NULL};
  ds_doc hardware = {0}, engine = {0};
  ds_card_cache *cards = NULL;
  if (c == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  c->only = a->fit;
  c->noise = a->noise > 0 ? a->noise : 0.05;
  c->jobs = ds_jobs_or_all(a->jobs);
  c->most_requests = 800;
  c->most_per_cell = 24;
  c->progress = isatty(STDERR_FILENO) == 1;
  bool good = open_card(DS_CARD_HARDWARE, a->hardware, dirs, c, &hardware, d) &&
              (a->engine == NULL || open_card(DS_CARD_ENGINE, a->engine, dirs, c, &engine, d));
  if (good && a->plan) {
    good = plan(c, dirs, d);
  } else if (good && ds_measured_open(a->file, &runs, d) && (cards = ds_card_cache_new(&runs, dirs)) != NULL) {
    name_parts(&runs, &hardware, c, cards);
    good = ds_calibration_rows(c, &runs, cards, dirs, d);
    if (good) ds_calibration_params(c);
    good = good && ds_calibration_run(c, d) && ds_calibration_judge(c, &runs, cards, dirs, d) && write_card(a, &runs, c, d) && print(c, d);
  } else {
    good = false;
  }
  ds_card_cache_free(cards);
  ds_measured_free(&runs);
  ds_calibration_free(c);
  ds_doc_free(&hardware);
  ds_doc_free(&engine);
  free(c);
  return good;
}

int ds_cmd_calibrate(int argc, char **argv, const ds_data_dirs *dirs) {
  const ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  calibrate_args a;
  memset(&a, 0, sizeof a);
  int go = parse(&a, argc, argv, &c, &d);
  if (go == 0) return ds_help_exit(&c);
  return go > 0 && calibrate(&a, dirs, &d) ? DS_EXIT_OK : ds_fail(&d, "calibrate");
}
