// SPDX-License-Identifier: GPL-3.0-or-later
/* Write a made-up trace in Azure's 2023 form, with the length statistics of its conversation trace,
 * to standard output: make_azure REQUESTS [SEED [RATE_PER_S]] traces/azure-conv-sample.csv is
 * `make_azure 3000 1`. No row of the public trace goes into it: lengths come from the points in
 * azure_conv.h, one from each of REQUESTS equal slices of probability, in random order (so that a
 * small sample already has the percentiles of a large one), input and output independent; arrivals
 * are Poisson. */
#include "azure_conv.h"

#include <stdio.h>
#include <stdlib.h>

#define DAY_US (86400 * 1000000LL)

static uint32_t *shuffled(uint32_t n, uint64_t seed, uint64_t entity) {
  uint32_t *a = malloc(n * sizeof *a);
  if (a == NULL) return NULL;
  ds_rng r = ds_rng_stream(seed, DS_PURPOSE_ORDER, entity);
  for (uint32_t i = 0; i < n; i++) a[i] = i;
  for (uint32_t i = n; i > 1; i--) {
    uint32_t j = (uint32_t)ds_rng_below(&r, i), x = a[i - 1];
    a[i - 1] = a[j];
    a[j] = x;
  }
  return a;
}

/* 9:00 on Monday 5 January 2026, and on: the date of no trace that exists. */
static void print_time(int64_t us) {
  static const int days_in[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  us += 9 * 3600 * 1000000LL;
  int64_t day = 4 + us / DAY_US, year = 2026, month = 0, s = us % DAY_US / 1000000;
  for (;;) {
    int length = days_in[month] + (month == 1 && year % 4 == 0);
    if (day < length) break;
    day -= length;
    if (++month == 12) {
      month = 0;
      year++;
    }
  }
  printf("%04d-%02d-%02d %02d:%02d:%02d.%06d0", (int)year, (int)month + 1, (int)day + 1,
         (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60), (int)(us % 1000000));
}

int main(int argc, char **argv) {
  uint32_t n = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 10) : 1;
  double rate = argc > 3 ? strtod(argv[3], NULL) : AZURE_CONV_RATE_PER_S;
  if (n == 0 || n > 100000000 || !(rate >= 0.01)) {
    fprintf(stderr, "usage: make_azure REQUESTS [SEED [RATE_PER_S]]\n");
    return 2;
  }
  uint32_t *in = shuffled(n, seed, 0), *out = shuffled(n, seed, 1);
  if (in == NULL || out == NULL) {
    fprintf(stderr, "make_azure: out of memory\n");
    return 1;
  }
  double t_s = 0.0;
  printf("TIMESTAMP,ContextTokens,GeneratedTokens");
  for (uint32_t i = 0; i < n; i++) {
    ds_rng arrival = ds_rng_stream(seed, DS_PURPOSE_ARRIVAL, i),
           a = ds_rng_stream(seed, DS_PURPOSE_INPUT_TOKENS, i),
           b = ds_rng_stream(seed, DS_PURPOSE_OUTPUT_TOKENS, i);
    t_s += ds_draw_exponential(&arrival, 1.0 / rate);
    printf("\r\n"); /* as there: CR LF between the rows, none behind the last */
    print_time((int64_t)(t_s * 1e6));
    printf(",%u,%u",
           (unsigned)azure_conv_tokens(azure_conv_input, ((double)in[i] + ds_rng_unit(&a)) / n),
           (unsigned)azure_conv_tokens(azure_conv_output, ((double)out[i] + ds_rng_unit(&b)) / n));
  }
  free(in);
  free(out);
  return fflush(stdout) == 0 && !ferror(stdout) ? 0 : 1;
}
