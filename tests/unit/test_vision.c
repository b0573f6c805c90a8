// SPDX-License-Identifier: GPL-3.0-or-later
/* The encoder of images: how many tokens a picture becomes, its arithmetic and bytes by hand, its seconds against a slow
 * calculation of its own, and the memory that it takes. */
#include "cards.h"

#include <math.h>

#include "cost/memory.h"
#include "cost/encode.h"

static ds_model model_of(const char *name) {
  ds_model m;
  card_read(DS_CARD_MODEL, name, &m);
  return m;
}

/* Weights of each part, summed over tensors by hand from the checkpoints' shapes. */
Test(vision, weights_are_those_of_the_checkpoints) {
  const struct {
    const char *model;
    double weights;
  } cases[] = {{"qwen2.5-vl-7b", 676550144},  /* 8,292,166,656 less the 7,615,616,512 of Qwen2.5 7B */
               {"qwen2.5-vl-72b", 704573696}, /* 73,410,777,344 less 72,706,203,648 */
               {"qwen3-vl-8b", 576388336},    /* 8,767,123,696 less 8,190,735,360 */
               {"mistral-small-3.1-24b", 438958080}, /* 24,011,361,280 less 23,572,403,200 */
               {"internvl3-8b", 331552768},
               {"llama-4-scout", 871932416},
               {"gemma-3-27b", 423060336}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_model m = model_of(cases[i].model);
    cr_assert_float_eq(ds_vision_params(&m.vision), cases[i].weights, 0.5, "%s: %.0f", cases[i].model,
                       ds_vision_params(&m.vision));
    cr_assert_float_eq(ds_model_params(&m) - ds_model_encoder_params(&m), ds_model_params(&m) - cases[i].weights, 0.5);
  }
}

Test(vision, tokens_of_a_picture) {
  const struct {
    const char *model;
    int64_t width, height, tokens;
  } cases[] = {{"qwen2.5-vl-7b", 1024, 1024, 37 * 37}, /* each side to the nearest multiple of 28 */
               {"qwen2.5-vl-7b", 1288, 952, 46 * 34},
               {"qwen2.5-vl-7b", 28, 28, 4},           /* at least 3,136 pixels */
               {"qwen2.5-vl-7b", 20000, 10000, 90 * 181}, /* at most 12,845,056 */
               {"qwen3-vl-8b", 1024, 1024, 32 * 32},
               {"gemma-3-27b", 4000, 300, 256},
               {"llama-4-scout", 336, 336, 144},
               {"internvl3-8b", 448, 448, 256},
               {"internvl3-8b", 896, 448, 3 * 256},    /* two tiles and the whole */
               {"internvl3-8b", 1024, 1024, 10 * 256}, /* three by three */
               {"mistral-small-3.1-24b", 1540, 1540, 55 * 55},
               {"mistral-small-3.1-24b", 3080, 1540, 55 * 28},
               {"mistral-small-3.1-24b", 100, 29, 4 * 2}};
  for (size_t i = 0; i < DS_ARRAY_LEN(cases); i++) {
    ds_model m = model_of(cases[i].model);
    int64_t tokens = ds_vision_tokens(&m.vision, cases[i].width, cases[i].height);
    cr_assert_eq(tokens, cases[i].tokens, "%s %lldx%lld: %lld", cases[i].model, (long long)cases[i].width,
                 (long long)cases[i].height, (long long)tokens);
    cr_assert_leq(tokens, ds_vision_most_tokens(&m.vision));
  }
  ds_model qwen = model_of("qwen2.5-vl-7b"), intern = model_of("internvl3-8b"), pixtral = model_of("mistral-small-3.1-24b");
  cr_assert_eq(ds_vision_most_tokens(&qwen.vision), 16384);
  cr_assert_eq(ds_vision_most_tokens(&intern.vision), 13 * 256);
  cr_assert_eq(ds_vision_most_tokens(&pixtral.vision), 55 * 55);
}

/* SigLIP so400m of Gemma 3 on one picture of 64 x 64 patches. */
Test(vision, arithmetic_and_bytes_of_siglip_by_hand) {
  ds_run run = run_of("gemma-3-4b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
  ds_pricer *p = pricer_of(&run, 8192, 256);
  ds_images_shape one = {0};
  ds_images_add(&one, &run.model.vision, 256);
  cr_assert_eq(one.images, 1);
  cr_assert_eq(one.patches, 4096);
  cr_assert_eq(one.pairs, 4096.0 * 4096);
  cr_assert_eq(one.tiles, 32);
  double flops = 0, bytes = 0;
  ds_price_images_work(p, &one, 1, &flops, &bytes);
  double products = 4.0 * 1152 * 1152 + 2.0 * 1152 * 4304; /* weights of a layer */
  double expected = 2 * 4096 * (588.0 * 1152 + 27 * products) + 2 * 256 * 1152.0 * 2560 + 27 * 4.0 * 1152 * 4096 * 4096;
  cr_assert_float_eq(flops, expected, 1);
  cr_assert(flops > 5.4e12 && flops < 5.6e12, "%g", flops); /* 0.41 G weights x 2 x 4,096 and 2.1 T of attention */
  double weights = 588.0 * 1152 + 27 * products + 1152.0 * 2560;
  double moved = 4096 * (588.0 + 1152 + 27 * (1152 + 3 * 1152 + 1152 + 1152 + 1152 + 4304 + 4304 + 1152)) + 256 * (1152.0 + 2560);
  cr_assert_float_eq(bytes, 2 * weights + 2 * moved, 1);
  /* Twice the pictures in one run: twice the arithmetic, and the weights still once. */
  double both = 0, both_bytes = 0;
  ds_images_add(&one, &run.model.vision, 256);
  ds_price_images_work(p, &one, 1, &both, &both_bytes);
  cr_assert_float_eq(both, 2 * flops, 1);
  cr_assert_float_eq(both_bytes, 2 * bytes - 2 * weights, 1);
  ds_pricer_free(p);
}

/* ---- seconds, the slow way: layer by layer, window by window, from the card's figures ---- */

static double gemm(const ds_hw *hw, double m, double n, double k) {
  const ds_eff_gemm *e = &hw->gemm[DS_GEMM_BF16];
  double waves = ceil(m / 128) * ceil(n / 128) / hw->units;
  double compute = 2 * 64 * ceil(m / 64) * n * (k + e->kh) / (hw->peak_flops_per_s[DS_MATH_16] * e->ec * hw->sustained_clock) *
                   (1 + e->wh / waves);
  double memory = (2 * n * k + 2 * m * k + 2 * m * n) / (hw->memory_bytes_per_s * e->em);
  return e->t0_s + pow(pow(compute, e->p) + pow(memory, e->p), 1 / e->p);
}

static double attention(const ds_hw *hw, double heads, double head, double wide, double patches, double pairs, double tiles) {
  const ds_eff_prefill *e = &hw->prefill_16;
  double bytes = patches * (4 * heads * head + 4 * heads * head) + 4 * patches * heads * head * 2;
  return e->t0_s + 4 * heads * wide * pairs / (hw->peak_flops_per_s[DS_MATH_16] * e->ec) + bytes / (hw->memory_bytes_per_s * e->em) +
         e->ct_s * tiles * heads / hw->units;
}

static double elementwise(const ds_run *run, double bytes) {
  return run->pool.engine.small_kernel_s + bytes / (run->pool.hw.memory_bytes_per_s * run->pool.hw.elementwise_em);
}

/* Qwen2.5-VL: pictures of 896 x 896, 64 x 64 patches, whose windows of 8 x 8 leave no rest. */
static double qwen_seconds(const ds_run *run, int pictures) {
  const ds_hw *hw = &run->pool.hw;
  double m = 4096.0 * pictures, t = 1024.0 * pictures, s = gemm(hw, m, 1280, 3 * 14 * 14 * 2);
  for (int layer = 0; layer < 32; layer++) {
    bool whole = layer % 8 == 7;
    double pairs = 0, tiles = 0;
    for (int i = 0; i < pictures; i++) {
      for (int w = 0; w < (whole ? 1 : 64); w++) pairs += whole ? 4096.0 * 4096 : 64.0 * 64;
      tiles += 4096 / 128;
    }
    s += gemm(hw, m, 3 * 1280, 1280) + attention(hw, 16, 80, 96, m, pairs, tiles) + gemm(hw, m, 1280, 1280);
    s += gemm(hw, m, 2 * 3420, 1280) + gemm(hw, m, 1280, 3420);
    s += 2 * elementwise(run, m * 1280 * 6) + elementwise(run, m * 1280 * 8) + elementwise(run, m * 3 * 3420 * 2);
  }
  return s + gemm(hw, t, 5120, 5120) + gemm(hw, t, 3584, 5120);
}

Test(vision, seconds_are_those_of_a_slow_calculation) {
  const char *const parts[] = {"h100-sxm", "a100-80-sxm", "b200-sxm"};
  for (size_t i = 0; i < DS_ARRAY_LEN(parts); i++) {
    ds_run run = run_of("qwen2.5-vl-7b", parts[i], "generic", DS_FMT_BF16, DS_FMT_BF16, 1);
    run.pool.engine.launch_s = 0;
    ds_pricer *p = pricer_of(&run, 8192, 256);
    for (int pictures = 1; pictures <= 5; pictures += 2) {
      ds_images_shape x = {0};
      for (int k = 0; k < pictures; k++) ds_images_add(&x, &run.model.vision, 1024);
      double expected = qwen_seconds(&run, pictures), s = ds_price_images_s(p, &x, NULL);
      cr_assert_float_eq(s / expected, 1, 1e-9, "%s, %d: %.9g, not %.9g", parts[i], pictures, s, expected);
    }
    ds_pricer_free(p);
  }
}

/* Operators add up, launches are a floor, ranks share the work and pay for it, and nothing beats the speed of light. */
Test(vision, seconds_behave) {
  ds_run run = run_of("qwen2.5-vl-72b", "h100-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 4);
  ds_images_shape x = {0};
  ds_images_add(&x, &run.model.vision, 1369);
  ds_encoder_ops ops;
  ds_pricer *p = pricer_of(&run, 8192, 256);
  double four = ds_price_images_s(p, &x, &ops);
  cr_assert_float_eq(ops.gemm + ops.attention + ops.elementwise + ops.reduce + ops.projector + ops.launch, four, 1e-15);
  cr_assert(ops.gemm > 0 && ops.attention > 0 && ops.elementwise > 0 && ops.reduce > 0 && ops.projector > 0);
  ds_pricer_free(p);
  run.pool.engine.launch_s = 5e-6;
  run.pool.engine.kernels_per_layer = 1000;
  p = pricer_of(&run, 8192, 256);
  cr_assert_float_eq(ds_price_images_s(p, &x, &ops), 5e-6 * 1000 * 32, 1e-12);
  ds_pricer_free(p);
  run.pool.engine.launch_s = 0;
  run.pool.tensor_parallel = 8;
  p = pricer_of(&run, 8192, 256);
  cr_assert_lt(ds_price_images_s(p, &x, &ops), four);
  ds_pricer_free(p);
  run.cost_tier = DS_COST_SPEED_OF_LIGHT;
  p = pricer_of(&run, 8192, 256);
  double light = ds_price_images_s(p, &x, &ops), flops = 0, bytes = 0;
  cr_assert_eq(ops.reduce, 0);
  cr_assert_lt(light, four);
  ds_price_images_work(p, &x, 1, &flops, &bytes);
  cr_assert_geq(light * run.pool.hw.peak_flops_per_s[DS_MATH_16], flops * 0.999999);
  ds_pricer_free(p);
  /* A model without an encoder has no price for images, and a drafter never has an encoder. */
  ds_run text = run_of("llama-3.1-8b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1), drafter;
  p = pricer_of(&text, 8192, 256);
  cr_assert_eq(ds_price_images_s(p, &x, NULL), 0);
  ds_pricer_free(p);
  run.pool.speculative.method = DS_DRAFT_EAGLE;
  cr_assert(ds_drafter_run(&run, &drafter));
  cr_assert_eq(drafter.model.vision.layers, 0);
}

/* By hand: Gemma 3 4B on one H100: weights in 16 bit whatever the language model's are, room for the embeddings of as many
 * tokens as an iteration takes, and the widest values of a layer at as many patches. */
Test(vision, memory_by_hand) {
  ds_run run = run_of("gemma-3-4b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 1), text = run;
  text.pool.language_model_only = true;
  ds_memory with, without;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&run, &with, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_memory_footprint(&text, &without, &err), DS_OK, "%s", err.text);
  double weights = ds_vision_params(&run.model.vision);
  cr_assert_float_eq(with.weight_bytes - without.weight_bytes, 2 * weights, 1);
  double cache = 2048 * 2560.0 * 2, widest = 2048 * 16 * (3 * 1152 + 1152.0) * 4;
  cr_assert_eq(ds_encoder_budget(&run), 2048);
  cr_assert_float_eq(with.activation_bytes, cache + widest, 1, "%g, not %g", with.activation_bytes, cache + widest);
  cr_assert_lt(without.activation_bytes, widest);
  run.weights = text.weights = DS_FMT_FP8;
  ds_memory narrow, narrow_text;
  cr_assert_eq(ds_memory_footprint(&run, &narrow, &err), DS_OK);
  cr_assert_eq(ds_memory_footprint(&text, &narrow_text, &err), DS_OK);
  cr_assert_float_eq(narrow.weight_bytes - narrow_text.weight_bytes, 2 * weights, 1);
  /* The largest picture of Qwen2.5-VL is 16,384 tokens: more than a batch. Two ranks share the weights. */
  ds_run qwen = run_of("qwen2.5-vl-7b", "h100-sxm", "generic", DS_FMT_BF16, DS_FMT_BF16, 2), only = qwen;
  only.pool.language_model_only = true;
  cr_assert_eq(ds_encoder_budget(&qwen), 16384);
  cr_assert_eq(ds_memory_footprint(&qwen, &with, &err), DS_OK);
  cr_assert_eq(ds_memory_footprint(&only, &without, &err), DS_OK);
  cr_assert_float_eq(with.weight_bytes - without.weight_bytes, 676550144.0, 1); /* half the weights, two bytes each */
  cr_assert_float_eq(with.activation_bytes, 16384 * 3584.0 * 2 + 65536.0 * (2 * 3420 / 2) * 4, 1);
}

/* What a card says wrongly about its encoder is refused at its place. */
Test(vision, a_wrong_card_is_refused) {
  static const char head[] =
      "model: 1\nname: tiny\nsources: {A: nobody has such a model}\ndimensions: {layers: 2, hidden: 64, heads: 4, kv_heads: 2, "
      "head_dim: 16, ffn: 128, mlp_matrices: 3, vocab: 100}\nweights: bf16\nvision: {";
  static const char good[] = "layers: 2, hidden: 32, heads: 2, head_dim: 16, ffn: 64, mlp_matrices: 2, patch: 14, merge: 2, "
                             "image_size: 56, projector: [128, 64]";
  const struct {
    const char *change, *to, *why;
  } cases[] = {{"patch: 14", "patch: 0", "vision.patch is 0"},
               {"patch: 14", "patch: -14", "vision.patch is -14"},
               {"patch: 14", "pathc: 14", "pathc"},
               {"patch: 14, ", "", "vision.patch is missing"},
               {"[128, 64]", "[128, 63]", "vision.projector ends with 63"},
               {"[128, 64]", "[128]", "vision.projector is a list of 1"},
               {"[128, 64]", "64", "vision.projector"},
               {"[128, 64]", "[128, x]", "vision.projector.1: 'x' is not a number"},
               {"image_size: 56", "image_size: 20", "vision.image_size is 20"},
               {"image_size: 56, ", "", "vision.max_pixels is missing"},
               {"image_size: 56", "max_pixels: 700", "vision.max_pixels is 700"},
               {"image_size: 56", "max_pixels: 7000, min_pixels: 8000", "vision.min_pixels is 8000"},
               {"mlp_matrices: 2", "mlp_matrices: 4", "vision.mlp_matrices is 4"},
               {"layers: 2", "layers: 2, full_layers: 3", "vision.full_layers is 3"}};
  for (size_t i = 0; i <= DS_ARRAY_LEN(cases); i++) {
    char text[1000];
    if (i == DS_ARRAY_LEN(cases)) {
      snprintf(text, sizeof text, "%s%s}\n", head, good);
    } else {
      const char *at = strstr(good, cases[i].change);
      cr_assert_not_null(at);
      snprintf(text, sizeof text, "%s%.*s%s%s}\n", head, (int)(at - good), good, cases[i].to, at + strlen(cases[i].change));
    }
    ds_doc doc;
    ds_diag d = {0};
    ds_model m;
    cr_assert(ds_doc_parse(text, strlen(text), "tiny.yaml", &doc, &d), "%zu: %s", i, d.text);
    bool ok = ds_card_model(&doc, &m, &d);
    ds_doc_free(&doc);
    if (i == DS_ARRAY_LEN(cases)) {
      cr_assert(ok, "%s", d.text);
      break;
    }
    cr_assert_not(ok, "%s is accepted", cases[i].to);
    cr_assert(strstr(d.text, cases[i].why) != NULL && d.line == 6, "%zu: %s (line %lld)", i, d.text, (long long)d.line);
    cr_assert(d.expected[0] != '\0');
    if (strcmp(cases[i].to, "pathc: 14") == 0) cr_assert(strstr(d.hint, "patch") != NULL, "%s", d.hint);
  }
}

/* Cross-attention to images is not priced, and said so. */
Test(vision, llama_3_2_vision_is_refused_by_name) {
  static const char text[] = "{\"architectures\": [\"MllamaForConditionalGeneration\"], \"model_type\": \"mllama\"}";
  ds_doc doc;
  ds_diag d = {0};
  ds_model m;
  cr_assert(ds_doc_parse(text, strlen(text), "m/config.json", &doc, &d));
  cr_assert_not(ds_config_json_model(&doc, &m, &d));
  cr_assert(strstr(d.text, "cross-attention") != NULL, "%s", d.text);
  ds_doc_free(&doc);
}

/* Four ranks with the whole encoder each: four images take one device's time for one, and the gathering of them all. */
Test(vision, images_shared_out_among_ranks) {
  ds_run one = run_of("qwen2.5-vl-72b", "h100-sxm", "generic", DS_FMT_FP8, DS_FMT_BF16, 1), four = one;
  one.pool.hw.memory_bytes *= 8;
  four.pool.tensor_parallel = 4;
  four.pool.encoder_by_image = true;
  ds_images_shape x = {0}, all = {0}, five = {0};
  ds_images_add(&x, &one.model.vision, 1024);
  for (int i = 0; i < 4; i++) ds_images_add(&all, &one.model.vision, 1024);
  for (int i = 0; i < 5; i++) ds_images_add(&five, &one.model.vision, 1024);
  ds_pricer *p = pricer_of(&one, 8192, 256), *q = pricer_of(&four, 8192, 256);
  ds_encoder_ops ops;
  double alone = ds_price_images_s(p, &x, NULL), shared = ds_price_images_s(q, &all, &ops), more;
  cr_assert_gt(ops.reduce, 0);
  cr_assert_float_eq(shared - ops.reduce, alone, 1e-12);
  const ds_hw *hw = &four.pool.hw;
  double bytes = 4 * 1024 * 8192.0 * 2, all_reduce = ops.reduce * 2;
  double two_shot = hw->allreduce.a2_s + 3 * hw->allreduce.b_s + 2 * 3.0 / 4 * bytes / (hw->scale_up_bytes_per_s * hw->allreduce.e2);
  cr_assert_leq(all_reduce, two_shot * 1.000001); /* or in the switch, where the card has that */
  more = ds_price_images_s(q, &five, &ops);       /* one rank has two */
  cr_assert_gt(more - ops.reduce, 1.5 * alone);
  double flops_one = 0, flops_four = 0, bytes_one = 0, bytes_four = 0;
  ds_price_images_work(p, &x, 1, &flops_one, &bytes_one);
  ds_price_images_work(q, &all, 1, &flops_four, &bytes_four);
  cr_assert_float_eq(flops_four / flops_one, 1, 1e-12);
  cr_assert_float_eq(bytes_four / bytes_one, 1, 1e-12);
  ds_pricer_free(p);
  ds_pricer_free(q);
  ds_run split = four;
  split.pool.encoder_by_image = false;
  ds_memory whole, parts;
  ds_error err = {0};
  cr_assert_eq(ds_memory_footprint(&four, &whole, &err), DS_OK, "%s", err.text);
  cr_assert_eq(ds_memory_footprint(&split, &parts, &err), DS_OK, "%s", err.text);
  cr_assert_float_eq(whole.weight_bytes - parts.weight_bytes, 704573696.0 * 2 * 3 / 4, 1);
}
