// SPDX-License-Identifier: Apache-2.0
/* Images of prompts, and when they are encoded.
 *
 * The images of a prompt lie one behind the other, as equal as whole tokens allow. An image is encoded in the iteration
 * that computes the first of its tokens, whole (its patches see each other both ways), and before the prompt's tokens;
 * what it became is held until all its tokens have KV, so a later chunk does not encode it again. What the prefix cache
 * holds whole is not encoded; of an image that it holds in part all is. A request that is preempted, and so loses its
 * KV, loses its images too and encodes again what it has to compute again: vLLM may still find them in its cache, where
 * nobody needed the room, and finds one that another request has brought by its hash; neither is modelled. */
#include "engine/replica.h"

ds_status ds_encoder_take(ds_sim *s, const ds_request *a, uint32_t *images) {
  *images = 0;
  if (DS_LIKELY(a->images == 0)) return DS_OK;
  uint32_t at = s->free_image;
  if (at == 0) {
    if (s->n_image >= UINT32_MAX - 1) return DS_E_NOMEM;
    DS_TRY(ds_alloc_grow(&s->alloc, (void **)&s->image, &s->cap_image, s->n_image + 1, sizeof *s->image));
    at = (uint32_t)++s->n_image;
  } else {
    s->free_image = s->image[at - 1].at;
  }
  s->image[at - 1] = (ds_image_view){.count = a->images, .at = a->image_at, .tokens = a->image_tokens};
  *images = at;
  return DS_OK;
}

int64_t ds_encoder_api_ns(const ds_sim *s, uint32_t slot) {
  uint32_t images = s->view[slot].images;
  return images > 0 ? ds_ns_of_s(s->api_image_token_s * (double)s->image[images - 1].tokens) : 0;
}

/* What it has encoded and not used up makes room; it begins anew. */
void ds_encoder_forget(ds_sim *s, ds_replica *r, uint32_t slot) {
  ds_image_view *m = &s->image[s->view[slot].images - 1];
  if (m->encoded > m->done) r->v.encoder_room += ds_image_start(m, m->encoded) - ds_image_start(m, m->done);
  m->encoded = m->done = m->now_tokens = 0;
}

void ds_encoder_free(ds_sim *s, ds_replica *r, uint32_t slot) {
  uint32_t at = s->view[slot].images;
  ds_encoder_forget(s, r, slot);
  s->image[at - 1].at = s->free_image;
  s->free_image = at;
  s->view[slot].images = 0;
}

void ds_encoder_grant(ds_sim *s, ds_replica *r, uint32_t slot, uint32_t tokens) {
  const ds_req_view *v = &s->view[slot];
  ds_image_view *m = &s->image[v->images - 1];
  uint64_t from = v->computed, to = from + tokens;
  m->now_tokens = 0;
  for (; m->encoded < m->count && ds_image_start(m, m->encoded) < to; m->encoded++) {
    uint64_t start = ds_image_start(m, m->encoded), end = ds_image_start(m, m->encoded + 1);
    if (end <= from) { /* found in the prefix cache */
      m->done = m->encoded + 1;
      continue;
    }
    ds_images_add(&r->encoding, &s->run.model.vision, (double)(end - start));
    r->v.encoder_room -= (int64_t)(end - start);
    m->now_tokens += (uint32_t)(end - start);
  }
}

/* Images all of whose tokens have KV are held no longer. */
void ds_encoder_computed(ds_sim *s, ds_replica *r, uint32_t slot) {
  const ds_req_view *v = &s->view[slot];
  ds_image_view *m = &s->image[v->images - 1];
  for (; m->done < m->encoded && ds_image_start(m, m->done + 1) <= v->computed; m->done++)
    r->v.encoder_room += ds_image_start(m, m->done + 1) - ds_image_start(m, m->done);
}

/* One run of the encoder over all that the iteration needs, ahead of the language model. */
void ds_encoder_price(ds_sim *s, ds_replica *r) {
  ds_current *c = &r->cur;
  c->encode_ns = ds_ns_of_s(ds_price_images_s(s->pricer, &r->encoding, NULL));
  c->encode_tokens = (int64_t)r->encoding.tokens;
  c->dt_ns += c->encode_ns;
  ds_images_shape *all = &r->encoded;
  all->images += r->encoding.images;
  all->tokens += r->encoding.tokens;
  all->patches += r->encoding.patches;
  all->pairs += r->encoding.pairs;
  all->window_pairs += r->encoding.window_pairs;
  all->tiles += r->encoding.tiles;
  r->totals.encoder_runs++;
  r->totals.encoder_ns += c->encode_ns;
  r->encoding = (ds_images_shape){0};
}

ds_status ds_encoder_check(const ds_sim *s, const ds_request *r, uint64_t index, ds_error *err) {
  const ds_run *run = &s->run;
  bool linear = run->cost_tier == DS_COST_LINEAR, flow = run->pool.hw.dataflow.layer_s > 0;
  const char *why = !linear && run->model.vision.layers <= 0 ? " has no encoder of images (its card has no `vision`)"
                    : run->pool.language_model_only          ? " is loaded without its encoder (language_model_only)"
                    : flow ? " runs on parts with on-chip memory only, for which encoding is not modelled" : NULL;
  if (why != NULL) {
    ds_error_begin(err, DS_E_INPUT, "it brings images (");
    ds_error_int(err, r->images);
    ds_error_text(err, "), and ");
    ds_error_text(err, run->model.name[0] != '\0' ? run->model.name : "the model");
    ds_error_text(err, why);
    if (err != NULL) err->request = (int64_t)index;
    return DS_E_INPUT;
  }
  if (r->image_tokens < r->images) {
    return ds_refuse(err, index, "its images have fewer tokens, ", r->image_tokens, ", than it brings images, ", r->images);
  }
  if ((uint64_t)r->image_at + r->image_tokens > r->input_tokens) {
    return ds_refuse(err, index, "its images are ", r->image_tokens, " tokens, more than its input has for them, ",
                  r->input_tokens > r->image_at ? (int64_t)r->input_tokens - r->image_at : 0);
  }
  int64_t largest = ds_div_up(r->image_tokens, r->images);
  if (largest > s->encoder_budget) {
    return ds_refuse(err, index, "an image of ", largest, " tokens exceeds what the encoder takes at once, ", s->encoder_budget);
  }
  return DS_OK;
}
