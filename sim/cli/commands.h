// SPDX-License-Identifier: GPL-3.0-or-later
/* The commands: one file each. argv[0] is the command's own name. Each returns the exit status of
 * the process. */
#ifndef DS_CLI_COMMANDS_H
#define DS_CLI_COMMANDS_H

#include "io/scenario.h"

int ds_cmd_run(int argc, char **argv, const ds_data_dirs *dirs);
int ds_cmd_new(int argc, char **argv, const ds_data_dirs *dirs);
int ds_cmd_gen(int argc, char **argv, const ds_data_dirs *dirs);
int ds_cmd_trace(int argc, char **argv, const ds_data_dirs *dirs);
int ds_cmd_list(int argc, char **argv, const ds_data_dirs *dirs);

#endif
