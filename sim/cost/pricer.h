// SPDX-License-Identifier: Apache-2.0
/* What a ds_pricer holds. Internal to the cost layer. */
#ifndef DS_COST_PRICER_H
#define DS_COST_PRICER_H

#include "cost/operators.h"

/* Seconds by cause of something that depends on one count alone. */
typedef struct ds_part_cost {
  double part_s[DS_PART_N];
  bool ready;
} ds_part_cost;

/* A pipeline of parts that hold all weights on the chip. See dataflow.c. */
typedef struct ds_flow {
  bool used;
  double layers_s, hops_s, per_token_s, per_pair_s, per_ctx_s, per_iteration_s, per_request_s;
} ds_flow;
ds_flow ds_flow_bind(const ds_run *run);
void ds_flow_decode(const ds_flow *f, double rows, ds_decode_price *d, double part_s[DS_PART_N]);
/* Anything with prompt tokens in it. ops may be NULL. */
void ds_flow_mixed(const ds_flow *f, const ds_shape *s, ds_ops *ops, double part_s[DS_PART_N]);

struct ds_pricer {
  ds_alloc alloc;
  ds_cost_tier tier;
  ds_linear linear;
  ds_operators op;                      /* zero with the linear tier */
  ds_flow flow;
  int64_t n_stack, n_head, n_decode;    /* lengths of the memo tables, indexed by count */
  ds_part_cost *stack;                  /* by tokens */
  ds_part_cost *head;                   /* by sampled rows */
  ds_decode_price *decode;              /* by sequences */
  ds_part_cost spare_stack, spare_head; /* for counts beyond the tables */
  ds_decode_price spare_decode;
  ds_pricer *drafter;                   /* prices a pass of it; NULL: drafts cost nothing */
};

#endif
