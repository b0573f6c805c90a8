// SPDX-License-Identifier: GPL-3.0-or-later
/* Workloads with a name: each the text of a `generate` section, fitted to a public trace, with its
 * source and how close it comes. */
#ifndef DS_IO_PRESETS_H
#define DS_IO_PRESETS_H

#include <stddef.h>

#define DS_PRESETS_MAX 32

typedef struct ds_preset {
  const char *name, *summary, *source, *closeness;
  const char *text; /* YAML */
} ds_preset;

extern const ds_preset ds_presets[];
extern const size_t ds_n_presets;
/* How many; names has room for DS_PRESETS_MAX. */
size_t ds_preset_names(const char **names);

#endif
