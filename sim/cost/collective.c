// SPDX-License-Identifier: Apache-2.0
/* All-reduce between the devices of one replica over its scale-up links.
 *
 * min(one-shot, two-shot) as custom kernels of serving engines do it: one-shot, where each rank
 * reads all others' tensors, wins below about a megabyte; two-shot (reduce-scatter, then
 * all-gather) moves 2 (n - 1) / n of the tensor. one-shot a1 + b (n - 1) + (n - 1) bytes / (W e1);
 * two-shot a2 + b (n - 1) + 2 (n - 1) / n bytes / (W e2) Constants fitted on the collective tables
 * of ai-dynamo/aiconfigurator @095f58a51c.
 *
 * On PCIe without a switch the links share their way through the host: W (2 / n)^crowding, where a card gives it (one
 * box of L40S: 20, 5 and 2 GB/s of 32 with 2, 4 and 8 devices).
 * A switch that reduces (NVLS) takes each tensor once: a3 + bytes / (W e3), where a card gives it and more than half of
 * the devices on the switch take part: with fewer, NCCL's times in those tables are a two-shot's at any size.
 * A group wider than the scale-up network reduces and scatters within each box, all-reduces its part
 * (a share of 1 / devices of a box) over the network cards in a ring of boxes, and gathers:
 *   two-shot of a box + 2 (boxes - 1) latency + 2 (boxes - 1) / boxes (bytes / devices) / (nic e). */
#include "base/num.h"
#include "cost/operators.h"

ds_allreduce ds_allreduce_bind(const ds_hw *hw, int64_t ranks) {
  ds_allreduce a = {.ranks = (double)ranks};
  if (ranks <= 1) return a;
  const ds_eff_allreduce *e = &hw->allreduce;
  double w = hw->scale_up_bytes_per_s, box = hw->scale_up_devices;
  if (e->crowding > 0) w /= ds_pow((box > 0 && a.ranks > box ? box : a.ranks) * 0.5, e->crowding);
  if (box > 0 && a.ranks > box) {
    double boxes = ds_ceil(a.ranks / box), inner = box - 1.0;
    a.two_shot_s = (box > 1 ? e->a2_s + e->b_s * inner : 0) + 2.0 * (boxes - 1.0) * hw->network.lat_s;
    a.two_shot_per_byte_s = 2.0 * (boxes - 1.0) / boxes / box / (hw->nic_bytes_per_s * hw->network.e);
    if (box > 1) a.two_shot_per_byte_s += 2.0 * inner / box / (w * e->e2);
    a.one_shot_s = a.two_shot_s;
    a.one_shot_per_byte_s = a.two_shot_per_byte_s;
    return a;
  }
  double others = a.ranks - 1.0;
  a.one_shot_s = e->a1_s + e->b_s * others;
  a.one_shot_per_byte_s = others / (w * e->e1);
  a.two_shot_s = e->a2_s + e->b_s * others;
  a.two_shot_per_byte_s = 2.0 * others / a.ranks / (w * e->e2);
  if (e->e3 > 0 && 2.0 * a.ranks > box) { /* each rank sends its tensor once, and gets the sum once, both at a time */
    a.switch_s = e->a3_s;
    a.switch_per_byte_s = 1.0 / (w * e->e3);
  }
  return a;
}

double ds_allreduce_s(const ds_allreduce *a, double bytes) {
  if (a->ranks <= 1 || !(bytes > 0)) return 0;
  double one = a->one_shot_s + bytes * a->one_shot_per_byte_s,
         two = a->two_shot_s + bytes * a->two_shot_per_byte_s;
  if (two < one) one = two;
  if (!(a->switch_per_byte_s > 0)) return one;
  double in_switch = a->switch_s + bytes * a->switch_per_byte_s;
  return in_switch < one ? in_switch : one;
}
