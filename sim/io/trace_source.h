// SPDX-License-Identifier: GPL-3.0-or-later
/* What a trace format's reader gives to trace.c: rows as the file has them, in the order of the
 * file. Readers check syntax only; order, zero counts, windows and scales are decided in trace.c,
 * once for all formats. */
#ifndef DS_IO_TRACE_SOURCE_H
#define DS_IO_TRACE_SOURCE_H

#include "io/input.h"
#include "io/trace.h"

#define DS_TOKENS_MAX 1000000000 /* largest count in a trace: the sum of a few still fits 32 bits  \
                                  */
#define DS_ROW_NO_ID  (-1)
#define DS_ROW_CHAINED                                                                             \
  INT64_MIN /* time_ns of a row that has no arrival of its own: it comes after the one before it   \
               in its session */

typedef enum ds_row_status {
  DS_ROW_OK,
  DS_ROW_FAILED,   /* an error, a timeout, a cancelled or empty answer */
  DS_ROW_CACHED    /* answered from a response cache: no model ran */
} ds_row_status;

/* What most rows lack. Texts are zero-terminated and live as long as the source; a session's text is
 * the same pointer in all its rows. NULL, 0 or -1: not given. */
typedef struct ds_more {
  const char *session, *class_name, *model, *tenant, *prefix;
  uint32_t turn; /* from 0 on */
  uint32_t prefix_tokens;
  uint64_t key, after_key; /* numbers of this row and of the one it follows, where the format has such */
  uint32_t n_after;        /* how many it waits for; after_key is the last of them, also_keys are the others */
  const uint64_t *also_keys;
  bool has_key, has_after, has_turn;
  ds_row_status status;
  int64_t think_ns;                 /* after the row that it follows is finished */
  int64_t ttft_ns, e2e_ns, queue_ns; /* as measured in the source system: never replayed */
  const uint64_t *blocks;           /* chained: an id stands for all blocks up to it */
  uint64_t n_blocks;
  uint64_t scope; /* ids mean the same within one scope; 0: everywhere */
  uint32_t block_tokens;
  bool tail; /* the last id may cover less than a block */
} ds_more;

typedef struct ds_row {
  int64_t time_ns;                      /* as in the file: any origin */
  int64_t line;                         /* 0: not from a file */
  int64_t id;                           /* handle for ds_source.id, or DS_ROW_NO_ID */
  uint32_t input_tokens, output_tokens; /* may be 0; at most DS_TOKENS_MAX */
  uint32_t max_tokens;                  /* 0: not given */
  int32_t priority;
  uint32_t tenant;                      /* 0: not given */
  uint32_t stream;                      /* of several workloads: which */
  uint32_t time_column, input_column, output_column; /* 1-based, for messages */
  uint64_t after;   /* 0, or 1 + the number of the row that must be finished first */
  int64_t think_ns; /* pause after that one (or, under a concurrency cap, for a free seat) */
  const ds_more *more; /* NULL: nothing of it; valid until the next call of rows(), with keep_more as
                          long as the source */
  uint32_t images, image_tokens; /* how many it brings (0: none, or not said), and their tokens among the input's (0: not said) */
  uint32_t image_at;             /* their first token, */
  bool image_placed;             /* where the row says so */
  uint32_t n_spans;
  const ds_span *spans; /* what its tokens are (kv/span.h); the source's, until the next call of rows */
} ds_row;

typedef struct ds_source ds_source;
struct ds_source {
  const char *format;
  const char *time_name, *input_name, *output_name; /* as the format calls them */
  ds_input *input; /* NULL when there is no file; owned by trace.c */
  bool rebase;     /* times count from the earliest row; else from the start of the run */
  bool zeros_normal, unsorted_normal; /* such rows are no surprise in this format */
  bool chained;     /* rows that wait for others without an arrival of their own are to be expected */
  bool accumulates; /* a later turn's input is only what is new in it */
  bool documents;   /* a row is not a line */
  bool keep_more;   /* set by trace.c before the first row */
  uint64_t seed;    /* of what is drawn; set before the first row */
  const char *note; /* something that the user should know about how it was read; may be NULL */
  /* Up to cap rows; *n 0 at the end. false: the next row is bad, as *d says, and *n is 0; after a
   * bad row of the input (DS_EXIT_INPUT) the call may be repeated and goes on behind it. */
  bool (*rows)(ds_source *s, ds_row *rows, size_t cap, size_t *n, ds_diag *d);
  const char *(*id)(const ds_source *s, int64_t id); /* NULL: the format has no ids */
  void (*close)(ds_source *s);
};

/* Opens the reader of one format on a file whose beginning is in its buffer. */
typedef bool (*ds_source_open)(ds_input *in, const ds_workload *w, ds_source **out, ds_diag *d);

bool ds_azure_open(ds_input *in, ds_source **out, ds_diag *d);
/* For the test that holds the two ways of reading together. */
void ds_azure_use_library_only(ds_source *s);
bool ds_jsonl_open(ds_input *in, ds_source **out, ds_diag *d);
/* The file of w, whatever its format; *in is the source's and closed with the trace. */
bool ds_trace_file_open(const ds_workload *w, ds_input **in, ds_source **out, ds_diag *d);
/* Requests that the scenario states; its arrays must outlive the source. */
bool ds_inline_open(const ds_workload *w, ds_source **out, ds_diag *d);
/* A trace from its source, both of which (in may be NULL) it then owns, also when it fails. */
bool ds_trace_start(const ds_workload *w, ds_input *in, ds_source *source, ds_trace **out,
                    ds_diag *d);

/* Which reader the content asks for (a name of io/trace_formats.h). Steps over a byte order mark.
 * format: what the scenario says, or empty. Whatever is no trace, or a format that is not read, is
 * a complaint that names it. */
bool ds_trace_sniff(ds_input *in, const char *format, const char **found, ds_diag *d);

/* A piece of a file made fit for a message: quoted, at most 40 bytes, only printable ones. */
typedef struct ds_excerpt {
  char text[56];
} ds_excerpt;
ds_excerpt ds_excerpt_of(const char *s, size_t bytes);

/* "YYYY-MM-DD hh:mm:ss", space or T, up to 9 fraction digits, optional Z or +hh:mm or -hhmm, as
 * nanoseconds since 1970 in UTC (no offset: taken as UTC). Years 1970 to 2261. NULL when good, else
 * what is wrong with it. */
const char *ds_stamp_parse(const char *s, size_t bytes, int64_t *ns);
/* "YYYY-MM-DD hh:mm" alone (16 bytes): the part that stays the same from row to row. */
const char *ds_stamp_minute(const char *s, int64_t *ns);

#endif
