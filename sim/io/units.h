// SPDX-License-Identifier: GPL-3.0-or-later
/* Numbers as people write them: `2 s`, `4.8 TB/s`, `12 /s`. A quantity is a plain decimal number
 * and, where its dimension has units, exactly one of them. Nothing here depends on the locale. */
#ifndef DS_IO_UNITS_H
#define DS_IO_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum ds_dim {
  DS_DIM_NUMBER, /* no unit */
  DS_DIM_TIME,   /* seconds */
  DS_DIM_RATE,   /* per second */
  DS_DIM_BYTES,
  DS_DIM_BYTES_PER_S,
  DS_DIM_FLOPS_PER_S,
  DS_DIM_POWER, /* watts */
  DS_DIM_PRICE, /* USD per hour */
  DS_DIM_N
} ds_dim;

/* Why a text is no such quantity; short enough to print as it stands. */
typedef struct ds_unit_error {
  char text[192], expected[160], hint[96];
} ds_unit_error;

/* Value in the dimension's base unit, correctly rounded for decimal units. */
bool ds_quantity_parse(const char *text, ds_dim dim, double *out, ds_unit_error *e);
/* A time as whole nanoseconds: exact in decimal, half a nanosecond rounds up; |t| <= 10^18 ns. A
 * time that is not zero but rounds to zero is refused. */
bool ds_time_parse(const char *text, int64_t *out_ns, ds_unit_error *e);
/* Plain decimal digits with an optional minus sign. */
bool ds_integer_parse(const char *text, int64_t *out, ds_unit_error *e);

/* The shortest text that parses to the same value, in the largest unit that keeps it at 1 or more.
 */
void ds_quantity_format(double value, ds_dim dim, char *out, size_t cap);
void ds_time_format(int64_t ns, char *out, size_t cap);

/* "a time such as 2 s or 100 ms" */
const char *ds_dim_example(ds_dim dim);
/* Its base unit, as written: "s", "B/s"; "" for a plain number. */
const char *ds_dim_unit(ds_dim dim);

#endif
