// SPDX-License-Identifier: GPL-3.0-or-later
/* Numbers as text, the same on every machine: exact decimals for times, shortest round trip for
 * doubles, three digits for people. Each writes a terminating zero and returns the characters
 * before it. */
#ifndef DS_REPORT_NUMBERS_H
#define DS_REPORT_NUMBERS_H

#include <stddef.h>
#include <stdint.h>

#define DS_NUMBER_BYTES 40 /* room that any of them needs */

size_t ds_put_u64(char *out, uint64_t v);
size_t ds_put_i64(char *out, int64_t v);
/* v / 10^digits exactly, without trailing zeros: nanoseconds as seconds (9) or milliseconds (6). */
size_t ds_put_decimal(char *out, int64_t v, int digits);
/* The shortest of 15, 16 or 17 significant digits that reads back as v; "null" when v is not
 * finite. */
size_t ds_put_double(char *out, double v);
/* Three significant digits, thousands separated: 0.412, 31.2, 12,345. */
size_t ds_put_short(char *out, double v);
/* A count with thousands separated. */
size_t ds_put_count(char *out, uint64_t v);
/* Nanoseconds for people: 2 s, 100 ms, 1.5 s. */
size_t ds_put_duration(char *out, int64_t ns);

#endif
