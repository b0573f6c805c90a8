// SPDX-License-Identifier: GPL-3.0-or-later
/* How fast traces are read, on one core: rows and bytes a second of processor time, hashing included, against plain
 * memory traffic over the same bytes (a count of line ends), measured in the same run. Files are read once before they are
 * measured, so that disks do not count.
 *   bench_readers FILE... */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#include "io/trace.h"

static double cpu_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static bool read_once(const char *path, size_t *rows, double *s, char *format, size_t room) {
  static ds_request chunk[4096];
  ds_workload w;
  ds_trace *t = NULL;
  ds_diag d = {0};
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1;
  w.unsorted = DS_REPAIR_SORT;
  snprintf(w.path, sizeof w.path, "%s", path);
  snprintf(w.path_given, sizeof w.path_given, "%s", path);
  double start = cpu_s();
  bool good = ds_trace_open(&w, 1, &t, &d);
  *rows = 0;
  for (size_t got = 1; good && got > 0; *rows += got) good = ds_trace_read(t, chunk, 4096, &got, &d);
  *s = cpu_s() - start;
  if (!good) fprintf(stderr, "bench_readers: %s: %s\n", path, d.text);
  if (good) snprintf(format, room, "%s", ds_trace_format(t));
  if (t != NULL) ds_trace_close(t);
  return good;
}

static double count_lines_s(const char *path, size_t bytes) {
  char *text = malloc(bytes);
  FILE *f = fopen(path, "rb");
  if (text == NULL || f == NULL || fread(text, 1, bytes, f) != bytes) bytes = 0;
  double start = cpu_s();
  size_t lines = 0;
  for (size_t i = 0; i < bytes; i++) lines += text[i] == '\n';
  double s = cpu_s() - start;
  if (lines == SIZE_MAX) puts("");
  if (f != NULL) fclose(f);
  free(text);
  return s;
}

int main(int argc, char **argv) {
  int bad = 0;
  for (int i = 1; i < argc; i++) {
    struct stat st;
    size_t rows = 0;
    char format[32] = "";
    double best = 1e9, s;
    bool good = stat(argv[i], &st) == 0;
    for (int k = 0; k < 4 && good; k++) { /* the first one warms up */
      good = read_once(argv[i], &rows, &s, format, sizeof format);
      if (k > 0 && s < best) best = s;
    }
    if (!good) {
      bad = 1;
      continue;
    }
    double plain = count_lines_s(argv[i], (size_t)st.st_size), bytes = (double)st.st_size;
    printf("read %-9s %8.2f million rows/s %8.1f MB/s %7.1f times a count of line ends  %s\n", format,
           (double)rows / best / 1e6, bytes / best / 1e6, plain > 0 ? best / plain : 0, argv[i]);
  }
  return bad;
}
