// SPDX-License-Identifier: GPL-3.0-or-later
/* What a card of each kind may say: the one table behind reading, overriding, listing and the
 * cards' own test. */
#include <math.h>

#include "io/card.h"

const char *const ds_format_names[DS_FMT_N] = {"bf16",    "fp16", "fp8",   "int8",
                                               "int8-wo", "int4", "mxfp4", "nvfp4",
                                               "fp8-block", "fp8-static", "mxfp4-a8"};

#define INTEGER(path, member, least, need, help)                                                   \
  {                                                                                                \
    path, DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_model, member), least, 2147483647, need,    \
        help                                                                                       \
  }
#define FLAG(path, member, help)                                                                   \
  { path, DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_model, member), 0, 0, false, help }

static const ds_card_field model_fields[] = {
    INTEGER("dimensions.layers", layers, 1, true, "transformer layers"),
    INTEGER("dimensions.hidden", hidden, 1, true, "width of the residual stream"),
    INTEGER("dimensions.heads", heads, 1, true, "query heads"),
    INTEGER("dimensions.kv_heads", kv_heads, 1, true, "key/value heads"),
    INTEGER("dimensions.head_dim", head_dim, 1, true, "width of a head"),
    INTEGER("dimensions.ffn", ffn, 1, false, "inner width of the feed-forward layer, where layers have one"),
    INTEGER("dimensions.mlp_matrices", mlp_matrices, 2, true, "3 gated (SwiGLU), 2 plain"),
    INTEGER("dimensions.vocab", vocab, 1, true, "tokens in the vocabulary"),
    INTEGER("dimensions.max_positions", max_positions, 1, false,
            "longest context that the model was made for"),
    FLAG("dimensions.tied_embeddings", tied_embeddings, "output layer shares the input embedding"),
    FLAG("dimensions.qkv_bias", qkv_bias, "query, key and value projections have biases"),
    FLAG("dimensions.qk_norm", qk_norm, "queries and keys are normalised"),
    FLAG("dimensions.qk_norm_whole", qk_norm_whole, "over all heads at once and not head by head: ranks must agree on each token's"),
    FLAG("dimensions.linear_bias", linear_bias, "all projections have biases"),
    FLAG("dimensions.norm_bias", norm_bias, "norms have a gain and a bias (LayerNorm)"),
    FLAG("dimensions.parallel_block", parallel_block,
         "attention and feed-forward run side by side on one input"),
    FLAG("dimensions.attention_sinks", attention_sinks, "a learned value per head (sinks)"),
    FLAG("dimensions.router_bias", router_bias, "the router has a bias per expert"),
    INTEGER("dimensions.learned_positions", learned_positions, 1, false,
            "rows of a table of learned positions"),
    INTEGER("dimensions.norms_per_layer", norms_per_layer, 1, false, "norms of a layer, if not 2"),
    INTEGER("dimensions.experts", experts, 2, false, "experts of a layer"),
    INTEGER("dimensions.top_k", top_k, 1, false, "experts that a token goes to"),
    INTEGER("dimensions.expert_ffn", expert_ffn, 1, false, "inner width of an expert"),
    INTEGER("dimensions.shared_experts", shared_experts, 1, false, "experts that every token takes"),
    INTEGER("dimensions.shared_ffn", shared_ffn, 1, false, "inner width of a shared expert"),
    INTEGER("dimensions.dense_layers", dense_layers, 0, false, "leading layers without experts"),
    INTEGER("dimensions.moe_every", moe_every, 1, false, "every so-manieth layer has experts"),
    INTEGER("dimensions.q_lora", q_lora, 1, false, "latent attention: width of compressed queries"),
    INTEGER("dimensions.kv_lora", kv_lora, 1, false, "latent attention: width of the cached vector"),
    INTEGER("dimensions.qk_nope", qk_nope, 1, false, "latent attention: head width without rotary"),
    INTEGER("dimensions.qk_rope", qk_rope, 1, false, "latent attention: rotary width, cached too"),
    INTEGER("dimensions.v_head_dim", v_head_dim, 1, false, "latent attention: width of a value head"),
    INTEGER("dimensions.window", window, 1, false, "tokens that windowed layers see"),
    INTEGER("dimensions.full_layers", full_layers, 0, false,
            "layers that see everything, where others have a window"),
    FLAG("dimensions.chunked", chunked, "windows start anew at every multiple, and do not slide"),
    INTEGER("dimensions.index_top_k", index_top_k, 1, false,
            "sparse attention: cached tokens that a query reads"),
    INTEGER("dimensions.index_heads", index_heads, 1, false, "sparse attention: heads of the indexer"),
    INTEGER("dimensions.index_head_dim", index_head_dim, 1, false,
            "sparse attention: width of the indexer's heads"),
    INTEGER("dimensions.state_layers", state_layers, 1, false,
            "layers of linear attention or state space, with no cache"),
    INTEGER("dimensions.state_params", state_params, 1, false, "weights of such a layer's mixer"),
    INTEGER("dimensions.state_bytes", state_bytes, 1, false,
            "bytes that a sequence keeps in such a layer"),
    {"dimensions.encoder_params", DS_FIELD_INTEGER, DS_DIM_NUMBER,
     offsetof(ds_model, encoder_params), 1, 1e15, false, "weights of an encoder of which nothing else is known"},
    {"dimensions.extra_params", DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_model, extra_params), 1,
     1e15, false, "further weights that are no layer's"},
    INTEGER("vision.layers", vision.layers, 1, false, "encoder of images: its layers"),
    INTEGER("vision.hidden", vision.hidden, 1, false, "width of the encoder"),
    INTEGER("vision.heads", vision.heads, 1, false, "its attention heads"),
    INTEGER("vision.head_dim", vision.head_dim, 1, false, "width of one"),
    INTEGER("vision.ffn", vision.ffn, 1, false, "inner width of its feed-forward layers"),
    INTEGER("vision.mlp_matrices", vision.mlp_matrices, 2, false, "3 gated, 2 plain"),
    FLAG("vision.bias", vision.bias, "its projections have biases"),
    FLAG("vision.norm_bias", vision.norm_bias, "its norms have a gain and a bias (LayerNorm)"),
    INTEGER("vision.patch", vision.patch, 1, false, "side of a patch, pixels"),
    INTEGER("vision.frames", vision.frames, 1, false, "frames that a patch covers, if not 1"),
    INTEGER("vision.positions", vision.positions, 1, false, "rows of a table of learned positions"),
    FLAG("vision.class_token", vision.class_token, "one more token beside the patches of a picture"),
    INTEGER("vision.merge", vision.merge, 1, false,
            "patches on the side of a square that becomes one token"),
    INTEGER("vision.window", vision.window, 1, false, "patches that windowed layers see"),
    INTEGER("vision.full_layers", vision.full_layers, 0, false,
            "layers that see the whole picture, where others have a window"),
    INTEGER("vision.image_size", vision.image_size, 1, false,
            "side that pictures (or their tiles) are scaled to; else they keep their own"),
    INTEGER("vision.max_tiles", vision.max_tiles, 1, false, "tiles of a picture, at most"),
    FLAG("vision.thumbnail", vision.thumbnail, "the whole picture is one more tile"),
    INTEGER("vision.min_pixels", vision.min_pixels, 1, false, "smaller pictures are enlarged"),
    INTEGER("vision.max_pixels", vision.max_pixels, 1, false, "larger pictures are reduced"),
    INTEGER("vision.max_side", vision.max_side, 1, false, "pictures with a longer side are reduced"),
    {"vision.projector", DS_FIELD_WIDTHS, DS_DIM_NUMBER, offsetof(ds_model, vision.projector), 1,
     2147483647, false, "widths of the projector, from what it reads to what it gives"},
    INTEGER("vision.projectors", vision.projectors, 1, false, "so many of them, if not 1"),
    FLAG("vision.projector_bias", vision.projector_bias, "its products have biases"),
    INTEGER("vision.extra_params", vision.extra_params, 1, false, "further weights of the encoder"),
    {"vision.weights", DS_FIELD_FORMAT, DS_DIM_NUMBER, offsetof(ds_model, vision.weights), 0, 0, false,
     "format of the encoder's weights, if not bf16"},
    {"expert_weights", DS_FIELD_FORMAT, DS_DIM_NUMBER, offsetof(ds_model, expert_weights), 0, 0, false,
     "format of the published experts, if another"},
    {"weights", DS_FIELD_FORMAT, DS_DIM_NUMBER, offsetof(ds_model, weights), 0, 0, true,
     "format of the published weights"},
    {"published_parameters", DS_FIELD_QUANTITY, DS_DIM_NUMBER, offsetof(ds_model, published_params),
     0, 1e15, false, "parameters as published, for the card's own test"},
};

#define QTY(path, dim, member, least, most, need, help)                                            \
  { path, DS_FIELD_QUANTITY, dim, offsetof(ds_hw, member), least, most, need, help }
#define SHARE(path, member, help)      QTY(path, DS_DIM_NUMBER, member, 1e-4, 1, false, help)
#define FACTOR(path, member, help)     QTY(path, DS_DIM_NUMBER, member, 0, 1e6, false, help)
#define FIXED_TIME(path, member, help) QTY(path, DS_DIM_TIME, member, 0, 1, false, help)
#define GEMM_AT(name, member, what)                                                                      \
  SHARE(name ".ec", member.ec, what ": share of peak arithmetic"),            \
      SHARE(name ".em", member.em, what ": share of memory bandwidth"),       \
      FIXED_TIME(name ".t0", member.t0_s, what ": fixed time of a kernel"),   \
      QTY(name ".p", DS_DIM_NUMBER, member.p, 1, 100, false,                  \
          what ": overlap exponent"),                                                              \
      FACTOR(name ".wh", member.wh, what ": half-efficiency waves"),          \
      FACTOR(name ".kh", member.kh, what ": half-efficiency depth")
#define DECODE_AT(name, member, what)                                                                 \
  SHARE(name ".em", member.em, what ": share of memory bandwidth"),                \
      FIXED_TIME(name ".t0", member.t0_s, what ": fixed time of a kernel"),        \
      FIXED_TIME(name ".c", member.c_s, what ": time per sequence and unit"),      \
      QTY(name ".p", DS_DIM_NUMBER, member.p, 1, 4, false,                         \
          what ": overlap exponent: 1, 2 or 4")
#define PREFILL_AT(name, member, what)                                                                \
  SHARE(name ".ec", member.ec, what ": share of peak arithmetic"),                 \
      SHARE(name ".em", member.em, what ": share of memory bandwidth"),            \
      FIXED_TIME(name ".t0", member.t0_s, what ": fixed time of a kernel"),        \
      FIXED_TIME(name ".ct", member.ct_s,                                          \
                 what ": time per tile of 128 queries and unit")

#define MOE_AT(name, member, what)                                                                       \
  SHARE(name ".ec", member.ec, what ": share of peak arithmetic"),             \
      SHARE(name ".em", member.em, what ": share of memory bandwidth"),        \
      FIXED_TIME(name ".t0", member.t0_s, what ": fixed time"),                \
      FACTOR(name ".mh", member.mh, what ": half-efficiency rows per expert"), \
      SHARE(name ".ea", member.ea,                                             \
            what ": share of memory bandwidth for activations"),                                   \
      FACTOR(name ".skew", member.skew,                                        \
             what ": excess of the busiest expert over the mean")
#define GEMM(name, index, what)     GEMM_AT("efficiencies." name, gemm[index], what)
#define DECODE(name, member, what)  DECODE_AT("efficiencies." name, member, what)
#define PREFILL(name, member, what) PREFILL_AT("efficiencies." name, member, what)
#define MOE(name, index, what)      MOE_AT("efficiencies." name, moe[index], what)
/* What one library's kernels reach, where it is not what all of them do. */
#define LIBRARY(name, index)                                                                             \
  GEMM_AT("libraries." name ".gemm_bf16", library[index].gemm[DS_GEMM_BF16], "its 16-bit products"),       \
      GEMM_AT("libraries." name ".gemm_fp8", library[index].gemm[DS_GEMM_FP8], "its 8-bit products"),      \
      GEMM_AT("libraries." name ".gemm_nvfp4", library[index].gemm[DS_GEMM_NVFP4], "its 4-bit products"),  \
      DECODE_AT("libraries." name ".attn_decode_kv16", library[index].decode_kv16, "its decode attention, 16-bit KV"), \
      DECODE_AT("libraries." name ".attn_decode_kv8", library[index].decode_kv8, "its decode attention, 8-bit KV"),    \
      DECODE_AT("libraries." name ".attn_decode_kv8_mha", library[index].decode_kv8_mha,                             \
                "its decode attention, 8-bit KV, a key head for each query head"),                                   \
      PREFILL_AT("libraries." name ".attn_prefill_16", library[index].prefill_16, "its prefill attention, 16 bit"),    \
      PREFILL_AT("libraries." name ".attn_prefill_8", library[index].prefill_8, "its prefill attention, 8 bit"),       \
      MOE_AT("libraries." name ".moe_bf16", library[index].moe[DS_MOE_BF16], "its 16-bit experts"),        \
      MOE_AT("libraries." name ".moe_fp8", library[index].moe[DS_MOE_FP8], "its 8-bit experts"),           \
      MOE_AT("libraries." name ".moe_fp8_block", library[index].moe[DS_MOE_FP8_BLOCK], "its 8-bit experts, scales by block"), \
      MOE_AT("libraries." name ".moe_int4", library[index].moe[DS_MOE_INT4], "its 4-bit integer experts"), \
      MOE_AT("libraries." name ".moe_nvfp4", library[index].moe[DS_MOE_NVFP4], "its 4-bit experts"),       \
      MOE_AT("libraries." name ".moe_mxfp4_a16", library[index].moe[DS_MOE_MXFP4], "its MXFP4 experts, 16-bit products"), \
      MOE_AT("libraries." name ".moe_mxfp4_a8", library[index].moe[DS_MOE_MXFP4_A8], "its MXFP4 experts, 8-bit products")

#define LATENT(name, member, what)                                                                 \
  SHARE("efficiencies." name ".em", member.em, what ": share of memory bandwidth"),                \
      SHARE("efficiencies." name ".ec", member.ec, what ": share of peak arithmetic"),             \
      FIXED_TIME("efficiencies." name ".t0", member.t0_s, what ": fixed time of a kernel"),        \
      FIXED_TIME("efficiencies." name ".c", member.c_s, what ": time per sequence and unit"),      \
      QTY("efficiencies." name ".p", DS_DIM_NUMBER, member.p, 1, 4, false,                         \
          what ": overlap exponent: 1, 2 or 4")
#define TRANSFER(name, member, what)                                                               \
  FIXED_TIME("efficiencies." name ".lat", member.lat_s, what ": latency"),                         \
      SHARE("efficiencies." name ".e", member.e, what ": share of link bandwidth")

static const ds_card_field hardware_fields[] = {
    QTY("memory", DS_DIM_BYTES, memory_bytes, 1e6, 1e15, true,
        "device memory that the driver reports"),
    QTY("memory_bandwidth", DS_DIM_BYTES_PER_S, memory_bytes_per_s, 1e6, 1e18, true,
        "peak of device memory"),
    QTY("peak.bf16", DS_DIM_FLOPS_PER_S, peak_flops_per_s[DS_MATH_16], 1e6, 1e21, true,
        "dense 16-bit peak"),
    QTY("peak.fp8", DS_DIM_FLOPS_PER_S, peak_flops_per_s[DS_MATH_8], 0, 1e21, false,
        "dense fp8 peak"),
    QTY("peak.fp4", DS_DIM_FLOPS_PER_S, peak_flops_per_s[DS_MATH_4], 0, 1e21, false,
        "dense fp4 peak"),
    QTY("peak.int8", DS_DIM_FLOPS_PER_S, int8_ops_per_s, 0, 1e21, false,
        "dense 8-bit integer peak"),
    QTY("units", DS_DIM_NUMBER, units, 1, 1e7, true, "multiprocessors or compute units"),
    QTY("scale_up_bandwidth", DS_DIM_BYTES_PER_S, scale_up_bytes_per_s, 0, 1e18, false,
        "NVLink or xGMI, per direction and device"),
    QTY("scale_up_devices", DS_DIM_NUMBER, scale_up_devices, 1, 1e6, false,
        "devices that share the scale-up network"),
    QTY("nic_bandwidth", DS_DIM_BYTES_PER_S, nic_bytes_per_s, 0, 1e18, false,
        "network, per device"),
    QTY("host_bandwidth", DS_DIM_BYTES_PER_S, host_bytes_per_s, 0, 1e18, false,
        "to host memory, per direction"),
    QTY("power", DS_DIM_POWER, power_w, 0, 1e6, false, "design power"),
    QTY("idle_power", DS_DIM_POWER, idle_power_w, 0, 1e6, false, "power when idle"),
    QTY("price", DS_DIM_PRICE, price_usd_per_h, 0, 1e6, false, "per device and hour"),
    QTY("price.low", DS_DIM_PRICE, price_low_usd_per_h, 0, 1e6, false, "cheapest offers"),
    QTY("price.high", DS_DIM_PRICE, price_high_usd_per_h, 0, 1e6, false, "dearest offers"),
    SHARE("sustained_clock", sustained_clock, "share of peak arithmetic that long runs keep"),
    GEMM("gemm_bf16", DS_GEMM_BF16, "16-bit matrix products"),
    GEMM("gemm_fp8", DS_GEMM_FP8, "8-bit matrix products"),
    GEMM("gemm_nvfp4", DS_GEMM_NVFP4, "4-bit matrix products"),
    GEMM("gemm_int4", DS_GEMM_INT4, "4-bit weights, 16-bit products"),
    GEMM("gemm_int8_wo", DS_GEMM_INT8_WO, "8-bit weights, 16-bit products"),
    DECODE("attn_decode_kv16", decode_kv16, "decode attention on 16-bit KV"),
    DECODE("attn_decode_kv8", decode_kv8, "decode attention on 8-bit KV"),
    PREFILL("attn_prefill_16", prefill_16, "prefill attention in 16 bit"),
    PREFILL("attn_prefill_8", prefill_8, "prefill attention in 8 bit"),
    FIXED_TIME("efficiencies.allreduce.a1", allreduce.a1_s, "one-shot all-reduce: fixed time"),
    FIXED_TIME("efficiencies.allreduce.b", allreduce.b_s, "all-reduce: time per further device"),
    SHARE("efficiencies.allreduce.e1", allreduce.e1,
          "one-shot all-reduce: share of link bandwidth"),
    FIXED_TIME("efficiencies.allreduce.a2", allreduce.a2_s, "two-shot all-reduce: fixed time"),
    SHARE("efficiencies.allreduce.e2", allreduce.e2,
          "two-shot all-reduce: share of link bandwidth"),
    QTY("efficiencies.allreduce.crowding", DS_DIM_NUMBER, allreduce.crowding, 0, 3, false,
        "all-reduce: with n devices each link has (2 / n)^crowding of itself, as they share the host"),
    FIXED_TIME("efficiencies.allreduce.a3", allreduce.a3_s,
               "all-reduce in the switch (NVLS): fixed time"),
    SHARE("efficiencies.allreduce.e3", allreduce.e3,
          "all-reduce in the switch: share of link bandwidth, each byte once up and once down"),
    FIXED_TIME("efficiencies.allreduce_vendor.a1", allreduce_vendor.a1_s, "all-reduce of the vendor's library, one-shot: fixed time"),
    FIXED_TIME("efficiencies.allreduce_vendor.b", allreduce_vendor.b_s, "the same: time per further device"),
    SHARE("efficiencies.allreduce_vendor.e1", allreduce_vendor.e1, "the same, one-shot: share of link bandwidth"),
    FIXED_TIME("efficiencies.allreduce_vendor.a2", allreduce_vendor.a2_s, "the same, two-shot: fixed time"),
    SHARE("efficiencies.allreduce_vendor.e2", allreduce_vendor.e2, "the same, two-shot: share of link bandwidth"),
    SHARE("efficiencies.elementwise.em", elementwise_em,
          "elementwise kernels: share of memory bandwidth"),
    MOE("moe_bf16", DS_MOE_BF16, "16-bit experts"),
    MOE("moe_fp8", DS_MOE_FP8, "8-bit experts"),
    MOE("moe_fp8_block", DS_MOE_FP8_BLOCK, "8-bit experts with scales by block; not given: as moe_fp8"),
    MOE("moe_nvfp4", DS_MOE_NVFP4, "4-bit experts"),
    MOE("moe_mxfp4_a16", DS_MOE_MXFP4, "MXFP4 experts, 16-bit products"),
    MOE("moe_mxfp4_a8", DS_MOE_MXFP4_A8, "MXFP4 experts, 8-bit products"),
    MOE("moe_int4", DS_MOE_INT4, "4-bit integer experts, 16-bit products"),
    LATENT("mla_decode_kv16", latent_kv16, "latent decode attention on 16-bit KV"),
    LATENT("mla_decode_kv8", latent_kv8, "latent decode attention on 8-bit KV"),
    PREFILL("mla_prefill", latent_prefill, "latent prefill attention"),
    TRANSFER("dispatch_low", dispatch_low, "tokens to experts, low latency"),
    TRANSFER("combine_low", combine_low, "and back, low latency"),
    TRANSFER("dispatch_normal", dispatch_normal, "tokens to experts, many"),
    TRANSFER("combine_normal", combine_normal, "and back, many"),
    TRANSFER("peer", peer, "device to device over scale-up links"),
    TRANSFER("network", network, "device to device over the network"),
    LIBRARY("vllm", DS_LIBRARY_VLLM),
    LIBRARY("sglang", DS_LIBRARY_SGLANG),
    LIBRARY("trtllm", DS_LIBRARY_TRTLLM),
    FIXED_TIME("dataflow.layer", dataflow.layer_s, "time of a layer for one token, weights in SRAM"),
    FIXED_TIME("dataflow.hop", dataflow.hop_s, "time from device to device"),
    SHARE("dataflow.compute", dataflow.compute_frac, "share of peak arithmetic of a long prompt"),
};

#define OVERHEAD(path, member, help)                                                               \
  { path, DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, member), 0, 10, true, help }

#define KERNELS(path, member, help)                                                                \
  { path, DS_FIELD_QUANTITY, DS_DIM_NUMBER, offsetof(ds_engine_card, member), 0.01, 4, false, help }

static const ds_card_field engine_fields[] = {
    OVERHEAD("per_iteration", per_iteration_s,
             "host time of an iteration that kernels do not hide"),
    OVERHEAD("per_request", per_request_s, "the same, per running request"),
    OVERHEAD("small_kernel", small_kernel_s, "fixed time of an elementwise kernel"),
    OVERHEAD("api_per_request", api_per_request_s, "HTTP, and what else happens before the queue"),
    {"tokenise", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, tokenise_s), 0, 1e-3, false,
     "tokenising, per token of a prompt; one prompt at a time"},
    KERNELS("kernel_memory", kernel_memory, "its kernels' share of bandwidth, over the hardware card's"),
    KERNELS("kernel_compute", kernel_compute, "its 8- and 4-bit products' share of arithmetic, over the hardware card's"),
    KERNELS("kernel_fixed", kernel_fixed, "its kernels' fixed times, over the hardware card's"),
    OVERHEAD("api_per_token", api_per_token_s, "detokenising and streaming after an iteration"),
    {"api_per_image_token", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, api_per_image_token_s), 0, 1, false,
     "decoding, scaling and cutting up a picture before the queue, for each of its tokens"},
    {"static_scales", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, static_scales), 0, 0,
     false, "activations are quantised with fixed scales, without a pass of their own"},
    {"fused_nvfp4", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, fused_nvfp4), 0, 0, false,
     "NVFP4 activations are written by the kernel before the product"},
    {"kv_per_query_head", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, kv_per_query_head), 0, 0, false,
     "decode attention reads keys and values once per query head"},
    {"vendor_collectives", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, vendor_collectives), 0, 0, false,
     "no all-reduce of its own: that of the vendor's library"},
    {"attention_8bit", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, attention_8bit), 0, 0, false,
     "prefill attention multiplies in fp8 where the cache is fp8 and the part can"},
    {"plans_ahead", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, plans_ahead), 0, 0, false,
     "a plan is made when the iteration before it starts: who arrives meanwhile waits for the next"},
    {"async_scheduling", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, async_scheduling), 0,
     0, false, "host time hides behind the device's"},
    {"graphs.capture_max", DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_engine_card, capture_max), 1,
     65536, false, "largest batch with a captured graph; decode batches are padded to captured sizes"},
    {"graphs.capture_step", DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_engine_card, capture_step), 1,
     65536, false, "captured sizes are 1, 2, 4 and multiples of this"},
    {"graphs.capture_double", DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_engine_card, capture_double), 1,
     65536, false, "captured sizes double up to capture_step, and again above this"},
    {"graphs.launch", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, launch_s), 0, 1, false,
     "time to launch a kernel outside graphs"},
    {"graphs.kernels_per_layer", DS_FIELD_QUANTITY, DS_DIM_NUMBER,
     offsetof(ds_engine_card, kernels_per_layer), 0, 1000, false, "kernels of a layer outside graphs"},
    {"mxfp4_marlin", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, mxfp4_marlin), 0, 0, false,
     "MXFP4 experts on a part without 4-bit arithmetic run in Marlin's kernels, those of 4-bit integers"},
    {"prompts.captured", DS_FIELD_INTEGER, DS_DIM_NUMBER, offsetof(ds_engine_card, prompt_captured), 0, 1 << 20, false,
     "tokens up to which an iteration with prompts is replayed from graphs"},
    {"prompts.layer", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, prompt_layer_s), 0, 1, false,
     "host time to launch a layer of an iteration with prompts outside graphs"},
    {"prompts.product", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, prompt_product_s), 0, 1, false,
     "beside it, of each product of 8- and 4-bit weights on a part with 4-bit arithmetic"},
    {"prompts.experts_mxfp4", DS_FIELD_QUANTITY, DS_DIM_TIME, offsetof(ds_engine_card, prompt_mxfp4_s), 0, 1, false,
     "beside it, of a layer's experts in MXFP4 on a part without 4-bit arithmetic"},
    {"sampler_bytes", DS_FIELD_QUANTITY, DS_DIM_NUMBER, offsetof(ds_engine_card, sampler_bytes), 0, 1e5, false,
     "bytes that the sampler moves per row and entry of the vocabulary: a sort for top-p, softmax, draws"},
    {"whole_windows", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, whole_windows), 0, 0, false,
     "KV of layers that read a window holds every token"},
    {"experts_gather", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, experts_gather), 0, 0, false,
     "with attention data parallelism every rank gets all tokens before the experts, in place of an all-to-all"},
    {"skew_within_rank", DS_FIELD_BOOL, DS_DIM_NUMBER, offsetof(ds_engine_card, skew_within_rank), 0, 0,
     false, "the busiest expert sets the pace among the experts of one device too"},
    {"runtime_memory", DS_FIELD_QUANTITY, DS_DIM_BYTES, offsetof(ds_engine_card, runtime_bytes), 0, 1e12, false,
     "memory of a device beside weights, activations and KV: context, workspaces of libraries, graphs"},
    {"runtime_parallel_memory", DS_FIELD_QUANTITY, DS_DIM_BYTES, offsetof(ds_engine_card, runtime_parallel_bytes), 0, 1e12, false,
     "what is added with more than one rank: buffers of collectives"},
    {"rank_spread", DS_FIELD_QUANTITY, DS_DIM_NUMBER, offsetof(ds_engine_card, rank_spread), 0, 100, false,
     "deviation of the experts' loads, over their mean: what the busiest of several expert-parallel ranks has more"},
    {"expert_rho", DS_FIELD_QUANTITY, DS_DIM_NUMBER, offsetof(ds_engine_card, expert_rho), 0.1, 1,
     false, "tokens choose experts as T^rho independent ones would; 1 where not given"},
};

static const char *const model_texts[] = {"model", "name", "title", "aliases", "sources", "notes"};
static const char *const hardware_texts[] = {"hardware", "name",    "title", "vendor",
                                             "aliases",  "sources", "notes", "calibrated_on"};
static const char *const engine_texts[] = {"engine", "name",    "family", "title",        "aliases",
                                           "date",   "sources", "notes",  "calibrated_on"};

#define LEN(a) (sizeof(a) / sizeof((a)[0]))
const ds_card_schema ds_card_schemas[DS_CARD_KINDS] = {
    {"model", "models", model_fields, LEN(model_fields), model_texts, LEN(model_texts)},
    {"hardware", "hwprofiles", hardware_fields, LEN(hardware_fields), hardware_texts,
     LEN(hardware_texts)},
    {"engine", "models/engines", engine_fields, LEN(engine_fields), engine_texts,
     LEN(engine_texts)},
};
