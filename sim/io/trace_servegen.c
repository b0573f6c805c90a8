// SPDX-License-Identifier: GPL-3.0-or-later
/* A client of Alibaba's ServeGen: not requests but a generator's parameters. The CSV (no header)
 * has a window a line: start (s), rate (/s), CV, pattern (Gamma, Weibull or nothing), shape, scale
 * (s); the JSON beside it has histograms of lengths for longer windows, written as Python writes a
 * dict.
 *
 * As ServeGen does: rate x window gaps are drawn and stretched to fill the window exactly, since
 * the fitted shape and scale alone give another rate; lengths are independent of each other. */
#include <stdlib.h>
#include <string.h>

#include "base/dist.h"
#include "base/num.h"
#include "io/trace_formats.h"
#include "io/trace_rows.h"

#define PURPOSE_GAPS    ((ds_purpose)42)
#define PURPOSE_LENGTHS ((ds_purpose)43)
#define WINDOW_S        600
#define GAPS_MAX        10000000

typedef struct histogram {
  uint32_t *tokens;
  int64_t *up_to; /* sum of weights, in billionths */
  size_t n, room;
} histogram;

typedef struct span {
  int64_t start_ns;
  histogram input, output;
} span;

typedef struct servegen {
  ds_rows rows;
  span *span;
  size_t n_spans, room;
  /* The window at hand */
  double *gap;
  size_t n, at;
  double total, sum; /* of the gaps; so far */
  int64_t start_ns, line;
  uint64_t window, index;
} servegen;

static bool put(histogram *h, uint32_t tokens, int64_t weight) {
  if (h->n == h->room) {
    size_t room = h->room == 0 ? 64 : 2 * h->room;
    uint32_t *t = realloc(h->tokens, room * sizeof *t);
    if (t != NULL) h->tokens = t;
    int64_t *u = realloc(h->up_to, room * sizeof *u);
    if (u != NULL) h->up_to = u;
    if (t == NULL || u == NULL) return false;
    h->room = room;
  }
  h->tokens[h->n] = tokens;
  h->up_to[h->n] = weight + (h->n > 0 ? h->up_to[h->n - 1] : 0);
  h->n++;
  return true;
}

/* {45: 0.0096, 46: 0.011}, as text. */
static bool read_dict(ds_rows *r, ds_text t, histogram *h, ds_diag *d) {
  const char *s = t.s, *end = t.s + t.n;
  for (;;) {
    while (s < end && (*s == '{' || *s == ' ' || *s == ',')) s++;
    if (s == end || *s == '}') return true;
    const char *colon = memchr(s, ':', (size_t)(end - s));
    const char *stop = colon;
    while (stop != NULL && stop < end && *stop != ',' && *stop != '}') stop++;
    uint64_t tokens = 0;
    int64_t weight = 0;
    const char *value = colon != NULL ? colon + 1 : end;
    while (value < end && *value == ' ') value++;
    if (colon == NULL ||
        ds_number_count((ds_text){s, (size_t)(colon - s), false}, DS_TOKENS_MAX, &tokens) != NULL ||
        ds_number_time((ds_text){value, (size_t)(stop - value), false}, DS_NS_PER_S, &weight) !=
            NULL ||
        weight < 0) {
      ds_rows_bad(r, s, d, "not a histogram: %s", ds_excerpt_of(s, (size_t)(end - s)).text);
      ds_diag_expected(d, "{tokens: share, ...}");
      return false;
    }
    if (tokens > 0 && weight > 0 && weight < DS_NS_PER_S * 1000 &&
        !put(h, (uint32_t)tokens, weight))
      return ds_rows_no_memory(r, d);
    s = stop;
  }
}

static bool read_span(servegen *g, ds_rows *r, ds_pull *p, ds_text start, ds_diag *d) {
  ds_text key, t;
  if (g->n_spans == g->room) {
    size_t room = g->room == 0 ? 16 : 2 * g->room;
    span *m = realloc(g->span, room * sizeof *m);
    if (m == NULL) return ds_rows_no_memory(r, d);
    g->span = m;
    g->room = room;
  }
  span *s = &g->span[g->n_spans];
  memset(s, 0, sizeof *s);
  if (ds_number_time(start, DS_NS_PER_S, &s->start_ns) != NULL)
    return ds_rows_bad(r, start.s, d, "a window without a start");
  g->n_spans++;
  if (ds_pull_kind(p) != '{') return ds_rows_not_json(r, p, d);
  for (ds_pull_map(p); ds_pull_key(p, &key);) {
    histogram *h = ds_text_is(key, "input_tokens") || ds_text_is(key, "text_tokens") ? &s->input
                   : ds_text_is(key, "output_tokens")                                ? &s->output
                                                                                     : NULL;
    if (h == NULL || ds_pull_kind(p) != '"') {
      if (!ds_pull_skip(p)) return ds_rows_not_json(r, p, d);
      continue;
    }
    if (!ds_pull_text(p, &t)) return ds_rows_not_json(r, p, d);
    if (!read_dict(r, t, h, d)) return false;
  }
  if (p->wrong != NULL) return ds_rows_not_json(r, p, d);
  if (s->input.n > 0 && s->output.n > 0) return true;
  free(s->input.tokens); /* idle: the window before speaks for it */
  free(s->input.up_to);
  free(s->output.tokens);
  free(s->output.up_to);
  g->n_spans--;
  return true;
}

static bool read_lengths(servegen *g, const char *path, ds_diag *d) {
  ds_input *in;
  if (!ds_input_open(path, NULL, &in, d)) {
    ds_diag_expected(
        d,
        "the histograms of lengths beside the client's file: NAME-trace.csv and NAME-dataset.json");
    return false;
  }
  ds_rows r = {.source = {.input = in}};
  ds_pull p;
  ds_text key;
  bool good = ds_rows_value(&r, &p, d);
  if (good && (p.begin == NULL || ds_pull_kind(&p) != '{')) good = ds_rows_not_json(&r, &p, d);
  if (good) {
    for (ds_pull_map(&p); good && ds_pull_key(&p, &key);) good = read_span(g, &r, &p, key, d);
    if (good && p.wrong != NULL) good = ds_rows_not_json(&r, &p, d);
  }
  if (good && g->n_spans == 0)
    good = ds_diag_set(d, DS_EXIT_INPUT, path, 0, 0, "no window has lengths");
  ds_rows_free(&r);
  ds_input_close(in);
  return good;
}

static uint32_t draw(const histogram *h, ds_rng *rng) {
  int64_t u = (int64_t)(ds_rng_unit(rng) * (double)h->up_to[h->n - 1]);
  size_t low = 0, high = h->n - 1;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (h->up_to[middle] > u)
      high = middle;
    else
      low = middle + 1;
  }
  return h->tokens[low];
}

/* "600,1.5,1.1,Gamma,0.8,0.9" */
static bool read_window(servegen *g, const char *s, size_t n, ds_diag *d) {
  ds_rows *r = &g->rows;
  ds_text cell[6];
  size_t k = 0;
  while (n > 0 && (s[n - 1] == '\n' || s[n - 1] == '\r' || s[n - 1] == ' ')) n--;
  for (const char *at = s, *end = s + n; k < 6; k++) {
    const char *comma = at < end ? memchr(at, ',', (size_t)(end - at)) : NULL;
    cell[k] = (ds_text){at, (size_t)((comma != NULL ? comma : end) - at), false};
    if (comma == NULL) {
      k++;
      break;
    }
    at = comma + 1;
  }
  int64_t rate = 0, shape = 0, scale = 0; /* in billionths */
  if (k != 6 || ds_number_time(cell[0], DS_NS_PER_S, &g->start_ns) != NULL ||
      ds_number_time(cell[1], DS_NS_PER_S, &rate) != NULL ||
      ds_number_time(cell[4], DS_NS_PER_S, &shape) != NULL ||
      ds_number_time(cell[5], DS_NS_PER_S, &scale) != NULL) {
    ds_rows_bad(r, s, d, "not a window of a ServeGen client: %s", ds_excerpt_of(s, n).text);
    ds_diag_expected(d, "start,rate,cv,pattern,shape,scale");
    return false;
  }
  bool gamma = ds_text_is(cell[3], "Gamma"), weibull = ds_text_is(cell[3], "Weibull");
  g->n = g->at = 0;
  g->total = g->sum = 0;
  g->window++;
  if (!gamma && !weibull) return true;
  if (shape <= 0 || rate < 0 || rate > (int64_t)GAPS_MAX / WINDOW_S * DS_NS_PER_S) {
    ds_rows_bad(r, s, d, "a rate or shape out of range: %s", ds_excerpt_of(s, n).text);
    ds_diag_expected(d, "a shape above 0 and a rate up to %d /s", GAPS_MAX / WINDOW_S);
    return false;
  }
  g->n = (size_t)((double)rate * 1e-9 * WINDOW_S + 0.5);
  double *gap = realloc(g->gap, (g->n + 1) * sizeof *gap);
  if (gap == NULL) return ds_rows_no_memory(r, d);
  g->gap = gap;
  ds_rng rng = ds_rng_stream(r->source.seed, PURPOSE_GAPS, g->window);
  double k_shape = (double)shape * 1e-9;
  for (size_t i = 0; i < g->n;
       i++) { /* the scale does not matter: gaps are stretched to the window */
    gap[i] =
        gamma ? ds_draw_gamma(&rng, k_shape, 1) : ds_pow(-ds_log(ds_rng_unit(&rng)), 1 / k_shape);
    g->total += gap[i];
  }
  return true;
}

static bool servegen_rows(ds_source *source, ds_row *rows, size_t cap, size_t *n, ds_diag *d) {
  servegen *g = (servegen *)source;
  *n = 0;
  while (g->at == g->n) {
    ds_pull p;
    if (!ds_rows_line(&g->rows, &p, d)) return false;
    if (p.begin == NULL) return true;
    if (!read_window(g, p.begin, (size_t)(p.end - p.begin), d)) {
      g->n = g->at = 0;
      return false;
    }
  }
  for (; *n < cap && g->at < g->n; g->at++, ++*n) {
    g->sum += g->gap[g->at];
    double part = g->total > 0 ? g->sum / g->total : 0;
    int64_t t = g->start_ns + (int64_t)(part * (double)(WINDOW_S * DS_NS_PER_S - 1));
    size_t s = 0;
    while (s + 1 < g->n_spans && g->span[s + 1].start_ns <= t) s++;
    ds_rng rng = ds_rng_stream(source->seed, PURPOSE_LENGTHS, g->index++);
    uint32_t in = draw(&g->span[s].input, &rng), out = draw(&g->span[s].output, &rng);
    rows[*n] = (ds_row){.time_ns = t,
                        .line = g->rows.value_line,
                        .id = DS_ROW_NO_ID,
                        .input_tokens = in,
                        .output_tokens = out,
                        .time_column = 1};
  }
  return true;
}

static void servegen_close(ds_source *s) {
  servegen *g = (servegen *)s;
  for (size_t i = 0; i < g->n_spans; i++) {
    free(g->span[i].input.tokens);
    free(g->span[i].input.up_to);
    free(g->span[i].output.tokens);
    free(g->span[i].output.up_to);
  }
  free(g->span);
  free(g->gap);
  ds_rows_free(&g->rows);
  free(g);
}

bool ds_servegen_open(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d) {
  static const char tail[] = "trace.csv";
  ds_source s = {
      .format = "servegen",
      .time_name = "window",
      .input_name = "input_tokens",
      .output_name = "output_tokens",
      .input = in,
      .documents = true,
      .note = "drawn from a client's rates and histograms: another seed gives other requests",
      .rows = servegen_rows,
      .close = servegen_close};
  *out = NULL;
  char path[1100];
  size_t n = strlen(w->path), m = sizeof tail - 1;
  if (n < m || strcmp(w->path + n - m, tail) != 0) {
    ds_diag_set(d, DS_EXIT_INPUT, in->name, 0, 0,
                "a ServeGen client whose histograms of lengths cannot be found by its name");
    ds_diag_expected(d, "NAME-trace.csv with NAME-dataset.json beside it");
    return false;
  }
  snprintf(path, sizeof path, "%.*sdataset.json", (int)(n - m), w->path);
  servegen *g = ds_rows_new(sizeof *g, &s, d);
  if (g == NULL) return false;
  if (!read_lengths(g, path, d)) {
    servegen_close(&g->rows.source);
    return false;
  }
  *out = &g->rows.source;
  return true;
}
