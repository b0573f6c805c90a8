// SPDX-License-Identifier: Apache-2.0
/* An accelerator: peaks from its datasheet, and how much of them each kind of kernel reaches. */
#ifndef DS_SPEC_HARDWARE_H
#define DS_SPEC_HARDWARE_H

#include "base/types.h"

typedef enum ds_grade { DS_GRADE_ESTIMATE, DS_GRADE_DATASHEET, DS_GRADE_MEASURED } ds_grade;

/* Arithmetic classes. A class that the part lacks (0) falls back to 16 bit. */
typedef enum ds_math { DS_MATH_16, DS_MATH_8, DS_MATH_4, DS_MATH_N } ds_math;

/* M x K times K x N: t0 + ((compute)^p + (memory)^p)^(1/p); cost-model page 3.1. t0 = 0 and ec = 0: not given. */
typedef struct ds_eff_gemm {
  double ec, em, t0_s, p, wh, kh;
} ds_eff_gemm;
typedef enum ds_gemm_group {
  DS_GEMM_BF16,
  DS_GEMM_FP8, /* also W8A8 int8 */
  DS_GEMM_NVFP4,
  DS_GEMM_INT4,
  DS_GEMM_INT8_WO,
  DS_GEMM_GROUPS
} ds_gemm_group;

typedef struct ds_eff_decode { /* 3.3; p is 1, 2 or 4 */
  double em, t0_s, c_s, p;
} ds_eff_decode;
typedef struct ds_eff_prefill { /* 3.2 */
  double ec, em, t0_s, ct_s;
} ds_eff_prefill;
typedef struct ds_eff_allreduce { /* 4.1 */
  double a1_s, b_s, e1, a2_s, e2;
  double crowding; /* links that share a way through the host: each has (2 / n)^crowding of itself; 0: all have their own */
  double a3_s, e3; /* reduced in the switch (NVLS, SHARP); e3 0: not known */
} ds_eff_allreduce;

typedef struct ds_eff_moe { /* 3.5 */
  double ec, em, t0_s, mh, ea, skew;
} ds_eff_moe;
typedef enum ds_moe_group {
  DS_MOE_BF16,
  DS_MOE_FP8,       /* also W8A8 int8 */
  DS_MOE_FP8_BLOCK, /* scales by blocks of 128: other kernels; not given: as DS_MOE_FP8 */
  DS_MOE_NVFP4,
  DS_MOE_MXFP4, /* 16-bit activations */
  DS_MOE_MXFP4_A8,
  DS_MOE_INT4,
  DS_MOE_GROUPS
} ds_moe_group;
typedef struct ds_eff_latent { /* 3.4; p is 1, 2 or 4 */
  double em, ec, t0_s, c_s, p;
} ds_eff_latent;
typedef struct ds_eff_transfer { /* 4.2, 4.3: a latency, and a share of the link */
  double lat_s, e;
} ds_eff_transfer;
/* Kernels of one engine's own library, where tables tell them apart; a group that is not given (em 0) is as everybody's. */
typedef enum ds_library { DS_LIBRARY_VLLM, DS_LIBRARY_SGLANG, DS_LIBRARY_TRTLLM, DS_LIBRARIES } ds_library;
typedef struct ds_eff_library {
  ds_eff_gemm gemm[DS_GEMM_GROUPS];
  ds_eff_decode decode_kv16, decode_kv8;
  ds_eff_decode decode_kv8_mha; /* where query heads do not share keys: another kernel than decode_kv8 */
  ds_eff_prefill prefill_16, prefill_8;
  ds_eff_moe moe[DS_MOE_GROUPS];
} ds_eff_library;
/* Parts that hold all weights in on-chip memory and pass tokens from device to device (section 7); layer_s 0: no
 * such part. */
typedef struct ds_dataflow {
  double layer_s;      /* time of one layer for one token */
  double hop_s;        /* from one device to the next */
  double compute_frac; /* share of peak arithmetic that a long prompt reaches */
} ds_dataflow;

typedef struct ds_hw {
  char name[DS_NAME_MAX];
  char vendor[DS_NAME_MAX];
  double memory_bytes;               /* what the driver reports, not the name on the box */
  double memory_bytes_per_s;
  double peak_flops_per_s[DS_MATH_N]; /* dense; 0: the part has no such arithmetic. DS_MATH_8 is fp8 */
  double int8_ops_per_s;              /* dense 8-bit integer, for W8A8; 0: none (A100 has this and no fp8) */
  double units;                       /* SMs or CUs */
  double scale_up_bytes_per_s;        /* per direction and device; 0: none */
  double nic_bytes_per_s, host_bytes_per_s;
  double power_w, idle_power_w;
  double price_usd_per_h, price_low_usd_per_h, price_high_usd_per_h;
  char price_date[16];                /* as printed beside the price, e.g. 2026-05 */
  bool big_default;                   /* vLLM's larger default limits: 70 GiB or more, and no A100 */
  ds_grade grade;                     /* of the efficiencies: measured kernels, or estimates */
  /* of single groups, where others are measured */
  bool gemm_estimated[DS_GEMM_GROUPS], decode_kv8_estimated, latent_estimated[2] /* by width of KV: 16, 8 */,
      moe_estimated[DS_MOE_GROUPS], exchange_estimated;
  double sustained_clock;             /* factor on compute that long runs keep (0..1] */
  ds_eff_gemm gemm[DS_GEMM_GROUPS];
  ds_eff_decode decode_kv16, decode_kv8;
  ds_eff_prefill prefill_16, prefill_8;
  ds_eff_allreduce allreduce;
  ds_eff_allreduce allreduce_vendor;  /* of the vendor's collective library; a2 0: not known */
  double elementwise_em;
  ds_eff_moe moe[DS_MOE_GROUPS];
  ds_eff_latent latent_kv16, latent_kv8;
  ds_eff_prefill latent_prefill;
  ds_eff_transfer dispatch_low, combine_low, dispatch_normal, combine_normal; /* all-to-all of experts */
  double scale_up_devices;            /* how many share the scale-up network; 0: no limit known */
  ds_eff_library library[DS_LIBRARIES];
  ds_eff_transfer peer, network;      /* point to point over scale-up links, and over the NIC */
  ds_dataflow dataflow;
} ds_hw;

/* What the engine's software adds around the kernels; cards in models/engines. */
typedef struct ds_engine_card {
  char name[DS_NAME_MAX];
  char family[DS_NAME_MAX];
  double per_iteration_s;
  double per_request_s;  /* per running request and iteration */
  double small_kernel_s; /* fixed time of one elementwise kernel */
  double api_per_request_s, api_per_token_s; /* outside the iteration: HTTP and queues between processes, stream */
  double tokenise_s;     /* per prompt token, one prompt at a time, before that; 0: not modelled */
  double api_per_image_token_s; /* outside the iteration: decoding and scaling a picture; 0: nothing */
  /* This engine's kernels against those that hardware cards were fitted to (several libraries pooled); 0: not given, 1.
   * Factors on the share of bandwidth, on the share of arithmetic of 8- and 4-bit products (where libraries differ most),
   * and on the fixed times that a captured graph does not hide. */
  double kernel_memory, kernel_compute, kernel_fixed;
  bool static_scales;    /* activations of 8- and 4-bit products have fixed scales: no pass of their own to find them */
  bool fused_nvfp4;      /* NVFP4 activations are written by the kernel before the product */
  bool attention_8bit;   /* prefill attention multiplies in fp8 where the cache is fp8 and the part can */
  bool plans_ahead;      /* a plan is made when the iteration before it starts: who arrives meanwhile waits for the next */
  bool kv_per_query_head;  /* decode attention reads keys and values once per query head, not per KV head */
  bool vendor_collectives; /* no all-reduce of its own: the vendor's library, where the part's card has it */
  bool async_scheduling; /* the host's time hides behind the device's */
  /* Decode iterations are replayed from graphs captured for 1, 2, 4 and multiples of capture_step rows up to
   * capture_max, and padded to the next; 0: no padding. What is not captured pays for its launches. With capture_double,
   * sizes double from 1 to capture_step and again above capture_double. */
  int64_t capture_max, capture_step, capture_double;
  double launch_s, kernels_per_layer; /* of an iteration outside graphs; 0: not modelled */
  /* An iteration with prompts and more than prompt_captured tokens is launched kernel by kernel: host time of a layer, of
   * each product of 8- and 4-bit weights (but block scales) on a part with 4-bit arithmetic (where it passes through a library that chooses a
   * kernel at each call), and of a layer's experts in MXFP4 on a part without; 0: not modelled. */
  double prompt_layer_s, prompt_product_s, prompt_mxfp4_s;
  int64_t prompt_captured;
  bool mxfp4_marlin;     /* experts in MXFP4 on a part without 4-bit arithmetic pass through the 4-bit integer kernels */
  double sampler_bytes;  /* moved per sampled row and entry of the vocabulary, on every device: a sort for top-p, softmax, draws */
  bool whole_windows;  /* KV of layers with a window holds every token, unless their sizes are given to the engine */
  bool experts_gather; /* with attention data parallelism all tokens go to all ranks, in place of an all-to-all */
  bool skew_within_rank; /* the busiest expert sets the pace among the experts of one device too */
  double runtime_bytes, runtime_parallel_bytes; /* beside weights, activations and KV; 0: as vLLM's */
  double rank_spread; /* of the experts' loads over their mean; 0: the hardware card's skew, whatever the ranks */
  double expert_rho; /* tokens of a batch choose experts as T^rho independent ones would; 1: independently */
} ds_engine_card;

#endif
