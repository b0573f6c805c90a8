// SPDX-License-Identifier: GPL-3.0-or-later
#include "report/json_writer.h"
#include "report/requests.h"

static void put_ids(ds_outfile *out, const ds_drive *drive, const char *name, const uint64_t *index,
                    uint32_t n) {
  ds_out_text(out, name);
  for (uint32_t i = 0; i < n; i++) {
    if (i > 0) ds_out_bytes(out, ",", 1);
    ds_request_id_json(out, drive, ds_oversize_trace_index(&drive->oversize, index[i]));
  }
  ds_out_bytes(out, "]", 1);
}

void ds_steps_line(ds_outfile *out, const ds_step *s, const ds_drive *drive) {
  ds_out_printf(out,
                "{\"replica\":%u,\"start_ns\":%lld,\"end_ns\":%lld,\"prefill_tokens\":%llu,"
                "\"decode_sequences\":%llu,",
                (unsigned)s->replica, (long long)s->start_ns, (long long)s->end_ns,
                (unsigned long long)s->prefill_tokens, (unsigned long long)s->decode_seqs);
  ds_out_text(out, "\"prefill\":[");
  const uint64_t *at = s->lists;
  for (uint32_t i = 0; i < s->n_prefill; i++, at += 2) {
    ds_out_text(out, i > 0 ? ",[" : "[");
    ds_request_id_json(out, drive, ds_oversize_trace_index(&drive->oversize, at[0]));
    ds_out_printf(out, ",%llu]", (unsigned long long)at[1]);
  }
  put_ids(out, drive, "],\"decode\":[", at, s->n_decode);
  put_ids(out, drive, ",\"preempted\":[", at + s->n_decode, s->n_preempted);
  /* -1: an unlimited pool. */
  ds_out_printf(out, ",\"free_blocks\":%lld}\n", (long long)s->free_blocks);
}
