// SPDX-License-Identifier: GPL-3.0-or-later
/* Quantities: what is accepted and its exact value, what is refused and why, and writing what reads
 * back. */
#include "io/units.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

Test(units, times_are_exact_nanoseconds) {
  static const struct {
    const char *text;
    int64_t ns;
  } good[] = {
      {"2 s", 2000000000},
      {"2s", 2000000000},
      {"100 ms", 100000000},
      {"0.1 ms", 100000},
      {"1.5 us", 1500},
      {"1 ns", 1},
      {"0 s", 0},
      {"0.000 s", 0},
      {"1 min", 60000000000},
      {"1.5 min", 90000000000},
      {"2 h", 7200000000000},
      {"1 d", 86400000000000},
      {"1e3 us", 1000000},
      {"1E-3 s", 1000000},
      {"2.385 s", 2385000000},
      {"-3 ms", -3000000},
      {"  7 s ", 7000000000},
      {"0.5 ns", 1},
      {"1.4 ns", 1},
      {"1.5 ns", 2},
      {"\xc2\xb5s", 0},
      {"3 \xc2\xb5s", 3000},
      {"4 \xce\xbcs", 4000},
      /* 0.1 + 0.2 as binary doubles would be 300000000.00000006 */
      {"0.3 s", 300000000},
      {"123456789.123456789 s", 123456789123456789},
      {"0.333333333333 s", 333333333},
      {"1000000000 s", 1000000000000000000},
  };
  for (size_t i = 0; i < LEN(good); i++) {
    ds_unit_error e;
    int64_t ns = -1;
    bool ok = ds_time_parse(good[i].text, &ns, &e);
    if (good[i].text[0] == '\xc2') { /* a unit alone is no time */
      cr_assert(!ok);
      continue;
    }
    cr_assert(ok, "%s: %s", good[i].text, e.text);
    cr_assert_eq(ns, good[i].ns, "%s gives %lld", good[i].text, (long long)ns);
  }
}

Test(units, quantities_have_the_nearest_double) {
  static const struct {
    const char *text;
    ds_dim dim;
    double value;
  } good[] = {
      {"4.8 TB/s", DS_DIM_BYTES_PER_S, 4.8e12},
      {"141 GB", DS_DIM_BYTES, 141e9},
      {"80 GiB", DS_DIM_BYTES, 85899345920.0},
      {"139.81 GiB", DS_DIM_BYTES, 139.81 * 1073741824.0},
      {"512 MiB", DS_DIM_BYTES, 536870912.0},
      {"64 kB", DS_DIM_BYTES, 64000},
      {"400 Gbit/s", DS_DIM_BYTES_PER_S, 50e9},
      {"989.4 TFLOP/s", DS_DIM_FLOPS_PER_S, 989.4e12},
      {"1.979 PFLOPS", DS_DIM_FLOPS_PER_S, 1.979e15},
      {"624 TOPS", DS_DIM_FLOPS_PER_S, 624e12},
      {"700 W", DS_DIM_POWER, 700},
      {"1.2 kW", DS_DIM_POWER, 1200},
      {"3.50 USD/h", DS_DIM_PRICE, 3.5},
      {"0.41 $/GPU-h", DS_DIM_PRICE, 0.41},
      {"12 /s", DS_DIM_RATE, 12},
      {"12/s", DS_DIM_RATE, 12},
      {"12 req/s", DS_DIM_RATE, 12},
      {"90 requests/min", DS_DIM_RATE, 1.5},
      {"7200 /h", DS_DIM_RATE, 2},
      {"3.5682 us", DS_DIM_TIME, 3.5682e-6},
      {"20.000179832359308 us", DS_DIM_TIME, 20.000179832359308e-6},
      {"0.1 ms", DS_DIM_TIME, 1e-4},
      {"0.9644550700180147", DS_DIM_NUMBER, 0.9644550700180147},
      {"-2.5e-3", DS_DIM_NUMBER, -0.0025},
  };
  for (size_t i = 0; i < LEN(good); i++) {
    ds_unit_error e;
    double v = -1;
    cr_assert(ds_quantity_parse(good[i].text, good[i].dim, &v, &e), "%s: %s", good[i].text, e.text);
    cr_assert_lt(fabs(v - good[i].value), 1e-15 * fabs(good[i].value) + 1e-300, "%s gives %.17g",
                 good[i].text, v);
  }
}

Test(units, what_is_no_quantity_is_refused_with_its_reason) {
  static const struct {
    const char *text;
    ds_dim dim;
    const char *why, *hint;
  } bad[] = {
      {"2", DS_DIM_TIME, "has no unit", ""},
      {"", DS_DIM_TIME, "is empty", ""},
      {"   ", DS_DIM_TIME, "is empty", ""},
      {"s", DS_DIM_TIME, "is not a number", ""},
      {"2 GB", DS_DIM_TIME, "is an amount of memory", ""},
      {"2 GB", DS_DIM_BYTES_PER_S, "is an amount of memory", ""},
      {"2 s x", DS_DIM_TIME, "'x'", ""},
      {"2 s s", DS_DIM_TIME, "'s'", ""},
      {"2 sec", DS_DIM_TIME, "'sec'", "did you mean s?"},
      {"2 m", DS_DIM_TIME, "'m'", "did you mean min?"},
      {"2 S", DS_DIM_TIME, "'S'", "did you mean s?"},
      {"2 gb", DS_DIM_BYTES, "'gb'", "did you mean GB?"},
      {"2 Gb/s", DS_DIM_BYTES_PER_S, "'Gb/s'", "did you mean Gbit/s or GB/s?"},
      {"12 rps", DS_DIM_RATE, "'rps'", "did you mean /s?"},
      {"nan s", DS_DIM_TIME, "is not a number", ""},
      {".nan", DS_DIM_NUMBER, "is not a number", ""},
      {"inf", DS_DIM_NUMBER, "is not a number", ""},
      {"1e999", DS_DIM_NUMBER, "too large", ""},
      {"1e-999", DS_DIM_NUMBER, "too small", ""},
      {"0x10", DS_DIM_NUMBER, "decimal", ""},
      {"0b1", DS_DIM_NUMBER, "decimal", ""},
      {"010", DS_DIM_NUMBER, "begins with a zero", ""},
      {"1_000", DS_DIM_NUMBER, "separator", ""},
      {"1,000", DS_DIM_NUMBER, "separator", ""},
      {"1.", DS_DIM_NUMBER, "is not a number", ""},
      {".5", DS_DIM_NUMBER, "is not a number", ""},
      {"+1", DS_DIM_NUMBER, "is not a number", ""},
      {"1 2", DS_DIM_NUMBER, "plain number", ""},
      {"5 s", DS_DIM_NUMBER, "unit where none belongs", ""},
      {"1e", DS_DIM_NUMBER, "plain number", ""},
      {"111111111122222222223333333333444444444455", DS_DIM_NUMBER, "too many digits", ""},
      {"1;DROP", DS_DIM_NUMBER, "plain number", ""},
  };
  for (size_t i = 0; i < LEN(bad); i++) {
    ds_unit_error e = {"", "", ""};
    double v;
    cr_assert(!ds_quantity_parse(bad[i].text, bad[i].dim, &v, &e), "%s is accepted", bad[i].text);
    cr_assert(strstr(e.text, bad[i].why) != NULL, "%s: %s", bad[i].text, e.text);
    cr_assert_str_eq(e.hint, bad[i].hint, "%s: %s", bad[i].text, e.hint);
    cr_assert(e.expected[0] != '\0');
  }
  static const char *const times[] = {"0.4 ns",       "1e-30 s",
                                      "1000000001 s", "99999999999999999999 ns",
                                      "1e300 s",      "9223372036854775808 ns"};
  for (size_t i = 0; i < LEN(times); i++) {
    ds_unit_error e;
    int64_t ns;
    cr_assert(!ds_time_parse(times[i], &ns, &e), "%s is accepted", times[i]);
  }
}

Test(units, integers_are_plain_decimal) {
  static const struct {
    const char *text;
    int64_t value;
  } good[] = {{"0", 0}, {"7", 7}, {"-7", -7}, {"1000", 1000}, {"9223372036854775807", INT64_MAX}};
  for (size_t i = 0; i < LEN(good); i++) {
    ds_unit_error e;
    int64_t v = -1;
    cr_assert(ds_integer_parse(good[i].text, &v, &e), "%s: %s", good[i].text, e.text);
    cr_assert_eq(v, good[i].value);
  }
  static const char *const bad[] = {"",    "-",   "1.0", "1e3", "0x1", "01", "1_0",
                                    " 1",  "1 ",  "1 s", "one", "--1", "+1", "9223372036854775808",
                                    "1.5", "nan", "1a"};
  for (size_t i = 0; i < LEN(bad); i++) {
    ds_unit_error e;
    int64_t v;
    cr_assert(!ds_integer_parse(bad[i], &v, &e), "'%s' is accepted", bad[i]);
  }
}

static uint64_t next(uint64_t *s) { /* splitmix64 */
  uint64_t z = (*s += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

Test(units, what_is_written_reads_back_to_the_same_bits) {
  uint64_t seed = 2385;
  for (int i = 0; i < 20000; i++) {
    ds_dim dim = (ds_dim)(next(&seed) % DS_DIM_N);
    /* all magnitudes that a card can have, some of few digits */
    double digits =
        next(&seed) % 2 ? (double)(next(&seed) % 10000) : (double)(next(&seed) >> 11) * 0x1p-40;
    double v = digits * pow(10, (double)(next(&seed) % 24) - 8), back = -1;
    char text[64];
    ds_unit_error e;
    ds_quantity_format(v, dim, text, sizeof text);
    cr_assert(ds_quantity_parse(text, dim, &back, &e), "%.17g: %s: %s", v, text, e.text);
    cr_assert_eq(back, v, "%.17g is written as %s", v, text);
    int64_t ns = (int64_t)(next(&seed) % 1000000000000000000u) >> (next(&seed) % 60), ns_back = -1;
    ds_time_format(ns, text, sizeof text);
    cr_assert(ds_time_parse(text, &ns_back, &e), "%s: %s", text, e.text);
    cr_assert_eq(ns_back, ns, "%lld ns is written as %s", (long long)ns, text);
  }
}

Test(units, what_is_written_is_short) {
  static const struct {
    double v;
    ds_dim dim;
    const char *text;
  } cases[] = {{4.8e12, DS_DIM_BYTES_PER_S, "4.8 TB/s"},
               {141e9, DS_DIM_BYTES, "141 GB"},
               {0, DS_DIM_TIME, "0 s"},
               {1e-4, DS_DIM_TIME, "100 us"},
               {3.5, DS_DIM_PRICE, "3.5 USD/h"},
               {12, DS_DIM_RATE, "12 /s"},
               {0.9, DS_DIM_NUMBER, "0.9"},
               {1000, DS_DIM_POWER, "1000 W"},
               {3.5682e-6, DS_DIM_TIME, "3.5682 us"}};
  for (size_t i = 0; i < LEN(cases); i++) {
    char text[64];
    ds_quantity_format(cases[i].v, cases[i].dim, text, sizeof text);
    cr_assert_str_eq(text, cases[i].text);
  }
  static const struct {
    int64_t ns;
    const char *text;
  } times[] = {{0, "0 s"},
               {1, "1 ns"},
               {1500, "1.5 us"},
               {100000000, "100 ms"},
               {2000000000, "2 s"},
               {300000000000, "300 s"},
               {1000000001, "1.000000001 s"}};
  for (size_t i = 0; i < LEN(times); i++) {
    char text[64];
    ds_time_format(times[i].ns, text, sizeof text);
    cr_assert_str_eq(text, times[i].text);
  }
}
