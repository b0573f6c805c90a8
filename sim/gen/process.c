// SPDX-License-Identifier: GPL-3.0-or-later
#include "gen/process.h"

#include "base/dist.h"
#include "base/num.h"

#define LAST_S 9.2e9 /* a little below 2^63 ns */

/* Stirling's series with five terms, after lifting x to at least 12. */
double ds_ln_gamma(double x) {
  double lifted = 1.0;
  while (x < 12.0) lifted *= x++;
  double z = 1.0 / (x * x);
  double series = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z * (1.0 / 1680 - z / 1188)))) / x;
  return (x - 0.5) * ds_log(x) - x + 0.91893853320467274178 + series - ds_log(lifted);
}

static double weibull_cv_squared(double shape) {
  double one = ds_ln_gamma(1.0 + 1.0 / shape), two = ds_ln_gamma(1.0 + 2.0 / shape);
  return ds_exp(two - 2.0 * one) - 1.0;
}

double ds_weibull_shape(double cv) {
  double low = 0.05, high = 200.0;
  if (!(cv > 0.0) || weibull_cv_squared(low) < cv * cv || weibull_cv_squared(high) > cv * cv)
    return 0.0;
  for (int i = 0; i < 200; i++) {
    double mid = 0.5 * (low + high);
    if (mid <= low || mid >= high) break;
    if (weibull_cv_squared(mid) > cv * cv)
      low = mid;
    else
      high = mid;
  }
  return 0.5 * (low + high);
}

double ds_gap_draw(ds_gap_law law, double shape, uint64_t seed, uint64_t i) {
  if (law == DS_GAP_CONSTANT) return 1.0;
  ds_rng r = ds_rng_stream(seed, DS_PURPOSE_ARRIVAL, i);
  if (law == DS_GAP_GAMMA) return ds_draw_gamma(&r, shape, 1.0 / shape);
  double e = ds_draw_exponential(&r, 1.0);
  return law == DS_GAP_WEIBULL ? ds_exp(ds_log(e) / shape - ds_ln_gamma(1.0 + 1.0 / shape)) : e;
}

/* --- rates over time ----------------------------------------------------------------------- */

static double area_of(const ds_rate_piece *p) {
  if (p->exponential && p->from_per_s != p->to_per_s)
    return p->length_s * (p->to_per_s - p->from_per_s) /
           (ds_log(p->to_per_s) - ds_log(p->from_per_s));
  return p->length_s * 0.5 * (p->from_per_s + p->to_per_s);
}

double ds_pieces_area(const ds_rate_piece *p, size_t n, double *length_s) {
  double area = 0.0;
  *length_s = 0.0;
  for (size_t i = 0; i < n; i++) {
    area += area_of(&p[i]);
    *length_s += p[i].length_s;
  }
  return area;
}

/* What is left of a piece from x on, as a piece. */
static ds_rate_piece rest_of(const ds_rate_piece *p, double x) {
  ds_rate_piece rest = *p;
  double share = x / p->length_s;
  rest.length_s = p->length_s - x;
  rest.from_per_s =
      p->exponential && p->from_per_s != p->to_per_s
          ? p->from_per_s * ds_exp(share * (ds_log(p->to_per_s) - ds_log(p->from_per_s)))
          : p->from_per_s + share * (p->to_per_s - p->from_per_s);
  return rest;
}

/* Time after which the piece has so much area, which it has. */
static double time_of_area(const ds_rate_piece *p, double area) {
  double a = p->from_per_s, slope = (p->to_per_s - a) / p->length_s;
  if (p->exponential && a != p->to_per_s) {
    double k = (ds_log(p->to_per_s) - ds_log(a)) / p->length_s, x = k * area / a;
    /* ln(1 + x) by its series where it would cancel. */
    return (x < 1e-6 && x > -1e-6 ? x * (1 - x * (0.5 - x / 3)) : ds_log(1.0 + x)) / k;
  }
  double root = a * a + 2.0 * slope * area;
  return 2.0 * area / (a + ds_sqrt(root > 0.0 ? root : 0.0));
}

/* False when the rate is zero for ever. */
static bool next_in_pieces(ds_process *p, double area, double *at_s) {
  for (size_t empty = 0;;) {
    bool last = p->at_piece + 1 >= p->n_piece;
    const ds_rate_piece *piece = &p->piece[p->at_piece];
    if (p->at_piece == p->n_piece) { /* the rate stays as it ended */
      double rate = p->piece[p->n_piece - 1].to_per_s;
      if (!(rate > 0.0)) return false;
      p->in_piece_s += area / rate;
      *at_s = p->span_s + p->in_piece_s;
      return true;
    }
    ds_rate_piece rest = rest_of(piece, p->in_piece_s);
    double left = rest.length_s > 0.0 ? area_of(&rest) : 0.0;
    if (area <= left && left > 0.0) {
      p->in_piece_s += time_of_area(&rest, area);
      if (p->in_piece_s > piece->length_s) p->in_piece_s = piece->length_s;
      *at_s = p->span_s + p->in_piece_s;
      return true;
    }
    area -= left;
    if (area < 0.0) area = 0.0;
    empty = left > 0.0 ? 0 : empty + 1;
    if (empty > p->n_piece + 1) return false;
    p->span_s += piece->length_s;
    p->in_piece_s = 0.0;
    p->at_piece = last && p->repeat ? 0 : p->at_piece + 1;
    if (p->span_s > LAST_S) return false;
  }
}

double ds_modulators_mean(const ds_modulator *m, size_t n) {
  double mean = 0.0;
  for (size_t k = 0; k < n; k++) {
    double sum = 0.0, time = 0.0;
    for (size_t i = 0; i < m[k].n; i++) {
      sum += m[k].rate_per_s[i] * m[k].dwell_s[i];
      time += m[k].dwell_s[i];
    }
    mean += sum / time;
  }
  return mean;
}

/* The rate of a two-state chain has covariance v exp(-t / tau), tau = 1 / (1 / d0 + 1 / d1); twice
 * integrated that gives Var N(t) = mean t + 2 v tau (t - tau (1 - exp(-t / tau))). */
double ds_modulators_dispersion(const ds_modulator *m, size_t n, double t_s) {
  double excess = 0.0;
  for (size_t k = 0; k < n; k++) {
    double d0 = m[k].dwell_s[0], d1 = m[k].dwell_s[1], share = d0 / (d0 + d1);
    double jump = m[k].rate_per_s[1] - m[k].rate_per_s[0], v = share * (1 - share) * jump * jump;
    double tau = d0 * d1 / (d0 + d1);
    excess += 2 * v * tau * (1 - tau / t_s * (1 - ds_exp(-t_s / tau)));
  }
  return 1 + excess / ds_modulators_mean(m, n);
}

static double hidden_unit(const ds_process *p, size_t k, uint64_t draw) {
  ds_rng r = ds_rng_stream(p->seed, DS_PURPOSE_STATE, (uint64_t)k << 56 | draw);
  return ds_rng_unit(&r);
}

static void begin_state(ds_process *p, size_t k, size_t state, double at_s) {
  uint64_t draw = 2 * p->hidden[k].jumps++;
  p->hidden[k].state = state;
  p->hidden[k].until_s = at_s - p->modulator[k].dwell_s[state] * ds_log(hidden_unit(p, k, draw));
}

static void begin_modulators(ds_process *p) {
  for (size_t k = 0; k < p->n_modulator; k++) {
    const ds_modulator *m = &p->modulator[k];
    double time = 0.0, u = hidden_unit(p, k, UINT64_MAX >> 8);
    for (size_t i = 0; i < m->n; i++) time += m->dwell_s[i];
    size_t state = 0;
    for (double reached = m->dwell_s[0]; state + 1 < m->n && reached < u * time;)
      reached += m->dwell_s[++state];
    begin_state(p, k, state, 0.0);
  }
  p->begun = true;
}

static bool next_modulated(ds_process *p, double area, double *at_s) {
  if (!p->begun) begin_modulators(p);
  for (;;) {
    double rate = 0.0;
    size_t first = 0;
    for (size_t k = 0; k < p->n_modulator; k++) {
      rate += p->modulator[k].rate_per_s[p->hidden[k].state];
      if (p->hidden[k].until_s < p->hidden[first].until_s) first = k;
    }
    double until_s = p->hidden[first].until_s, left = rate * (until_s - p->span_s);
    if (area <= left && rate > 0.0) {
      p->span_s += area / rate;
      *at_s = p->span_s;
      return true;
    }
    area = area > left ? area - left : 0.0;
    p->span_s = until_s;
    if (until_s > LAST_S) return false;
    const ds_modulator *m = &p->modulator[first];
    double u = hidden_unit(p, first, 2 * p->hidden[first].jumps - 1);
    size_t other = (size_t)(u * (double)(m->n - 1));
    if (other >= p->hidden[first].state) other++;
    begin_state(p, first, other, until_s);
  }
}

static double indexed_rate(const ds_process *p, uint64_t i) {
  double share =
      p->ramp > 1 ? (double)(i < p->ramp ? i : p->ramp - 1) / (double)(p->ramp - 1) : 0.0;
  if (p->exponential)
    return p->rate_per_s * ds_exp(share * (ds_log(p->end_rate_per_s) - ds_log(p->rate_per_s)));
  return p->rate_per_s + share * (p->end_rate_per_s - p->rate_per_s);
}

/* --- all ----------------------------------------------------------------------------------- */

static int64_t after_gap(const ds_process *p, double gap_s) {
  /* Each gap is rounded by itself and the sum is exact, so an hour's last arrival is as sharp as
   * its first. */
  int64_t gap_ns = gap_s < LAST_S ? ds_ns_of_s(gap_s) : DS_TIME_NEVER;
  return gap_ns < DS_TIME_NEVER - p->time_ns ? p->time_ns + gap_ns : DS_TIME_NEVER;
}

int64_t ds_process_next(ds_process *p) {
  uint64_t i = p->index++;
  if (p->kind == DS_PROCESS_BURST) return 0;
  if (p->time_ns == DS_TIME_NEVER) return DS_TIME_NEVER;
  if (p->kind == DS_PROCESS_CONSTANT) {
    double s = (double)(i + 1) / p->rate_per_s;
    p->time_ns = s < LAST_S ? ds_ns_of_s(s) : DS_TIME_NEVER;
    return p->time_ns;
  }
  if (p->kind == DS_PROCESS_POISSON) {
    ds_rng r = ds_rng_stream(p->seed, DS_PURPOSE_ARRIVAL, i);
    p->time_ns = after_gap(p, ds_draw_exponential(&r, 1.0 / p->rate_per_s));
    return p->time_ns;
  }
  double gap = ds_gap_draw(p->gap, p->shape, p->seed, i) * (p->scale > 0.0 ? p->scale : 1.0);
  if (p->kind == DS_PROCESS_RENEWAL || p->kind == DS_PROCESS_INDEXED) {
    double rate = p->kind == DS_PROCESS_RENEWAL ? p->rate_per_s : indexed_rate(p, i);
    p->time_ns = after_gap(p, gap / rate);
    return p->time_ns;
  }
  double at_s = 0.0;
  bool there =
      p->kind == DS_PROCESS_PIECES ? next_in_pieces(p, gap, &at_s) : next_modulated(p, gap, &at_s);
  int64_t t = there && at_s < LAST_S ? ds_ns_of_s(at_s) : DS_TIME_NEVER;
  if (t < p->time_ns) t = p->time_ns;
  p->time_ns = t;
  return t;
}
