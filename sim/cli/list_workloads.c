// SPDX-License-Identifier: GPL-3.0-or-later
/* dryserve list presets, protocols: workloads with a name. */
#include <jansson.h>
#include <string.h>

#include "cli/list.h"
#include "io/presets.h"
#include "io/protocols.h"

void ds_list_presets(ds_outfile *out, const char *only) {
  if (!only) ds_out_text(out,
              "Workloads with a name: workload: {generate: {preset: NAME}}. requests, duration,\n"
              "arrivals (or only another rate: arrivals: {rate: 3 /s}) and lengths beside it\n"
              "take its place. `dryserve run --explain-config` shows what it is made of.\n");
  for (size_t i = 0; i < ds_n_presets; ++i) {
    const ds_preset *p = &ds_presets[i];
    if (only && strcmp(only, p->name) != 0) continue;
    ds_out_printf(out, "%s%s\n  ", only ? "" : "\n", p->name);
    ds_list_wrap(out, p->summary, 2, 2);
    ds_out_text(out, "  from: ");
    ds_list_wrap(out, p->source, 8, 8);
    ds_out_text(out, "  fit:  ");
    ds_list_wrap(out, p->closeness, 8, 8);
  }
}

void ds_list_protocols(ds_outfile *out, const char *only) {
  if (!only) ds_out_text(out,
              "Benchmark tools: workload: {protocol: {tool: NAME, ...}}; defaults in brackets.\n");
  for (size_t i = 0; i < ds_n_protocols; ++i) {
    const ds_protocol *p = &ds_protocols[i];
    if (only && strcmp(only, p->name) != 0) continue;
    ds_out_printf(out, "%s%s\n  ", only ? "" : "\n", p->name);
    ds_list_wrap(out, p->rules, 2, 2);
    ds_out_text(out, "  keys: ");
    ds_list_wrap(out, p->keys, 8, 8);
    ds_out_text(out, "  from: ");
    ds_list_wrap(out, p->source, 8, 8);
  }
}

json_t *ds_list_protocols_json(void) {
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < ds_n_protocols; ++i) {
    const ds_protocol *p = &ds_protocols[i];
    json_t *e = json_object();
    json_object_set_new(e, "name", json_string(p->name));
    json_object_set_new(e, "rules", json_string(p->rules));
    json_object_set_new(e, "keys", json_string(p->keys));
    json_object_set_new(e, "source", json_string(p->source));
    json_array_append_new(list, e);
  }
  json_object_set_new(o, "protocols", list);
  return o;
}

json_t *ds_list_presets_json(void) {
  json_t *o = json_object(), *list = json_array();
  for (size_t i = 0; i < ds_n_presets; ++i) {
    const ds_preset *p = &ds_presets[i];
    json_t *e = json_object();
    json_object_set_new(e, "name", json_string(p->name));
    json_object_set_new(e, "summary", json_string(p->summary));
    json_object_set_new(e, "source", json_string(p->source));
    json_object_set_new(e, "fit", json_string(p->closeness));
    json_array_append_new(list, e);
  }
  json_object_set_new(o, "presets", list);
  return o;
}
