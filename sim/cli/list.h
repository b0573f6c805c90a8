// SPDX-License-Identifier: GPL-3.0-or-later
/* The parts of dryserve list: cards (list_cards.c) and what is built in (list_built_in.c). JSON
 * values belong to the caller; NULL when memory is out. */
#ifndef DS_CLI_LIST_H
#define DS_CLI_LIST_H

#include <jansson.h>

#include "io/card.h"
#include "io/outfile.h"

typedef struct ds_listed_card {
  char name[128]; /* file name without .yaml */
  ds_doc doc;
  union {
    ds_model model;
    ds_hw hw;
    ds_engine_card engine;
  } value;
} ds_listed_card;

typedef struct ds_cards {
  ds_card_kind kind;
  ds_listed_card *card;
  size_t n;
} ds_cards;

/* Every card of the data folders (a name in several: the first), or the one of that name. Free it
 * either way. */
bool ds_cards_open(ds_card_kind kind, const char *name, const ds_data_dirs *dirs, ds_cards *out,
                   ds_diag *d);
void ds_cards_free(ds_cards *c);

/* Text wrapped at 80 columns: it begins in `column`, further lines in `margin`; ends the line. */
void ds_list_wrap(ds_outfile *out, const char *text, size_t column, size_t margin);

void ds_list_cards(ds_outfile *out, const ds_cards *c);
void ds_list_one_card(ds_outfile *out, const ds_cards *c);
void ds_list_prices(ds_outfile *out, const ds_cards *c);
json_t *ds_list_cards_json(const ds_cards *c);
void ds_list_schema(ds_outfile *out, ds_card_kind kind);
json_t *ds_list_schema_json(ds_card_kind kind);

/* What is built in: all of it, or (only) one entry of that name. */
void ds_list_schedulers(ds_outfile *out, const char *only);
json_t *ds_list_schedulers_json(void);
void ds_list_routers(ds_outfile *out, const char *only);
json_t *ds_list_routers_json(void);
void ds_list_formats(ds_outfile *out, const char *only);
json_t *ds_list_formats_json(void);
void ds_list_metrics(ds_outfile *out, const char *only);
json_t *ds_list_metrics_json(void);
void ds_list_presets(ds_outfile *out, const char *only);
json_t *ds_list_presets_json(void);
void ds_list_protocols(ds_outfile *out, const char *only);
json_t *ds_list_protocols_json(void);

#endif
