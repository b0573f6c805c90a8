// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/json_pull.h"

#include <string.h>

#define DEPTH_MAX 64

ds_pull ds_pull_of(const char *s, size_t n) {
  ds_pull p = {.begin = s, .at = s, .end = s + n};
  return p;
}

static bool fail(ds_pull *p, const char *what) {
  if (p->wrong == NULL) {
    p->wrong = what;
    p->wrong_at = p->at;
  }
  return false;
}

static void blanks(ds_pull *p) {
  while (p->at < p->end && (*p->at == ' ' || *p->at == '\n' || *p->at == '\r' || *p->at == '\t'))
    p->at++;
}

char ds_pull_kind(ds_pull *p) {
  if (p->wrong != NULL) return 0;
  blanks(p);
  if (p->at == p->end) return 0;
  char c = *p->at;
  if (c == '{' || c == '[' || c == '"' || c == 'n') return c;
  if (c == 't' || c == 'f') return 't';
  return c == '-' || (c >= '0' && c <= '9') ? '0' : '\0';
}

static bool enter(ds_pull *p, char bracket, const char *what) {
  if (ds_pull_kind(p) != bracket) return fail(p, what);
  if (++p->depth > DEPTH_MAX) return fail(p, "nested too deeply");
  p->at++;
  return true;
}

bool ds_pull_map(ds_pull *p) { return enter(p, '{', "no object"); }
bool ds_pull_list(ds_pull *p) { return enter(p, '[', "no list"); }

/* At the end of a member list, or in front of the next member. The first member has no comma before
 * it: what stands before tells. */
static bool member(ds_pull *p, char open, char close) {
  if (p->wrong != NULL) return false;
  const char *back = p->at;
  while (back > p->begin &&
         (back[-1] == ' ' || back[-1] == '\n' || back[-1] == '\r' || back[-1] == '\t'))
    back--;
  bool first = back > p->begin && back[-1] == open;
  blanks(p);
  if (p->at == p->end) return fail(p, "it ends too early");
  if (*p->at == close) {
    p->at++;
    p->depth--;
    return false;
  }
  if (first) return true;
  if (*p->at != ',') return fail(p, "no comma between two values");
  p->at++;
  blanks(p);
  if (p->at < p->end && *p->at == close) return fail(p, "a comma before the end");
  return true;
}

bool ds_pull_key(ds_pull *p, ds_text *key) {
  if (!member(p, '{', '}')) return false;
  if (ds_pull_kind(p) != '"')
    return fail(p, p->at == p->end ? "it ends too early" : "no key in quotes");
  if (!ds_pull_text(p, key)) return false;
  blanks(p);
  if (p->at == p->end) return fail(p, "it ends too early");
  if (*p->at != ':') return fail(p, "no colon behind a key");
  p->at++;
  return true;
}

/* A list that begins with [ directly in front of its first element. An element that itself ends in
 * [ cannot stand directly before, since it would have been closed. */
bool ds_pull_next(ds_pull *p) { return member(p, '[', ']'); }

bool ds_pull_text(ds_pull *p, ds_text *t) {
  if (ds_pull_kind(p) != '"') return fail(p, "no text");
  const char *s = ++p->at;
  t->escaped = false;
  for (; p->at < p->end; p->at++) {
    if (*p->at == '"') {
      *t = (ds_text){s, (size_t)(p->at - s), t->escaped};
      p->at++;
      return true;
    }
    if ((unsigned char)*p->at < ' ') return fail(p, "a control character in a text");
    if (*p->at != '\\') continue;
    t->escaped = true;
    if (++p->at == p->end) break;
    if (strchr("\"\\/bfnrtu", *p->at) == NULL || *p->at == '\0')
      return fail(p, "an unknown escape");
    if (*p->at != 'u') continue;
    for (int k = 0; k < 4; k++) {
      if (++p->at == p->end) return fail(p, "it ends too early");
      char c = *p->at;
      if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F')))
        return fail(p, "an unknown escape");
    }
  }
  return fail(p, "it ends too early");
}

static size_t run_of_digits(ds_pull *p) {
  const char *s = p->at;
  while (p->at < p->end && *p->at >= '0' && *p->at <= '9') p->at++;
  return (size_t)(p->at - s);
}

bool ds_pull_number(ds_pull *p, ds_text *digits) {
  if (ds_pull_kind(p) != '0') return fail(p, "no number");
  const char *s = p->at;
  if (*p->at == '-') p->at++;
  const char *whole = p->at;
  size_t n = run_of_digits(p);
  if (n == 0 || (n > 1 && *whole == '0')) {
    p->at = s;
    return fail(p, "no number as JSON has them");
  }
  if (p->at < p->end && *p->at == '.') {
    p->at++;
    if (run_of_digits(p) == 0) return fail(p, "no number as JSON has them");
  }
  if (p->at < p->end && (*p->at == 'e' || *p->at == 'E')) {
    p->at++;
    if (p->at < p->end && (*p->at == '+' || *p->at == '-')) p->at++;
    if (run_of_digits(p) == 0) return fail(p, "no number as JSON has them");
  }
  *digits = (ds_text){s, (size_t)(p->at - s), false};
  return true;
}

static bool word(ds_pull *p, const char *w) {
  size_t n = strlen(w);
  if ((size_t)(p->end - p->at) < n || memcmp(p->at, w, n) != 0) return fail(p, "no JSON value");
  p->at += n;
  return true;
}

bool ds_pull_bool(ds_pull *p, bool *v) {
  if (ds_pull_kind(p) != 't') return fail(p, "neither true nor false");
  *v = *p->at == 't';
  return word(p, *v ? "true" : "false");
}

bool ds_pull_null(ds_pull *p) {
  return ds_pull_kind(p) == 'n' ? word(p, "null") : fail(p, "not null");
}

bool ds_pull_skip(ds_pull *p) {
  ds_text t;
  bool b;
  switch (ds_pull_kind(p)) {
  case '{':
    for (ds_pull_map(p); ds_pull_key(p, &t);)
      if (!ds_pull_skip(p)) return false;
    return p->wrong == NULL;
  case '[':
    for (ds_pull_list(p); ds_pull_next(p);)
      if (!ds_pull_skip(p)) return false;
    return p->wrong == NULL;
  case '"':
    return ds_pull_text(p, &t);
  case '0':
    return ds_pull_number(p, &t);
  case 't':
    return ds_pull_bool(p, &b);
  case 'n':
    return ds_pull_null(p);
  default:
    return fail(p, p->at == p->end ? "it ends too early" : "no JSON value");
  }
}

bool ds_pull_done(ds_pull *p) {
  if (p->wrong != NULL) return false;
  blanks(p);
  return p->at == p->end || fail(p, "something follows the JSON object");
}

bool ds_text_is(ds_text t, const char *w) { return strlen(w) == t.n && memcmp(t.s, w, t.n) == 0; }

static unsigned hex4(const char *s) {
  unsigned v = 0;
  for (int i = 0; i < 4; i++) {
    char c = s[i];
    v = v * 16 + (unsigned)(c <= '9' ? c - '0' : (c | 32) - 'a' + 10);
  }
  return v;
}

static size_t utf8(unsigned c, char out[4]) {
  if (c < 0x80) {
    out[0] = (char)c;
    return 1;
  }
  if (c < 0x800) {
    out[0] = (char)(0xc0 | (c >> 6));
    out[1] = (char)(0x80 | (c & 63));
    return 2;
  }
  if (c < 0x10000) {
    out[0] = (char)(0xe0 | (c >> 12));
    out[1] = (char)(0x80 | ((c >> 6) & 63));
    out[2] = (char)(0x80 | (c & 63));
    return 3;
  }
  out[0] = (char)(0xf0 | (c >> 18));
  out[1] = (char)(0x80 | ((c >> 12) & 63));
  out[2] = (char)(0x80 | ((c >> 6) & 63));
  out[3] = (char)(0x80 | (c & 63));
  return 4;
}

bool ds_text_copy(ds_text t, char *out, size_t cap) {
  if (!t.escaped) {
    if (t.n >= cap) return false;
    memcpy(out, t.s, t.n);
    out[t.n] = '\0';
    return true;
  }
  size_t n = 0;
  for (size_t i = 0; i < t.n; i++) {
    char piece[4] = {t.s[i]};
    size_t m = 1;
    if (t.s[i] == '\\') {
      char e = t.s[++i];
      static const char from[] = "bfnrt", to[] = "\b\f\n\r\t";
      const char *f = strchr(from, e);
      piece[0] = f != NULL && e != '\0' ? to[f - from] : e;
      if (e == 'u') {
        unsigned c = hex4(t.s + i + 1);
        i += 4;
        if (c >= 0xd800 && c < 0xdc00 && i + 6 < t.n + 1 && t.s[i + 1] == '\\' &&
            t.s[i + 2] == 'u') {
          unsigned low = hex4(t.s + i + 3);
          if (low >= 0xdc00 && low < 0xe000) {
            c = 0x10000 + ((c - 0xd800) << 10) + (low - 0xdc00);
            i += 6;
          }
        }
        if (c == 0 || (c >= 0xd800 && c < 0xe000)) c = 0xfffd;
        m = utf8(c, piece);
      }
    }
    if (n + m >= cap) return false;
    memcpy(out + n, piece, m);
    n += m;
  }
  out[n] = '\0';
  return true;
}

/* ---- numbers ---- */

/* value = digits x 10^exponent, up to 19 digits kept (the rest only moves the exponent, *inexact).
 */
typedef struct decimal {
  bool negative, inexact;
  uint64_t digits;
  int exponent;
} decimal;

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static const char *decimal_of(ds_text t, decimal *d) {
  *d = (decimal){false, false, 0, 0};
  size_t i = 0;
  if (t.n == 0) return "is empty";
  if (t.s[i] == '-' || t.s[i] == '+') d->negative = t.s[i++] == '-';
  bool any = false, point = false;
  for (; i < t.n; i++) {
    if (t.s[i] == '.' && !point) {
      point = true;
      continue;
    }
    if (!is_digit(t.s[i])) break;
    any = true;
    if (d->digits < 1000000000000000000u) {
      d->digits = d->digits * 10 + (uint64_t)(t.s[i] - '0');
      d->exponent -= point;
    } else {
      if (t.s[i] != '0') d->inexact = true;
      d->exponent += !point;
    }
  }
  if (!any) return "is not a number";
  if (i < t.n && (t.s[i] == 'e' || t.s[i] == 'E')) {
    bool minus = false, some = false;
    int e = 0;
    if (++i < t.n && (t.s[i] == '-' || t.s[i] == '+')) minus = t.s[i++] == '-';
    for (; i < t.n && is_digit(t.s[i]); i++) {
      some = true;
      if (e < 10000) e = e * 10 + (t.s[i] - '0');
    }
    if (!some) return "is not a number";
    d->exponent += minus ? -e : e;
  }
  return i == t.n ? NULL : "is not a number";
}

const char *ds_number_u64(ds_text t, uint64_t *out) {
  uint64_t v = 0;
  if (t.n == 0) return "is empty";
  for (size_t i = 0; i < t.n; i++) {
    if (!is_digit(t.s[i])) return t.s[0] == '-' ? "is negative" : "is not a whole number";
    uint64_t digit = (uint64_t)(t.s[i] - '0');
    if (v > (UINT64_MAX - digit) / 10) return "is too large";
    v = v * 10 + digit;
  }
  *out = v;
  return NULL;
}

const char *ds_number_count(ds_text t, uint64_t max, uint64_t *out) {
  decimal d;
  const char *wrong = decimal_of(t, &d);
  if (wrong != NULL) return wrong;
  if (d.negative && d.digits > 0) return "is negative";
  while (d.exponent < 0 && d.digits % 10 == 0 && d.digits > 0) {
    d.digits /= 10;
    d.exponent++;
  }
  if ((d.exponent < 0 && d.digits > 0) || d.inexact) return "is not a whole number";
  while (d.exponent > 0 && d.digits > 0 && d.digits <= max) {
    d.digits *= 10;
    d.exponent--;
  }
  if (d.digits > max) return "is too large";
  *out = d.digits;
  return NULL;
}

const char *ds_number_integer(ds_text t, int64_t *out) {
  bool negative = t.n > 0 && t.s[0] == '-';
  ds_text rest = {t.s + negative, t.n - negative, false};
  uint64_t v = 0;
  const char *wrong = ds_number_count(rest, INT64_MAX, &v);
  if (wrong != NULL) return wrong;
  *out = negative ? -(int64_t)v : (int64_t)v;
  return NULL;
}

const char *ds_number_time(ds_text t, int64_t unit_ns, int64_t *out_ns) {
  decimal d;
  const char *wrong = decimal_of(t, &d);
  if (wrong != NULL) return wrong;
  for (; unit_ns > 1; unit_ns /= 10) d.exponent++;
  uint64_t v = d.digits, half = 0;
  for (; d.exponent > 0 && v > 0; d.exponent--) {
    if (v > (uint64_t)INT64_MAX / 10) return "is too large";
    v *= 10;
  }
  for (; d.exponent < 0 && v > 0; d.exponent++) {
    half = v % 10; /* only the last digit cut decides: the ones behind it cannot reach the half */
    v /= 10;
  }
  v += half >= 5;
  if (v > (uint64_t)INT64_MAX) return "is too large";
  *out_ns = d.negative ? -(int64_t)v : (int64_t)v;
  return NULL;
}
