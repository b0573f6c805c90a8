// SPDX-License-Identifier: GPL-3.0-or-later
/* No result beats the speed of light: over models, parts and loads, with the roofline tier,
 * - a request served alone is never faster than the speed-of-light tier says, in first token, per
 * token and in all;
 * - no request, alone or in a crowd, takes less time per token than reading the weights once at
 * peak bandwidth;
 * - no first token comes sooner than the prompt's multiplications at peak rate.
 * Both bounds are worked out here from published figures (parameter counts of the model pages,
 * datasheet peaks), rounded in favour of the program. The table of input embeddings is looked up,
 * not read, so it is left out. */
#include "harness.h"

typedef struct model {
  const char *name;
  double parameters, vocabulary,
      width;         /* untied: input table and output matrix, vocabulary x width each */
  int heads_divisor; /* largest tensor_parallel that divides its key/value heads, up to 8 */
} model;
typedef struct part {
  const char *name;
  double bytes_per_s, bf16_per_s, memory;
} part;

static const model models[] = {
    {"llama-2-7b", 6738415616.0, 32000, 4096, 8},
    {"llama-2-13b", 13015864320.0, 32000, 5120, 8},
    {"llama-2-70b", 68976648192.0, 32000, 8192, 8},
    {"llama-3.1-8b", 8030261248.0, 128256, 4096, 8},
    {"llama-3.1-70b", 70553706496.0, 128256, 8192, 8},
    {"llama-3.1-405b", 405853388800.0, 128256, 16384, 8},
    {"llama-3.3-70b", 70553706496.0, 128256, 8192, 8},
    {"qwen2.5-7b", 7615616512.0, 152064, 3584, 4},
    {"qwen2.5-72b", 72706203648.0, 152064, 8192, 8},
    {"qwen3-8b", 8190735360.0, 151936, 4096, 8},
    {"qwen3-32b", 32762123264.0, 151936, 5120, 8},
};
/* Dense peaks, bf16; the highest figure in use for each. */
static const part parts[] = {
    {"a100-80-sxm", 2.039e12, 312e12, 80e9}, {"h100-sxm", 3.36e12, 989.5e12, 80e9},
    {"h200-sxm", 4.9e12, 989.5e12, 141e9},   {"b200-sxm", 8e12, 2.5e15, 180e9},
    {"mi300x", 5.325e12, 1307.4e12, 192e9},
};
enum { n_models = sizeof models / sizeof models[0], n_parts = sizeof parts / sizeof parts[0] };

typedef struct cell {
  const model *m;
  const part *p;
  int tp;
  const char *weights;
  double bytes_each;
} cell;

static double matrices(const model *m) { return m->parameters - 2 * m->vocabulary * m->width; }
static double read_s(const cell *c) {
  return (matrices(c->m) + c->m->vocabulary * c->m->width) * c->bytes_each / c->tp /
         c->p->bytes_per_s;
}
static double multiply_s(const cell *c, double tokens) {
  double rate =
      c->p->bf16_per_s * (c->bytes_each < 2 ? 2 : 1); /* 8-bit weights may multiply twice as fast */
  return (2 * matrices(c->m) * tokens + 2 * c->m->vocabulary * c->m->width) / c->tp / rate;
}

static void write_cell(const cell *c, const char *tier, const char *workload) {
  FILE *f = fopen(at("s.yaml"), "w");
  if (!f) bail("cannot write");
  fprintf(f,
          "scenario: 1\nmodel: %s\nweights: %s\npools:\n  - {name: main, hardware: %s, "
          "tensor_parallel: %d, scheduler: vllm-v1, prefix_cache: false}\n",
          c->m->name, c->weights, c->p->name, c->tp);
  fprintf(f, "cost: %s\nworkload: %s\n", tier, workload);
  if (fclose(f)) bail("cannot write");
}

static bool simulate(const cell *c, const char *tier, const char *workload, const char *name,
                     table *t) {
  write_cell(c, tier, workload);
  remove(at("%s.csv", name));
  int rc = RUN(program(), "run", at("s.yaml"), "--quiet", "--requests", at("%s.csv", name));
  if (rc == 0 && table_load(at("%s.csv", name), t)) return true;
  note("%s on %d %s, %s: exit status %d", c->m->name, c->tp, c->p->name, tier, rc);
  say_stderr();
  return false;
}

/* Rows of t against the bounds worked out here; how many beat them. */
static int beaten(const cell *c, const table *t, const char *tier) {
  int n = 0;
  for (int i = 1; i < t->rows; i++) {
    double input = (double)cell_int(t, i, "input_tokens"),
           ttft_s = (double)cell_ns(t, i, "ttft_ms") * 1e-9;
    double slack = 1e-9; /* the output's grain */
    const char *tpot = t->cell[i][column(t, "tpot_ms")];
    bool fast = ttft_s + slack < read_s(c) || ttft_s + slack < multiply_s(c, input) ||
                (*tpot && strtod(tpot, NULL) * 1e-3 + slack < read_s(c));
    if (fast && !n)
      note("%s %s on %d %s, %s: row %d has TTFT %.6f ms and TPOT %s; reading takes %.6f, "
           "multiplying %.6f",
           c->m->name, c->weights, c->tp, c->p->name, tier, i, ttft_s * 1e3, tpot, read_s(c) * 1e3,
           multiply_s(c, input) * 1e3);
    n += fast;
  }
  return n;
}

static const char alone[] = "{requests: [{arrival_ns: 0, input_tokens: 1, output_tokens: 2}, "
                            "{arrival_ns: 1000000000000, input_tokens: 128, output_tokens: 1},\n"
                            "  {arrival_ns: 2000000000000, input_tokens: 500, output_tokens: 40}, "
                            "{arrival_ns: 3000000000000, input_tokens: 2000, output_tokens: 200},\n"
                            "  {arrival_ns: 4000000000000, input_tokens: 3500, output_tokens: 30}, "
                            "{arrival_ns: 5000000000000, input_tokens: 37, output_tokens: 300}]}";

/* Each request alone: the roofline against the speed-of-light tier, row by row. */
static int alone_beaten(const cell *c, int *rows) {
  static const char *const measures[] = {"ttft_ms", "tpot_ms", "e2el_ms", "max_itl_ms"};
  table roofline = {0}, light = {0};
  int n = 1;
  if (simulate(c, "roofline", alone, "roofline", &roofline) &&
      simulate(c, "speed-of-light", alone, "light", &light) && roofline.rows == light.rows) {
    n = beaten(c, &roofline, "roofline") + beaten(c, &light, "speed-of-light");
    for (int i = 1; i < light.rows; i++)
      for (size_t k = 0; k < sizeof measures / sizeof measures[0]; k++) {
        const char *a = roofline.cell[i][column(&roofline, measures[k])],
                   *b = light.cell[i][column(&light, measures[k])];
        if (strtod(a, NULL) >= strtod(b, NULL)) continue;
        note("%s %s on %d %s: %s of row %d is %s, speed of light %s", c->m->name, c->weights, c->tp,
             c->p->name, measures[k], i, a, b);
        n++;
      }
    *rows += light.rows - 1;
  }
  table_free(&roofline), table_free(&light);
  return n;
}

static int crowd_beaten(const cell *c, double rate, int *rows) {
  char workload[400];
  snprintf(workload, sizeof workload,
           "{generate: {requests: 120, arrivals: {process: poisson, rate: %g /s}, input_tokens: "
           "{law: lognormal, mean: 600, p99: 3000, max: 3800}, output_tokens: {law: lognormal, "
           "mean: 60, p99: 250, max: 280}}}",
           rate);
  table t = {0};
  int n = 1;
  if (simulate(c, "roofline", workload, "crowd", &t))
    n = beaten(c, &t, "roofline"), *rows += t.rows - 1;
  table_free(&t);
  return n;
}

int main(void) {
  harness_begin("light");
  static const struct {
    const char *name;
    double bytes;
  } widths[] = {{"bf16", 2}, {"fp8", 1}};
  static const double rates[] = {0.2, 4, 60};
  int cells = 0, bad_alone = 0, bad_crowd = 0, rows_alone = 0, rows_crowd = 0;
  for (int i = 0; i < n_models; i++)
    for (int j = 0; j < n_parts; j++)
      for (int k = 0; k < 2; k++) {
        cell c = {&models[i], &parts[j], 1, widths[k].name, widths[k].bytes};
        if (k && !strcmp(c.p->name, "a100-80-sxm")) continue; /* no 8-bit floating point units */
        while (c.tp <= c.m->heads_divisor &&
               c.m->parameters * c.bytes_each / c.tp > 0.75 * c.p->memory)
          c.tp *= 2;
        if (c.tp > c.m->heads_divisor) continue;
        if (c.tp < c.m->heads_divisor && (i + j) % 2) c.tp *= 2;
        cells++;
        bad_alone += alone_beaten(&c, &rows_alone);
        for (size_t r = 0; r < sizeof rates / sizeof rates[0]; r++)
          if (deep() || (size_t)(i + j + k) % 3 == r)
            bad_crowd += crowd_beaten(&c, rates[r], &rows_crowd);
      }
  tap(cells > 80, "%d pairs of model and part", cells);
  tap(bad_alone == 0, "%d requests served alone: none beats the speed of light", rows_alone);
  tap(bad_crowd == 0,
      "%d requests under load: none beats reading the weights or multiplying the prompt",
      rows_crowd);
  return tap_end();
}
