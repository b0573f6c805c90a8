// SPDX-License-Identifier: Apache-2.0
/* Latent attention (MLA): one compressed vector per token in the cache, shared by all heads.
 *
 * Decode works in the compressed space: the query is multiplied into it (and the result out of it)
 * by two small batched products, and every head reads the same c + r values per token:
 *   t = t0 + pnorm(memory, compute, work), memory (ctx (c + r) eb + n heads (2 c + r) 2) / (bandwidth
 *   em), compute 2 ctx heads (2 c + r) / (peak ec), work c_item n / units.
 * All ranks of an attention group hold the whole latent cache: heads are split, its bytes are not.
 * An 8-bit cache is multiplied in 8 bit where the part can. Prefill expands keys and values and is
 * ordinary attention with q k of one width and v of another. Forms and constants: fitted on the MLA
 * tables of ai-dynamo/aiconfigurator @095f58a51c. */
#include "cost/operators.h"

void ds_latent_bind(const ds_hw *hw, ds_format kv, bool ideal, ds_operators *o) {
  bool narrow = o->kv_bytes < 2;
  const ds_eff_latent *d = narrow ? &hw->latent_kv8 : &hw->latent_kv16;
  const ds_eff_prefill *f = &hw->latent_prefill;
  const ds_eff_gemm *g = &hw->gemm[DS_GEMM_BF16];
  double latent = o->kv_lora + o->qk_rope, both = latent + o->kv_lora;
  double peak = hw->peak_flops_per_s[DS_MATH_16];
  double eight = kv == DS_FMT_INT8 ? hw->int8_ops_per_s : hw->peak_flops_per_s[DS_MATH_8];
  if (narrow && eight > 0) peak = eight;

  double bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : d->em);
  double gemm_bytes_per_s = hw->memory_bytes_per_s * (ideal ? 1.0 : g->em);
  double absorb = o->heads * o->kv_lora * (o->qk_nope + o->v_dim) * 2.0 / gemm_bytes_per_s;
  o->decode = (ds_attn_decode){.mem_per_ctx_s = latent * o->kv_bytes / bytes_per_s,
                               .comp_per_ctx_s = 2.0 * o->heads * both / (peak * (ideal ? 1.0 : d->ec)),
                               .mem_per_seq_s = o->heads * both * 2.0 / bytes_per_s,
                               .t0_s = absorb,
                               .p = 1};
  double flops_per_s = hw->peak_flops_per_s[DS_MATH_16] * (ideal ? 1.0 : f->ec);
  double qk_v = o->qk_nope + o->qk_rope + o->v_dim;
  o->prefill = (ds_attn_prefill){.per_pair_s = 2.0 * o->heads * qk_v / flops_per_s, .ideal = ideal};
  if (ideal) {
    o->prefill.per_kv_s = latent * o->kv_bytes / hw->memory_bytes_per_s;
    o->decode.p = 0; /* the larger of the two */
    return;
  }
  o->decode.t0_s += d->t0_s + 2.0 * g->t0_s;
  o->decode.per_seq_s =
      o->heads * (2.0 * o->kv_lora + o->qk_nope + o->v_dim) * 2.0 / gemm_bytes_per_s;
  o->decode.work_per_seq_s = d->c_s / hw->units;
  o->decode.p = d->p == 1 ? 1 : d->p == 2 ? 2 : 4;
  o->prefill.t0_s = f->t0_s;
  o->prefill.per_kv_s = o->heads * qk_v * 4.0 / (hw->memory_bytes_per_s * f->em);
  o->prefill.per_tile_s = f->ct_s * o->heads / hw->units;
}
