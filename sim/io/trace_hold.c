// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_hold.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "io/trace_rows.h"

#define PURPOSE_SPREAD ((ds_purpose)41)

/* ---- tables ---- */

static size_t place_of(const void *p, size_t room) {
  return (size_t)ds_mix64((uint64_t)(uintptr_t)p) & (room - 1);
}

ds_session_state *ds_sessions_of(ds_sessions *s, const void *session) {
  if (s->n * 2 >= s->room) {
    size_t room = s->room == 0 ? 256 : 2 * s->room;
    ds_session_state *slot = calloc(room, sizeof *slot);
    if (slot == NULL) return NULL;
    for (size_t i = 0; i < s->room; i++) {
      if (s->slot[i].session == NULL) continue;
      size_t k = place_of(s->slot[i].session, room);
      while (slot[k].session != NULL) k = (k + 1) & (room - 1);
      slot[k] = s->slot[i];
    }
    free(s->slot);
    s->slot = slot;
    s->room = room;
  }
  size_t k = place_of(session, s->room);
  while (s->slot[k].session != NULL && s->slot[k].session != session) k = (k + 1) & (s->room - 1);
  if (s->slot[k].session == NULL) {
    s->slot[k].session = session;
    s->n++;
  }
  return &s->slot[k];
}

void ds_sessions_free(ds_sessions *s) {
  free(s->slot);
  *s = (ds_sessions){NULL, 0, 0};
}

bool ds_seen_add(ds_seen *s, uint64_t x, bool *fresh) {
  if (x == 0) { /* marks a free slot */
    *fresh = !s->zero;
    s->zero = true;
    return true;
  }
  if (s->n * 2 >= s->room) {
    size_t room = s->room == 0 ? 1024 : 2 * s->room;
    uint64_t *slot = calloc(room, sizeof *slot);
    if (slot == NULL) return false;
    for (size_t i = 0; i < s->room; i++) {
      if (s->slot[i] == 0) continue;
      size_t k = (size_t)ds_mix64(s->slot[i]) & (room - 1);
      while (slot[k] != 0) k = (k + 1) & (room - 1);
      slot[k] = s->slot[i];
    }
    free(s->slot);
    s->slot = slot;
    s->room = room;
  }
  size_t k = (size_t)ds_mix64(x) & (s->room - 1);
  while (s->slot[k] != 0 && s->slot[k] != x) k = (k + 1) & (s->room - 1);
  *fresh = s->slot[k] == 0;
  if (*fresh) {
    s->slot[k] = x;
    s->n++;
  }
  return true;
}

void ds_seen_free(ds_seen *s) {
  free(s->slot);
  *s = (ds_seen){NULL, 0, 0, false};
}

/* ---- order ---- */

typedef struct by {
  int64_t key, second;
  size_t index;
} by;

static int compare(const void *a, const void *b) {
  const by *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  if (x->second != y->second) return x->second < y->second ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

/* Rows in the order of `order`, which is used up. */
static bool permute(ds_row *rows, const by *order, size_t n) {
  ds_row *copy = malloc((n + 1) * sizeof *copy);
  if (copy == NULL) return false;
  for (size_t i = 0; i < n; i++) copy[i] = rows[order[i].index];
  memcpy(rows, copy, n * sizeof *rows);
  free(copy);
  return true;
}

bool ds_hold_sort(ds_row *rows, size_t n) {
  bool sorted = true;
  for (size_t i = 1; i < n && sorted; i++) sorted = rows[i - 1].time_ns <= rows[i].time_ns;
  if (sorted) return true;
  by *order = malloc((n + 1) * sizeof *order);
  if (order == NULL) return false;
  for (size_t i = 0; i < n; i++) order[i] = (by){rows[i].time_ns, 0, i};
  qsort(order, n, sizeof *order, compare);
  bool good = permute(rows, order, n);
  free(order);
  return good;
}

static int by_value(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return x < y ? -1 : x > y;
}

uint64_t ds_hold_spread(ds_row *rows, size_t n, int64_t tick_ns, uint64_t seed) {
  uint64_t moved = 0;
  size_t room = 0;
  double *u = NULL;
  for (size_t i = 0; i < n;) {
    size_t k = i;
    while (k < n && rows[k].time_ns == rows[i].time_ns) k++;
    int64_t span = tick_ns;
    if (k < n && rows[k].time_ns - rows[i].time_ns < span) span = rows[k].time_ns - rows[i].time_ns;
    size_t m = k - i;
    if (m > room) {
      double *more = realloc(u, m * sizeof *u);
      if (more == NULL) break;
      u = more;
      room = m;
    }
    ds_rng rng = ds_rng_stream(seed, PURPOSE_SPREAD, i);
    for (size_t j = 0; j < m; j++) u[j] = ds_rng_unit(&rng);
    qsort(u, m, sizeof *u, by_value);
    for (size_t j = 0; j < m; j++) rows[i + j].time_ns += (int64_t)(u[j] * (double)span);
    moved += m;
    i = k;
  }
  free(u);
  return moved;
}

/* ---- who follows whom ---- */

#define NOBODY SIZE_MAX

typedef struct numbered {
  uint64_t key;
  size_t index;
} numbered;

static int by_key(const void *a, const void *b) {
  const numbered *x = a, *y = b;
  if (x->key != y->key) return x->key < y->key ? -1 : 1;
  return x->index < y->index ? -1 : x->index > y->index;
}

static size_t look_up(const numbered *t, size_t n, uint64_t key) {
  size_t low = 0, high = n;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (t[middle].key < key)
      low = middle + 1;
    else
      high = middle;
  }
  return low < n && t[low].key == key ? t[low].index : NOBODY;
}

/* The row that each row follows; NOBODY for the first ones. Rows with numbers go by them, others by
 * the order of their session. */
static bool add_join(ds_row_joins *j, size_t row, size_t on) {
  if (j->n == j->room) {
    size_t room = j->room == 0 ? 64 : 2 * j->room;
    ds_row_join *more = realloc(j->of, room * sizeof *more);
    if (more == NULL) return false;
    j->of = more;
    j->room = room;
  }
  j->of[j->n++] = (ds_row_join){row, on};
  return true;
}

/* The rows that row i names: the last that is there is its parent, it waits for the others, too. */
static bool find_named(const ds_more *m, size_t i, const numbered *t, size_t n_keys, size_t *parent, ds_row_joins *joins,
                       ds_trace_report *report) {
  for (uint32_t k = m->n_after; k-- > 0;) {
    size_t p = look_up(t, n_keys, k + 1 == m->n_after ? m->after_key : m->also_keys[k]);
    if (p == NOBODY || p >= i) continue;
    if (*parent == NOBODY) *parent = p;
    else if (p != *parent && !add_join(joins, i, p)) return false;
  }
  report->several_parents += m->n_after > 1;
  report->missing_parents += *parent == NOBODY;
  return true;
}

static bool find_parents(const ds_row *rows, size_t n, size_t *parent, ds_row_joins *joins, ds_trace_report *report) {
  numbered *t = malloc((n + 1) * sizeof *t);
  ds_sessions sessions = {NULL, 0, 0};
  size_t n_keys = 0;
  bool good = t != NULL;
  for (size_t i = 0; good && i < n; i++)
    if (rows[i].more != NULL && rows[i].more->has_key)
      t[n_keys++] = (numbered){rows[i].more->key, i};
  if (good) qsort(t, n_keys, sizeof *t, by_key);
  for (size_t i = 0; good && i < n; i++) {
    const ds_more *m = rows[i].more;
    parent[i] = NOBODY;
    if (m == NULL) continue;
    if (m->has_after && m->n_after == 0) continue; /* it says that it follows nobody */
    if (m->has_after) {
      good = find_named(m, i, t, n_keys, &parent[i], joins, report);
      continue;
    }
    if (m->has_key || m->session == NULL) continue;
    ds_session_state *s = ds_sessions_of(&sessions, m->session);
    if (s == NULL) {
      good = false;
      break;
    }
    if (s->rows++ > 0) parent[i] = s->last;
    s->last = i;
  }
  free(t);
  ds_sessions_free(&sessions);
  return good;
}

bool ds_hold_follow(ds_row *rows, size_t n, ds_row_joins *joins, ds_trace_report *report) {
  size_t *parent = malloc((n + 1) * sizeof *parent), *where = malloc((n + 1) * sizeof *where);
  by *order = calloc(n + 1, sizeof *order);
  bool good =
      parent != NULL && where != NULL && order != NULL && find_parents(rows, n, parent, joins, report);
  for (size_t i = 0; good && i < n; i++) {
    size_t p = parent[i], root = p == NOBODY ? i : (size_t)order[p].key;
    order[i] = (by){(int64_t)root, 0, i};
    if (p == NOBODY) continue;
    const ds_more *m = rows[i].more;
    int64_t think = m->think_ns;
    if (think < 0) {
      int64_t took = rows[p].more != NULL && rows[p].more->e2e_ns > 0 ? rows[p].more->e2e_ns : 0;
      think = rows[i].time_ns - rows[p].time_ns - took;
      if (took == 0) report->think_from_gaps++;
    }
    rows[i].think_ns = think > 0 ? think : 0;
  }
  if (good) {
    /* A follower's own time was needed for its pause and for those that follow it: it goes last. */
    for (size_t i = 0; i < n; i++) {
      size_t root = (size_t)order[i].key;
      if (root != i) rows[i].time_ns = rows[root].time_ns;
    }
    qsort(order, n, sizeof *order, compare); /* rows are sorted: roots in order of their times */
    for (size_t i = 0; i < n; i++) where[order[i].index] = i;
    for (size_t i = 0; i < n; i++)
      rows[i].after = parent[i] == NOBODY ? 0 : 1 + (uint64_t)where[parent[i]];
    for (size_t i = 0; i < joins->n; i++) joins->of[i] = (ds_row_join){where[joins->of[i].row], where[joins->of[i].on]};
    good = permute(rows, order, n);
  }
  free(parent);
  free(where);
  free(order);
  return good;
}
