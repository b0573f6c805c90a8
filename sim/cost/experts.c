// SPDX-License-Identifier: Apache-2.0
/* A mixture of experts on one device.
 *
 * A batch of T tokens per attention group brings Tg = T groups tokens to the experts of the whole
 * replica; of the pairs of token and expert this device has pr = Tg k / ranks, over its E / ranks
 * experts. How many of these it touches, and so has to read:
 *   D = local (1 - (1 - k / E)^(Tg^rho)), at least min(1, pr)
 * (each token draws k of E; rho < 1, since tokens of real text choose alike). Then
 *   compute 6 pr h f / (peak ec) (1 + mh D / pr) (1 + skew), weights D 3 h f wb / (bandwidth em),
 *   activations (pr (4 h + 6 f) + 4 Tg h / ranks) / (bandwidth ea)
 *   t = t0 + max(compute, weights) + activations.
 * mh says how narrow products starve, skew how much more the busiest rank has than the mean (no
 * matter when each expert has at most one token, and evened out by copies of the busy ones). Among
 * the experts of one device it hardly counts, since one grouped kernel serves them all: in those
 * tables a power-law router costs a median of 1.0 to 1.1 of a balanced one with all experts on one
 * device, and 1.2 to 1.4 with experts spread over several. Engine cards that were fitted together
 * with the skew within a device say so.
 *
 * With `rank_spread` s of the engine card the excess follows from how many experts a rank holds: loads of experts have a
 * deviation of s means, the sum over E / n of them one of s sqrt(n / E), and the largest of n such sums lies
 * sqrt(2 ln n) - 0.59 deviations above the mean (within 5 % of a normal law's for 2 to 64). It cannot exceed n - 1, and
 * goes to activations too. DeepSeek-R1 over 32 ranks was measured at 1.56 (NVIDIA/TensorRT-LLM
 * docs/source/blogs/tech_blog/blog4_Scaling_Expert_Parallelism_in_TensorRT-LLM.md @1d263f15a9, table 1), which is
 * s = 2.17. While some experts are not touched, the rank that touches most of its own reads that many. The tables, whose router draws a power law, are described best with 1.7 to 3.9.
 *
 * Form and constants: fitted on the mixture tables of ai-dynamo/aiconfigurator @095f58a51c. At the speed of
 * light the fewest experts are read, since a batch could choose alike. */
#include "cost/operators.h"

/* How many deviations the largest of n lies above the mean. */
static double largest_of(double n) {
  return n > 1 ? ds_sqrt(2 * ds_log2(n) * 0.69314718055994530942) - 0.59 : 0;
}

static double busiest_excess(double ranks, double experts, double spread) {
  double excess = spread * ds_sqrt(ranks / experts) * largest_of(ranks);
  return excess < ranks - 1 ? excess : ranks - 1;
}

/* Experts that the rank touches which touches most of its own: of so many, each with the same chance, so many are. */
static double touched_at_most(const ds_moe *m, double touched) {
  if (m->excess <= 0 || touched >= m->local) return touched;
  double most = touched + largest_of(m->ranks) * ds_sqrt(touched * (1 - touched / m->local));
  return most < m->local ? most : m->local;
}

ds_moe ds_moe_bind(const ds_run *run, bool ideal) {
  const ds_model *m = &run->model;
  const ds_hw *hw = &run->pool.hw;
  ds_moe x = {.layers = (double)ds_model_moe_layers(m)};
  if (x.layers == 0) return x;
  double ranks = (double)(run->pool.tensor_parallel * run->pool.data_parallel);
  ds_expert_arith a = ds_expert_arith_of(hw, run->expert_weights);
  x.ranks = (double)run->pool.expert_parallel;
  x.experts = (double)m->experts;
  x.top_k = (double)m->top_k;
  x.local = x.experts / x.ranks;
  x.width = (double)m->expert_ffn / (ranks / x.ranks);
  x.hidden = (double)m->hidden;
  x.shared_one = (double)m->shared_ffn / (double)run->pool.tensor_parallel;
  x.shared = x.shared_one * (double)m->shared_experts;
  x.weight_bytes = a.weight_bytes;
  x.peak_per_s = x.flops_per_s = a.peak_per_s;
  x.bytes_per_s = x.act_bytes_per_s = hw->memory_bytes_per_s;
  x.rho = 1;
  x.ideal = ideal;
  if (ideal) return x;
  const ds_eff_moe *e = &hw->moe[a.group];
  x.flops_per_s *= e->ec;
  x.bytes_per_s *= e->em;
  x.act_bytes_per_s *= e->ea;
  x.t0_s = e->t0_s;
  x.mh = e->mh;
  bool uneven = x.ranks > 1 || run->pool.engine.skew_within_rank;
  x.skew = uneven && run->pool.redundant_experts == 0 ? e->skew : 0;
  if (run->pool.engine.rank_spread > 0 && x.ranks > 1) {
    x.skew = 0;
    if (run->pool.redundant_experts == 0) x.excess = busiest_excess(x.ranks, x.experts, run->pool.engine.rank_spread);
  }
  if (run->pool.engine.expert_rho > 0) x.rho = run->pool.engine.expert_rho;
  return x;
}

double ds_moe_touched(const ds_moe *m, double tokens) {
  double pairs = tokens * m->top_k / m->ranks;
  if (m->ideal) {
    double fewest = m->top_k / m->ranks;
    return pairs < fewest ? pairs : fewest;
  }
  double missed = ds_pow(1.0 - m->top_k / m->experts, ds_pow(tokens, m->rho));
  double touched = m->local * (1.0 - missed), least = pairs < 1 ? pairs : 1;
  return touched > least ? touched : least;
}

ds_kernel_time ds_moe_time(const ds_moe *m, double tokens) {
  ds_kernel_time t = {0, false};
  if (!(tokens > 0)) return t;
  double pairs = tokens * m->top_k / m->ranks, touched = ds_moe_touched(m, tokens);
  double compute_s = 6.0 * pairs * m->hidden * m->width / m->flops_per_s;
  double weights_s = touched_at_most(m, touched) * 3.0 * m->hidden * m->width * m->weight_bytes / m->bytes_per_s;
  if (m->ideal) {
    t.compute = compute_s > weights_s;
    t.s = t.compute ? compute_s : weights_s;
    return t;
  }
  double per_expert = (pairs > 1 ? pairs : 1) / touched;
  compute_s *= 1.0 + m->mh / per_expert;
  bool busy = tokens * m->top_k / m->experts > 1;
  if (busy) compute_s *= (1.0 + m->skew) * (1.0 + m->excess);
  double moved_s = (pairs * (4.0 * m->hidden + 6.0 * m->width) + tokens * m->hidden * 4.0 / m->ranks) /
                   m->act_bytes_per_s;
  if (busy) moved_s *= 1.0 + m->excess;
  t.compute = compute_s > weights_s;
  t.s = m->t0_s + (t.compute ? compute_s : weights_s) + moved_s;
  return t;
}
