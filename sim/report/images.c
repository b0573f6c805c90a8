// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/images.h"

#include <stdio.h>

#include "report/numbers.h"

typedef struct encoding { /* by all replicas, answers in vain and what was encoded again included */
  double images, tokens, runs, ns;
} encoding;

static encoding encoding_of(const ds_result *r) {
  encoding e = {0, 0, 0, 0};
  for (size_t i = 0; i < r->n_replicas; i++) {
    e.images += (double)r->replicas[i].images;
    e.tokens += (double)r->replicas[i].image_tokens;
    e.runs += (double)r->replicas[i].encoder_runs;
    e.ns += (double)r->replicas[i].encoder_ns;
  }
  return e;
}

void ds_images_line(ds_outfile *out, const ds_report *r) {
  const ds_result *res = r->drive->result;
  encoding e = encoding_of(res);
  char each[DS_NUMBER_BYTES], seconds[DS_NUMBER_BYTES], ms[DS_NUMBER_BYTES], count[DS_NUMBER_BYTES], text[400];
  ds_put_count(count, res->images);
  ds_put_short(each, res->images > 0 ? (double)res->image_tokens / (double)res->images : 0);
  ds_put_short(seconds, e.ns * 1e-9);
  ds_put_short(ms, e.images > 0 ? e.ns * 1e-6 / e.images : 0);
  snprintf(text, sizeof text,
           "%s with %s tokens each, %.0f %% of the input; the encoder ran for %s s (%s ms an image, %.1f an iteration), "
           "%.1f %% of busy time",
           count, each, res->input_tokens > 0 ? 100 * (double)res->image_tokens / (double)res->input_tokens : 0, seconds, ms,
           e.runs > 0 ? e.images / e.runs : 0, 100 * r->summary->encoder_share);
  ds_wrapped(out, "images", text);
}

void ds_images_json(ds_json *j, const ds_report *r) {
  const ds_result *res = r->drive->result;
  encoding e = encoding_of(res);
  ds_json_count(j, "num_images", res->images);
  ds_json_count(j, "total_image_tokens", res->image_tokens);
  ds_json_object(j, "encoder");
  ds_json_count(j, "images", (uint64_t)e.images);
  ds_json_count(j, "tokens", (uint64_t)e.tokens);
  ds_json_count(j, "iterations", (uint64_t)e.runs);
  ds_json_number(j, "busy_s", e.ns * 1e-9);
  ds_json_number(j, "busy_share", r->summary->encoder_share);
  ds_json_end_object(j);
}
