// SPDX-License-Identifier: GPL-3.0-or-later
#include <stdio.h>
#include <string.h>

#include "cli/list.h"
#include "core/registry.h"
#include "io/trace_formats.h"

#define LEN(a) (sizeof(a) / sizeof((a)[0]))

/* --- policies ------------------------------------------------------------------------------ */

/* A parameter's value as one would write it. */
static void value_text(const ds_param *p, double v, char *out, size_t cap) {
  switch (p->type) {
  case DS_PARAM_INT:
    snprintf(out, cap, "%lld", (long long)v);
    return;
  case DS_PARAM_BOOL:
    snprintf(out, cap, "%s", v != 0 ? "true" : "false");
    return;
  case DS_PARAM_TIME:
    ds_time_format((int64_t)v, out, cap);
    return;
  case DS_PARAM_FRAC:
    ds_quantity_format(v, DS_DIM_NUMBER, out, cap);
    return;
  case DS_PARAM_CHOICE:
    snprintf(out, cap, "%s", p->choices[(size_t)v]);
    return;
  case DS_PARAM_INTS:
    snprintf(out, cap, "[]");
    return;
  }
}

static const char *const type_names[] = {"integer", "bool",    "time", "number",
                                         "choice",  "integers"}; /* in the order of ds_param_type */

/* "1 to 1048576 requests", "0 s to 1 h", "one of fcfs priority"; empty for what is true or false. */
static void range_text(const ds_param *p, char *out, size_t cap) {
  char low[64], high[64];
  size_t used = 0;
  out[0] = '\0';
  if (p->type == DS_PARAM_BOOL) return;
  if (p->type == DS_PARAM_CHOICE) {
    used = (size_t)snprintf(out, cap, "one of");
    for (const char *const *c = p->choices; *c && used < cap; ++c)
      used += (size_t)snprintf(out + used, cap - used, " %s", *c);
    return;
  }
  ds_param one = *p;
  if (p->type == DS_PARAM_INTS) one.type = DS_PARAM_INT;
  value_text(&one, p->min, low, sizeof low);
  value_text(&one, p->max, high, sizeof high);
  if (p->type == DS_PARAM_INTS)
    used = (size_t)snprintf(out, cap, "up to %d counts, each ", DS_INT_LIST_MAX);
  snprintf(out + used, cap - used, "%s to %s%s%s", low, high, p->unit ? " " : "", p->unit ? p->unit : "");
}

static void print_params(ds_outfile *out, const ds_param *params, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    const ds_param *p = &params[i];
    char preset[64], big[64], range[256];
    value_text(p, p->preset, preset, sizeof preset);
    value_text(p, p->preset_big, big, sizeof big);
    range_text(p, range, sizeof range);
    bool two = strcmp(preset, big) != 0;
    ds_out_printf(out, "  %-29s %-8s %s%s%s%s\n", p->name, type_names[p->type], preset,
                  two ? " (" : "", two ? big : "", two ? " on big parts)" : "");
    if (range[0]) ds_out_printf(out, "      %s\n", range);
    ds_out_text(out, "      ");
    ds_list_wrap(out, p->help, 6, 6);
  }
}

static json_t *params_json(const ds_param *params, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; ++i) {
    const ds_param *p = &params[i];
    json_t *o = json_object();
    char text[64];
    json_object_set_new(o, "name", json_string(p->name));
    json_object_set_new(o, "type", json_string(type_names[p->type]));
    value_text(p, p->preset, text, sizeof text);
    json_object_set_new(o, "default", json_string(text));
    value_text(p, p->preset_big, text, sizeof text);
    json_object_set_new(o, "default_on_big_parts", json_string(text));
    if (p->type != DS_PARAM_BOOL && p->type != DS_PARAM_CHOICE) {
      ds_param one = *p;
      if (p->type == DS_PARAM_INTS) one.type = DS_PARAM_INT; /* of each */
      value_text(&one, p->min, text, sizeof text);
      json_object_set_new(o, "min", json_string(text));
      value_text(&one, p->max, text, sizeof text);
      json_object_set_new(o, "max", json_string(text));
    }
    if (p->type == DS_PARAM_CHOICE) {
      json_t *choices = json_array();
      for (const char *const *c = p->choices; *c; ++c)
        json_array_append_new(choices, json_string(*c));
      json_object_set_new(o, "choices", choices);
    }
    if (p->unit) json_object_set_new(o, "unit", json_string(p->unit));
    json_object_set_new(o, "help", json_string(p->help));
    json_array_append_new(list, o);
  }
  return list;
}

static json_t *policy_json(const char *name, const char *summary, const char *reference,
                           const ds_param *params, size_t n) {
  json_t *o = json_object();
  json_object_set_new(o, "name", json_string(name));
  json_object_set_new(o, "summary", json_string(summary));
  json_object_set_new(o, "reference", json_string(reference));
  json_object_set_new(o, "options", params_json(params, n));
  return o;
}

static void print_head(ds_outfile *out, bool first, const char *name, const char *summary,
                       const char *reference) {
  char line[512];
  if (!first) ds_out_text(out, "\n");
  snprintf(line, sizeof line, "%s: %s", name, summary);
  ds_list_wrap(out, line, 0, 2);
  snprintf(line, sizeof line, "after %s", reference);
  ds_out_text(out, "  ");
  ds_list_wrap(out, line, 2, 4);
}

/* What it can do beside the usual. */
static void print_abilities(ds_outfile *out, const ds_sched_ops *s) {
  char line[256];
  snprintf(line, sizeof line, "engine card: %s%s%s%s%s%s", s->engine ? s->engine : "generic",
           s->oracle ? "; sees true output lengths" : s->knows ? "; may see true output lengths" : "", s->speculates ? "; plans drafts" : "",
           s->reserves ? "; KV is reserved at admission" : "", s->overlaps ? "; can plan ahead" : "",
           s->finds_prefixes ? "; can have a prefix cache" : "");
  ds_out_text(out, "  ");
  ds_list_wrap(out, line, 2, 4);
  for (const char *const *v = s->versions; v && *v; ++v) {
    ds_out_text(out, "  version: ");
    ds_list_wrap(out, *v, 11, 4);
  }
}

void ds_list_schedulers(ds_outfile *out, const char *only) {
  for (size_t i = 0; i < ds_n_schedulers; ++i) {
    const ds_sched_ops *s = ds_schedulers[i];
    if (only && strcmp(only, s->name) != 0) continue;
    print_head(out, only || i == 0, s->name, s->summary, s->reference);
    print_abilities(out, s);
    print_params(out, s->params, s->n_params);
  }
  ds_out_text(out, "\nOptions go under scheduler_options of a pool. Big parts have 70 GiB or more "
                   "and\nare no A100.\n");
}

json_t *ds_list_schedulers_json(void) {
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < ds_n_schedulers; ++i) {
    const ds_sched_ops *s = ds_schedulers[i];
    json_t *p = policy_json(s->name, s->summary, s->reference, s->params, s->n_params);
    json_t *versions = json_array();
    for (const char *const *v = s->versions; v && *v; ++v)
      json_array_append_new(versions, json_string(*v));
    json_object_set_new(p, "engine", json_string(s->engine ? s->engine : "generic"));
    json_object_set_new(p, "oracle", json_boolean(s->oracle));
    json_object_set_new(p, "speculates", json_boolean(s->speculates));
    json_object_set_new(p, "finds_prefixes", json_boolean(s->finds_prefixes));
    json_object_set_new(p, "reserves", json_boolean(s->reserves));
    json_object_set_new(p, "versions", versions);
    json_array_append_new(list, p);
  }
  json_object_set_new(o, "schedulers", list);
  return o;
}

void ds_list_routers(ds_outfile *out, const char *only) {
  for (size_t i = 0; i < ds_n_routers; ++i) {
    const ds_route_ops *r = ds_routers[i];
    if (only && strcmp(only, r->name) != 0) continue;
    print_head(out, only || i == 0, r->name, r->summary, r->reference);
    print_params(out, r->params, r->n_params);
  }
}

json_t *ds_list_routers_json(void) {
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < ds_n_routers; ++i) {
    const ds_route_ops *r = ds_routers[i];
    json_array_append_new(list,
                          policy_json(r->name, r->summary, r->reference, r->params, r->n_params));
  }
  json_object_set_new(o, "routers", list);
  return o;
}

/* --- formats ------------------------------------------------------------------------------- */

typedef struct entry {
  const char *name, *unit, *help;
} entry;

static void print_entry(ds_outfile *out, const char *name, const char *unit, const char *help) {
  ds_out_printf(out, "  %-22s %-5s ", name, unit);
  ds_list_wrap(out, help, 31, 31);
}

static json_t *entries_json(const entry *e, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0; i < n; ++i) {
    json_t *o = json_object();
    json_object_set_new(o, "name", json_string(e[i].name));
    json_object_set_new(o, "unit", json_string(e[i].unit));
    json_object_set_new(o, "help", json_string(e[i].help));
    json_array_append_new(list, o);
  }
  return list;
}

void ds_list_formats(ds_outfile *out, const char *only) {
  if (!only) ds_out_text(out, "Traces (workload.format; recognised by content)\n");
  for (size_t i = 0; i < ds_n_trace_readers; ++i) {
    const ds_trace_reader *f = &ds_trace_readers[i];
    if (!only || strcmp(only, f->name) == 0) print_entry(out, f->name, f->medium, f->summary);
  }
  if (!only) ds_out_text(out, "\nNumbers (weights; kv_cache takes the first four)\n");
  static const ds_format order[] = {DS_FMT_BF16,    DS_FMT_FP16, DS_FMT_FP8,   DS_FMT_INT8,
                                    DS_FMT_INT8_WO, DS_FMT_INT4, DS_FMT_MXFP4, DS_FMT_NVFP4,
                                    DS_FMT_FP8_BLOCK, DS_FMT_FP8_STATIC, DS_FMT_MXFP4_A8};
  for (size_t i = 0; i < LEN(order); ++i) {
    const char *name = ds_format_name(order[i]);
    if (only && strcmp(only, name) != 0) continue;
    ds_out_printf(out, "  %-10s %.4g bytes a weight, scales included\n", name,
                  ds_format_weight_bytes(order[i]));
  }
}

json_t *ds_list_formats_json(void) {
  json_t *o = json_object(), *numbers = json_array();
  json_t *traces = json_array();
  for (size_t i = 0; i < ds_n_trace_readers; ++i) {
    const ds_trace_reader *f = &ds_trace_readers[i];
    json_t *e = json_object();
    json_object_set_new(e, "name", json_string(f->name));
    json_object_set_new(e, "unit", json_string(f->medium));
    json_object_set_new(e, "help", json_string(f->summary));
    json_array_append_new(traces, e);
  }
  json_object_set_new(o, "traces", traces);
  for (int f = 0; f < DS_FMT_N; ++f) {
    json_t *e = json_object();
    json_object_set_new(e, "name", json_string(ds_format_name((ds_format)f)));
    json_object_set_new(e, "weight_bytes", json_real(ds_format_weight_bytes((ds_format)f)));
    json_array_append_new(numbers, e);
  }
  json_object_set_new(o, "numbers", numbers);
  return o;
}

/* --- metrics ------------------------------------------------------------------------------- */

static const entry metrics[] = {
    {"ttft", "ms", "time to first token: arrival to the first output token"},
    {"tpot", "ms", "time per output token after the first: (e2el - ttft) / (output tokens - 1)"},
    {"itl", "ms", "inter-token latency: every gap between neighbouring tokens, over all requests"},
    {"e2el", "ms", "end-to-end latency: arrival to the last token"},
    {"duration", "s", "first arrival to last finish"},
    {"completed", "", "requests that finished"},
    {"failed", "", "requests that did not"},
    {"rejected", "", "of these: larger than any replica, or turned away by the server"},
    {"total_input_tokens", "", "prompt tokens of completed requests"},
    {"total_output_tokens", "", "output tokens of completed requests"},
    {"request_throughput", "1/s", "completed / duration"},
    {"request_goodput", "1/s", "requests that met every limit of slo.request / duration"},
    {"output_throughput", "1/s", "output tokens / duration"},
    {"total_token_throughput", "1/s", "input and output tokens / duration"},
    {"blame_s", "s", "total latency by cause; the causes add up to it exactly"},
};

void ds_list_metrics(ds_outfile *out, const char *only) {
  if (!only) ds_out_text(out, "Metrics of `dryserve run --json`\n");
  for (size_t i = 0; i < LEN(metrics); ++i)
    if (!only || strcmp(only, metrics[i].name) == 0)
      print_entry(out, metrics[i].name, metrics[i].unit, metrics[i].help);
  if (only) return;
  ds_out_text(out, "\nttft, tpot, itl and e2el come as mean_, median_, std_, p50_, p90_, p95_ and\n"
                   "p99_NAME_ms. In an slo they are ttft, tpot, itl and e2e: slo.request.ttft,\n"
                   "slo.run.p99_ttft, slo.run.mean_tpot.\n");
}

json_t *ds_list_metrics_json(void) {
  json_t *o = json_object();
  json_object_set_new(o, "metrics", entries_json(metrics, LEN(metrics)));
  return o;
}
