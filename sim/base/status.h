// SPDX-License-Identifier: Apache-2.0
/* How the pure core reports trouble: a status, and a message built without stdio.
 * The core never prints and never exits; whoever owns the loop decides what to do. */
#ifndef DS_BASE_STATUS_H
#define DS_BASE_STATUS_H

#include "base/types.h"

typedef enum ds_status {
  DS_OK = 0,
  DS_E_NOMEM,  /* the allocator gave up */
  DS_E_RANGE,  /* a number left the range that it must keep */
  DS_E_INPUT,  /* what the user asked for cannot be simulated; the message says why */
  DS_E_POLICY, /* a scheduler or router broke a rule; the message names it */
  DS_E_STUCK,  /* requests wait for ever; the message names the first and the reason */
  DS_E_STATE   /* calls in the wrong order */
} ds_status;

#define DS_ERROR_TEXT_MAX 512

typedef struct ds_error {
  ds_status status;
  int64_t request; /* index in order of arrival of the request concerned, or -1 */
  char text[DS_ERROR_TEXT_MAX];
} ds_error;

/* Forward a failure to the caller. */
#define DS_TRY(expr)                                                                               \
  do {                                                                                             \
    ds_status ds_try_status_ = (expr);                                                             \
    if (DS_UNLIKELY(ds_try_status_ != DS_OK)) return ds_try_status_;                               \
  } while (0)

/* Start a message over (err may be NULL: then nothing is kept). Returns status, to return it on. */
ds_status ds_error_begin(ds_error *err, ds_status status, const char *text);
/* Append text or a decimal number; silently cut at the end of the buffer. */
void ds_error_text(ds_error *err, const char *text);
void ds_error_int(ds_error *err, int64_t value);

#endif
