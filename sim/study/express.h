// SPDX-License-Identifier: GPL-3.0-or-later
/* From a row of a measured-run file to a run of the simulator, the way its source measured it.
 *
 * Protocols: a closed loop starts all its seats at once and runs ten prompts a seat unless the row says how many; an
 * offline row has everything queued at time 0; a static batch is one batch of that size; open loops are Poisson or
 * evenly spaced. Lengths are fixed, or uniform with the stated deviation.
 *
 * Blank fields, one rule: what most deployments of that engine, model format and source would have had, and the row is
 * marked (DS_BLANK_*), so that errors can be shown without it. */
#ifndef DS_STUDY_EXPRESS_H
#define DS_STUDY_EXPRESS_H

#include "io/card.h"
#include "io/runs.h"

enum {
  DS_BLANK_WEIGHTS = 1, /* checkpoint's own format */
  DS_BLANK_KV = 2,      /* fp8 with quantised weights on TensorRT-LLM and in InferenceX's scripts, else 16 bit */
  DS_BLANK_LENGTHS = 4, /* a data set's spread or mean is not published: lognormal, deviation 0.8 of the mean */
  DS_BLANK_PARALLEL = 8, /* tensor parallelism over all devices; of an audited system, the smallest that fits */
  DS_BLANK_VERSION = 16, /* the source's year decides the engine card */
  DS_BLANK_PART = 64, /* a name of several parts: the one in servers of eight (SXM) */
  DS_BLANK_REQUESTS = 32 /* ten a seat, 3,000 offline, ten minutes of an open loop */
};

typedef enum ds_protocol { DS_PROTOCOL_STATIC, DS_PROTOCOL_OFFLINE, DS_PROTOCOL_CLOSED, DS_PROTOCOL_OPEN } ds_protocol;

/* What a row is compared as. A: dense, measured kernels, an engine card of that engine's time, source graded A or B; B:
 * the same with experts or latent attention; C: the rest. */
typedef enum ds_stratum { DS_STRATUM_A, DS_STRATUM_B, DS_STRATUM_C, DS_STRATA } ds_stratum;

typedef struct ds_expressed {
  ds_scenario *scenario; /* owned */
  ds_request *request;   /* owned, n of them */
  ds_span *spans;        /* owned: what their prompts are, where some come again */
  size_t n;
  ds_sim_options options;
  ds_protocol protocol;
  ds_stratum stratum;
  unsigned blanks;
  int64_t copies;      /* identical replicas of which one is simulated */
  bool client_known;   /* how requests were sent is published: TTFT counts */
  bool engine_current; /* the engine card covers the row's version */
  double mean_output;
  bool at_its_edge;    /* an open loop at the highest rate that met its limits: an audited server run */
  double limit_ttft_ms, limit_tpot_ms; /* of the 99th percentiles, then */
} ds_expressed;

/* Cards by the names that rows use, opened once. Filled before threads start; then read only. */
typedef struct ds_card_cache ds_card_cache;
ds_card_cache *ds_card_cache_new(const ds_measured_runs *runs, const ds_data_dirs *dirs);
void ds_card_cache_free(ds_card_cache *c);
/* Use this card (and its file, for messages) for every row on that part, whatever its name leads to: for fitting. */
void ds_card_cache_hardware(ds_card_cache *c, const char *gpu, const ds_hw *hw, const char *path);
/* The same for every row whose engine card has that name; kept by reference. NULL: as the card has it. */
void ds_card_cache_engine(ds_card_cache *c, const ds_engine_card *engine);
/* The hardware card that a row's part leads to, or NULL. */
const ds_hw *ds_card_cache_part(const ds_card_cache *c, const char *gpu);

/* False with a reason in why when the simulator (or its cards) cannot say this row. */
bool ds_express(const ds_measured_run *m, const ds_card_cache *cards, const ds_data_dirs *dirs, ds_expressed *out,
                char *why, size_t cap);
void ds_expressed_free(ds_expressed *x);

const char *ds_model_class(const ds_model *m); /* "dense", "moe", "mla" */

#endif
