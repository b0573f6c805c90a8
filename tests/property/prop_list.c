// SPDX-License-Identifier: GPL-3.0-or-later
/* What `list` shows is what there is: every card of the folders with source, date and grade of each
 * number, every policy of the folders with its options. And `new` writes what the same flags run.
 */
#include "harness.h"

#include <dirent.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* Standard output of the last program as JSON, or NULL. */
static json_t *output(void) {
  json_error_t e;
  json_t *j = json_load_file(at("stdout"), JSON_REJECT_DUPLICATES, &e);
  if (!j) note("line %d: %s", e.line, e.text);
  return j;
}

/* How many files of the folder end so. */
static size_t files_of(const char *folder, const char *tail) {
  DIR *d = opendir(folder);
  if (!d) bail("no folder %s; run this in the repository root", folder);
  size_t n = 0;
  for (const struct dirent *e = readdir(d); e; e = readdir(d)) {
    size_t m = strlen(e->d_name);
    n += m > strlen(tail) && !strcmp(e->d_name + m - strlen(tail), tail);
  }
  closedir(d);
  return n;
}

static bool has_text(const json_t *o, const char *key) {
  const char *s = json_string_value(json_object_get(o, key));
  return s && *s;
}

/* Every value with all that must be known of it. */
static bool sourced(const json_t *card) {
  static const char *const grades[] = {"measured", "datasheet", "estimate"};
  json_t *values = json_object_get(card, "values"), *v;
  const char *path, *name = json_string_value(json_object_get(card, "name"));
  size_t n = 0;
  json_object_foreach(values, path, v) {
    if (!strcmp(path, "weights") || !strcmp(path, "expert_weights")) continue;
    const char *grade = json_string_value(json_object_get(v, "grade"));
    size_t g = 0;
    while (grade && g < LEN(grades) && strcmp(grade, grades[g])) g++;
    const char *source = json_string_value(json_object_get(v, "source"));
    bool known = source && has_text(json_object_get(card, "sources"), source);
    if (!grade || g == LEN(grades) || !known || !has_text(v, "date") || !has_text(v, "text")) {
      note("%s: %s has no source, date or grade", name, path);
      return false;
    }
    n++;
  }
  return n >= 5;
}

static bool lines_fit(const char *what, size_t columns) {
  char *s = slurp(at("stdout"), NULL);
  bool good = s && *s;
  for (const char *line = s; good && *line;) {
    size_t n = strcspn(line, "\n");
    if (n > columns) note("%s: %zu columns: %.*s", what, n, (int)n, line), good = false;
    line += n + (line[n] == '\n');
  }
  free(s);
  return good;
}

static void cards(const char *kind, const char *folder) {
  bool good = RUN(program(), "list", kind) == 0 && lines_fit(kind, 80);
  tap(good, "list %s fits 80 columns", kind);
  good = RUN(program(), "list", kind, "--json") == 0;
  json_t *j = good ? output() : NULL, *list = json_object_get(j, kind), *card;
  size_t i;
  good = json_array_size(list) == files_of(folder, ".yaml") && json_array_size(list) > 0;
  json_array_foreach(list, i, card) {
    char shown[80];
    good = good && sourced(card);
    /* one by one, by name */
    snprintf(shown, sizeof shown, "%s: ", json_string_value(json_object_get(card, "name")));
    shown[strlen(shown) - 2] = '\0';
    good = good && RUN(program(), "list", kind, shown) == 0 && lines_fit(shown, 80);
  }
  tap(good, "list %s --json has every card of %s/, each number with its source", kind, folder);
  json_decref(j);
  good = RUN(program(), "list", kind, "--schema") == 0 && lines_fit(kind, 80);
  tap(good, "list %s --schema", kind);
}

/* The same entry by its name, for people and for programs; a name that is not there is refused. */
static bool by_name(const char *kind, const json_t *entry) {
  const char *name = json_string_value(json_object_get(entry, "name"));
  if (RUN(program(), "list", kind, name) || !lines_fit(name, 80)) return false;
  if (RUN(program(), "list", kind, name, "--json")) return false;
  json_t *j = output();
  const char *key;
  json_t *list;
  size_t n = 0, same = 0;
  json_object_foreach(j, key, list) {
    n += json_array_size(list);
    for (size_t i = 0; i < json_array_size(list); i++)
      same += (size_t)json_equal(json_array_get(list, i), entry);
  }
  json_decref(j);
  if (n != 1 || same != 1) note("list %s %s: %zu entries, %zu as in the list", kind, name, n, same);
  return n == 1 && same == 1;
}

static bool refuses(const char *kind) {
  int status = RUN(program(), "list", kind, "no such name"); /* a card is a file: bad input */
  size_t said = 0;
  free(slurp(at("stderr"), &said));
  return (status == 2 || status == 3) && said > 0;
}

/* Counts, times and numbers say between what; counts also of what. */
static bool ranged(const json_t *option) {
  const char *type = json_string_value(json_object_get(option, "type"));
  if (!strcmp(type, "bool")) return true;
  if (!strcmp(type, "choice")) return json_array_size(json_object_get(option, "choices")) > 1;
  bool count = !strncmp(type, "integer", 7);
  bool good = has_text(option, "min") && has_text(option, "max") && (!count || has_text(option, "unit"));
  if (!good) note("%s has no range or unit", json_string_value(json_object_get(option, "name")));
  return good;
}

static void policies(const char *kind, const char *folder) {
  bool good = RUN(program(), "list", kind) == 0 && lines_fit(kind, 80);
  good = good && RUN(program(), "list", kind, "--json") == 0;
  json_t *j = good ? output() : NULL, *list = json_object_get(j, kind), *policy, *option;
  size_t i, k;
  good = json_array_size(list) == files_of(folder, ".c");
  json_array_foreach(list, i, policy) {
    good = good && has_text(policy, "name") && has_text(policy, "summary");
    good = good && has_text(policy, "reference");
    json_array_foreach(json_object_get(policy, "options"), k, option) good =
        good && has_text(option, "name") && has_text(option, "type") &&
        has_text(option, "default") && has_text(option, "help") && ranged(option);
  }
  tap(good, "list %s has every policy of %s/ with its options, their ranges and units", kind, folder);
  good = refuses(kind);
  json_array_foreach(list, i, policy) good = good && by_name(kind, policy);
  tap(good, "list %s NAME shows each alone", kind);
  json_decref(j);
}

static void plain(const char *kind) {
  bool good = RUN(program(), "list", kind) == 0 && lines_fit(kind, 80);
  good = good && RUN(program(), "list", kind, "--json") == 0;
  json_t *j = good ? output() : NULL, *list, *entry;
  tap(good && json_object_size(j) > 0, "list %s", kind);
  const char *key;
  size_t i;
  good = refuses(kind);
  json_object_foreach(j, key, list) json_array_foreach(list, i, entry)
    if (json_object_get(entry, "values") == NULL) good = good && by_name(kind, entry);
  tap(good, "list %s NAME shows each alone", kind);
  json_decref(j);
}

/* Flags and the file that `new` makes of them are the same run. */
static void new_is_run(void) {
  static const char *const flags[][16] = {
      {"--model", "llama-3.1-8b", "--hardware", "2xh100-sxm", "--rate", "20/s", "--input", "300",
       "--output", "20", "--slo", "p99 ttft 2s, mean tpot 100ms"},
      {"--model", "meta-llama/Llama-3.1-70B", "--hardware", "4xH200", "--tp", "2", "--weights",
       "fp8", "--kv", "fp8", "--rate", "300/min", "--goodput", "ttft:2000", "tpot:100"},
      {"--model", "qwen3-8b", "--hardware", "mi300x", "--scheduler", "static", "--trace",
       "traces/azure-conv-sample.csv"}};
  for (size_t i = 0; i < LEN(flags); i++) {
    const char *argv[24] = {program(), "new"};
    size_t n = 2;
    for (size_t k = 0; k < LEN(flags[i]) && flags[i][k]; k++) argv[n++] = flags[i][k];
    bool good = run(argv) == 0;
    char *text = slurp(at("stdout"), NULL);
    /* in the working folder of the flags, since a trace's path is relative to its file */
    char file[] = "new-XXXXXX.yaml";
    snprintf(file, sizeof file, "new-%06d.yaml", (int)(getpid() % 1000000));
    FILE *f = good ? fopen(file, "w") : NULL;
    good = f && fputs(text, f) >= 0;
    if (f) fclose(f);
    free(text);
    good = good && RUN(program(), "run", file, "--quiet", "--requests", at("file.csv")) == 0;
    remove(file);
    argv[1] = "run";
    argv[n++] = "--quiet";
    argv[n++] = "--requests";
    argv[n] = at("flags.csv");
    good = good && run(argv) == 0 && differ(at("file.csv"), at("flags.csv")) == 0;
    if (!good) say_stderr();
    tap(good, "flags of set %zu and the file made of them give the same bytes", i);
  }
}

int main(void) {
  harness_begin("list");
  cards("models", "models");
  cards("hardware", "hwprofiles");
  cards("engines", "models/engines");
  policies("schedulers", "sim/sched");
  policies("routers", "sim/route");
  plain("formats");
  plain("metrics");
  plain("prices");
  plain("presets");
  plain("protocols");
  new_is_run();
  return tap_end();
}
