// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve gen: the requests that a scenario's `generate` means, as a trace in the native form. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "report/json_writer.h"
#include "report/numbers.h"
#include "study/measured.h"

static const ds_option options[] = {
    {"-o", "FILE", "where to write the trace; - (the default) is standard output"},
    {"--set", "PATH=VALUE",
     "change one value of the scenario, e.g. workload.generate.requests=500; may be repeated"},
    {"--seed", "N", "the same as --set seed=N"},
    {"--quiet", NULL, "do not say on standard error what was generated"},
};

static const ds_example examples[] = {
    {"dryserve gen studies/presets.yaml -o chat.jsonl", "a trace to keep, to plot or to share"},
};

static ds_command command_of(void) {
  ds_command c = {
      .name = "gen",
      .synopsis = "SCENARIO [-o TRACE] [options]",
      .summary = "Write the generated requests of a scenario as a trace (JSON Lines).",
      .text = "Nothing is simulated: a request that follows another has the earliest time at which "
              "it may arrive, and its session, turn and think time.",
      .options = options,
      .n_options = sizeof options / sizeof options[0],
      .examples = examples,
      .n_examples = sizeof examples / sizeof examples[0],
  };
  return c;
}

typedef struct gen_args {
  const char *scenario, *out;
  const char **sets;
  size_t n_sets;
  char seed[64];
  bool quiet;
} gen_args;

/* 1: go on; 0: help was asked for; -1: wrong. */
static int parse(gen_args *a, const ds_command *c, int argc, char **argv, ds_diag *d) {
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
      if (strcmp(o->name, "--quiet") == 0) {
        a->quiet = true;
      } else if (strcmp(o->name, "--set") == 0) {
        a->sets[a->n_sets++] = value;
      } else if (strcmp(o->name, "--seed") == 0) {
        snprintf(a->seed, sizeof a->seed, "seed=%.50s", value);
        a->sets[a->n_sets++] = a->seed;
      } else if (a->out != NULL) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "option -o is given twice");
        return -1;
      } else {
        a->out = value;
      }
      break;
    case DS_ARG_OPERAND:
      if (a->scenario != NULL) {
        ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0,
                    "one scenario at a time: '%.100s' comes after '%.100s'", value, a->scenario);
        return -1;
      }
      a->scenario = value;
      break;
    case DS_ARG_END:
      if (a->scenario != NULL) return 1;
      ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "no scenario given");
      ds_diag_expected(d, "dryserve gen SCENARIO -o TRACE");
      return -1;
    }
  }
}

static void put_row(ds_outfile *out, const ds_generated *q, uint64_t id, const char *class_name) {
  ds_out_printf(
      out, "{\"id\":\"%llu\",\"arrival_ns\":%lld,\"input_tokens\":%u,\"output_tokens\":%u",
      (unsigned long long)id, (long long)q->arrival_ns, q->input_tokens, q->output_tokens);
  if (q->images > 0)
    ds_out_printf(out, ",\"images\":%u,\"image_tokens\":%u,\"image_at\":%u", q->images, q->image_tokens, q->image_at);
  if (q->session > 0)
    ds_out_printf(out, ",\"session\":\"s%llu\",\"turn\":%u", (unsigned long long)q->session,
                  q->turn);
  if (q->think_ns > 0) ds_out_printf(out, ",\"think_ns\":%lld", (long long)q->think_ns);
  /* A session's prompts are one text that grows; a compacted one begins anew. */
  if (q->grows)
    ds_out_printf(out, ",\"prefix\":[\"s%llu.%u\",%u]", (unsigned long long)q->session, q->epoch,
                  q->input_tokens);
  else if (q->prefix_group > 0)
    ds_out_printf(out, ",\"prefix\":[\"p%llu\",%u]", (unsigned long long)q->prefix_group,
                  q->prefix_tokens);
  if (class_name[0] != '\0') {
    ds_out_text(out, ",\"class\":");
    ds_json_quote(out, class_name);
  }
  ds_out_text(out, "}\n");
}

static void say(const ds_scenario *sc, const ds_arrivals *a, const ds_reuse *u, uint64_t forked) {
  ds_measured m;
  char rate[DS_NUMBER_BYTES], text[DS_NUMBER_BYTES], more[DS_NUMBER_BYTES];
  ds_measured_of(a, &m);
  ds_put_short(rate, m.rate_per_s);
  ds_say("generated %zu requests at %s /s (gaps CV %.2f; variance/mean of counts %.2f in %g s, %.2f in "
         "%g s, %.2f in %g s)",
         a->n, rate, m.cv, m.dispersion[0], ds_window_s[0], m.dispersion[1], ds_window_s[1],
         m.dispersion[2], ds_window_s[2]);
  ds_put_short(text, (double)a->input.sum / (double)a->n);
  ds_put_short(more, (double)a->output.sum / (double)a->n);
  ds_say("input tokens: mean %s, p50 %u, p99 %u, max %u; output tokens: mean %s, p50 %u, p99 %u, max %u",
         text, ds_lengths_percentile(&a->input, 50), ds_lengths_percentile(&a->input, 99),
         a->input.max, more, ds_lengths_percentile(&a->output, 50),
         ds_lengths_percentile(&a->output, 99), a->output.max);
  if (u->reused_tokens > 0)
    ds_say("%.1f %% of the input tokens were seen before",
            100 * (double)u->reused_tokens / (double)u->input_tokens);
  if (forked > 0)
    ds_say("note: %llu sub-agents begin in their session's first instant here: the form has no "
            "word for whom a session follows",
            (unsigned long long)forked);
  if (sc->workload.session.on)
    ds_say("note: replay sessions with `replay: closed-loop`; a turn finds the prompt before "
            "it, not its answer%s",
            sc->workload.prefix.groups > 0 ? ", and groups of sessions share nothing" : "");
  if (sc->workload.concurrency > 0)
    ds_say("note: at most %lld in flight is no part of a trace; run the scenario for it",
            (long long)sc->workload.concurrency);
}

static bool write_all(const ds_scenario *sc, const gen_args *a, ds_outfile *out, ds_diag *d) {
  ds_generator *g = NULL;
  ds_arrivals *arrivals = calloc(1, sizeof *arrivals);
  if (arrivals == NULL) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  ds_reuse reuse;
  ds_generated chunk[256];
  size_t n = 1;
  uint64_t id = 0, forked = 0;
  memset(&reuse, 0, sizeof reuse);
  bool good = ds_generator_open(&sc->workload, sc->run.seed, &g, d);
  while (good && n > 0) {
    good = ds_generator_next(g, chunk, DS_ARRAY_LEN(chunk), &n, d);
    for (size_t i = 0; good && i < n; i++) {
      ds_generated q = chunk[i];
      q.arrival_ns = (int64_t)((double)q.arrival_ns * sc->workload.time_scale + 0.5);
      if (sc->workload.time_scale == 1) q.arrival_ns = chunk[i].arrival_ns;
      ds_request r = {.arrival_ns = q.arrival_ns,
                      .input_tokens = q.input_tokens,
                      .output_tokens = q.output_tokens};
      good = (ds_arrivals_add(arrivals, &r, 1) && ds_reuse_add(&reuse, &q)) ||
             ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
      forked += q.turn == 0 && q.after > 0;
      put_row(out, &q, id++, sc->workload.class_name);
    }
    if (ds_out_failed(out)) break;
  }
  if (good && !a->quiet) say(sc, arrivals, &reuse, forked);
  ds_generator_close(g);
  ds_reuse_free(&reuse);
  ds_arrivals_free(arrivals);
  free(arrivals);
  return good;
}

static bool generate(const gen_args *a, const ds_data_dirs *dirs, ds_scenario *sc, ds_diag *d) {
  if (!ds_scenario_load(a->scenario, a->sets, a->n_sets, dirs, sc, d)) return false;
  bool good = sc->workload.kind == DS_WORKLOAD_GENERATE;
  if (!good) {
    ds_diag_set(d, DS_EXIT_INPUT, a->scenario, 0, 0, "the workload is not generated");
    ds_diag_expected(d, "workload: {generate: {...}}");
  }
  if (good && sc->workload.series != DS_SERIES_NONE) {
    good = false;
    ds_diag_set(d, DS_EXIT_INPUT, a->scenario, 0, 0, "the protocol is a series of runs");
    ds_diag_expected(d, "one of them: --set workload.protocol.%s",
                     sc->workload.series == DS_SERIES_SWEEP ? "at='8 /s' (or synchronous, throughput)" : "rate='8 /s'");
  }
  ds_outfile *out = good ? ds_outfile_open(a->out != NULL ? a->out : "-", d) : NULL;
  good = out != NULL && write_all(sc, a, out, d) && ds_outfile_close(out, d);
  if (good)
    good = ds_outfile_publish(out, d);
  else
    ds_outfile_discard(out);
  ds_scenario_free(sc);
  return good;
}

int ds_cmd_gen(int argc, char **argv, const ds_data_dirs *dirs) {
  const ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  gen_args a;
  memset(&a, 0, sizeof a);
  a.sets = calloc((size_t)argc + 1, sizeof *a.sets);
  ds_scenario *sc = calloc(1, sizeof *sc);
  int status;
  if (a.sets == NULL || sc == NULL) {
    ds_diag_set(&d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    status = ds_fail(&d, c.name);
  } else {
    int go = parse(&a, &c, argc, argv, &d);
    if (go == 0)
      status = ds_help_exit(&c);
    else
      status = go > 0 && generate(&a, dirs, sc, &d) ? DS_EXIT_OK : ds_fail(&d, c.name);
  }
  free(sc);
  free(a.sets);
  return status;
}
