// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/span_room.h"

#include <stdlib.h>
#include <string.h>

#define PAGE_SPANS 4096

struct ds_span_page {
  ds_span_page *next;
  size_t used, room;
  ds_span span[];
};

static ds_span_page *page_with(ds_span_room *room, size_t n) {
  ds_span_page *p = room->at;
  for (; p != NULL; p = p->next) {
    if (p->room - p->used >= n) return room->at = p;
    if (p->next == NULL) break;
    p->next->used = 0;
  }
  size_t spans = n > PAGE_SPANS ? n : PAGE_SPANS;
  ds_span_page *more = malloc(sizeof *more + spans * sizeof more->span[0]);
  if (more == NULL) return NULL;
  *more = (ds_span_page){.room = spans};
  if (p != NULL)
    p->next = more;
  else
    room->first = more;
  return room->at = more;
}

bool ds_span_keep(ds_span_room *room, const ds_span **spans, size_t n) {
  if (n == 0) return true;
  ds_span_page *p = page_with(room, n);
  if (p == NULL) return false;
  memcpy(p->span + p->used, *spans, n * sizeof **spans);
  *spans = p->span + p->used;
  p->used += n;
  return true;
}

void ds_span_forget(ds_span_room *room) {
  room->at = room->first;
  if (room->first != NULL) room->first->used = 0;
}

void ds_span_room_free(ds_span_room *room) {
  for (ds_span_page *p = room->first, *next; p != NULL; p = next) {
    next = p->next;
    free(p);
  }
  room->first = room->at = NULL;
}
