// SPDX-License-Identifier: GPL-3.0-or-later
/* The samples of every trace format with bytes changed, cut out and doubled: each file is read or
 * refused with one complaint, under any import rules; what is read is fit for the simulator; and
 * the account adds up. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/rng.h"
#include "io/trace.h"
#include "io/trace_source.h"

#define FILE_MAX 65536
#define ROUNDS   60

static char bytes[4 * FILE_MAX], path[64];
static const char *const samples[] = {"mooncake-sample.jsonl",      "mooncake-agentic-sample.jsonl",
                                      "burstgpt-sample.csv",        "bailian-sample.jsonl",
                                      "weka-sample.json",           "ragpulse-sample/0_trace.jsonl",
                                      "llmservingsim-sample.jsonl", "tracev2-sample.csv",
                                      "vidur-sample.csv",           "splitwise-sample.csv",
                                      "bench-sample.json",          "litellm-sample.jsonl",
                                      "otel-sample.json",           "dynamo-sample.jsonl",
                                      "native-sample.jsonl"};

static size_t load(const char *name) {
  char from[200];
  snprintf(from, sizeof from, "traces/%s", name);
  FILE *f = fopen(from, "rb");
  size_t n = f != NULL ? fread(bytes, 1, FILE_MAX, f) : 0;
  if (f != NULL) fclose(f);
  return n;
}

static size_t mutate(size_t n, ds_rng *rng) {
  static const char odd[] = "\"{}[],:\\\n\r0-9e.\x01\xff ";
  for (uint64_t k = ds_rng_below(rng, 4) + 1; k > 0 && n > 2; k--) {
    size_t at = (size_t)ds_rng_below(rng, n), m = (size_t)ds_rng_below(rng, 40) + 1;
    if (m > n - at) m = n - at;
    switch (ds_rng_below(rng, 4)) {
    case 0:
      bytes[at] = odd[ds_rng_below(rng, sizeof odd - 1)];
      break;
    case 1:
      memmove(bytes + at, bytes + at + m, n - at - m);
      n -= m;
      break;
    case 2:
      memmove(bytes + at + m, bytes + at, n - at);
      n += m;
      break;
    default:
      if (ds_rng_below(rng, 4) == 0) n = at;
      break;
    }
  }
  return n;
}

static const char *broken(size_t n, ds_rng *rng) {
  FILE *f = fopen(path, "wb");
  if (f == NULL || fwrite(bytes, 1, n, f) != n || fclose(f) != 0) return "cannot write";
  ds_workload w;
  ds_diag d;
  ds_trace *t;
  memset(&w, 0, sizeof w);
  memset(&d, 0, sizeof d);
  w.kind = DS_WORKLOAD_TRACE;
  w.time_scale = 1.0;
  strcpy(w.path, path);
  uint64_t rules = ds_rng_bits(rng);
  w.zero_given = rules & 1;
  w.zero = rules & 2 ? DS_REPAIR_DROP : DS_REPAIR_CLAMP;
  w.unsorted_given = true;
  w.unsorted = rules & 4 ? DS_REPAIR_SORT : DS_REPAIR_ERROR;
  w.drop_malformed = rules & 8;
  w.keep_failed = rules & 16;
  w.drop_duplicates = rules & 32;
  w.closed_loop = rules & 64;
  w.open_loop = !w.closed_loop && rules & 128;
  w.session_input = rules & 256 ? 'd' : 0;
  w.dequantize_ns = rules & 512 ? DS_NS_PER_S : 0;
  w.share = rules & 1024 ? 0.5 : 0;
  w.whole_sessions = rules & 2048;
  w.window_to_ns = rules & 4096 ? 60 * DS_NS_PER_S : 0;
  w.select_first = rules & 8192 ? 5 : 0;
  bool good = ds_trace_open(&w, rules, &t, &d);
  const char *wrong = NULL;
  int64_t last_ns = 0;
  uint64_t index = 0;
  if (good) {
    ds_request r[9];
    const ds_more *more[9];
    for (size_t got = 1; good && got > 0 && wrong == NULL;) {
      good = ds_trace_read_more(t, r, more, 9, &got, &d);
      for (size_t i = 0; good && i < got; i++, index++) {
        if (r[i].arrival_ns < last_ns) wrong = "out of order";
        if (r[i].input_tokens < 1 || r[i].output_tokens < 1) wrong = "zero tokens";
        if (r[i].max_tokens < r[i].output_tokens) wrong = "a cap below the output";
        if (r[i].after > index) wrong = "follows one that comes later";
        if (r[i].think_ns < 0) wrong = "a negative pause";
        uint64_t tokens = 0;
        for (uint32_t k = 0; k < r[i].n_spans; k++) tokens += r[i].spans[k].tokens;
        if (tokens > (uint64_t)r[i].input_tokens + r[i].output_tokens)
          wrong = "spans of more tokens than it has";
        if (more[i] != NULL)
          for (uint64_t k = 0; k < more[i]->n_blocks; k++)
            tokens ^= more[i]->blocks[k]; /* readable */
        last_ns = r[i].arrival_ns;
      }
    }
    const ds_trace_report *p = ds_trace_report_of(t);
    const char *key, *what;
    uint64_t count, sum = p->kept;
    bool dropped;
    for (size_t i = 0; ds_trace_reason(p, i, &key, &what, &count, &dropped); i++)
      sum += dropped ? count : 0;
    if (good && sum != p->rows_read) wrong = "the account does not add up";
    ds_trace_close(t);
  }
  if (!good && (d.exit != DS_EXIT_INPUT || d.text[0] == '\0'))
    wrong = "no complaint about the input";
  return wrong;
}

int main(void) {
  strcpy(path, "/tmp/dryserve-prop-readers-XXXXXX");
  const char *deep = getenv("DRYSERVE_DEEP");
  uint64_t rounds = deep != NULL && strcmp(deep, "0") != 0 ? 20 * ROUNDS : ROUNDS;
  int failed = 0, fd = mkstemp(path);
  if (fd >= 0) close(fd);
  for (size_t s = 0; s < DS_ARRAY_LEN(samples); s++) {
    const char *wrong = NULL;
    uint64_t round = 0;
    for (; round < rounds && wrong == NULL; round++) {
      ds_rng rng = ds_rng_stream(s, DS_PURPOSE_TEST, round);
      size_t n = load(samples[s]);
      if (n == 0) {
        wrong = "no such sample";
        break;
      }
      wrong = broken(mutate(n, &rng), &rng);
    }
    if (wrong != NULL)
      fprintf(stderr, "# %s, round %llu: %s\n", samples[s], (unsigned long long)round, wrong);
    printf("%s %zu - %s, changed at random\n", wrong == NULL ? "ok" : "not ok", s + 1, samples[s]);
    failed += wrong != NULL;
  }
  unlink(path);
  printf("1..%zu\n", DS_ARRAY_LEN(samples));
  return failed > 0;
}
