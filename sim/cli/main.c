// SPDX-License-Identifier: GPL-3.0-or-later
/* The program: finds its data, then hands over to a command. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/commands.h"
#include "cli/options.h"
#include "core/dryserve.h"

typedef struct command {
  const char *name, *synopsis, *summary;
  int (*run)(int argc, char **argv, const ds_data_dirs *dirs);
} command;

static const command commands[] = {
    {"run", "SCENARIO | FLAGS", "simulate, and print what users would see", ds_cmd_run},
    {"new", "FLAGS", "write a scenario file from flags", ds_cmd_new},
    {"gen", "SCENARIO", "write generated requests as a trace", ds_cmd_gen},
    {"trace", "VERB FILE", "look at a trace, convert, cut, scale, merge it", ds_cmd_trace},
    {"validate", "MEASURED.csv", "simulate measured runs and print the errors", ds_cmd_validate},
    {"calibrate", "MEASURED.csv", "fit a card to measured runs", ds_cmd_calibrate},
    {"list", "KIND", "models, hardware, schedulers and what else there is", ds_cmd_list},
};
#define N_COMMANDS (sizeof commands / sizeof commands[0])

static const char *const later[] = {"sweep",     "capacity", "compare", "claim", "explain",
                                    "lesson"};

/* A closed standard stream must not become the first file that is opened: standard input and error
 * lead nowhere then, and writing to standard output fails as it should (the descriptor is open for
 * reading only). */
static void guard_streams(void) {
  for (int fd = 0; fd <= 2; fd++) {
    if (fcntl(fd, F_GETFD) >= 0) continue;
    int opened = open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
    if (opened != fd && opened > 2) close(opened);
  }
}

#define PATH_BYTES 4096

static bool has_cards(const char *dir) {
  char path[PATH_BYTES + 16];
  snprintf(path, sizeof path, "%s/hwprofiles", dir);
  return access(path, R_OK) == 0;
}

static void add_dir(ds_data_dirs *dirs, const char *dir) {
  if (dirs->n < sizeof dirs->dir / sizeof dirs->dir[0]) dirs->dir[dirs->n++] = dir;
}

/* The program's own folder, or the folder two above for one that still lies in build/<config>. */
static void add_own_dir(ds_data_dirs *dirs) {
  static char own[PATH_BYTES];
  ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
  if (n <= 0) return;
  own[n] = '\0';
  for (int up = 0; up < 3; up++) {
    char *slash = strrchr(own, '/');
    if (slash == NULL || slash == own) return;
    *slash = '\0';
    if (has_cards(own)) {
      add_dir(dirs, own);
      return;
    }
  }
}

static void find_data(ds_data_dirs *dirs) {
  memset(dirs, 0, sizeof *dirs);
  const char *chosen = getenv("DRYSERVE_DATA");
  if (chosen != NULL && chosen[0] != '\0') add_dir(dirs, chosen);
  add_own_dir(dirs);
#ifdef DS_INSTALLED_DATA_DIR
  add_dir(dirs, DS_INSTALLED_DATA_DIR);
#endif
}

static void help(ds_outfile *out) {
  ds_out_text(out,
              "dryserve answers what-if questions about serving large language models without\n"
              "the hardware: it replays requests through a model of the serving engine.\n\n"
              "Commands\n");
  for (size_t i = 0; i < N_COMMANDS; i++) {
    char left[64];
    snprintf(left, sizeof left, "%s %s", commands[i].name, commands[i].synopsis);
    ds_out_printf(out, "  %-24s %s\n", left, commands[i].summary);
  }
  ds_out_text(out,
              "  COMMAND --help           options and examples of a command\n"
              "  --version                the version\n"
              "\nExamples\n"
              "  # chat traffic at 12 requests a second on two H200: is the SLO met?\n"
              "  dryserve run --model llama-3.1-70b --weights fp8 --hardware 2xh200-sxm \\\n"
              "               --tp 2 --rate 12/s --slo 'p99 ttft 2s, p99 tpot 100ms'\n"
              "  # the same as a file, to read and to change\n"
              "  dryserve new --model llama-3.1-70b --weights fp8 --hardware 2xh200-sxm \\\n"
              "               --tp 2 --rate 12/s > chat.yaml\n"
              "  dryserve run chat.yaml --set pools.main.replicas=4 --json result.json\n"
              "  # what there is to choose from\n"
              "  dryserve list hardware\n"
              "\nExit status: 0 done, 1 failed, 2 wrong usage, 3 bad input, 4 an SLO missed.\n");
}

static int print_text(void (*write)(ds_outfile *out)) {
  ds_diag d = {.exit = DS_EXIT_OK};
  ds_outfile *out = ds_outfile_open("-", &d);
  if (out == NULL) return ds_fail(&d, "");
  write(out);
  if (!ds_outfile_close(out, &d)) {
    ds_outfile_discard(out);
    return ds_fail(&d, "");
  }
  return ds_outfile_publish(out, &d) ? DS_EXIT_OK : ds_fail(&d, "");
}

static void version(ds_outfile *out) { ds_out_text(out, "dryserve " DS_VERSION "\n"); }

static int unknown_command(const char *word) {
  ds_diag d = {.exit = DS_EXIT_OK};
  for (size_t i = 0; i < sizeof later / sizeof later[0]; i++)
    if (strcmp(word, later[i]) == 0) {
      ds_diag_set(&d, DS_EXIT_USAGE, NULL, 0, 0, "command %s is not part of this version", word);
      return ds_fail(&d, "");
    }
  const char *names[N_COMMANDS + 2];
  size_t n = 0;
  for (size_t i = 0; i < N_COMMANDS; i++) names[n++] = commands[i].name;
  names[n++] = "--help";
  names[n++] = "--version";
  ds_unknown(&d, word[0] == '-' ? "option" : "command", word, names, n);
  return ds_fail(&d, "");
}

int main(int argc, char **argv) {
  guard_streams();
  ds_outfile_guard_signals();
  if (argc < 2) {
    ds_diag d = {.exit = DS_EXIT_OK};
    ds_diag_set(&d, DS_EXIT_USAGE, NULL, 0, 0, "no command given");
    ds_diag_expected(&d, "one of run, new, gen, trace, validate, calibrate, list");
    return ds_fail(&d, "");
  }
  const char *word = argv[1];
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
    return print_text(help);
  if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0) return print_text(version);
  for (size_t i = 0; i < N_COMMANDS; i++) {
    if (strcmp(word, commands[i].name) != 0) continue;
    ds_data_dirs dirs;
    find_data(&dirs);
    return commands[i].run(argc - 1, argv + 1, &dirs);
  }
  return unknown_command(word);
}
