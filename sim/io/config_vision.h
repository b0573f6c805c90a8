// SPDX-License-Identifier: GPL-3.0-or-later
/* The encoder of images that a Hugging Face config.json describes. */
#ifndef DS_IO_CONFIG_VISION_H
#define DS_IO_CONFIG_VISION_H

#include "io/card.h"

/* Into m->vision, once m->hidden is known; nothing where the file has no vision_config, or its family none. */
bool ds_config_json_vision(const ds_node *root, const char *model_type, ds_model *m, ds_diag *d);

#endif
