// SPDX-License-Identifier: GPL-3.0-or-later
/* What images cost, for people and for programs: only of runs that have any. */
#ifndef DS_REPORT_IMAGES_H
#define DS_REPORT_IMAGES_H

#include "report/json_writer.h"
#include "report/report.h"

void ds_images_line(ds_outfile *out, const ds_report *r);
void ds_images_json(ds_json *j, const ds_report *r);

#endif
