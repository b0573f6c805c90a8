// SPDX-License-Identifier: GPL-3.0-or-later
/* Images of a workload: how many a generated request brings and how large they are; and how large those are of which a
 * trace says only how many. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define TOKENS_MAX 1000000000
#define PIXELS_MAX 65536

static const char default_size[] = "1024x1024";

static void enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "%s%s%s", r->root, section[0] ? "." : "", section);
}

static bool has_encoder(const ds_reader *r) {
  return r->s->run.model.vision.layers > 0 && !r->s->run.pool.language_model_only;
}

/* "1024x768": pixels across and down, each of 1 to PIXELS_MAX and of at most five digits. */
static bool pixels_of(const char *text, int *across, int *down) {
  size_t digits = strspn(text, "0123456789"), rest = text[digits] == 'x' ? strspn(text + digits + 1, "0123456789") : 0;
  if (digits < 1 || digits > 5 || rest < 1 || rest > 5 || text[digits + 1 + rest] != '\0') return false;
  *across = (int)strtol(text, NULL, 10);
  *down = (int)strtol(text + digits + 1, NULL, 10);
  return *across >= 1 && *down >= 1 && *across <= PIXELS_MAX && *down <= PIXELS_MAX;
}

/* As tokens of the model. */
static bool read_resolution(ds_reader *r, const ds_node *n, int64_t *tokens) {
  char text[32];
  int across = 0, down = 0;
  if (!ds_want_text(n, ds_name(r, "resolution"), text, sizeof text, r->d)) return false;
  if (!pixels_of(text, &across, &down)) {
    ds_complain(r->d, n, "%s is '%.40s'", ds_name(r, "resolution"), text);
    ds_diag_expected(r->d, "pixels across and down, such as 1024x768, each at most %d", PIXELS_MAX);
    return false;
  }
  if (!has_encoder(r)) {
    ds_complain(r->d, n, "%s: %s has no encoder that would say how many tokens a picture is", ds_name(r, "resolution"),
                r->s->run.model.name[0] ? r->s->run.model.name : "the model");
    ds_diag_expected(r->d, "a model whose card has `vision`; `dryserve list models NAME` shows it");
    return false;
  }
  *tokens = ds_vision_tokens(&r->s->run.model.vision, across, down);
  return ds_note(r, "resolution", n, "", "%s", text);
}

static bool one_of_two(ds_reader *r, const ds_node *map) {
  bool tokens = ds_node_get(map, "tokens") != NULL, resolution = ds_node_get(map, "resolution") != NULL;
  if (tokens != resolution) return true;
  ds_complain(r->d, map, "%s has %s of resolution and tokens", ds_name(r, ""), tokens ? "both" : "neither");
  ds_diag_expected(r->d, "resolution: 1024x1024, or tokens: 256 of each image");
  return false;
}

bool ds_read_generated_images(ds_reader *r, const ds_node *n, ds_workload *w) {
  static const char *const keys[] = {"share", "count", "resolution", "tokens"};
  static const char section[] = "generate.images";
  ds_image_law *m = &w->images;
  if (!n) return true;
  enter(r, section);
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0) || !one_of_two(r, n)) return false;
  if (!has_encoder(r) && r->s->run.cost_tier != DS_COST_LINEAR) {
    ds_complain_key(r->d, n, "%s: %s has no encoder of images", ds_name(r, ""), r->s->run.model.name);
    ds_diag_expected(r->d, "a model whose card has `vision`, such as qwen2.5-vl-7b or gemma-3-27b");
    return false;
  }
  const ds_node *count = ds_node_get(n, "count"), *tokens = ds_node_get(n, "tokens"),
                *resolution = ds_node_get(n, "resolution");
  m->on = true;
  m->count = (ds_length_law){.law = DS_LAW_FIXED, .value = 1};
  if (!ds_opt_number(r, n, "share", 1e-6, 1, 1, &m->share)) return false;
  if (count && !ds_read_law(r, count, "generate.images.count", false, &m->count)) return false;
  enter(r, section);
  if (tokens) return ds_read_law(r, tokens, "generate.images.tokens", false, &m->tokens);
  int64_t each = 0;
  if (!read_resolution(r, resolution, &each)) return false;
  m->tokens = (ds_length_law){.law = DS_LAW_FIXED, .value = (double)each};
  return true;
}

bool ds_read_trace_images(ds_reader *r, const ds_node *workload, ds_workload *w) {
  static const char *const keys[] = {"resolution", "tokens"};
  const ds_node *n = ds_node_get(workload, "images");
  if (has_encoder(r)) w->image_most = ds_vision_most_tokens(&r->s->run.model.vision);
  if (!n) {
    if (!has_encoder(r)) return true;
    int across = 0, down = 0;
    pixels_of(default_size, &across, &down);
    w->image_each = ds_vision_tokens(&r->s->run.model.vision, across, down);
    snprintf(w->image_assumed, sizeof w->image_assumed, "%s", default_size);
    return true;
  }
  enter(r, "");
  if (n->kind == DS_NODE_SCALAR && strcmp(n->text, "ignore") == 0) {
    w->ignore_images = true;
    return ds_note(r, "images", n, "", "ignore");
  }
  if (n->kind == DS_NODE_SCALAR) {
    ds_complain(r->d, n, "%s is '%.40s'", ds_name(r, "images"), n->text);
    ds_diag_expected(r->d, "ignore, {resolution: 1024x1024} or {tokens: 256}");
    return false;
  }
  enter(r, "images");
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0) || !one_of_two(r, n)) return false;
  if (ds_node_get(n, "tokens")) return ds_opt_integer(r, n, "tokens", 1, TOKENS_MAX, 0, &w->image_each);
  return read_resolution(r, ds_node_get(n, "resolution"), &w->image_each);
}

/* images: {count: 2, tokens: 500, at: 0} of a request that the scenario states. */
bool ds_read_request_images(ds_reader *r, const ds_node *request, ds_request *q) {
  static const char *const keys[] = {"count", "tokens", "at"};
  const ds_node *n = ds_node_get(request, "images");
  int64_t count, tokens, at;
  char prefix[sizeof r->prefix];
  if (!n) return true;
  snprintf(prefix, sizeof prefix, "%s", r->prefix);
  if (!ds_want_map(n, ds_name(r, "images"), r->d) || !ds_want_keys(n, ds_name(r, "images"), keys, LEN(keys), r->d)) return false;
  const ds_node *of[3];
  for (size_t i = 0; i < LEN(keys); i++) of[i] = ds_node_get(n, keys[i]);
  if (!of[1]) {
    ds_complain(r->d, n, "%s is missing", ds_name(r, "images.tokens"));
    ds_diag_expected(r->d, "tokens: how many the images are in all, among input_tokens");
    return false;
  }
  count = 1;
  at = 0;
  if ((of[0] && !ds_want_integer(of[0], ds_name(r, "images.count"), 1, TOKENS_MAX, &count, r->d)) ||
      !ds_want_integer(of[1], ds_name(r, "images.tokens"), count, TOKENS_MAX, &tokens, r->d) ||
      (of[2] && !ds_want_integer(of[2], ds_name(r, "images.at"), 0, TOKENS_MAX, &at, r->d)))
    return false;
  if (at + tokens > q->input_tokens) {
    ds_complain(r->d, of[1], "%s is %lld from token %lld on, beyond the %u of the input", ds_name(r, "images.tokens"),
                (long long)tokens, (long long)at, q->input_tokens);
    ds_diag_expected(r->d, "tokens of images among the request's input_tokens");
    return false;
  }
  q->images = (uint32_t)count;
  q->image_tokens = (uint32_t)tokens;
  q->image_at = (uint32_t)at;
  return true;
}
