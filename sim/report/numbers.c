// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/numbers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t ds_put_u64(char *out, uint64_t v) {
  char digits[24];
  size_t n = 0;
  do {
    digits[n++] = (char)('0' + (int)(v % 10));
    v /= 10;
  } while (v != 0);
  for (size_t i = 0; i < n; i++) out[i] = digits[n - 1 - i];
  out[n] = '\0';
  return n;
}

size_t ds_put_i64(char *out, int64_t v) {
  size_t sign = v < 0;
  if (sign) *out = '-';
  return sign + ds_put_u64(out + sign, sign ? 0u - (uint64_t)v : (uint64_t)v);
}

size_t ds_put_decimal(char *out, int64_t v, int digits) {
  uint64_t u = v < 0 ? 0u - (uint64_t)v : (uint64_t)v, unit = 1;
  for (int i = 0; i < digits; i++) unit *= 10;
  size_t n = v < 0;
  if (n) *out = '-';
  n += ds_put_u64(out + n, u / unit);
  uint64_t rest = u % unit;
  if (rest == 0) return n;
  out[n++] = '.';
  for (int i = digits - 1; i >= 0; i--) {
    out[n + (size_t)i] = (char)('0' + (int)(rest % 10));
    rest /= 10;
  }
  n += (size_t)digits;
  while (out[n - 1] == '0') n--;
  out[n] = '\0';
  return n;
}

size_t ds_put_double(char *out, double v) {
  if (!(v - v == 0)) {
    memcpy(out, "null", 5);
    return 4;
  }
  if (v == 0) v = 0; /* no negative zero */
  for (int digits = 15;; digits++) {
    int n = snprintf(out, DS_NUMBER_BYTES, "%.*g", digits, v);
    if (digits == 17 || strtod(out, NULL) == v) return (size_t)n;
  }
}

static size_t separate(char *out, const char *digits, size_t n) {
  size_t o = 0;
  for (size_t i = 0; i < n; i++) {
    if (i > 0 && (n - i) % 3 == 0) out[o++] = ',';
    out[o++] = digits[i];
  }
  out[o] = '\0';
  return o;
}

size_t ds_put_count(char *out, uint64_t v) {
  char digits[DS_NUMBER_BYTES];
  size_t n = ds_put_u64(digits, v);
  return separate(out, digits, n);
}

size_t ds_put_short(char *out, double v) {
  if (!(v - v == 0)) return (size_t)snprintf(out, DS_NUMBER_BYTES, "-");
  double size = v < 0 ? -v : v;
  /* The bounds are those at which rounding would bring a fourth digit. */
  if (size >= 99.95) {
    if (size >= 1e18) return (size_t)snprintf(out, DS_NUMBER_BYTES, "%.3g", v);
    size_t sign = v < 0;
    if (sign) *out = '-';
    return sign + ds_put_count(out + sign, (uint64_t)(size + 0.5));
  }
  if (size >= 9.995) return (size_t)snprintf(out, DS_NUMBER_BYTES, "%.1f", v);
  if (size >= 0.9995 || size == 0) return (size_t)snprintf(out, DS_NUMBER_BYTES, "%.2f", v);
  if (size >= 0.00095) return (size_t)snprintf(out, DS_NUMBER_BYTES, "%.3f", v);
  return (size_t)snprintf(out, DS_NUMBER_BYTES, "%.2g", v);
}

size_t ds_put_duration(char *out, int64_t ns) {
  static const struct {
    int64_t unit;
    int digits;
    const char *name;
  } units[] = {{1000000000, 9, "s"}, {1000000, 6, "ms"}, {1000, 3, "us"}, {1, 0, "ns"}};
  size_t i = 0;
  int64_t size = ns < 0 ? -ns : ns;
  while (i < 3 && size < units[i].unit) i++;
  if (ns == 0) i = 0;
  size_t n = ds_put_decimal(out, ns, units[i].digits);
  return n + (size_t)snprintf(out + n, DS_NUMBER_BYTES - n, " %s", units[i].name);
}
