// SPDX-License-Identifier: GPL-3.0-or-later
/* Part of naive.c: from scenario and trace files to its settings S. */
#ifndef TESTS_NAIVE_READING_H
#define TESTS_NAIVE_READING_H

/* --- reading --- */

static char *slurp(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) die("cannot open %s", path);
  size_t n = 0, cap = 1 << 16;
  char *s = get(cap + 1);
  for (size_t k; (k = fread(s + n, 1, cap - n, f)) > 0;)
    if ((n += k) == cap && !(s = realloc(s, (cap *= 2) + 1))) die("out of memory");
  s[n] = 0;
  fclose(f);
  return s;
}

static i64 integer(const json_t *o, const char *key, i64 otherwise) {
  const json_t *v = json_object_get(o, key);
  if (!v) return otherwise;
  if (!json_is_integer(v)) die("%s: not an integer", key);
  return (i64)json_integer_value(v);
}
static bool truth(const json_t *o, const char *key, bool otherwise) {
  const json_t *v = json_object_get(o, key);
  return v ? json_is_true(v) : otherwise;
}
static const char *text(const json_t *o, const char *key, const char *otherwise) {
  const json_t *v = json_object_get(o, key);
  return json_is_string(v) ? json_string_value(v) : otherwise;
}
static i64 duration(const json_t *o, const char *key, i64 otherwise_ns) {
  const char *s = text(o, key, NULL);
  if (!s) return otherwise_ns;
  char *unit;
  double x = strtod(s, &unit);
  while (*unit == ' ') unit++;
  double ns = !strcmp(unit, "ns")   ? 1
              : !strcmp(unit, "us") ? 1e3
              : !strcmp(unit, "ms") ? 1e6
              : !strcmp(unit, "s")  ? 1e9
                                    : 0;
  if (ns == 0) die("%s: no unit in %s", key, s);
  if (fabs(x * ns - nearbyint(x * ns)) > 1e-3) die("%s: not whole nanoseconds", key);
  return llround(x * ns);
}

static request *new_request(i64 arrival, i64 p, i64 o) {
  if (S.n == S.cap) {
    S.cap = S.cap ? 2 * S.cap : 256;
    S.r = realloc(S.r, (size_t)S.cap * sizeof *S.r);
    if (!S.r) die("out of memory");
  }
  request *r = &S.r[S.n];
  *r = (request){.index = S.n,
                 .arrival = arrival,
                 .p = p,
                 .o = o,
                 .max_tokens = o,
                 .replica = -1,
                 .scheduled = -1};
  if (p < 1 || o < 1) die("request %lld: no tokens", (long long)S.n);
  S.n++;
  return r;
}

static void take_object(const json_t *v) {
  request *r = new_request(integer(v, "arrival_ns", -1), integer(v, "input_tokens", 0),
                           integer(v, "output_tokens", 0));
  r->max_tokens = integer(v, "max_tokens", r->o);
  r->priority = integer(v, "priority", 0);
  if (json_object_get(v, "id")) r->id = json_dumps(json_object_get(v, "id"), JSON_ENCODE_ANY);
  const json_t *ids = json_object_get(v, "blocks"), *prefix = json_object_get(v, "prefix");
  r->id_tokens = integer(v, "block_tokens", 1);
  r->ids = get(json_array_size(ids) * sizeof *r->ids);
  for (; (size_t)r->n_ids < json_array_size(ids); r->n_ids++)
    r->ids[r->n_ids] = (i64)json_integer_value(json_array_get(ids, (size_t)r->n_ids));
  if (!prefix || r->n_ids) return;
  r->prefix = json_dumps(json_array_get(prefix, 0), JSON_ENCODE_ANY);
  r->prefix_tokens = (i64)json_integer_value(json_array_get(prefix, 1));
}

static void read_jsonl(char *s) {
  for (char *line = strtok(s, "\n"); line; line = strtok(NULL, "\n")) {
    json_t *v = json_loads(line, 0, NULL);
    if (!v) die("a line of the trace is not JSON");
    take_object(v);
    json_decref(v);
  }
}

/* Days since 1970-01-01, counted year by year and month by month. */
static i64 days(int y, int m, int d) {
  static const int length[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  i64 n = d - 1;
  for (int year = 1970; year < y; year++)
    n += 365 + (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
  for (int month = 1; month < m; month++) n += length[month - 1];
  return n + (m > 2 && y % 4 == 0 && (y % 100 != 0 || y % 400 == 0));
}

static void read_azure(char *s) {
  if (!memcmp(s, "\xef\xbb\xbf", 3)) s += 3;
  bool header = true;
  for (char *line = strtok(s, "\r\n"); line; line = strtok(NULL, "\r\n"), header = false) {
    if (header) continue;
    int y, mo, d, h, mi, sec, used = 0;
    if (sscanf(line, "%d-%d-%d %d:%d:%d%n", &y, &mo, &d, &h, &mi, &sec, &used) != 6)
      die("bad time: %s", line);
    i64 ns = 0, unit = 100000000;
    char *c = line + used;
    if (*c == '.')
      for (c++; *c >= '0' && *c <= '9'; c++, unit /= 10) ns += (*c - '0') * unit;
    c = strchr(c, ',');
    long long p, o;
    if (!c || sscanf(c, ",%lld,%lld", &p, &o) != 2) die("bad row: %s", line);
    new_request((((days(y, mo, d) * 24 + h) * 60 + mi) * 60 + sec) * 1000000000 + ns, p, o);
  }
}

static void read_workload(const json_t *w, const char *scenario_path) {
  const json_t *inline_requests = json_object_get(w, "requests");
  const char *trace = text(w, "trace", NULL);
  if (inline_requests) {
    for (size_t i = 0; i < json_array_size(inline_requests); i++)
      take_object(json_array_get(inline_requests, i));
  } else if (trace) {
    char path[4096];
    const char *slash = strrchr(scenario_path, '/');
    snprintf(path, sizeof path, "%.*s%s",
             *trace == '/' || !slash ? 0 : (int)(slash - scenario_path + 1), scenario_path, trace);
    char *s = slurp(path);
    if (*s == '{')
      read_jsonl(s);
    else
      read_azure(s);
    free(s);
  } else
    die("workload: neither requests nor trace");
  if (!S.n) die("no requests");
  i64 first = S.r[0].arrival; /* sorted: the first is the earliest */
  for (i64 i = 0; i < S.n; i++) {
    request *r = &S.r[i];
    if (i && r->arrival < S.r[i - 1].arrival + first) die("requests are not sorted by arrival");
    r->arrival -= first;
    if (!r->id) {
      char s[24];
      snprintf(s, sizeof s, "%lld", (long long)i);
      r->id = strcpy(get(strlen(s) + 1), s);
    }
    r->token_time = get((size_t)r->o * sizeof *r->token_time);
    i64 tokens =
        S.is_static ? (S.max_model_len ? S.max_model_len : r->p + r->max_tokens) : r->p + r->o - 1;
    if (S.kv_blocks >= 0 && (tokens + S.block_tokens - 1) / S.block_tokens > S.kv_blocks)
      die("request %s can never fit", r->id);
  }
}

static void read_scenario(char *s, const char *path) {
  for (char *c = s; *c; c = strchr(c, '\n') ? strchr(c, '\n') + 1 : c + strlen(c))
    if (*c == '#')
      for (char *d = c; *d && *d != '\n'; d++) *d = ' ';
  json_error_t e;
  json_t *root = json_loads(s, JSON_REJECT_DUPLICATES, &e);
  if (!root) die("%s:%d: %s", path, e.line, e.text);
  const json_t *cost = json_object_get(root, "cost"),
               *pool = json_array_get(json_object_get(root, "pools"), 0);
  const json_t *opt = json_object_get(pool, "scheduler_options");
  if (strcmp(text(cost, "model", ""), "linear")) die("only the linear cost");
  S.step_ns = duration(cost, "step", 0);
  S.prefill_ns = duration(cost, "prefill_token", 0);
  S.decode_ns = duration(cost, "decode_sequence", 0);
  S.n_replicas = integer(pool, "replicas", 1);
  S.kv_blocks = integer(pool, "kv_blocks", -1);
  S.block_tokens = integer(pool, "kv_block_tokens", 16);
  S.max_model_len = integer(pool, "max_model_len", 0);
  S.prefix_cache = truth(pool, "prefix_cache", true);
  const char *policy = text(pool, "scheduler", "vllm-v1");
  S.is_static = !strcmp(policy, "static");
  if (!S.is_static && strcmp(policy, "vllm-v1")) die("no such scheduler: %s", policy);
  S.max_num_seqs = integer(opt, "max_num_seqs", 256);
  S.budget = integer(opt, "max_num_batched_tokens", 2048);
  S.threshold = integer(opt, "long_prefill_token_threshold", 0);
  S.watermark = integer(opt, "watermark_blocks", 0);
  S.chunked = truth(opt, "enable_chunked_prefill", true);
  S.full_must_fit = truth(opt, "full_sequence_must_fit", true);
  S.by_priority = !strcmp(text(opt, "scheduling_policy", "fcfs"), "priority");
  S.max_batch = integer(opt, "max_batch_size", 1);
  S.hold = truth(opt, "hold_finished_slots", true);
  S.pad = truth(opt, "pad", false);
  S.batch_end = !strcmp(text(opt, "emit", "stream"), "batch-end");
  S.max_delay = duration(opt, "max_queue_delay", 0);
  const json_t *sizes = json_object_get(opt, "preferred_batch_sizes");
  for (size_t i = 0; i < json_array_size(sizes) && i < 64; i++)
    S.preferred[S.n_preferred++] = (i64)json_integer_value(json_array_get(sizes, i));
  if (!S.n_preferred) S.preferred[S.n_preferred++] = S.max_batch;
  S.least_outstanding =
      !strcmp(text(json_object_get(root, "router"), "policy", "round-robin"), "least-outstanding");
  read_workload(json_object_get(root, "workload"), path);
  json_decref(root);
}

#endif
