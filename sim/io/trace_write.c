// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/trace_write.h"

#include <stdio.h>
#include <string.h>

#define BIT(x) (1u << (x))

const char *const ds_trace_has_names[DS_HAS_N] = {[DS_HAS_ID] = "ids",
                                                  [DS_HAS_SESSION] = "sessions",
                                                  [DS_HAS_TURN] = "turns",
                                                  [DS_HAS_THINK] = "pauses between turns",
                                                  [DS_HAS_JOIN] = "waits for several at once",
                                                  [DS_HAS_CLASS] = "classes",
                                                  [DS_HAS_MODEL] = "models",
                                                  [DS_HAS_TENANT] = "tenants",
                                                  [DS_HAS_PRIORITY] = "priorities",
                                                  [DS_HAS_CAP] = "output caps",
                                                  [DS_HAS_BLOCKS] = "block ids",
                                                  [DS_HAS_PREFIX] = "shared prefixes",
                                                  [DS_HAS_MEASURED] = "measured latencies",
                                                  [DS_HAS_IMAGES] = "images",
                                                  [DS_HAS_SUB_MS] = "times finer than 1 ms",
                                                  [DS_HAS_SUB_US] = "times finer than 1 us"};

void ds_trace_has_of(const ds_request *r, const char *id, const ds_more *m,
                     uint64_t seen[DS_HAS_N]) {
  seen[DS_HAS_ID] += id != NULL;
  seen[DS_HAS_PRIORITY] += r->priority != 0;
  seen[DS_HAS_CAP] += r->max_tokens > r->output_tokens;
  seen[DS_HAS_SUB_MS] += r->arrival_ns % DS_NS_PER_MS != 0;
  seen[DS_HAS_SUB_US] += r->arrival_ns % 1000 != 0;
  seen[DS_HAS_IMAGES] += r->images > 0;
  if (m == NULL) return;
  seen[DS_HAS_SESSION] += m->session != NULL;
  seen[DS_HAS_TURN] += m->has_turn;
  seen[DS_HAS_THINK] += m->think_ns >= 0;
  seen[DS_HAS_JOIN] += m->n_after > 1;
  seen[DS_HAS_CLASS] += m->class_name != NULL;
  seen[DS_HAS_MODEL] += m->model != NULL;
  seen[DS_HAS_TENANT] += m->tenant != NULL;
  seen[DS_HAS_BLOCKS] += m->n_blocks > 0;
  seen[DS_HAS_PREFIX] += m->prefix != NULL && m->n_blocks == 0;
  seen[DS_HAS_MEASURED] += m->ttft_ns >= 0 || m->e2e_ns >= 0 || m->queue_ns >= 0;
}

/* ---- pieces ---- */

static void quoted(ds_outfile *out, const char *text) {
  char c[8];
  ds_out_text(out, "\"");
  for (const unsigned char *s = (const unsigned char *)text; *s != '\0'; s++) {
    if (*s == '"' || *s == '\\') {
      c[0] = '\\';
      c[1] = (char)*s;
      ds_out_bytes(out, c, 2);
    } else if (*s < ' ') {
      ds_out_printf(out, "\\u%04x", *s);
    } else {
      ds_out_bytes(out, s, 1);
    }
  }
  ds_out_text(out, "\"");
}

static void json_text(ds_outfile *out, const char *key, const char *text) {
  ds_out_printf(out, ",\"%s\":", key);
  quoted(out, text);
}

static void ids(ds_outfile *out, const char *key, const ds_more *m) {
  ds_out_printf(out, ",\"%s\":[", key);
  for (uint64_t i = 0; i < m->n_blocks; i++)
    ds_out_printf(out, i > 0 ? ",%llu" : "%llu", (unsigned long long)m->blocks[i] + m->scope);
  ds_out_text(out, "]");
}

/* ns in units of 10^digits ns, exactly and without trailing zeros. */
static void decimal(ds_outfile *out, int64_t ns, int digits) {
  int64_t unit = 1;
  for (int i = 0; i < digits; i++) unit *= 10;
  char text[48];
  int n = snprintf(text, sizeof text, "%lld.%0*lld", (long long)(ns / unit), digits,
                   (long long)(ns % unit));
  while (n > 0 && text[n - 1] == '0') n--;
  if (n > 0 && text[n - 1] == '.') n--;
  ds_out_bytes(out, text, (size_t)n);
}

static void csv_text(ds_outfile *out, const char *text) {
  if (text == NULL) return;
  if (strpbrk(text, ",\"\n\r") == NULL) {
    ds_out_text(out, text);
    return;
  }
  ds_out_text(out, "\"");
  for (; *text != '\0'; text++) {
    if (*text == '"') ds_out_text(out, "\"");
    ds_out_bytes(out, text, 1);
  }
  ds_out_text(out, "\"");
}

/* ---- formats ---- */

static void jsonl_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                      const ds_more *m) {
  (void)index;
  ds_out_printf(out, "{\"arrival_ns\":%lld,\"input_tokens\":%u,\"output_tokens\":%u",
                (long long)r->arrival_ns, r->input_tokens, r->output_tokens);
  if (id != NULL) json_text(out, "id", id);
  if (r->max_tokens > r->output_tokens) ds_out_printf(out, ",\"max_tokens\":%u", r->max_tokens);
  if (r->priority != 0) ds_out_printf(out, ",\"priority\":%d", (int)r->priority);
  if (r->images > 0) ds_out_printf(out, ",\"images\":%u", r->images);
  if (r->image_tokens > 0) ds_out_printf(out, ",\"image_tokens\":%u", r->image_tokens);
  if (r->image_tokens > 0) ds_out_printf(out, ",\"image_at\":%u", r->image_at);
  if (m != NULL) {
    if (m->tenant != NULL) json_text(out, "tenant", m->tenant);
    if (m->session != NULL) json_text(out, "session", m->session);
    if (m->has_turn) ds_out_printf(out, ",\"turn\":%u", m->turn);
    if (m->think_ns >= 0) ds_out_printf(out, ",\"think_ns\":%lld", (long long)m->think_ns);
    if (m->class_name != NULL) json_text(out, "class", m->class_name);
    if (m->n_blocks > 0) {
      ds_out_printf(out, ",\"block_tokens\":%u", m->block_tokens);
      ids(out, "blocks", m);
    } else if (m->prefix != NULL) {
      ds_out_text(out, ",\"prefix\":[");
      quoted(out, m->prefix);
      ds_out_printf(out, ",%u]", m->prefix_tokens);
    }
  }
  ds_out_text(out, "}\n");
}

static void azure_begin(ds_outfile *out) {
  ds_out_text(out, "TIMESTAMP,ContextTokens,GeneratedTokens\n");
}

static void azure_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                      const ds_more *m) {
  (void)index;
  (void)id;
  (void)m;
  /* From the first day of 1970 on: a trace has no date any more. */
  int64_t s = r->arrival_ns / DS_NS_PER_S, days = s / 86400;
  static const int month_days[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  int64_t year = 1970;
  int month = 0;
  for (;; year++) {
    int64_t in_year = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0 ? 366 : 365;
    if (days < in_year) break;
    days -= in_year;
  }
  for (;; month++) {
    bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    int64_t in_month = month_days[month] + (month == 1 && leap);
    if (days < in_month) break;
    days -= in_month;
  }
  s %= 86400;
  ds_out_printf(out, "%04lld-%02d-%02d %02d:%02d:%02d.%09d,%u,%u\n", (long long)year, month + 1,
                (int)days + 1, (int)(s / 3600), (int)(s / 60 % 60), (int)(s % 60),
                (int)(r->arrival_ns % DS_NS_PER_S), r->input_tokens, r->output_tokens);
}

static void mooncake_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                         const ds_more *m) {
  (void)index;
  ds_out_text(out, "{\"timestamp\":");
  decimal(out, r->arrival_ns, 6);
  ds_out_printf(out, ",\"input_length\":%u,\"output_length\":%u", r->input_tokens,
                r->output_tokens);
  if (id != NULL) json_text(out, "request_id", id);
  if (r->priority != 0) ds_out_printf(out, ",\"priority\":%lld", -(long long)r->priority);
  if (m != NULL) {
    if (m->session != NULL) json_text(out, "session_id", m->session);
    if (m->think_ns >= 0) {
      ds_out_text(out, ",\"delay\":");
      decimal(out, m->think_ns, 6);
    }
    if (m->class_name != NULL) json_text(out, "policy_class", m->class_name);
    if (m->n_blocks > 0) ids(out, "hash_ids", m);
  }
  ds_out_text(out, "}\n");
}

static void burstgpt_begin(ds_outfile *out) {
  ds_out_text(out, "Timestamp,Session ID,Elapsed time,Model,Request tokens,Response tokens,Total "
                   "tokens,Log Type\n");
}

static void burstgpt_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                         const ds_more *m) {
  (void)index;
  (void)id;
  decimal(out, r->arrival_ns, 9);
  ds_out_text(out, ",");
  csv_text(out, m != NULL ? m->session : NULL);
  ds_out_text(out, ",");
  if (m != NULL && m->e2e_ns >= 0) decimal(out, m->e2e_ns, 9);
  ds_out_text(out, ",");
  csv_text(out, m != NULL ? m->model : NULL);
  ds_out_printf(out, ",%u,%u,%llu,", r->input_tokens, r->output_tokens,
                (unsigned long long)r->input_tokens + r->output_tokens);
  csv_text(out, m != NULL ? m->class_name : NULL);
  ds_out_text(out, "\n");
}

static void vidur_begin(ds_outfile *out) {
  ds_out_text(out, "arrived_at,num_prefill_tokens,num_decode_tokens\n");
}

static void vidur_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                      const ds_more *m) {
  (void)index;
  (void)id;
  (void)m;
  decimal(out, r->arrival_ns, 9);
  ds_out_printf(out, ",%u,%u\n", r->input_tokens, r->output_tokens);
}

/* The 27 columns in the order that BLIS reads by position, and think_time_us. */
static void tracev2_begin(ds_outfile *out) {
  ds_out_text(
      out,
      "request_id,client_id,tenant_id,slo_class,vllm_priority,session_id,round_index,prefix_group,"
      "prefix_length,streaming,input_tokens,output_tokens,text_tokens,image_tokens,audio_tokens,"
      "video_tokens,reason_ratio,model,deadline_us,server_input_tokens,arrival_time_us,send_time_"
      "us,"
      "first_chunk_time_us,last_chunk_time_us,num_chunks,status,error_message,finish_reason,"
      "think_time_us\n");
}

static void tracev2_row(ds_outfile *out, uint64_t index, const ds_request *r, const char *id,
                        const ds_more *m) {
  static const ds_more nothing = {.think_ns = -1, .ttft_ns = -1, .e2e_ns = -1, .queue_ns = -1};
  char number[24];
  if (m == NULL) m = &nothing;
  snprintf(number, sizeof number, "%llu", (unsigned long long)index);
  long long us = (long long)((r->arrival_ns + 500) / 1000);
  csv_text(out, id != NULL ? id : number);
  ds_out_text(out, ",,");
  csv_text(out, m->tenant);
  ds_out_text(out, ",");
  csv_text(out, m->class_name);
  ds_out_printf(out, ",%d,", (int)r->priority);
  csv_text(out, m->session);
  ds_out_printf(out, ",%u,", m->turn);
  csv_text(out, m->n_blocks == 0 ? m->prefix : NULL);
  ds_out_printf(out, ",%u,true,%u,%u,%u,%u,0,0,0,", m->n_blocks == 0 ? m->prefix_tokens : 0,
                r->input_tokens, r->output_tokens, r->input_tokens - r->image_tokens, r->image_tokens);
  csv_text(out, m->model);
  ds_out_printf(out, ",0,0,%lld,%lld,%lld,%lld,0,ok,,,%lld\n", us, us,
                m->ttft_ns > 0 ? us + (long long)(m->ttft_ns / 1000) : 0,
                m->e2e_ns > 0 ? us + (long long)(m->e2e_ns / 1000) : 0,
                m->think_ns > 0 ? (long long)(m->think_ns / 1000) : 0);
}

static const ds_trace_writer writers[] = {
    {"jsonl",
     BIT(DS_HAS_ID) | BIT(DS_HAS_SESSION) | BIT(DS_HAS_TURN) | BIT(DS_HAS_THINK) |
         BIT(DS_HAS_CLASS) | BIT(DS_HAS_TENANT) | BIT(DS_HAS_PRIORITY) | BIT(DS_HAS_CAP) |
         BIT(DS_HAS_BLOCKS) | BIT(DS_HAS_PREFIX) | BIT(DS_HAS_SUB_MS) | BIT(DS_HAS_SUB_US) | BIT(DS_HAS_IMAGES),
     NULL, jsonl_row},
    {"azure", BIT(DS_HAS_SUB_MS) | BIT(DS_HAS_SUB_US), azure_begin, azure_row},
    {"mooncake",
     BIT(DS_HAS_ID) | BIT(DS_HAS_SESSION) | BIT(DS_HAS_THINK) | BIT(DS_HAS_CLASS) |
         BIT(DS_HAS_PRIORITY) | BIT(DS_HAS_BLOCKS) | BIT(DS_HAS_SUB_MS) | BIT(DS_HAS_SUB_US),
     NULL, mooncake_row},
    {"burstgpt",
     BIT(DS_HAS_SESSION) | BIT(DS_HAS_MODEL) | BIT(DS_HAS_CLASS) | BIT(DS_HAS_SUB_MS) |
         BIT(DS_HAS_SUB_US),
     burstgpt_begin, burstgpt_row},
    {"vidur", BIT(DS_HAS_SUB_MS) | BIT(DS_HAS_SUB_US), vidur_begin, vidur_row},
    {"tracev2",
     BIT(DS_HAS_ID) | BIT(DS_HAS_SESSION) | BIT(DS_HAS_TURN) | BIT(DS_HAS_CLASS) |
         BIT(DS_HAS_MODEL) | BIT(DS_HAS_TENANT) | BIT(DS_HAS_PRIORITY) | BIT(DS_HAS_PREFIX) |
         BIT(DS_HAS_THINK) | BIT(DS_HAS_SUB_MS),
     tracev2_begin, tracev2_row},
};

const ds_trace_writer *ds_trace_writer_named(const char *name) {
  for (size_t i = 0; i < DS_ARRAY_LEN(writers); i++)
    if (strcmp(writers[i].name, name) == 0) return &writers[i];
  return NULL;
}

const char *ds_trace_writer_names(void) {
  return "jsonl, azure, mooncake, burstgpt, vidur or tracev2";
}
