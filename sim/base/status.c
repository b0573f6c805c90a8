// SPDX-License-Identifier: Apache-2.0
#include "base/status.h"

#include <string.h>

ds_status ds_error_begin(ds_error *err, ds_status status, const char *text) {
  if (err != NULL) {
    err->status = status;
    err->request = -1;
    err->text[0] = '\0';
    ds_error_text(err, text);
  }
  return status;
}

void ds_error_text(ds_error *err, const char *text) {
  if (err == NULL) return;
  size_t have = strlen(err->text), more = strlen(text);
  if (more > DS_ERROR_TEXT_MAX - 1 - have) more = DS_ERROR_TEXT_MAX - 1 - have;
  memcpy(err->text + have, text, more);
  err->text[have + more] = '\0';
}

void ds_error_int(ds_error *err, int64_t value) {
  char digits[24];
  size_t i = sizeof digits;
  digits[--i] = '\0';
  uint64_t u = value < 0 ? 0u - (uint64_t)value : (uint64_t)value;
  do {
    digits[--i] = (char)('0' + (int)(u % 10));
    u /= 10;
  } while (u != 0);
  if (value < 0) digits[--i] = '-';
  ds_error_text(err, digits + i);
}
