// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/options.h"
#include "cli/trace_edit.h"

#include <stdlib.h>
#include <string.h>

#include "io/trace_hold.h"
#include "io/trace_rows.h"
#include "io/trace_write.h"

typedef struct stream { /* one file, with its next request */
  ds_trace *trace;
  ds_request r;
  const ds_more *more;
  bool any;
  uint64_t index;
} stream;

typedef struct numbers { /* block ids by their first appearance */
  uint64_t *id, *number;
  size_t n, room;
} numbers;

typedef struct edit {
  const ds_trace_edit *e;
  const ds_trace_writer *writer;
  stream *s;
  ds_sessions sessions; /* renumbered */
  uint64_t n_sessions;
  numbers blocks;
  uint64_t *ids; /* of the request at hand */
  size_t ids_room;
  uint64_t seen[DS_HAS_N], n;
  uint32_t block_tokens; /* of the first blocks */
} edit;

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

static bool next(stream *s, ds_diag *d) {
  size_t n;
  s->index += s->any;
  if (!ds_trace_read_more(s->trace, &s->r, &s->more, 1, &n, d)) return false;
  s->any = n > 0;
  return true;
}

static void close_all(edit *e) {
  for (size_t i = 0; i < e->e->n; i++) {
    ds_trace_close(e->s[i].trace);
    memset(&e->s[i], 0, sizeof e->s[i]);
  }
}

static bool open_all(edit *e, ds_diag *d) {
  for (size_t i = 0; i < e->e->n; i++)
    if (!ds_trace_open(e->e->workload[i], e->e->seed, &e->s[i].trace, d) || !next(&e->s[i], d))
      return false;
  return true;
}

/* ---- anonymous ---- */

static bool number_of(numbers *t, uint64_t id, uint64_t *number) {
  if (t->n * 2 >= t->room) {
    size_t room = t->room == 0 ? 4096 : 2 * t->room;
    uint64_t *ids = malloc(room * sizeof *ids), *number2 = calloc(room, sizeof *number2);
    if (ids == NULL || number2 == NULL) {
      free(ids);
      free(number2);
      return false;
    }
    for (size_t i = 0; i < t->room; i++) {
      if (t->number[i] == 0) continue;
      size_t k = (size_t)ds_mix64(t->id[i]) & (room - 1);
      while (number2[k] != 0) k = (k + 1) & (room - 1);
      ids[k] = t->id[i];
      number2[k] = t->number[i];
    }
    free(t->id);
    free(t->number);
    t->id = ids;
    t->number = number2;
    t->room = room;
  }
  size_t k = (size_t)ds_mix64(id) & (t->room - 1);
  while (t->number[k] != 0 && t->id[k] != id) k = (k + 1) & (t->room - 1);
  if (t->number[k] == 0) {
    t->id[k] = id;
    t->number[k] = ++t->n;
  }
  *number = t->number[k] - 1;
  return true;
}

/* Only times, lengths, sessions and blocks are left, the latter two numbered by first appearance.
 */
static bool anonymise(edit *e, ds_request *r, const ds_more *from, ds_more *to, char session[32],
                      ds_diag *d) {
  *to = (ds_more){.think_ns = from->think_ns, .ttft_ns = -1, .e2e_ns = -1, .queue_ns = -1};
  to->turn = from->turn;
  to->has_turn = from->has_turn;
  if (r->priority != 0) r->priority = 0;
  if (from->session != NULL) {
    ds_session_state *s = ds_sessions_of(&e->sessions, from->session);
    if (s == NULL) return out_of_memory(d);
    if (s->rows++ == 0) s->last = (size_t)e->n_sessions++;
    snprintf(session, 32, "s%zu", s->last);
    to->session = session;
  }
  if (from->n_blocks == 0) return true;
  if (from->n_blocks > e->ids_room) {
    uint64_t *ids = realloc(e->ids, (size_t)from->n_blocks * 2 * sizeof *ids);
    if (ids == NULL) return out_of_memory(d);
    e->ids = ids;
    e->ids_room = (size_t)from->n_blocks * 2;
  }
  for (uint64_t i = 0; i < from->n_blocks; i++)
    if (!number_of(&e->blocks, from->blocks[i] + from->scope, &e->ids[i])) return out_of_memory(d);
  to->blocks = e->ids;
  to->n_blocks = from->n_blocks;
  to->block_tokens = from->block_tokens;
  to->tail = from->tail;
  return true;
}

/* ---- one row ---- */

/* Write it, or (out NULL) only see what it says. */
static bool one(edit *e, size_t i, ds_outfile *out, uint64_t index, ds_diag *d) {
  stream *s = &e->s[i];
  ds_request r = s->r;
  ds_more own;
  const ds_more *more = s->more;
  char session[300], id_text[300], anonymous[32];
  const char *id = ds_trace_has_ids(s->trace) ? ds_trace_id(s->trace, s->index) : NULL;
  if (e->e->anonymise) {
    id = NULL;
    if (more != NULL && !anonymise(e, &r, more, &own, anonymous, d)) return false;
    if (more != NULL) more = &own;
  }
  if (e->e->merge && id != NULL) {
    snprintf(id_text, sizeof id_text, "%zu:%.280s", i, id);
    id = id_text;
  }
  if (e->e->merge && more != NULL && i > 0) {
    own = *more;
    own.scope = ds_mix64(more->scope ^ (uint64_t)i << 32) | 1;
    more = &own;
  }
  if (e->e->merge && more != NULL && more->session != NULL) {
    if (more != &own) own = *more;
    snprintf(session, sizeof session, "%zu:%.280s", i, more->session);
    own.session = session;
    more = &own;
  }
  if (e->writer->holds & 1u << DS_HAS_THINK && more != NULL && more->think_ns < 0 && r.after > 0) {
    if (more != &own) own = *more;
    own.think_ns = r.think_ns;
    more = &own;
  }
  if (out != NULL) {
    e->writer->row(out, index, &r, id, more);
    return true;
  }
  ds_trace_has_of(&r, id, more, e->seen);
  if (more != NULL && more->n_blocks > 0 && e->block_tokens == 0)
    e->block_tokens = more->block_tokens;
  return true;
}

static bool pass(edit *e, ds_outfile *out, ds_diag *d) {
  bool good = open_all(e, d);
  e->n = 0;
  while (good) {
    size_t first = e->e->n;
    for (size_t i = 0; i < e->e->n; i++)
      if (e->s[i].any && (first == e->e->n || e->s[i].r.arrival_ns < e->s[first].r.arrival_ns))
        first = i;
    if (first == e->e->n) break;
    good = one(e, first, out, e->n++, d) && next(&e->s[first], d);
    if (out != NULL && ds_out_failed(out)) break;
  }
  if (good && out != NULL && !ds_out_failed(out)) { /* the account once everything is read */
    for (size_t i = 0; i < e->e->n; i++) {
      char account[600];
      ds_trace_account(e->s[i].trace, account, sizeof account);
      ds_say("%s: %s", e->e->workload[i]->path_given, account);
    }
  }
  close_all(e);
  ds_sessions_free(&e->sessions);
  e->n_sessions = 0;
  return good;
}

static void say_what_is_lost(const edit *e) {
  char text[1200] = "";
  size_t n = 0;
  for (int i = 0; i < DS_HAS_N; i++) {
    if (e->seen[i] == 0 || e->writer->holds & 1u << i) continue;
    n += (size_t)snprintf(text + n, sizeof text - n, "%s %s (%llu of %llu requests)",
                          n > 0 ? "," : "lost, which this format cannot hold:", ds_trace_has_names[i],
                          (unsigned long long)e->seen[i], (unsigned long long)e->n);
    if (n >= sizeof text) n = sizeof text - 1;
  }
  if (n > 0) ds_say("%s", text);
  if (strcmp(e->writer->name, "mooncake") == 0 && e->block_tokens != 0 && e->block_tokens != 512)
    ds_say("blocks of %u tokens, where this format has 512: read it with `import: {block_tokens: %u}`",
            e->block_tokens, e->block_tokens);
}

static bool known_writer(edit *e, ds_diag *d) {
  e->writer = ds_trace_writer_named(e->e->to);
  if (e->writer != NULL) return true;
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "'%.40s' is no format that is written", e->e->to);
  ds_diag_expected(d, "%s", ds_trace_writer_names());
  return false;
}

bool ds_trace_edit_run(const ds_trace_edit *what, ds_diag *d) {
  edit e;
  memset(&e, 0, sizeof e);
  e.e = what;
  if (!known_writer(&e, d)) return false;
  e.s = calloc(what->n, sizeof *e.s);
  if (e.s == NULL) return out_of_memory(d);
  bool stdin_used = false;
  for (size_t i = 0; i < what->n; i++)
    stdin_used = stdin_used || strcmp(what->workload[i]->path, "-") == 0;
  bool good = true;
  if (stdin_used) /* it cannot be read twice */
    ds_say("standard input: what %s cannot hold is lost without being counted",
            e.writer->name);
  else
    good = pass(&e, NULL, d);
  if (good) {
    say_what_is_lost(&e);
    ds_outfile *out = ds_outfile_open(what->out, d);
    good = out != NULL;
    if (good) {
      if (e.writer->begin != NULL) e.writer->begin(out);
      good = pass(&e, out, d);
      if (good && !ds_outfile_close(out, d)) good = false;
      if (good)
        good = ds_outfile_publish(out, d);
      else
        ds_outfile_discard(out);
    }
  }
  free(e.blocks.id);
  free(e.blocks.number);
  free(e.ids);
  free(e.s);
  return good;
}
