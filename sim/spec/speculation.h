// SPDX-License-Identifier: Apache-2.0
/* Speculative decoding as a run asks for it: who drafts, how many tokens, and how many of them are accepted. */
#ifndef DS_SPEC_SPECULATION_H
#define DS_SPEC_SPECULATION_H

#include "base/status.h"
#include "spec/model.h"

#define DS_DRAFTS_MAX     32
#define DS_DRAFT_ROWS_MAX 16

typedef enum ds_draft_method {
  DS_DRAFT_NONE,
  DS_DRAFT_MODEL, /* a small model of its own, one pass a token */
  DS_DRAFT_EAGLE, /* a head of one layer in 16 bit, and the model's output layer */
  DS_DRAFT_MTP,   /* a layer like the model's own, and its output layer */
  DS_DRAFT_NGRAM, /* looked up in the text so far: free */
  DS_DRAFT_N
} ds_draft_method;
/* draft-model, eagle, mtp, ngram; index by method, "none" first. */
extern const char *const ds_draft_names[DS_DRAFT_N];

typedef struct ds_draft_row { /* batches of low to high requests draft so many tokens */
  int64_t low, high, tokens;
} ds_draft_row;

typedef struct ds_speculation {
  ds_draft_method method;
  ds_model draft;             /* DS_DRAFT_MODEL: priced in its own format, draft.weights */
  int64_t tokens;             /* drafts of a request in an iteration; the most that a row of by_batch asks for */
  int64_t lookahead;          /* further tokens that a running request takes KV for */
  int64_t disable_above_batch; /* more requests running than this: no drafts; 0: never */
  ds_draft_row by_batch[DS_DRAFT_ROWS_MAX];
  int64_t n_by_batch;         /* 0: always `tokens`; a batch outside all rows drafts nothing */
  double acceptance[DS_DRAFTS_MAX]; /* chance that the draft at this position is accepted, once those before it are */
  /* The same for each of several streams of requests (ds_request.stream), DS_DRAFTS_MAX chances each; NULL: they are all
   * alike. Borrowed. Counts are kept for each of n_streams, too. */
  const double *stream_acceptance;
  int64_t n_streams;
  /* Instead of the chances, what happened: accepted drafts by request and verify step. Borrowed; must outlive the run. */
  const uint64_t *replay_first; /* by index of the request: its first step in replay_accepted; one more entry at the end */
  const uint8_t *replay_accepted;
  uint64_t replay_requests;
} ds_speculation;

/* Drafts of each request when so many run. */
int64_t ds_drafts_for(const ds_speculation *p, int64_t running);

/* The chances of a request of this stream, by position. */
static inline const double *ds_drafts_chances(const ds_speculation *p, uint32_t stream) {
  bool own = p->stream_acceptance != NULL && (int64_t)stream < p->n_streams;
  return own ? p->stream_acceptance + (size_t)stream * DS_DRAFTS_MAX : p->acceptance;
}

/* Tokens that a verify step of g drafts yields on average: one more than the accepted ones. */
double ds_drafts_expected_tokens(const ds_speculation *p, int64_t g);

struct ds_run;
/* The run that prices a pass of the drafter: a model of its own, or one layer. False when drafts cost nothing. */
bool ds_drafter_run(const struct ds_run *run, struct ds_run *out);

#endif
