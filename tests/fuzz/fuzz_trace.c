// SPDX-License-Identifier: GPL-3.0-or-later
/* Any bytes as a trace file: read or refused with one complaint, and what is read is what the
 * simulator may take. The first byte chooses the import rules. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/trace.h"
#include "io/trace_source.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool condition) {
  if (!condition) abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static int fd = -1;
  static char path[] = "/dev/shm/dryserve-fuzz-XXXXXX";
  if (n == 0) return 0;
  if (fd < 0) fd = mkstemp(path);
  must(fd >= 0 && ftruncate(fd, 0) == 0 && pwrite(fd, data + 1, n - 1, 0) == (ssize_t)(n - 1));
  ds_workload w;
  ds_diag d;
  ds_trace *t;
  memset(&w, 0, sizeof w);
  memset(&d, 0, sizeof d);
  w.kind = DS_WORKLOAD_TRACE;
  strcpy(w.path, path);
  w.time_scale = data[0] & 1 ? 0.3 : 1.0;
  w.zero = data[0] & 2 ? DS_REPAIR_DROP : data[0] & 4 ? DS_REPAIR_CLAMP : DS_REPAIR_ERROR;
  w.unsorted = data[0] & 8 ? DS_REPAIR_SORT : DS_REPAIR_ERROR;
  w.select_first = data[0] & 16 ? 2 : 0;
  w.window_to_ns = data[0] & 32 ? DS_NS_PER_S : 0;
  if (data[0] & 64) strcpy(w.format, data[0] & 128 ? "azure" : "jsonl");
  bool good = ds_trace_open(&w, 1, &t, &d);
  int64_t last_ns = 0;
  for (size_t got = 1; good && got > 0;) {
    ds_request r[9];
    good = ds_trace_read(t, r, DS_ARRAY_LEN(r), &got, &d);
    for (size_t i = 0; good && i < got; i++) {
      must(r[i].arrival_ns >= last_ns && r[i].input_tokens >= 1 && r[i].output_tokens >= 1);
      must(r[i].input_tokens <= DS_TOKENS_MAX && r[i].max_tokens >= r[i].output_tokens);
      last_ns = r[i].arrival_ns;
    }
  }
  must(good || (d.exit == DS_EXIT_INPUT && d.text[0] != '\0'));
  ds_trace_close(t);
  return 0;
}
