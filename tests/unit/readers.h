// SPDX-License-Identifier: GPL-3.0-or-later
/* What the tests of trace readers share: a folder, a file in it, and what became of it. */
#ifndef TESTS_UNIT_READERS_H
#define TESTS_UNIT_READERS_H

#include <criterion/criterion.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "io/trace.h"
#include "io/trace_source.h"

#define ROWS_MAX 4096

static char folder[64];

static void make_folder(void) {
  strcpy(folder, "/tmp/dryserve-readers-XXXXXX");
  cr_assert(mkdtemp(folder) != NULL);
}

static void remove_folder(void) {
  char command[80];
  snprintf(command, sizeof command, "rm -rf '%s'", folder);
  cr_assert_eq(system(command), 0);
}


static void write_file(const char *name, const void *bytes, size_t n) {
  char path[96];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  cr_assert(f != NULL && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
}

static inline ds_workload workload(void) {
  ds_workload w;
  memset(&w, 0, sizeof w);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1.0;
  snprintf(w.path, sizeof w.path, "%s/t", folder);
  strcpy(w.path_given, "t");
  return w;
}

typedef struct outcome {
  bool good, closed;
  ds_diag d;
  ds_request r[ROWS_MAX];
  ds_more more[ROWS_MAX]; /* blocks and texts are gone with the trace */
  bool has_more[ROWS_MAX];
  int64_t line[ROWS_MAX];
  uint64_t first_block[ROWS_MAX], blocks[ROWS_MAX];
  char session[ROWS_MAX][24], id[ROWS_MAX][24];
  size_t n;
  ds_trace_report report;
  char format[16], account[500];
} outcome;

static outcome o;

static inline void read_with(const ds_workload *w, size_t cap) {
  ds_trace *t;
  const ds_more *more[64];
  memset(&o, 0, sizeof o);
  o.good = ds_trace_open(w, 1, &t, &o.d);
  if (!o.good) return;
  for (size_t got = 1; o.good && got > 0; o.n += got) {
    cr_assert(o.n + cap <= ROWS_MAX);
    o.good = ds_trace_read_more(t, o.r + o.n, more, cap, &got, &o.d);
    for (size_t i = 0; i < got; i++) {
      size_t k = o.n + i;
      o.line[k] = ds_trace_line(t, k);
      snprintf(o.id[k], sizeof o.id[k], "%s", ds_trace_id(t, k));
      if (more[i] == NULL) continue;
      o.has_more[k] = true;
      o.more[k] = *more[i];
      o.blocks[k] = more[i]->n_blocks;
      if (more[i]->n_blocks > 0) o.first_block[k] = more[i]->blocks[0];
      if (more[i]->session != NULL)
        snprintf(o.session[k], sizeof o.session[k], "%s", more[i]->session);
    }
  }
  o.report = *ds_trace_report_of(t);
  o.closed = ds_trace_is_closed(t);
  snprintf(o.format, sizeof o.format, "%s", ds_trace_format(t));
  ds_trace_account(t, o.account, sizeof o.account);
  ds_trace_close(t);
}

static inline void read_text(const ds_workload *w, const char *text) {
  write_file("t", text, strlen(text));
  read_with(w, 7);
}

static inline void must_read(const ds_workload *w, const char *text, const char *format, size_t n) {
  read_text(w, text);
  cr_assert(o.good, "%s (expected %s), line %lld: %.200s", o.d.text, o.d.expected,
            (long long)o.d.line, text);
  cr_assert_str_eq(o.format, format);
  cr_assert_eq(o.n, n, "%zu requests of %.200s", o.n, text);
}

static inline void is(size_t i, int64_t at_ns, uint32_t in, uint32_t out) {
  cr_assert_eq(o.r[i].arrival_ns, at_ns, "request %zu at %lld", i, (long long)o.r[i].arrival_ns);
  cr_assert_eq(o.r[i].input_tokens, in, "request %zu: %u in", i, o.r[i].input_tokens);
  cr_assert_eq(o.r[i].output_tokens, out, "request %zu: %u out", i, o.r[i].output_tokens);
}

#define MS DS_NS_PER_MS
#define S  DS_NS_PER_S

static const char weka[] =
    "{\"id\":\"w\",\"models\":[\"m\"],\"block_size\":64,\"hash_id_scope\":\"local\",\"requests\":["
    "{\"t\":0.0,\"type\":\"s\",\"model\":\"m\",\"in\":130,\"out\":10,\"hash_ids\":[1,2],\"api_"
    "time\":2.5,\"ttft\":0.5},"
    "{\"t\":5.0,\"type\":\"subagent\",\"agent_id\":\"x\",\"duration_ms\":4000,\"requests\":["
    "{\"t\":0.0,\"type\":\"n\",\"model\":\"m\",\"in\":70,\"out\":3,\"hash_ids\":[7],\"api_time\":1}"
    ","
    "{\"t\":3.0,\"type\":\"n\",\"model\":\"m\",\"in\":80,\"out\":4,\"hash_ids\":[7],\"think_time\":"
    "1.75}]},"
    "{\"t\":20.0,\"type\":\"n\",\"model\":\"m\",\"in\":200,\"out\":0,\"hash_ids\":[1,2,3],\"think_"
    "time\":1}]}\n";

#endif
