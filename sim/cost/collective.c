// SPDX-License-Identifier: Apache-2.0
/* All-reduce between the devices of one replica over its scale-up links.
 *
 * min(one-shot, two-shot) as custom kernels of serving engines do it: one-shot, where each rank
 * reads all others' tensors, wins below about a megabyte; two-shot (reduce-scatter, then
 * all-gather) moves 2 (n - 1) / n of the tensor. one-shot a1 + b (n - 1) + (n - 1) bytes / (W e1);
 * two-shot a2 + b (n - 1) + 2 (n - 1) / n bytes / (W e2) Constants fitted on the collective tables
 * of ai-dynamo/aiconfigurator @095f58a51c. All-to-all of expert parallelism and point-to-point
 * transfers of pipelines belong beside it. */
#include "cost/operators.h"

ds_allreduce ds_allreduce_bind(const ds_hw *hw, int64_t ranks) {
  ds_allreduce a = {.ranks = (double)ranks};
  if (ranks <= 1) return a;
  const ds_eff_allreduce *e = &hw->allreduce;
  double others = a.ranks - 1.0, w = hw->scale_up_bytes_per_s;
  a.one_shot_s = e->a1_s + e->b_s * others;
  a.one_shot_per_byte_s = others / (w * e->e1);
  a.two_shot_s = e->a2_s + e->b_s * others;
  a.two_shot_per_byte_s = 2.0 * others / a.ranks / (w * e->e2);
  return a;
}

double ds_allreduce_s(const ds_allreduce *a, double bytes) {
  if (a->ranks <= 1 || !(bytes > 0)) return 0;
  double one = a->one_shot_s + bytes * a->one_shot_per_byte_s,
         two = a->two_shot_s + bytes * a->two_shot_per_byte_s;
  return one < two ? one : two;
}
