// SPDX-License-Identifier: GPL-3.0-or-later
/* What an import did, in words and numbers. */
#include "io/trace.h"

#include <stdio.h>

static const struct {
  const char *key, *what;
  size_t at;
  bool dropped;
} reasons[] = {
#define REASON(field, what, dropped)                                                               \
  { #field, what, offsetof(ds_trace_report, field), dropped }
    REASON(dropped_zero, "zero tokens", true),
    REASON(dropped_failed, "failed", true),
    REASON(dropped_cached, "answered from a cache", true),
    REASON(dropped_malformed, "unreadable", true),
    REASON(dropped_duplicate, "duplicates", true),
    REASON(outside_window, "outside the window", true),
    REASON(thinned, "thinned", true),
    REASON(beyond_first, "beyond the first", true),
    REASON(clamped_zero, "with zero tokens count as one", false),
    REASON(smaller_images, "with images made smaller, to fit their input", false),
    REASON(raised_caps, "with outputs beyond max_tokens keep them", false),
    REASON(out_of_order, "out of order sorted", false),
    REASON(spread, "spread over their tick", false),
    REASON(accumulated, "with the turns before added to the input", false),
    REASON(missing_parents, "follow one that is not in the file and start on their own", false),
    REASON(several_parents, "wait for several", false),
    REASON(think_from_gaps, "pause for the recorded gap between arrivals", false),
#undef REASON
};

bool ds_trace_reason(const ds_trace_report *p, size_t i, const char **key, const char **what,
                     uint64_t *count, bool *dropped) {
  if (i >= DS_ARRAY_LEN(reasons)) return false;
  *key = reasons[i].key;
  *what = reasons[i].what;
  *count = *(const uint64_t *)(const void *)((const char *)p + reasons[i].at);
  *dropped = reasons[i].dropped;
  return true;
}

void ds_trace_account(const ds_trace *t, char *out, size_t cap) {
  const ds_trace_report *p = ds_trace_report_of(t);
  const char *key, *what;
  uint64_t count;
  bool dropped;
  int n = snprintf(out, cap, "%llu rows read = %llu kept", (unsigned long long)p->rows_read,
                   (unsigned long long)p->kept);
  size_t used = n > 0 ? (size_t)n : 0;
  for (size_t i = 0; used < cap && ds_trace_reason(p, i, &key, &what, &count, &dropped); i++) {
    if (count == 0) continue;
    n = snprintf(out + used, cap - used, dropped ? " + %llu %s" : "; %llu %s",
                 (unsigned long long)count, what);
    used += n > 0 ? (size_t)n : 0;
  }
}
