// SPDX-License-Identifier: Apache-2.0
/* Matrix products: the larger part of every iteration.
 *
 * t = t0 + (Tc^p + Tm^p)^(1/p) + quantisation pass, with
 *   Tc = 2 M' N (K + kh) / (peak ec clock) (1 + wh units / tiles), M' = M padded to 64, tiles of
 * 128 x 128 Tm = (weights + activations read + results written) / (bandwidth em) The p-norm lies
 * between perfect overlap (p large: the larger term) and none (p = 1: the sum); the tile term says
 * how a part with many units starves on small products; kh is the price of starting the K loop. The
 * form was chosen against eleven others on the kernel tables of ai-dynamo/aiconfigurator
 * @095f58a51c; explicit wave quantisation (ceil of waves) did not help there, because libraries
 * choose tiles and split K.
 *
 * The timings of narrow products with scales of their own have the kernel that finds these and narrows the activations
 * in them: its passes are the last term, its launch is in t0. Where scales are fixed the kernel before the product
 * writes narrow values, and a product starts as fast as one of 16 bit. */
#include "cost/operators.h"

#define TILE    128.0
#define ROW_PAD 64.0

ds_gemm ds_gemm_bind(const ds_hw *hw, ds_format weights, bool ideal) {
  ds_arith a = ds_arith_of(hw, weights);
  const ds_eff_gemm *e = &hw->gemm[a.group];
  ds_gemm g = {.peak_per_s = a.peak_per_s,
               .flops_per_s = a.peak_per_s,
               .bytes_per_s = hw->memory_bytes_per_s,
               .units = hw->units,
               .weight_bytes = a.weight_bytes,
               .act_bytes = a.act_bytes,
               .ideal = ideal};
  if (ideal) return g;
  g.flops_per_s *= e->ec * hw->sustained_clock;
  g.bytes_per_s *= e->em;
  g.t0_s = e->t0_s;
  g.p = e->p;
  g.wh = e->wh;
  g.kh = e->kh;
  g.quantise = a.quantise;
  if (a.group == DS_GEMM_FP8 && !a.quantise) ds_gemm_fuse(&g, hw);
  return g;
}

void ds_gemm_fuse(ds_gemm *g, const ds_hw *hw) {
  const ds_eff_gemm *plain = &hw->gemm[DS_GEMM_BF16];
  g->quantise = false;
  if (plain->em > 0 && plain->t0_s < g->t0_s) g->t0_s = plain->t0_s;
}

ds_kernel_time ds_gemm_time(const ds_gemm *g, double m, double n, double k) {
  ds_kernel_time t = {0, false};
  if (!(m > 0 && n > 0)) return t;
  double memory_s = (n * k * g->weight_bytes + m * k * g->act_bytes + 2.0 * m * n) / g->bytes_per_s;
  if (g->ideal) {
    double compute_s = 2.0 * m * n * k / g->flops_per_s;
    t.compute = compute_s > memory_s;
    t.s = t.compute ? compute_s : memory_s;
    return t;
  }
  double waves = ds_ceil(m / TILE) * ds_ceil(n / TILE) / g->units;
  double compute_s = 2.0 * ROW_PAD * ds_ceil(m / ROW_PAD) * n * (k + g->kh) / g->flops_per_s *
                     (1.0 + g->wh / waves);
  t.compute = compute_s > memory_s;
  t.s = g->t0_s + ds_pnorm(compute_s, memory_s, g->p);
  /* The activations are read in 16 bit and written narrow before the product starts: nothing hides
   * it. */
  if (g->quantise) t.s += m * k * (2.0 + g->act_bytes) / g->bytes_per_s;
  return t;
}
