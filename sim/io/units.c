// SPDX-License-Identifier: GPL-3.0-or-later
/* The one place that turns digits into numbers. strtod follows LC_NUMERIC only where setlocale was
 * called, which this program never does; what it is given here has been checked digit by digit
 * first. */
#include "io/units.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct unit {
  const char *name;
  ds_dim dim;
  double factor; /* unit = factor x 10^exponent base units */
  int exponent;
  bool printed; /* used when values are written; per dimension in rising order */
} unit;

static const unit units[] = {
    {"ns", DS_DIM_TIME, 1, -9, true},
    {"us", DS_DIM_TIME, 1, -6, true},
    {"\xc2\xb5s", DS_DIM_TIME, 1, -6, false}, /* micro sign */
    {"\xce\xbcs", DS_DIM_TIME, 1, -6, false}, /* Greek mu */
    {"ms", DS_DIM_TIME, 1, -3, true},
    {"s", DS_DIM_TIME, 1, 0, true},
    {"min", DS_DIM_TIME, 6, 1, false},
    {"h", DS_DIM_TIME, 36, 2, false},
    {"d", DS_DIM_TIME, 864, 2, false},
    {"/s", DS_DIM_RATE, 1, 0, true},
    {"req/s", DS_DIM_RATE, 1, 0, false},
    {"requests/s", DS_DIM_RATE, 1, 0, false},
    {"/min", DS_DIM_RATE, 1.0 / 60, 0, false},
    {"req/min", DS_DIM_RATE, 1.0 / 60, 0, false},
    {"requests/min", DS_DIM_RATE, 1.0 / 60, 0, false},
    {"/h", DS_DIM_RATE, 1.0 / 3600, 0, false},
    {"req/h", DS_DIM_RATE, 1.0 / 3600, 0, false},
    {"requests/h", DS_DIM_RATE, 1.0 / 3600, 0, false},
    {"B", DS_DIM_BYTES, 1, 0, true},
    {"kB", DS_DIM_BYTES, 1, 3, true},
    {"KB", DS_DIM_BYTES, 1, 3, false},
    {"MB", DS_DIM_BYTES, 1, 6, true},
    {"GB", DS_DIM_BYTES, 1, 9, true},
    {"TB", DS_DIM_BYTES, 1, 12, true},
    {"PB", DS_DIM_BYTES, 1, 15, false},
    {"KiB", DS_DIM_BYTES, 1024, 0, false},
    {"MiB", DS_DIM_BYTES, 1048576, 0, false},
    {"GiB", DS_DIM_BYTES, 1073741824, 0, false},
    {"TiB", DS_DIM_BYTES, 1099511627776, 0, false},
    {"B/s", DS_DIM_BYTES_PER_S, 1, 0, true},
    {"kB/s", DS_DIM_BYTES_PER_S, 1, 3, true},
    {"MB/s", DS_DIM_BYTES_PER_S, 1, 6, true},
    {"GB/s", DS_DIM_BYTES_PER_S, 1, 9, true},
    {"TB/s", DS_DIM_BYTES_PER_S, 1, 12, true},
    {"PB/s", DS_DIM_BYTES_PER_S, 1, 15, false},
    {"MiB/s", DS_DIM_BYTES_PER_S, 1048576, 0, false},
    {"GiB/s", DS_DIM_BYTES_PER_S, 1073741824, 0, false},
    {"TiB/s", DS_DIM_BYTES_PER_S, 1099511627776, 0, false},
    {"Mbit/s", DS_DIM_BYTES_PER_S, 0.125, 6, false},
    {"Gbit/s", DS_DIM_BYTES_PER_S, 0.125, 9, false},
    {"Tbit/s", DS_DIM_BYTES_PER_S, 0.125, 12, false},
    {"FLOP/s", DS_DIM_FLOPS_PER_S, 1, 0, true},
    {"MFLOP/s", DS_DIM_FLOPS_PER_S, 1, 6, true},
    {"GFLOP/s", DS_DIM_FLOPS_PER_S, 1, 9, true},
    {"TFLOP/s", DS_DIM_FLOPS_PER_S, 1, 12, true},
    {"PFLOP/s", DS_DIM_FLOPS_PER_S, 1, 15, false},
    {"GFLOPS", DS_DIM_FLOPS_PER_S, 1, 9, false},
    {"TFLOPS", DS_DIM_FLOPS_PER_S, 1, 12, false},
    {"PFLOPS", DS_DIM_FLOPS_PER_S, 1, 15, false},
    {"TOP/s", DS_DIM_FLOPS_PER_S, 1, 12, false},
    {"TOPS", DS_DIM_FLOPS_PER_S, 1, 12, false},
    {"POP/s", DS_DIM_FLOPS_PER_S, 1, 15, false},
    {"mW", DS_DIM_POWER, 1, -3, false},
    {"W", DS_DIM_POWER, 1, 0, true},
    {"kW", DS_DIM_POWER, 1, 3, false},
    {"MW", DS_DIM_POWER, 1, 6, false},
    {"USD/h", DS_DIM_PRICE, 1, 0, true},
    {"$/h", DS_DIM_PRICE, 1, 0, false},
    {"USD/GPU-h", DS_DIM_PRICE, 1, 0, false},
    {"$/GPU-h", DS_DIM_PRICE, 1, 0, false},
};
#define N_UNITS (sizeof units / sizeof units[0])

/* Each dimension: what an example looks like, the base unit, and what it is called. */
static const struct {
  const char *example, *base, *noun;
} dims[DS_DIM_N] = {
    {"a number without a unit", "", "a plain number"},
    {"a time such as 2 s or 100 ms", "s", "a time"},
    {"a rate such as 12 /s", "/s", "a rate"},
    {"an amount of memory such as 141 GB or 80 GiB", "B", "an amount of memory"},
    {"a bandwidth such as 4.8 TB/s", "B/s", "a bandwidth"},
    {"an arithmetic rate such as 989 TFLOP/s", "FLOP/s", "an arithmetic rate"},
    {"a power such as 700 W", "W", "a power"},
    {"a price such as 3.50 USD/h", "USD/h", "a price"},
};

const char *ds_dim_example(ds_dim dim) { return dims[dim].example; }
const char *ds_dim_unit(ds_dim dim) { return dims[dim].base; }

static const char *skip_blanks(const char *s) {
  while (*s == ' ' || *s == '\t') ++s;
  return s;
}

static void fault(ds_unit_error *e, ds_dim dim, const char *text, const char *what) {
  snprintf(e->text, sizeof e->text, "'%.60s' %s", text, what);
  snprintf(e->expected, sizeof e->expected, "%s", dims[dim].example);
  e->hint[0] = '\0';
}

/* A decimal number taken apart: (negative) digits x 10^exponent. */
typedef struct decimal {
  bool negative;
  char digits[40]; /* no leading zeros; empty for zero */
  int n, exponent;
} decimal;

/* Reads digits[.digits][e[+-]digits]; returns what follows it, or NULL with the reason in *why. */
static const char *scan_decimal(const char *s, decimal *d, const char **why) {
  int scale = 0, seen = 0;
  bool point = false;
  memset(d, 0, sizeof *d);
  *why = "is not a number";
  if (*s == '-') {
    d->negative = true;
    ++s;
  }
  if (*s == '0' && (s[1] == 'x' || s[1] == 'X' || s[1] == 'o' || s[1] == 'b')) {
    *why = "is not a decimal number";
    return NULL;
  }
  bool leading_zero = *s == '0' && isdigit((unsigned char)s[1]);
  for (; isdigit((unsigned char)*s) || (*s == '.' && !point && seen > 0); ++s) {
    if (*s == '.') {
      point = true;
      if (!isdigit((unsigned char)s[1])) return NULL;
      continue;
    }
    ++seen;
    if (point) --scale;
    if (d->n == 0 && *s == '0') continue;
    if (d->n + 1 >= (int)sizeof d->digits) {
      *why = "has too many digits";
      return NULL;
    }
    d->digits[d->n++] = *s;
  }
  if (seen == 0) return NULL;
  if (leading_zero) {
    *why = "begins with a zero";
    return NULL;
  }
  if (*s == '_' || *s == ',' || *s == '\'') {
    *why = "has a separator among its digits";
    return NULL;
  }
  if ((*s == 'e' || *s == 'E') &&
      (isdigit((unsigned char)s[1]) ||
       ((s[1] == '-' || s[1] == '+') && isdigit((unsigned char)s[2])))) {
    int sign = s[1] == '-' ? -1 : 1, x = 0;
    s += s[1] == '-' || s[1] == '+' ? 2 : 1;
    for (; isdigit((unsigned char)*s); ++s)
      if (x < 10000) x = x * 10 + (*s - '0');
    scale += sign * x;
  }
  d->exponent = scale;
  while (d->n > 0 && d->digits[d->n - 1] == '0') {
    d->digits[--d->n] = '\0';
    ++d->exponent;
  }
  return s;
}

static double decimal_value(const decimal *d, int more) {
  char buf[64];
  if (d->n == 0) return 0;
  snprintf(buf, sizeof buf, "%s%se%d", d->negative ? "-" : "", d->digits, d->exponent + more);
  return strtod(buf, NULL);
}

/* The unit at `s` by exact name; *rest is what follows the word. */
static const unit *unit_at(const char *s, const char **rest, size_t *len) {
  size_t n = 0;
  while (s[n] != '\0' && s[n] != ' ' && s[n] != '\t') ++n;
  *rest = skip_blanks(s + n);
  *len = n;
  for (size_t i = 0; i < N_UNITS; ++i)
    if (strlen(units[i].name) == n && memcmp(units[i].name, s, n) == 0) return &units[i];
  return NULL;
}

static bool same_but_case(const char *a, const char *b, size_t n) {
  if (strlen(a) != n) return false;
  for (size_t i = 0; i < n; ++i)
    if (tolower((unsigned char)a[i]) != tolower((unsigned char)b[i])) return false;
  return true;
}

static void suggest_unit(ds_unit_error *e, ds_dim dim, const char *word, size_t n) {
  static const struct {
    ds_dim dim;
    const char *word, *meant;
  } slips[] = {{DS_DIM_TIME, "sec", "s"},
               {DS_DIM_TIME, "secs", "s"},
               {DS_DIM_TIME, "second", "s"},
               {DS_DIM_TIME, "seconds", "s"},
               {DS_DIM_TIME, "m", "min"},
               {DS_DIM_TIME, "minutes", "min"},
               {DS_DIM_TIME, "hours", "h"},
               {DS_DIM_TIME, "hr", "h"},
               {DS_DIM_TIME, "msec", "ms"},
               {DS_DIM_TIME, "usec", "us"},
               {DS_DIM_RATE, "rps", "/s"},
               {DS_DIM_RATE, "qps", "/s"},
               {DS_DIM_BYTES, "G", "GB"},
               {DS_DIM_BYTES, "Gi", "GiB"},
               {DS_DIM_BYTES_PER_S, "GB/sec", "GB/s"},
               {DS_DIM_BYTES_PER_S, "GBps", "GB/s"},
               {DS_DIM_BYTES_PER_S, "TBps", "TB/s"},
               {DS_DIM_BYTES_PER_S, "Gbps", "Gbit/s"},
               {DS_DIM_BYTES_PER_S, "Gb/s", "Gbit/s or GB/s"},
               {DS_DIM_POWER, "watts", "W"},
               {DS_DIM_PRICE, "USD", "USD/h"},
               {DS_DIM_PRICE, "$", "USD/h"}};
  for (size_t i = 0; i < sizeof slips / sizeof slips[0]; ++i)
    if (slips[i].dim == dim && strlen(slips[i].word) == n && memcmp(slips[i].word, word, n) == 0) {
      snprintf(e->hint, sizeof e->hint, "did you mean %s?", slips[i].meant);
      return;
    }
  for (size_t i = 0; i < N_UNITS; ++i) {
    if (units[i].dim != dim || !same_but_case(units[i].name, word, n)) continue;
    snprintf(e->hint, sizeof e->hint, "did you mean %s?", units[i].name);
    return;
  }
}

/* Number and unit of `text`; *u is NULL for a plain number. */
static bool split(const char *text, ds_dim dim, decimal *d, const unit **u, ds_unit_error *e) {
  const char *why, *rest, *s = skip_blanks(text);
  char what[96];
  size_t n;
  *u = NULL;
  if (*s == '\0') {
    fault(e, dim, text, "is empty");
    return false;
  }
  s = scan_decimal(s, d, &why);
  if (!s) {
    fault(e, dim, text, why);
    return false;
  }
  s = skip_blanks(s);
  if (*s == '\0') {
    if (dim == DS_DIM_NUMBER) return true;
    fault(e, dim, text, "has no unit");
    return false;
  }
  const unit *found = unit_at(s, &rest, &n);
  if (dim == DS_DIM_NUMBER) {
    fault(e, dim, text, found ? "has a unit where none belongs" : "is not a plain number");
    return false;
  }
  if (!found) {
    snprintf(what, sizeof what, "has an unknown unit, '%.*s'", n > 40 ? 40 : (int)n, s);
    fault(e, dim, text, what);
    suggest_unit(e, dim, s, n);
    return false;
  }
  if (*rest != '\0') {
    snprintf(what, sizeof what, "has something behind its unit, '%.40s'", rest);
    fault(e, dim, text, what);
    return false;
  }
  if (found->dim != dim) {
    snprintf(what, sizeof what, "is %s", dims[found->dim].noun);
    fault(e, dim, text, what);
    return false;
  }
  *u = found;
  return true;
}

bool ds_quantity_parse(const char *text, ds_dim dim, double *out, ds_unit_error *e) {
  decimal d;
  const unit *u;
  if (!split(text, dim, &d, &u, e)) return false;
  double v = decimal_value(&d, u ? u->exponent : 0) * (u ? u->factor : 1);
  if (!isfinite(v) || (v == 0 && d.n > 0)) {
    fault(e, dim, text, v == 0 ? "is too small to be kept" : "is too large to be kept");
    return false;
  }
  *out = v;
  return true;
}

/* digits x factor x 10^exponent as a whole number, half up; false when it does not fit. */
static bool whole(const decimal *d, uint64_t factor, int exponent, uint64_t max, uint64_t *out) {
  uint64_t v = 0;
  for (int i = 0; i < d->n; ++i) {
    if (v > (UINT64_MAX - 9) / 10) return false;
    v = v * 10 + (uint64_t)(d->digits[i] - '0');
  }
  if (v > UINT64_MAX / factor) return false;
  v *= factor;
  for (; exponent > 0 && v > 0; --exponent) {
    if (v > max / 10) return false;
    v *= 10;
  }
  unsigned last = 0;
  for (; exponent < 0 && (v > 0 || last > 0); ++exponent) {
    last = (unsigned)(v % 10);
    v /= 10;
  }
  if (last >= 5) ++v;
  if (v > max) return false;
  *out = v;
  return true;
}

#define TIME_MAX_NS 1000000000000000000ULL

bool ds_time_parse(const char *text, int64_t *out_ns, ds_unit_error *e) {
  decimal d;
  const unit *u;
  uint64_t ns;
  if (!split(text, DS_DIM_TIME, &d, &u, e)) return false;
  if (!whole(&d, (uint64_t)u->factor, d.exponent + u->exponent + 9, TIME_MAX_NS, &ns)) {
    fault(e, DS_DIM_TIME, text,
          d.exponent + u->exponent + 9 < 0 ? "has too many digits" : "is longer than 31 years");
    return false;
  }
  if (ns == 0 && d.n > 0) {
    fault(e, DS_DIM_TIME, text, "is shorter than a nanosecond");
    return false;
  }
  *out_ns = d.negative ? -(int64_t)ns : (int64_t)ns;
  return true;
}

bool ds_integer_parse(const char *text, int64_t *out, ds_unit_error *e) {
  decimal d;
  const char *why;
  uint64_t v;
  const char *s = scan_decimal(text, &d, &why);
  bool plain = s != NULL;
  for (const char *c = text; plain && c < s; ++c)
    plain = isdigit((unsigned char)*c) || (c == text && *c == '-');
  if (!plain || *s != '\0') {
    const char *rest;
    size_t n;
    bool has_unit = s && *skip_blanks(s) != '\0' && unit_at(skip_blanks(s), &rest, &n);
    bool fraction = s && *s == '\0';
    fault(e, DS_DIM_NUMBER, text,
          has_unit   ? "has a unit where none belongs"
          : fraction ? "is not written as a whole number"
          : s        ? "is not a whole number"
                     : why);
    snprintf(e->expected, sizeof e->expected, "a whole number in plain digits");
    return false;
  }
  if (!whole(&d, 1, d.exponent, (uint64_t)INT64_MAX, &v)) {
    fault(e, DS_DIM_NUMBER, text, "is too large");
    snprintf(e->expected, sizeof e->expected, "a whole number below 2^63");
    return false;
  }
  *out = d.negative ? -(int64_t)v : (int64_t)v;
  return true;
}

/* 10 to the power e, as the nearest double. */
static double power_of_ten(int e) {
  char buf[16];
  snprintf(buf, sizeof buf, "1e%d", e);
  return strtod(buf, NULL);
}

/* `digits` significant digits of x, without an exponent where that stays readable. */
static void print_digits(double x, int digits, char *out, size_t cap) {
  char buf[40];
  snprintf(buf, sizeof buf, "%.*e", digits - 1, x);
  int exponent = (int)strtol(strchr(buf, 'e') + 1, NULL, 10);
  if (exponent < -6 || exponent > 16)
    snprintf(out, cap, "%s", buf);
  else
    snprintf(out, cap, "%.*f", exponent < digits - 1 ? digits - 1 - exponent : 0, x);
}

/* Fewest significant digits that read back as the same double. */
static bool print_exact(double value, const unit *u, ds_dim dim, char *out, size_t cap) {
  double scaled = u ? value / (u->factor * power_of_ten(u->exponent)) : value, back;
  ds_unit_error e = {"", "", ""};
  for (int digits = 1; digits <= 17; ++digits) {
    char num[40];
    print_digits(scaled, digits, num, sizeof num);
    snprintf(out, cap, "%s%s%s", num, u ? " " : "", u ? u->name : "");
    if (ds_quantity_parse(out, dim, &back, &e) && back == value) return true;
  }
  return false;
}

void ds_quantity_format(double value, ds_dim dim, char *out, size_t cap) {
  const unit *base = NULL, *best = NULL;
  for (size_t i = 0; i < N_UNITS; ++i) {
    if (units[i].dim != dim || !units[i].printed) continue;
    if (units[i].exponent == 0) base = &units[i];
    if (!best || fabs(value) >= power_of_ten(units[i].exponent)) best = &units[i];
  }
  if (print_exact(value, value == 0 ? base : best, dim, out, cap)) return;
  /* Scaling rounded; the base unit never does. */
  snprintf(out, cap, "%.17g%s%s", value, base ? " " : "", base ? base->name : "");
}

void ds_time_format(int64_t ns, char *out, size_t cap) {
  static const struct {
    const char *name;
    uint64_t ns;
  } scale[] = {{"s", 1000000000}, {"ms", 1000000}, {"us", 1000}, {"ns", 1}};
  uint64_t v = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
  size_t i = 0, n = 0;
  while (v > 0 && i + 1 < sizeof scale / sizeof scale[0] && v < scale[i].ns) ++i;
  char frac[16] = "";
  for (uint64_t rest = v % scale[i].ns, place = scale[i].ns / 10; rest > 0; place /= 10) {
    if (n == 0) frac[n++] = '.';
    frac[n++] = (char)('0' + rest / place);
    rest %= place;
  }
  frac[n] = '\0';
  snprintf(out, cap, "%s%llu%s %s", ns < 0 ? "-" : "", (unsigned long long)(v / scale[i].ns), frac,
           scale[i].name);
}
