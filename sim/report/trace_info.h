// SPDX-License-Identifier: GPL-3.0-or-later
/* What `dryserve trace info` prints: 80 columns for people, JSON for programs. */
#ifndef DS_REPORT_TRACE_INFO_H
#define DS_REPORT_TRACE_INFO_H

#include "report/json_writer.h"
#include "study/trace_stats.h"

void ds_trace_info(ds_outfile *out, const char *name, ds_trace *t, const ds_trace_stats *s);
void ds_trace_info_json(ds_outfile *out, const char *name, ds_trace *t, const ds_trace_stats *s);
/* {"format": ..., "rows_read": ..., "kept": ..., "dropped": {...}, "repaired": {...}} as a member.
 */
void ds_import_json(ds_json *j, const char *key, const ds_trace *t);

#endif
