// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/presets.h"

const ds_preset ds_presets[] = {
    {"poisson", "Poisson arrivals at 1 /s, 550 tokens in (p99 3,000), 128 out", "none: a plain start",
     "", "requests: 10000\n"
         "arrivals: {process: poisson, rate: 1 /s}\n"
         "input_tokens: {law: lognormal, mean: 550, p99: 3000}\n"
         "output_tokens: {law: fixed, value: 128}\n"},
};
const size_t ds_n_presets = sizeof ds_presets / sizeof ds_presets[0];

size_t ds_preset_names(const char **names) {
  for (size_t i = 0; i < ds_n_presets; i++) names[i] = ds_presets[i].name;
  return ds_n_presets;
}
