// SPDX-License-Identifier: GPL-3.0-or-later
/* The reports of one run: for people (answer and table, 80 columns) and for programs (JSON). */
#ifndef DS_REPORT_REPORT_H
#define DS_REPORT_REPORT_H

#include "io/bands.h"
#include "io/outfile.h"
#include "report/classes.h"
#include "report/series.h"
#include "report/summary.h"
#include "study/driver.h"

#define DS_WARNINGS_MAX 16
typedef struct ds_warnings {
  char text[DS_WARNINGS_MAX][320];
  size_t n;
} ds_warnings;

/* Where the limits give way, from re-runs of the start of the workload at other rates. */
typedef struct ds_breaking {
  bool searched;
  bool never;          /* held at the highest rate tried */
  bool always;         /* broken even with requests one at a time */
  ds_metric_id metric; /* what gives way first */
  double rate_per_s;   /* highest rate at which it held (never: the highest tried) */
} ds_breaking;

typedef struct ds_report {
  const ds_scenario *scenario;
  const ds_drive *drive;
  const ds_summary *summary;
  const ds_warnings *warnings;
  const ds_breaking *breaking; /* NULL: not searched */
  const ds_bands *bands;       /* how far such predictions were off; NULL: not known */
  const ds_classes *classes;   /* NULL or empty: one workload */
  const ds_series *series;     /* the runs among which this one was chosen; NULL: it is alone */
  bool slow; /* the run took too long for a search: say what could be done instead */
  bool colour;
  const char *command; /* what was run, as one would type it again, without output options: dryserve
                          run ... */
  bool from_flags;     /* there is no scenario file to edit */
} ds_report;

void ds_warnings_of(const ds_scenario *sc, const ds_drive *drive, const ds_summary *s,
                    ds_warnings *out);

/* At most six re-runs of drive->first. Does nothing (searched false) without an SLO or when fewer
 * than 20 were kept. */
#define DS_BREAKING_REQUESTS 2000
void ds_breaking_find(const ds_scenario *sc, const ds_drive *drive, ds_breaking *out);

void ds_answer(ds_outfile *out, const ds_report *r);
void ds_table(ds_outfile *out, const ds_report *r);

bool ds_json_report(ds_outfile *out, const ds_report *r);
/* SHA-256 over version, effective settings and input hashes, as lower-case hex. */
bool ds_run_hash(const ds_scenario *sc, const char *trace_sha256, char hex[65]);

/* The stated band of a metric for this run; NULL: nothing like it was measured, or nothing was predicted. */
const ds_band *ds_report_band(const ds_report *r, ds_band_metric metric);

/* Text wrapped at 80 columns: label in the first nine, continuation lines indented as far. */
void ds_wrapped(ds_outfile *out, const char *label, const char *text);

#endif
