// SPDX-License-Identifier: GPL-3.0-or-later
/* When synthetic requests arrive. Times are nanoseconds from the start of the run; the first
 * request waits a gap too. Every gap has a random stream of its own, keyed by the index of its
 * request.
 *
 * A process is a law of gaps with mean 1 and a rate. With a constant rate a gap is divided by it;
 * with one that changes over time (pieces, modulators) a gap is that much area under the rate, so
 * the expected number of arrivals in any span is the integral of the rate there, whatever the law
 * (time change of a renewal process; Cox process where the rate is random). */
#ifndef DS_GEN_PROCESS_H
#define DS_GEN_PROCESS_H

#include "base/rng.h"

typedef enum ds_process_kind {
  DS_PROCESS_POISSON,  /* gaps exponential with mean 1 / rate */
  DS_PROCESS_CONSTANT, /* gaps of 1 / rate; request i arrives at (i + 1) / rate, so that rounding
                          does not add up */
  DS_PROCESS_BURST,    /* all at time 0 */
  DS_PROCESS_RENEWAL,  /* gaps of `gap` with mean 1 / rate */
  DS_PROCESS_INDEXED,  /* gap i of `gap` at the rate of request i, from rate_per_s to end_rate_per_s
                          over `ramp` requests: a line, or an exponential (vLLM's ramp-up) */
  DS_PROCESS_PIECES,   /* the rate as given over time */
  DS_PROCESS_MODULATED /* the rate is the sum of modulators, each of which jumps between states */
} ds_process_kind;

typedef enum ds_gap_law { /* all with mean 1 */
                          DS_GAP_EXPONENTIAL,
                          DS_GAP_CONSTANT,
                          DS_GAP_GAMMA,  /* shape: CV = 1 / sqrt(shape); vLLM calls it burstiness */
                          DS_GAP_WEIBULL /* shape */
} ds_gap_law;

/* Part of a rate over time: a line from one rate to the other, or an exponential. */
typedef struct ds_rate_piece {
  double length_s, from_per_s, to_per_s; /* length > 0; rates >= 0, both > 0 if exponential */
  bool exponential;
} ds_rate_piece;

/* A Markov chain in continuous time: in each state for an exponential time, then in one of the
 * others, each as likely. So a state's share of time is its dwell time over their sum. It starts in
 * a state drawn with these shares. */
#define DS_STATES_MAX     8
#define DS_MODULATORS_MAX 4
typedef struct ds_modulator {
  size_t n; /* 2 .. DS_STATES_MAX */
  double rate_per_s[DS_STATES_MAX], dwell_s[DS_STATES_MAX];
} ds_modulator;

typedef struct ds_process {
  ds_process_kind kind;
  double rate_per_s; /* > 0 and finite; not used by a burst, pieces and modulators */
  uint64_t seed;
  uint64_t index;  /* of the next request */
  int64_t time_ns; /* of the last; start with 0 */
  ds_gap_law gap;
  double shape;
  double scale;          /* of every gap; 0 means 1 */
  double end_rate_per_s; /* indexed */
  uint64_t ramp;
  bool exponential;
  const ds_rate_piece *piece; /* the caller's; after the last the rate stays, or all begins again */
  size_t n_piece;
  bool repeat;
  const ds_modulator *modulator; /* the caller's */
  size_t n_modulator;
  /* Where it is; all zero at the start. */
  double span_s, in_piece_s; /* start of the current piece or state, and the time gone in it */
  size_t at_piece;
  bool begun;
  struct {
    size_t state;
    uint64_t jumps;
    double until_s;
  } hidden[DS_MODULATORS_MAX];
} ds_process;

/* Arrival of the next request; never before the last one. DS_TIME_NEVER when it is beyond the range
 * of the clock (292 years), and from then on. */
int64_t ds_process_next(ds_process *p);

/* The gap with mean 1 before request i. */
double ds_gap_draw(ds_gap_law law, double shape, uint64_t seed, uint64_t i);
/* ln Gamma(x) for x > 0; relative error below 1e-12. */
double ds_ln_gamma(double x);
/* The shape whose Weibull law has this coefficient of variation, 0.01 .. 100; 0: out of range. */
double ds_weibull_shape(double cv);

/* Mean rate of modulators: the sum over each of its rates weighted by dwell time. */
double ds_modulators_mean(const ds_modulator *m, size_t n);
/* Variance of the number of arrivals in a window of t_s over its mean, for modulators of two states
 * each and exponential gaps. */
double ds_modulators_dispersion(const ds_modulator *m, size_t n, double t_s);
/* Area under the pieces, which is the expected number of arrivals; and their length. */
double ds_pieces_area(const ds_rate_piece *p, size_t n, double *length_s);

#endif
