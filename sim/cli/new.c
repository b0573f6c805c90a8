// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve new: the scenario that the flags mean, as a file to read and to change. */
#include <stdlib.h>
#include <string.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "io/flags.h"

static const ds_example examples[] = {
    {"dryserve new --model llama-3.1-8b --hardware h100-sxm --rate 10/s > chat.yaml",
     "a first scenario"},
    {"dryserve new --model llama-3.1-70b --weights fp8 --hardware 4xh200-sxm \\\n"
     "               --tp 2 --rate 12/s \\\n"
     "               --slo 'p99 ttft 2s, p99 tpot 100ms' > chat.yaml",
     "two replicas of two accelerators, with limits"},
    {"dryserve new --from-command 'vllm serve Qwen/Qwen3-32B -tp 2' \\\n"
     "               --hardware h100-sxm --users 500",
     "what runs already, for 500 people"},
};

static const ds_option options[] = {
    {"--from-command", "TEXT",
     "an engine's command line: vllm serve ..., sglang.launch_server ... or trtllm-serve ...; "
     "further lines are what the engine printed"},
    {"--startup", "LINE",
     "the line in which the engine printed its KV size, e.g. 'GPU KV cache size: 643,232 tokens'"},
};

static ds_command command_of(void) {
  ds_command c = {
      .name = "new",
      .synopsis = "FLAGS | --from-command 'vllm serve ...' FLAGS",
      .summary = "Print the scenario that the flags mean.",
      .text = "`dryserve run` understands the same flags; a file is for keeping and changing.",
      .options = options,
      .n_options = sizeof options / sizeof options[0],
      .more_options = ds_flag_options,
      .n_more = ds_n_flag_options,
      .more_heading = "Flags",
      .examples = examples,
      .n_examples = sizeof examples / sizeof examples[0],
  };
  return c;
}

/* The flags. 1: go on; 0: help was asked for; -1: wrong. */
static int parse(const ds_command *c, int argc, char **argv, ds_flag *flags, size_t *n,
                 ds_diag *d) {
  ds_args args = {.argc = argc, .argv = argv, .at = 1};
  for (;;) {
    const ds_option *o;
    const char *value;
    switch (ds_args_next(&args, c, &o, &value, d)) {
    case DS_ARG_END:
      return 1;
    case DS_ARG_HELP:
      return 0;
    case DS_ARG_WRONG:
      return -1;
    case DS_ARG_OPTION:
      flags[(*n)++] = (ds_flag){o->name, value};
      break;
    case DS_ARG_OPERAND:
      ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "'%.100s' is no flag", value);
      ds_diag_expected(d, "flags such as --model, --hardware and --rate");
      return -1;
    }
  }
}

/* What was left out of an engine's command stands as comments on top; one goes on after "#   ". */
static void say_notes(const char *text) {
  while (text[0] == '#') {
    char note[600];
    size_t n = 0;
    do {
      const char *from = text + 1 + strspn(text + 1, " ");
      size_t bytes = strcspn(from, "\n");
      if (n + bytes + 2 < sizeof note)
        n += (size_t)snprintf(note + n, sizeof note - n, "%s%.*s", n > 0 ? " " : "", (int)bytes, from);
      text = from + bytes + 1;
    } while (strncmp(text, "#  ", 3) == 0);
    ds_say("note: %s", note);
  }
}

static bool print(const char *text, ds_diag *d) {
  ds_outfile *out = ds_outfile_open("-", d);
  if (!out) return false;
  ds_out_text(out, text);
  if (!ds_outfile_close(out, d)) {
    ds_outfile_discard(out);
    return false;
  }
  return ds_outfile_publish(out, d);
}

/* Names that no card has should be found now, not when the file is run. */
static bool check(const char *text, const ds_data_dirs *dirs, ds_diag *d) {
  ds_scenario sc;
  if (!ds_scenario_parse(text, strlen(text), "flags", "", NULL, 0, dirs, &sc, d)) return false;
  ds_scenario_free(&sc);
  return true;
}

int ds_cmd_new(int argc, char **argv, const ds_data_dirs *dirs) {
  ds_command c = command_of();
  ds_diag d = {.exit = DS_EXIT_OK};
  size_t n = 0;
  char *text = NULL;
  ds_flag *flags = calloc((size_t)argc + 1, sizeof *flags);
  if (!flags) {
    ds_diag_set(&d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    return ds_fail(&d, c.name);
  }
  int go = parse(&c, argc, argv, flags, &n, &d);
  if (go == 0) {
    free(flags);
    return ds_help_exit(&c);
  }
  bool ok =
      go == 1 && ds_flags_scenario(flags, n, &text, &d) && check(text, dirs, &d) && print(text, &d);
  if (ok) say_notes(text);
  free(text);
  free(flags);
  return ok ? DS_EXIT_OK : ds_fail(&d, c.name);
}
