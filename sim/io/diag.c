// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/diag.h"

#include <ctype.h>
#include <stdarg.h>
#include <string.h>

/* Messages quote the input: a stray escape sequence must not reach a terminal, nor a cut fall
 * inside a character. */
static void tidy(char *s, size_t cap) {
  size_t n = strlen(s);
  for (size_t i = 0; i < n; ++i) {
    unsigned char c = (unsigned char)s[i];
    if (c < 0x20 || c == 0x7f) s[i] = '?';
  }
  if (n + 1 < cap) return;
  size_t lead = n;
  while (lead > 0 && ((unsigned char)s[lead - 1] & 0xc0) == 0x80) --lead;
  if (lead == 0) return;
  unsigned char c = (unsigned char)s[lead - 1];
  size_t want = c >= 0xf0 ? 3 : c >= 0xe0 ? 2 : c >= 0xc0 ? 1 : 0;
  if (n - lead < want) s[lead - 1] = '\0';
}

bool ds_diag_set(ds_diag *d, ds_exit exit, const char *file, int64_t line, int64_t column,
                 const char *fmt, ...) {
  va_list ap;
  d->exit = exit;
  d->line = line;
  d->column = column;
  d->expected[0] = d->hint[0] = '\0';
  snprintf(d->file, sizeof d->file, "%s", file ? file : "");
  tidy(d->file, sizeof d->file);
  va_start(ap, fmt);
  vsnprintf(d->text, sizeof d->text, fmt, ap);
  va_end(ap);
  tidy(d->text, sizeof d->text);
  return false;
}

void ds_diag_expected(ds_diag *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(d->expected, sizeof d->expected, fmt, ap);
  va_end(ap);
  tidy(d->expected, sizeof d->expected);
}

void ds_diag_hint(ds_diag *d, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(d->hint, sizeof d->hint, fmt, ap);
  va_end(ap);
  tidy(d->hint, sizeof d->hint);
}

const char *ds_diag_without(const char *text, const char *key) {
  static const char *const joints[] = {": ", " is "};
  size_t n = strlen(key);
  if (n == 0 || strncmp(text, key, n) != 0) return text;
  for (size_t i = 0; i < sizeof joints / sizeof joints[0]; ++i)
    if (strncmp(text + n, joints[i], strlen(joints[i])) == 0) return text + n + strlen(joints[i]);
  return text;
}

#define COLUMNS 80
#define MARGIN 4

/* Columns of n bytes: a character of several bytes is one. */
static size_t width(const char *s, size_t n) {
  size_t columns = 0;
  for (size_t i = 0; i < n; ++i) columns += ((unsigned char)s[i] & 0xc0) != 0x80;
  return columns;
}

/* A line that goes on, indented, where the next word would not fit. A word wider than a line stays
 * whole, so that it can be copied; `column` is where the text begins. What begins with a blank may
 * go on a new line from its first word. */
static void folded(FILE *out, size_t column, const char *text) {
  for (bool first = true; *text; first = false) {
    size_t blanks = strspn(text, " "), n = blanks + strcspn(text + blanks, " ");
    if ((!first || blanks > 0) && column > MARGIN && column + width(text, n) > COLUMNS) {
      fprintf(out, "\n%*s", MARGIN, "");
      column = MARGIN;
      text += blanks;
      n -= blanks;
    }
    fwrite(text, 1, n, out);
    column += width(text, n);
    text += n;
  }
  fputc('\n', out);
}

/* What is wrong, without the key that the place has just named (--set KEY: KEY is ...). */
static const char *text_after_place(const ds_diag *d) {
  static const char set[] = "command line --set ";
  if (strncmp(d->file, set, sizeof set - 1) != 0) return d->text;
  return ds_diag_without(d->text, d->file + sizeof set - 1);
}

void ds_diag_print(const ds_diag *d, FILE *out) {
  char place[sizeof d->file + 64] = "dryserve:";
  size_t n = strlen(place), cap = sizeof place;
  if (d->file[0] != '\0') {
    n += (size_t)snprintf(place + n, cap - n, " %s", d->file);
    if (d->line > 0) n += (size_t)snprintf(place + n, cap - n, ":%lld", (long long)d->line);
    if (d->line > 0 && d->column > 0)
      n += (size_t)snprintf(place + n, cap - n, ":%lld", (long long)d->column);
    snprintf(place + n, cap - n, ":");
  }
  fputs(place, out);
  char text[sizeof d->text + 2];
  snprintf(text, sizeof text, " %s", text_after_place(d));
  folded(out, width(place, strlen(place)), text);
  if (d->expected[0] != '\0') fputs("  expected ", out), folded(out, 11, d->expected);
  if (d->hint[0] != '\0') fputs("  ", out), folded(out, 2, d->hint);
}

#define NEAREST_MAX 63

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Optimal string alignment: insert, delete, replace, or swap two neighbours; letters match without
 * regard to case. */
static size_t edit_distance(const char *a, size_t na, const char *b, size_t nb) {
  size_t row[3][NEAREST_MAX + 1];
  for (size_t j = 0; j <= nb; ++j) row[0][j] = j;
  size_t *before = row[2], *last = row[0], *now = row[1];
  for (size_t i = 1; i <= na; ++i) {
    now[0] = i;
    for (size_t j = 1; j <= nb; ++j) {
      int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
      size_t best = least(least(last[j] + 1, now[j - 1] + 1), last[j - 1] + (x != y));
      if (i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) &&
          y == tolower((unsigned char)a[i - 2]))
        best = least(best, before[j - 2] + 1);
      now[j] = best;
    }
    size_t *spare = before;
    before = last;
    last = now;
    now = spare;
  }
  return last[nb];
}

static bool starts_with_word(const char *candidate, const char *word, size_t n) {
  for (size_t i = 0; i < n; ++i)
    if (tolower((unsigned char)candidate[i]) != tolower((unsigned char)word[i])) return false;
  return true;
}

const char *ds_nearest(const char *word, const char *const *candidates, size_t n) {
  size_t len = strlen(word);
  if (len == 0 || len > NEAREST_MAX) return NULL;
  size_t limit = len <= 2 ? 1 : len <= 7 ? 2 : 3, best = limit + 1;
  const char *found = NULL, *begun = NULL;
  for (size_t i = 0; i < n; ++i) {
    size_t m = strlen(candidates[i]);
    if (m > NEAREST_MAX) continue;
    if (len >= 3 && m > len && !begun && starts_with_word(candidates[i], word, len))
      begun = candidates[i];
    size_t dist = edit_distance(word, len, candidates[i], m);
    if (dist < best && dist < len) {
      best = dist;
      found = candidates[i];
    }
  }
  return found && best <= limit ? found : begun;
}

void ds_diag_hint_misspelt(ds_diag *d, const char *const *valid, size_t n_valid, size_t missing,
                           const char *text, size_t bytes, char after) {
  const char *end = text + bytes;
  for (const char *s = text, *close; s < end; s = close + 1) {
    s = memchr(s, '"', (size_t)(end - s));
    if (!s) return;
    close = memchr(s + 1, '"', (size_t)(end - s - 1));
    if (!close) return;
    size_t n = (size_t)(close - s - 1);
    if (n == 0 || n > NEAREST_MAX || (after && (close + 1 >= end || close[1] != after))) continue;
    char word[NEAREST_MAX + 1];
    memcpy(word, s + 1, n);
    word[n] = '\0';
    const char *near = ds_nearest(word, valid, n_valid);
    if (!near || strcmp(near, valid[missing]) != 0 || strcmp(word, near) == 0) continue;
    ds_diag_hint(d, "did you mean %s by \"%s\"?", near, word);
    return;
  }
}
