// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_source.h"

#define MINUTE_BYTES 16
#define FIRST_YEAR   1970
#define LAST_YEAR    2261 /* the last whole year of a signed 64-bit count of nanoseconds */

static bool digits(const char *s, size_t n, int64_t *value) {
  int64_t v = 0;
  for (size_t i = 0; i < n; i++) {
    if (s[i] < '0' || s[i] > '9') return false;
    v = v * 10 + (s[i] - '0');
  }
  *value = v;
  return true;
}

static bool leap(int64_t year) { return (year % 4 == 0 && year % 100 != 0) || year % 400 == 0; }

/* Days from 1970-01-01 in the Gregorian calendar (year >= 1970). */
static int64_t days_since_1970(int64_t year, int64_t month, int64_t day) {
  static const int before[12] = {0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334};
  int64_t past = year - 1;
  int64_t leaps = past / 4 - past / 100 + past / 400 - (1969 / 4 - 1969 / 100 + 1969 / 400);
  return (year - 1970) * 365 + leaps + before[month - 1] + (month > 2 && leap(year)) + day - 1;
}

const char *ds_stamp_minute(const char *s, int64_t *ns) {
  static const int month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t year, month, day, hour, minute;
  if (!digits(s, 4, &year) || s[4] != '-' || !digits(s + 5, 2, &month) || s[7] != '-' ||
      !digits(s + 8, 2, &day) || (s[10] != ' ' && s[10] != 'T') || !digits(s + 11, 2, &hour) ||
      s[13] != ':' || !digits(s + 14, 2, &minute)) {
    return "is not a time";
  }
  if (year < FIRST_YEAR || year > LAST_YEAR) return "has a year out of range";
  if (month < 1 || month > 12) return "has no such month";
  if (day < 1 || day > month_days[month - 1] + (month == 2 && leap(year))) return "has no such day";
  if (hour > 23 || minute > 59) return "has no such time of day";
  *ns = ((days_since_1970(year, month, day) * 24 + hour) * 60 + minute) * 60 * DS_NS_PER_S;
  return NULL;
}

/* Behind the fraction: nothing, Z, +hh:mm, -hh:mm, +hhmm, -hhmm. */
static const char *offset_of(const char *s, size_t n, int64_t *offset_ns) {
  int64_t hour, minute;
  *offset_ns = 0;
  if (n == 0 || (n == 1 && (s[0] == 'Z' || s[0] == 'z'))) return NULL;
  if (s[0] != '+' && s[0] != '-') return "is not a time";
  bool colon = n == 6 && s[3] == ':';
  if (!(colon || n == 5) || !digits(s + 1, 2, &hour) || !digits(s + (colon ? 4 : 3), 2, &minute) ||
      hour > 23 || minute > 59) {
    return "has an offset from UTC that is not understood";
  }
  *offset_ns = (hour * 60 + minute) * 60 * DS_NS_PER_S;
  if (s[0] == '-') *offset_ns = -*offset_ns;
  return NULL;
}

const char *ds_stamp_parse(const char *s, size_t bytes, int64_t *ns) {
  if (bytes == 0) return "is empty";
  if (bytes < MINUTE_BYTES + 3) return "is not a time";
  int64_t minute_ns, second, offset_ns;
  const char *wrong = ds_stamp_minute(s, &minute_ns);
  if (wrong != NULL) return wrong;
  if (s[16] != ':' || !digits(s + 17, 2, &second)) return "is not a time";
  if (second > 59) return "has no such time of day";
  int64_t fraction = 0, unit = DS_NS_PER_S;
  size_t i = MINUTE_BYTES + 3;
  if (i < bytes && s[i] == '.') {
    for (i++; i < bytes && s[i] >= '0' && s[i] <= '9'; i++) {
      if (unit == 1) return "has more than 9 fraction digits";
      unit /= 10;
      fraction += (s[i] - '0') * unit;
    }
    if (unit == DS_NS_PER_S) return "has no digits behind the point";
  }
  wrong = offset_of(s + i, bytes - i, &offset_ns);
  if (wrong != NULL) return wrong;
  *ns = minute_ns + second * DS_NS_PER_S + fraction - offset_ns;
  return NULL;
}
