// SPDX-License-Identifier: GPL-3.0-or-later
#include <string.h>

#include <stdint.h>

/* The functions that return a pointer into a const object lose the const, as C's own do. */
static char *plain(const char *p) { return (char *)(uintptr_t)p; }

void *memcpy(void *restrict to, const void *restrict from, size_t n) {
  char *t = to;
  const char *f = from;
  for (size_t i = 0; i < n; i++) t[i] = f[i];
  return to;
}

void *memmove(void *to, const void *from, size_t n) {
  char *t = to;
  const char *f = from;
  if ((uintptr_t)t < (uintptr_t)f) return memcpy(to, from, n); /* the loop above goes upwards */
  while (n-- > 0) t[n] = f[n];
  return to;
}

void *memset(void *to, int byte, size_t n) {
  unsigned char *t = to;
  for (size_t i = 0; i < n; i++) t[i] = (unsigned char)byte;
  return to;
}

int memcmp(const void *a, const void *b, size_t n) {
  const unsigned char *x = a, *y = b;
  for (size_t i = 0; i < n; i++) {
    if (x[i] != y[i]) return x[i] < y[i] ? -1 : 1;
  }
  return 0;
}

void *memchr(const void *s, int byte, size_t n) {
  const unsigned char *p = s;
  for (size_t i = 0; i < n; i++) {
    if (p[i] == (unsigned char)byte) return plain((const char *)(p + i));
  }
  return NULL;
}

size_t strlen(const char *s) {
  size_t n = 0;
  while (s[n] != 0) n++;
  return n;
}

int strncmp(const char *a, const char *b, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (a[i] != b[i]) return (unsigned char)a[i] < (unsigned char)b[i] ? -1 : 1;
    if (a[i] == 0) break;
  }
  return 0;
}

int strcmp(const char *a, const char *b) { return strncmp(a, b, SIZE_MAX); }

char *strchr(const char *s, int c) {
  for (;; s++) {
    if (*s == (char)c) return plain(s);
    if (*s == 0) return NULL;
  }
}
