// SPDX-License-Identifier: GPL-3.0-or-later
/* Output files that appear whole or not at all.
 *
 * A regular file is written beside its target and renamed over it when everything else of the run
 * went well; a symbolic link is followed. A device, pipe or terminal is written in place. "-" is
 * standard output. Write errors stick and are reported by ds_outfile_close, so that writers need no
 * checks in between. On SIGINT, SIGTERM, SIGHUP, SIGQUIT or SIGXCPU every temporary file is removed
 * before the process ends (after ds_outfile_guard_signals).
 *
 * Life: open -> ds_out_* ... -> close (content complete, errors known) -> publish (visible), or
 * discard at any point. */
#ifndef DS_IO_OUTFILE_H
#define DS_IO_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "io/diag.h"

typedef struct ds_outfile ds_outfile;

/* Install the handlers that remove temporary files, and ignore SIGPIPE and SIGXFSZ so that a closed pipe
 * or a limit on the size of files (ulimit -f) is an error like others. */
void ds_outfile_guard_signals(void);

/* NULL with *d filled when the target cannot be written: a directory, a missing folder (usage), no
 * permission. */
ds_outfile *ds_outfile_open(const char *path, ds_diag *d);
/* Collect in memory instead; ds_outfile_text is then the zero-terminated content. NULL when out of
 * memory. */
ds_outfile *ds_outfile_memory(void);
const char *ds_outfile_text(const ds_outfile *f, size_t *bytes);
bool ds_outfile_is_stdout(const ds_outfile *f);

void ds_out_bytes(ds_outfile *f, const void *p, size_t n);
void ds_out_text(ds_outfile *f, const char *text);
void ds_out_printf(ds_outfile *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Room for n <= DS_OUT_ROOM bytes to format into; say how many were used before the next call. */
#define DS_OUT_ROOM 1024
char *ds_out_room(ds_outfile *f, size_t n);
void ds_out_used(ds_outfile *f, size_t n);
/* True once a write failed: a long writer may stop early. */
bool ds_out_failed(const ds_outfile *f);

/* Flush and close; false with *d filled when any write failed. The file is not yet visible under
 * its name. */
bool ds_outfile_close(ds_outfile *f, ds_diag *d);
/* Make a closed file visible. Frees f whether or not it works. */
bool ds_outfile_publish(ds_outfile *f, ds_diag *d);
/* Drop it: nothing is left behind (what went in place cannot be taken back). NULL is allowed. */
void ds_outfile_discard(ds_outfile *f);

#endif
