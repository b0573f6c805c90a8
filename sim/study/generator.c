// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/generator.h"

#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "io/trace_source.h"
#include "study/generator_laws.h"

#define IMAGES_MAX  4096       /* of one request */
#define CONTEXT_MAX 1000000000 /* of a session whose scenario states no limit */

struct ds_generator {
  ds_workload w;
  uint64_t seed, emitted;
  ds_arrival_maker arrivals;
  ds_sampler input, output, turns, think, more_input, agents, agent_turns, agent_input, group;
  ds_sampler image_count, image_tokens;
  bool ended;
  /* rows of a trace to draw lengths from */
  struct pair {
    uint32_t input, output;
  } * pairs;
  size_t n_pairs;
  uint32_t *order; /* of the rows in this round */
  uint64_t round;
  bool order_known;
  /* the session that is being handed out */
  ds_generated *row;
  size_t n_row, at_row, cap_row;
  uint64_t sessions;
  /* users */
  int64_t *user_ns;      /* when each may begin its next turn */
  uint64_t *user_before; /* 1 + the number of each one's last request */
  uint32_t *user_turn;
  uint32_t *heap; /* users, the next to speak first */
};

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

/* --- lengths ------------------------------------------------------------------------------- */

/* Every row once before any comes again, each round in an order of its own. */
static size_t shuffled(ds_generator *g, uint64_t i) {
  uint64_t round = i / g->n_pairs;
  if (!g->order_known || g->round != round) {
    ds_rng r = ds_rng_stream(g->seed, DS_PURPOSE_ORDER, round);
    for (size_t k = 0; k < g->n_pairs; k++) g->order[k] = (uint32_t)k;
    for (size_t k = g->n_pairs; k > 1; k--) {
      size_t other = (size_t)ds_rng_below(&r, k);
      uint32_t row = g->order[other];
      g->order[other] = g->order[k - 1];
      g->order[k - 1] = row;
    }
    g->round = round;
    g->order_known = true;
  }
  return g->order[i % g->n_pairs];
}

static size_t row_of(ds_generator *g, uint64_t i) {
  if (g->w.rows_order == 'e') return shuffled(g, i);
  if (g->w.rows_order == 'a') return (size_t)(i % g->n_pairs);
  ds_rng r = ds_rng_stream(g->seed, DS_PURPOSE_INPUT_TOKENS, i);
  return (size_t)ds_rng_below(&r, g->n_pairs);
}

/* Lengths are those of a request's number, wherever in time it is. */
static void draw_lengths(ds_generator *g, uint64_t i, ds_generated *q) {
  if (g->n_pairs > 0) {
    const struct pair *p = &g->pairs[row_of(g, i)];
    q->input_tokens = p->input;
    q->output_tokens = p->output;
    return;
  }
  q->input_tokens = ds_length_draw(&g->input.law, g->seed, DS_PURPOSE_INPUT_TOKENS, i);
  q->output_tokens = ds_length_draw(&g->output.law, g->seed, DS_PURPOSE_OUTPUT_TOKENS, i);
}

static uint32_t sum_tokens(uint64_t a, uint64_t b) {
  return a + b < DS_LENGTH_MAX ? (uint32_t)(a + b) : DS_LENGTH_MAX;
}

static void draw_prefix(const ds_generator *g, uint64_t entity, ds_generated *q) {
  const ds_prefix_law *p = &g->w.prefix;
  if (p->groups == 0) return;
  q->prefix_group = ds_length_draw(&g->group.law, g->seed, DS_PURPOSE_PREFIX, entity);
  if (p->tokens > 0) {
    q->prefix_tokens = (uint32_t)p->tokens;
    q->input_tokens = sum_tokens(q->input_tokens, q->prefix_tokens);
  } else {
    q->prefix_tokens = (uint32_t)(p->share * q->input_tokens + 0.5);
  }
}

/* Images behind the shared prefix; their tokens come on top of the text's. entity: the request, or its session. */
static void draw_images(const ds_generator *g, uint64_t entity, ds_generated *q) {
  const ds_image_law *m = &g->w.images;
  if (!m->on) return;
  ds_rng r = ds_rng_stream(g->seed, DS_PURPOSE_IMAGES, entity);
  if (m->share < 1 && ds_rng_unit(&r) >= m->share) return;
  uint32_t n = ds_length_draw(&g->image_count.law, g->seed, DS_PURPOSE_IMAGES, entity + ((uint64_t)1 << 61));
  uint64_t tokens = 0;
  if (n > IMAGES_MAX) n = IMAGES_MAX;
  for (uint32_t i = 0; i < n; i++)
    tokens += ds_length_draw(&g->image_tokens.law, g->seed, DS_PURPOSE_IMAGES,
                             ((uint64_t)1 << 62) + entity * IMAGES_MAX + i);
  if (tokens >= DS_LENGTH_MAX - q->input_tokens) return; /* no input has so many */
  q->images = n;
  q->image_tokens = (uint32_t)tokens;
  q->image_at = q->prefix_tokens < q->input_tokens ? q->prefix_tokens : q->input_tokens;
  q->input_tokens += (uint32_t)tokens;
}

static bool read_pairs(ds_generator *g, ds_diag *d) {
  ds_workload rows;
  memset(&rows, 0, sizeof rows);
  rows.kind = DS_WORKLOAD_TRACE;
  rows.time_scale = 1;
  rows.zero = DS_REPAIR_DROP;
  rows.unsorted = DS_REPAIR_SORT; /* times do not matter */
  memcpy(rows.path, g->w.rows_path, sizeof rows.path);
  memcpy(rows.path_given, g->w.rows_path_given, sizeof rows.path_given);
  ds_trace *t = NULL;
  ds_request chunk[512];
  size_t n, cap = 0;
  bool good = ds_trace_open(&rows, 0, &t, d);
  while (good) {
    good = ds_trace_read(t, chunk, DS_ARRAY_LEN(chunk), &n, d);
    if (!good || n == 0) break;
    if (g->n_pairs + n > cap) {
      cap = cap == 0 ? 4096 : 2 * cap;
      struct pair *more = realloc(g->pairs, cap * sizeof *more);
      if (more == NULL) {
        good = out_of_memory(d);
        break;
      }
      g->pairs = more;
    }
    for (size_t i = 0; i < n; i++)
      g->pairs[g->n_pairs++] = (struct pair){chunk[i].input_tokens, chunk[i].output_tokens};
  }
  if (t != NULL) ds_trace_close(t);
  if (!good || g->w.rows_order != 'e') return good;
  if (g->n_pairs > UINT32_MAX) {
    ds_diag_set(d, DS_EXIT_INPUT, g->w.rows_path_given, 0, 0, "too many rows to draw from");
    return false;
  }
  g->order = calloc(g->n_pairs + 1, sizeof *g->order);
  return g->order != NULL || out_of_memory(d);
}

/* --- sessions ------------------------------------------------------------------------------ */

static ds_generated *new_row(ds_generator *g) {
  if (g->n_row == g->cap_row) {
    size_t cap = g->cap_row == 0 ? 64 : 2 * g->cap_row;
    ds_generated *more = realloc(g->row, cap * sizeof *more);
    if (more == NULL) return NULL;
    g->row = more;
    g->cap_row = cap;
  }
  ds_generated *q = &g->row[g->n_row++];
  memset(q, 0, sizeof *q);
  return q;
}

static void cut_to(ds_generated *q, uint64_t most) {
  if ((uint64_t)q->input_tokens + q->output_tokens <= most) return;
  if (q->output_tokens >= most) q->output_tokens = (uint32_t)most - 1;
  q->input_tokens = (uint32_t)most - q->output_tokens;
  if (q->prefix_tokens > q->input_tokens) q->prefix_tokens = q->input_tokens;
}

/* Turns of one conversation, each after the one before; *last becomes 1 + the number of the last.
 * input: of the first prompt. A nested one has no sub-agents of its own. */
static bool add_turns(ds_generator *g, uint64_t session, int64_t start_ns, uint64_t after,
                      const ds_length *input, uint32_t turns, bool nested, uint64_t *last) {
  const ds_session_law *s = &g->w.session;
  uint32_t epoch = 0, prefix = 0;
  uint64_t group = 0;
  ds_generated shown = {0}; /* with the session's images */
  uint64_t context = 0, most = s->max_context > 0 ? (uint64_t)s->max_context : CONTEXT_MAX;
  *last = after;
  for (uint32_t turn = 0; turn < turns; turn++) {
    uint64_t i = g->emitted + g->n_row;
    ds_generated q = {
        .arrival_ns = start_ns, .session = session, .turn = turn, .after = *last, .grows = true};
    const ds_length *law = turn == 0 ? input : &g->more_input.law;
    uint32_t fresh = ds_length_draw(law, g->seed, DS_PURPOSE_INPUT_TOKENS, i);
    q.output_tokens = ds_length_draw(&g->output.law, g->seed, DS_PURPOSE_OUTPUT_TOKENS, i);
    q.input_tokens = sum_tokens(context, fresh);
    if (turn == 0 && !nested) {
      draw_prefix(g, session, &q);
      draw_images(g, session, &q);
      shown = q;
    }
    if (turn > 0) { /* every prompt of the session begins so */
      q.prefix_group = group;
      q.prefix_tokens = prefix;
      q.images = shown.images; /* they stay part of the conversation */
      q.image_tokens = shown.image_tokens;
      q.image_at = shown.image_at;
    }
    group = q.prefix_group;
    prefix = q.prefix_tokens;
    if (turn > 0 && q.input_tokens + (uint64_t)q.output_tokens > most) {
      if (s->compact_to == 0) return true;
      q.input_tokens = sum_tokens((uint64_t)s->compact_to, fresh);
      epoch++;
      shown = (ds_generated){0}; /* a summary has none of them */
    }
    q.epoch = epoch;
    cut_to(&q, most);
    if (shown.images == 0 || (uint64_t)q.image_at + q.image_tokens > q.input_tokens) q.images = q.image_tokens = q.image_at = 0;
    if (turn > 0 || nested)
      q.think_ns =
          turn == 0
              ? 0
              : (int64_t)ds_length_draw(&g->think.law, g->seed, DS_PURPOSE_THINK, i) * 1000000;
    context = (uint64_t)q.input_tokens + q.output_tokens;
    ds_generated *to = new_row(g);
    if (to == NULL) return false;
    *to = q;
    *last = i + 1;
    ds_rng r = ds_rng_stream(g->seed, DS_PURPOSE_SESSION, i);
    if (nested || !(s->agents_chance > 0) || ds_rng_unit(&r) >= s->agents_chance) continue;
    /* They all begin when this turn is answered; the next turn waits for the last of them. */
    uint64_t fork = *last, key = ((uint64_t)1 << 62) + i * 64;
    uint32_t n = ds_length_draw(&g->agents.law, g->seed, DS_PURPOSE_SESSION, key);
    for (uint32_t k = 0; k < n && k < 60; k++) {
      uint32_t m = ds_length_draw(&g->agent_turns.law, g->seed, DS_PURPOSE_SESSION, key + 1 + k);
      if (!add_turns(g, ++g->sessions, start_ns, fork, &g->agent_input.law, m, true, last))
        return false;
    }
  }
  return true;
}

static bool next_session(ds_generator *g, ds_diag *d) {
  uint64_t session = ++g->sessions, last;
  g->n_row = g->at_row = 0;
  int64_t start_ns = ds_process_next(&g->arrivals.process);
  if (g->w.duration_ns > 0 && start_ns >= g->w.duration_ns) {
    g->ended = true;
    return true;
  }
  if (start_ns == DS_TIME_NEVER) {
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                "session %llu of the generated workload would begin after more than 290 years",
                (unsigned long long)session);
    ds_diag_expected(d, "a higher rate or fewer requests");
    return false;
  }
  uint64_t key = ((uint64_t)1 << 63) + session;
  uint32_t turns = ds_length_draw(&g->turns.law, g->seed, DS_PURPOSE_SESSION, key);
  return add_turns(g, session, start_ns, 0, &g->input.law, turns, false, &last) || out_of_memory(d);
}

/* --- users --------------------------------------------------------------------------------- */

static int64_t user_gap(const ds_generator *g, uint64_t user, uint32_t turn) {
  double every_s = (double)g->w.arrival.every_ns * 1e-9;
  ds_rng r = ds_rng_stream(g->seed, DS_PURPOSE_USER, user << 32 | turn);
  if (!g->w.arrival.fixed_gaps) return ds_ns_of_s(ds_draw_exponential(&r, every_s));
  /* Everybody has a phase of his own, and then the same rhythm. */
  return turn == 0 ? ds_ns_of_s(every_s * ds_rng_unit(&r)) : g->w.arrival.every_ns;
}

static bool sooner(const ds_generator *g, size_t a, size_t b) {
  int64_t x = g->user_ns[g->heap[a]], y = g->user_ns[g->heap[b]];
  return x < y || (x == y && g->heap[a] < g->heap[b]);
}

static void sift_down(ds_generator *g, size_t at) {
  size_t n = (size_t)g->w.arrival.users;
  for (size_t child; (child = 2 * at + 1) < n; at = child) {
    if (child + 1 < n && sooner(g, child + 1, child)) child++;
    if (!sooner(g, child, at)) return;
    uint32_t user = g->heap[at];
    g->heap[at] = g->heap[child];
    g->heap[child] = user;
  }
}

static bool begin_users(ds_generator *g, ds_diag *d) {
  size_t n = (size_t)g->w.arrival.users;
  g->user_ns = calloc(n, sizeof *g->user_ns);
  g->user_before = calloc(n, sizeof *g->user_before);
  g->user_turn = calloc(n, sizeof *g->user_turn);
  g->heap = calloc(n, sizeof *g->heap);
  if (g->user_ns == NULL || g->user_before == NULL || g->user_turn == NULL || g->heap == NULL)
    return out_of_memory(d);
  for (size_t u = 0; u < n; u++) {
    g->user_ns[u] = user_gap(g, u, 0);
    g->heap[u] = (uint32_t)u;
  }
  for (size_t i = n / 2; i-- > 0;) sift_down(g, i);
  return true;
}

/* The next turn of all users; false when it is past the end. */
static bool next_user(ds_generator *g, ds_generated *q) {
  uint32_t u = g->heap[0];
  if (g->w.duration_ns > 0 && g->user_ns[u] >= g->w.duration_ns) return false;
  q->arrival_ns = g->user_ns[u];
  q->after = g->user_before[u];
  q->session = (uint64_t)u + 1;
  q->turn = g->user_turn[u]++;
  g->user_before[u] = g->emitted + 1;
  g->user_ns[u] += user_gap(g, u, g->user_turn[u]);
  sift_down(g, 0);
  return true;
}

/* --- all ----------------------------------------------------------------------------------- */

static bool check(const ds_workload *w, ds_diag *d) {
  bool burst = w->process == DS_ARRIVAL_BURST || w->process == DS_ARRIVAL_CLOSED;
  bool need = burst || w->arrival.exact || w->arrival.by_request;
  if (w->requests < 0 || w->duration_ns < 0 ||
      (w->requests == 0 && (w->duration_ns == 0 || need))) {
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate: %s",
                need ? "a burst without a number of requests" : "neither requests nor duration");
    ds_diag_expected(d, need ? "requests: a count" : "requests: a count, or duration: a time");
    return false;
  }
  if (burst || (w->rate_per_s > 0.0 && w->rate_per_s <= 1e9)) return true;
  ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0, "workload.generate.arrivals.rate: %g /s",
              w->rate_per_s);
  ds_diag_expected(d, "more than 0 and at most 1e9 /s");
  return false;
}

static bool samplers(ds_generator *g, ds_diag *d) {
  const ds_workload *w = &g->w;
  const ds_session_law *s = &w->session;
  const ds_prefix_law *p = &w->prefix;
  if (p->groups > 0 && p->theta > 0)
    g->group.law = ds_length_zipf(p->theta, 1, (double)p->groups);
  else if (p->groups > 0)
    g->group.law = ds_length_uniform(1, (double)p->groups);
  if (w->images.on && (!ds_sampler_of(&w->images.count, "images.count", &g->image_count, d) ||
                       !ds_sampler_of(&w->images.tokens, "images.tokens", &g->image_tokens, d)))
    return false;
  if (w->rows_path[0] != '\0') return read_pairs(g, d);
  if (!ds_sampler_of(&w->input, "input_tokens", &g->input, d) ||
      !ds_sampler_of(&w->output, "output_tokens", &g->output, d))
    return false;
  if (!s->on) return true;
  if (!ds_sampler_of(&s->turns, "session.turns", &g->turns, d) ||
      !ds_sampler_of(&s->think, "session.think", &g->think, d) ||
      !ds_sampler_of(&s->input, "session.input_tokens", &g->more_input, d))
    return false;
  return !(s->agents_chance > 0) ||
         (ds_sampler_of(&s->agents, "session.sub_agents.count", &g->agents, d) &&
          ds_sampler_of(&s->agent_turns, "session.sub_agents.turns", &g->agent_turns, d) &&
          ds_sampler_of(&s->agent_input, "session.sub_agents.input_tokens", &g->agent_input, d));
}

bool ds_generator_open(const ds_workload *w, uint64_t seed, ds_generator **out, ds_diag *d) {
  *out = NULL;
  if (!check(w, d)) return false;
  ds_generator *g = calloc(1, sizeof *g);
  if (g == NULL) return out_of_memory(d);
  g->w = *w;
  g->seed = seed;
  ds_arrival_maker_of(w, seed, &g->arrivals);
  bool good = samplers(g, d) && (w->process != DS_ARRIVAL_USERS || begin_users(g, d));
  if (good)
    *out = g;
  else
    ds_generator_close(g);
  return good;
}

static bool one_alone(ds_generator *g, ds_generated *q, ds_diag *d) {
  uint64_t i = g->emitted;
  if (g->w.process == DS_ARRIVAL_USERS) {
    g->ended = !next_user(g, q);
  } else {
    q->arrival_ns = ds_process_next(&g->arrivals.process);
    g->ended = g->w.duration_ns > 0 && q->arrival_ns >= g->w.duration_ns;
    if (!g->ended && q->arrival_ns == DS_TIME_NEVER) {
      ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                  "request %llu of the generated workload would arrive after more than 290 years",
                  (unsigned long long)i);
      ds_diag_expected(d, "a higher rate or fewer requests");
      return false;
    }
    if (g->w.process == DS_ARRIVAL_CLOSED) q->think_ns = g->w.think_ns;
  }
  draw_lengths(g, i, q);
  draw_prefix(g, i, q);
  draw_images(g, i, q);
  return true;
}

bool ds_generator_next(ds_generator *g, ds_generated *out, size_t cap, size_t *n, ds_diag *d) {
  int64_t grid_ns = g->w.arrival.quantise_ns;
  for (*n = 0; *n < cap && !g->ended;) {
    if (g->w.requests > 0 && g->emitted + g->at_row >= (uint64_t)g->w.requests) break;
    ds_generated *q = &out[*n];
    memset(q, 0, sizeof *q);
    if (g->w.session.on) {
      if (g->at_row == g->n_row && !next_session(g, d)) return *n = 0, false;
      if (g->ended) break;
      if (g->at_row == g->n_row) continue;
      *q = g->row[g->at_row];
    } else {
      if (!one_alone(g, q, d)) return *n = 0, false;
      if (g->ended) break;
    }
    if (grid_ns > 0) q->arrival_ns -= q->arrival_ns % grid_ns;
    ++*n;
    if (g->w.session.on && ++g->at_row < g->n_row) continue;
    g->emitted += g->w.session.on ? g->n_row : 1;
    g->n_row = g->at_row = 0;
  }
  return true;
}

void ds_generator_close(ds_generator *g) {
  if (g == NULL) return;
  free(g->pairs);
  free(g->order);
  free(g->row);
  free(g->user_ns);
  free(g->user_before);
  free(g->user_turn);
  free(g->heap);
  free(g);
}
