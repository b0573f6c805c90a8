// SPDX-License-Identifier: GPL-3.0-or-later
/* What the property drivers share: TAP lines, running programs, reading what they wrote, random
 * numbers.
 *
 * The drivers see the program only through its command line: $DRYSERVE (default ./dryserve), and
 * write below $BUILD (default build/release). DRYSERVE_DEEP=1 multiplies the number of random
 * scenarios by 20, DRYSERVE_FEW=1 divides it by 10. */
#ifndef TESTS_PROPERTY_HARNESS_H
#define TESTS_PROPERTY_HARNESS_H

#include <fcntl.h>
#include <jansson.h>
#include <math.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

typedef int64_t i64;

/* --- TAP --- */

static int taps, taps_failed;

__attribute__((format(printf, 2, 3))) static inline bool tap(bool good, const char *format, ...) {
  va_list ap;
  printf("%s %d - ", good ? "ok" : "not ok", ++taps);
  va_start(ap, format);
  vprintf(format, ap);
  va_end(ap);
  putchar('\n');
  fflush(stdout);
  taps_failed += !good;
  return good;
}

static inline void tap_skip(const char *what, const char *why) {
  printf("ok %d - %s # SKIP %s\n", ++taps, what, why);
  fflush(stdout);
}

static inline int tap_end(void) {
  printf("1..%d\n", taps);
  return taps_failed ? 1 : 0;
}

/* A remark in the log; at most 40 of them, so that one broken rule does not fill the disk. */
__attribute__((format(printf, 1, 2))) static inline void note(const char *format, ...) {
  static int n;
  if (n++ >= 40) return;
  va_list ap;
  fputs("# ", stdout);
  va_start(ap, format);
  vprintf(format, ap);
  va_end(ap);
  putchar('\n');
  fflush(stdout);
}

__attribute__((format(printf, 1, 2), noreturn)) static inline void bail(const char *format, ...) {
  va_list ap;
  fputs("Bail out! ", stdout);
  va_start(ap, format);
  vprintf(format, ap);
  va_end(ap);
  putchar('\n');
  fflush(stdout);
  exit(1);
}

/* --- places --- */

static inline const char *setting(const char *name, const char *otherwise) {
  const char *s = getenv(name);
  return s && *s ? s : otherwise;
}
static inline const char *program(void) { return setting("DRYSERVE", "./dryserve"); }
static inline bool deep(void) { return strcmp(setting("DRYSERVE_DEEP", "0"), "0") != 0; }
/* DRYSERVE_FEW=1 divides by 10: under sanitizers a case takes as long as ten. */
static inline bool few(void) {
  const char *v = getenv("DRYSERVE_FEW");
  return v && *v && strcmp(v, "0") != 0;
}
static inline int rounds(int quick) { return deep() ? 20 * quick : few() ? (quick + 9) / 10 : quick; }

static char work_dir[1024];

/* The driver's own folder below $BUILD; run this first. */
static inline void harness_begin(const char *driver) {
  const char *build = setting("BUILD", "build/release");
  char path[1024];
  snprintf(path, sizeof path, "%.900s/property", build);
  snprintf(work_dir, sizeof work_dir, "%.960s/%.60s", path, driver);
  for (char *c = work_dir + 1; *c; c++)
    if (*c == '/') *c = 0, mkdir(work_dir, 0777), *c = '/';
  mkdir(work_dir, 0777);
  if (access(work_dir, W_OK)) bail("cannot write in %s", work_dir);
  if (access(program(), X_OK)) bail("no program at %s; set DRYSERVE", program());
}

/* A path in that folder. The last 32 stay valid. */
__attribute__((format(printf, 1, 2))) static inline const char *at(const char *format, ...) {
  static char s[32][1200];
  static int next;
  char *out = s[next = (next + 1) % 32];
  int n = snprintf(out, sizeof s[0], "%s/", work_dir);
  va_list ap;
  va_start(ap, format);
  vsnprintf(out + n, sizeof s[0] - (size_t)n, format, ap);
  va_end(ap);
  return out;
}

/* --- programs --- */

/* Run argv (NULL at its end) with no input, its output in <folder>/stdout and <folder>/stderr.
 * Exit status, or 128 and the signal. */
static inline int run(const char *const *argv) {
  posix_spawn_file_actions_t fa;
  posix_spawn_file_actions_init(&fa);
  posix_spawn_file_actions_addopen(&fa, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&fa, 1, at("stdout"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  posix_spawn_file_actions_addopen(&fa, 2, at("stderr"), O_WRONLY | O_CREAT | O_TRUNC, 0666);
  char *args[40];
  int n = 0;
  while (argv[n] && n < 39) memcpy(&args[n], &argv[n], sizeof args[n]), n++;
  args[n] = NULL;
  pid_t pid;
  if (posix_spawn(&pid, argv[0], &fa, NULL, args, environ)) bail("cannot run %s", argv[0]);
  posix_spawn_file_actions_destroy(&fa);
  int status;
  if (waitpid(pid, &status, 0) != pid) bail("lost %s", argv[0]);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}
#define RUN(...) run((const char *const[]){__VA_ARGS__, NULL})

/* Whether this version of the program knows scheduling_policy: priority. */
static inline bool schedules_by_priority(void) {
  FILE *f = fopen(at("priority.yaml"), "w");
  if (!f) bail("cannot write in %s", work_dir);
  fputs("scenario: 1\npools: [{scheduler: vllm-v1, kv_blocks: 9, scheduler_options: "
        "{scheduling_policy: priority}}]\ncost: {model: linear, step: 1 ms, prefill_token: 1 ms, "
        "decode_sequence: 1 ms}\nworkload: {requests: [{arrival_ns: 0, input_tokens: 1, "
        "output_tokens: 1, priority: 1}]}\n",
        f);
  fclose(f);
  return RUN(program(), "run", at("priority.yaml"), "--quiet") == 0;
}

/* --- files --- */

static inline char *slurp(const char *path, size_t *bytes) {
  FILE *f = fopen(path, "rb");
  if (!f) return NULL;
  struct stat st;
  if (fstat(fileno(f), &st)) bail("cannot stat %s", path);
  char *s = malloc((size_t)st.st_size + 1);
  if (!s) bail("out of memory");
  size_t n = fread(s, 1, (size_t)st.st_size, f);
  fclose(f);
  s[n] = 0;
  if (bytes) *bytes = n;
  return s;
}

static inline void say_stderr(void) {
  char *s = slurp(at("stderr"), NULL);
  if (s) {
    s[strcspn(s, "\n")] = 0;
    note("stderr: %.300s", s);
  }
  free(s);
}

static inline void keep(const char *file, const char *name) {
  char *s = slurp(file, NULL);
  FILE *f = s ? fopen(at("%s", name), "w") : NULL;
  if (f) fputs(s, f), fclose(f);
  free(s);
}

/* First line at which the files differ, 0 when they are alike. Prints it. */
static inline int differ(const char *a, const char *b) {
  size_t na = 0, nb = 0;
  char *x = slurp(a, &na), *y = slurp(b, &nb);
  if (!x || !y) {
    note("missing: %s", x ? b : a);
    free(x), free(y);
    return 1;
  }
  int line = 0;
  if (na != nb || memcmp(x, y, na)) {
    line = 1;
    size_t i = 0, start = 0;
    for (; i < na && i < nb && x[i] == y[i]; i++)
      if (x[i] == '\n') line++, start = i + 1;
    if (i - start > 160) start = i - 160;
    note("line %d of %s: %.*s", line, a,
         (int)strcspn(x + start, "\n") < 240 ? (int)strcspn(x + start, "\n") : 240, x + start);
    note("line %d of %s: %.*s", line, b,
         (int)strcspn(y + start, "\n") < 240 ? (int)strcspn(y + start, "\n") : 240, y + start);
  }
  free(x), free(y);
  return line;
}

/* A JSONL file as an array; NULL when it is missing or not JSON. */
static inline json_t *load_lines(const char *path) {
  char *s = slurp(path, NULL);
  if (!s) return NULL;
  json_t *all = json_array();
  for (char *line = s; *line;) {
    size_t n = strcspn(line, "\n");
    json_t *v = json_loadb(line, n, JSON_REJECT_DUPLICATES, NULL);
    if (!v) {
      note("not JSON: %.*s", n < 120 ? (int)n : 120, line);
      json_decref(all);
      free(s);
      return NULL;
    }
    json_array_append_new(all, v);
    line += n + (line[n] == '\n');
  }
  free(s);
  return all;
}

static inline i64 get_int(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  return json_is_integer(v) ? (i64)json_integer_value(v) : INT64_MIN;
}
/* A time of the output in nanoseconds: `per` of them in its unit. A double holds every nanosecond
 * for 100 days. */
static inline i64 get_ns(const json_t *o, const char *key, double per) {
  const json_t *v = json_object_get(o, key);
  return json_is_number(v) ? llround(json_number_value(v) * per) : INT64_MIN;
}

/* --- CSV: rows of cells, no quotes in what we read --- */

typedef struct table {
  char *text;
  char ***cell; /* [row][column]; row 0 is the header */
  int rows, columns;
} table;

static inline void table_free(table *t) {
  for (int i = 0; i < t->rows; i++) free(t->cell[i]);
  free(t->cell), free(t->text);
  *t = (table){0};
}

static inline bool table_load(const char *path, table *t) {
  *t = (table){.text = slurp(path, NULL)};
  if (!t->text) return false;
  t->columns = 1;
  for (const char *c = t->text; *c && *c != '\n'; c++) t->columns += *c == ',';
  int cap = 0;
  for (char *c = t->text; *c;) {
    if (t->rows == cap &&
        !(t->cell = realloc(t->cell, (size_t)(cap = cap ? 2 * cap : 64) * sizeof *t->cell)))
      bail("out of memory");
    char **row = t->cell[t->rows++] = calloc((size_t)t->columns, sizeof *row);
    int n = 0;
    for (bool more = true; more;) {
      size_t k = strcspn(c, ",\r\n");
      if (n < t->columns) row[n++] = c;
      more = c[k] == ',';
      char *after = c + k + (c[k] != 0);
      if (c[k] == '\r' && *after == '\n') after++;
      c[k] = 0;
      c = after;
    }
    if (n != t->columns) {
      table_free(t);
      return false;
    }
  }
  return true;
}

static inline int column(const table *t, const char *name) {
  for (int i = 0; i < t->columns; i++)
    if (!strcmp(t->cell[0][i], name)) return i;
  bail("no column %s", name);
}

/* Decimal digits to an integer of 10^-places, exactly; INT64_MIN when it is not such a number. */
static inline i64 exact(const char *s, int places) {
  bool minus = *s == '-';
  s += minus;
  if (*s < '0' || *s > '9') return INT64_MIN;
  i64 v = 0;
  for (; *s >= '0' && *s <= '9'; s++) v = 10 * v + (*s - '0');
  if (*s == '.') s++;
  for (; places > 0; places--) v = 10 * v + (*s >= '0' && *s <= '9' ? *s++ - '0' : 0);
  while (*s == '0') s++;
  return *s ? INT64_MIN : minus ? -v : v;
}
static inline i64 cell_ns(const table *t, int row, const char *name) {
  size_t n = strlen(name);
  return exact(t->cell[row][column(t, name)], n > 3 && !strcmp(name + n - 3, "_ms") ? 6 : 9);
}
static inline i64 cell_int(const table *t, int row, const char *name) {
  return exact(t->cell[row][column(t, name)], 0);
}

/* --- random numbers: splitmix64 --- */

static inline uint64_t draw(uint64_t *s) {
  uint64_t z = (*s += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}
static inline i64 between(uint64_t *s, i64 low, i64 high) {
  return low + (i64)(draw(s) % (uint64_t)(high - low + 1));
}
static inline bool chance(uint64_t *s, int percent) { return between(s, 1, 100) <= percent; }
static inline double uniform(uint64_t *s) { return (double)(draw(s) >> 11) * 0x1p-53; }
static inline double exponential(uint64_t *s) { return -log1p(-uniform(s)); }

#endif
