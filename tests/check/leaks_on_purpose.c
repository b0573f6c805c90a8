// SPDX-License-Identifier: GPL-3.0-or-later
/* Not a test of ours but of the leak gate: asan.sh fails unless this leak is reported. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static void *volatile kept;

Test(leak_gate, leaks_on_purpose) {
  kept = malloc(4321);
  cr_assert(kept != NULL);
  memset(kept, 1, 4321);
  kept = NULL;
}
