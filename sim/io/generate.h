// SPDX-License-Identifier: GPL-3.0-or-later
/* What a scenario asks a generator for, as plain values: laws of lengths and times, arrivals,
 * sessions. */
#ifndef DS_IO_GENERATE_H
#define DS_IO_GENERATE_H

#include "base/dist.h"

typedef enum ds_law {
  DS_LAW_FIXED,
  DS_LAW_LOGNORMAL,
  DS_LAW_UNIFORM,
  DS_LAW_NORMAL,
  DS_LAW_EXPONENTIAL,
  DS_LAW_ZIPF,
  DS_LAW_EMPIRICAL,
  DS_LAW_MIXTURE,
  DS_LAW_NORMAL_TOOL, /* as LLMPerf draws; only in its protocol */
  DS_LAW_N
} ds_law;

struct ds_law_table;
/* Tokens, or milliseconds where the key is a time; a draw is rounded to the nearest integer and at
 * least 1. */
typedef struct ds_length_law {
  ds_law law;
  double value;                     /* fixed */
  double mean, p99, median;         /* lognormal: mean and one of p99 or median; 0 = not given */
  double min, max;                  /* 0 = none; draws outside are drawn again */
  double sd;                        /* normal */
  bool clamp;                       /* normal: draws outside move to the limit instead */
  double theta;                     /* zipf */
  const struct ds_law_table *table; /* empirical, mixture: the scenario's */
} ds_length_law;

#define DS_QUANTILES_MAX 128
#define DS_PARTS_MAX     6
typedef struct ds_law_table {
  struct ds_law_table *next; /* all of a scenario */
  ds_quantile q[DS_QUANTILES_MAX];
  size_t n_q;
  ds_length_law part[DS_PARTS_MAX];
  double weight[DS_PARTS_MAX]; /* add up to 1 */
  size_t n_part;
} ds_law_table;

typedef enum ds_arrival_process {
  DS_ARRIVAL_POISSON,
  DS_ARRIVAL_CONSTANT,
  DS_ARRIVAL_BURST,
  DS_ARRIVAL_CLOSED,
  DS_ARRIVAL_GAMMA,
  DS_ARRIVAL_WEIBULL,
  DS_ARRIVAL_MMPP, /* and onoff, which is one of two states */
  DS_ARRIVAL_ONOFF,
  DS_ARRIVAL_RAMP,
  DS_ARRIVAL_STEPS,
  DS_ARRIVAL_SPIKE,
  DS_ARRIVAL_DIURNAL,
  DS_ARRIVAL_USERS,
  DS_ARRIVAL_N
} ds_arrival_process;
extern const char *const ds_arrival_names[DS_ARRIVAL_N];

#define DS_SPANS_MAX 128
typedef struct ds_rate_span { /* a line from one rate to the other, or an exponential */
  double length_s, from_per_s, to_per_s;
} ds_rate_span;

#define DS_CHAIN_STATES 8
#define DS_CHAINS_MAX   4
typedef struct ds_rate_chain { /* jumps between states; the rates of all chains add up */
  size_t n;
  double rate_per_s[DS_CHAIN_STATES], dwell_s[DS_CHAIN_STATES];
} ds_rate_chain;

typedef struct ds_arrival_detail {
  double shape;        /* of the gaps; gamma (burstiness) and Weibull; 0: exponential */
  bool constant_gaps;  /* burstiness: inf */
  bool exact;          /* all gaps scaled so that the last request arrives at requests / rate */
  int64_t quantise_ns; /* > 0: down to a multiple of it */
  ds_rate_span span[DS_SPANS_MAX];
  size_t n_span;
  bool repeat, exponential;
  bool by_request; /* ramp: the rate depends on the number of the request */
  double ramp_from_per_s, ramp_to_per_s;
  ds_rate_chain chain[DS_CHAINS_MAX];
  size_t n_chain;
  int64_t users,
      every_ns;    /* each user starts a turn so often, but not before the last is answered */
  bool fixed_gaps; /* of users; else exponential */
} ds_arrival_detail;

typedef struct ds_session_law { /* of a conversation or an agent's task */
  bool on;
  ds_length_law turns, think, input; /* requests; milliseconds; what is new in the prompt after the
                                        first turn. The whole conversation so far precedes it. */
  int64_t max_context;               /* 0: none; rather than grow beyond it a session ends, or */
  int64_t compact_to;                /* > 0: goes on with so much of what was said */
  double agents_chance;              /* after a turn: sub-agents, each a session of its own */
  ds_length_law agents, agent_turns, agent_input;
} ds_session_law;

typedef struct ds_prefix_law { /* prompts that begin alike */
  int64_t groups;              /* 0: none */
  double tokens;               /* before each prompt of a group; 0: by share */
  double share;                /* of the prompt itself */
  double theta;                /* the k-th group has a share of k^-theta; 0: all alike */
} ds_prefix_law;

typedef struct ds_image_law { /* images of a prompt, beside its text */
  bool on;
  double share;         /* of the requests (sessions: which show theirs in the first turn, and keep them) */
  ds_length_law count;  /* how many these bring */
  ds_length_law tokens; /* of each */
} ds_image_law;

#endif
