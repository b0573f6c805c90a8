// SPDX-License-Identifier: GPL-3.0-or-later
/* workload.generate: synthetic requests by laws of length, sessions and shared prefixes; a preset
 * gives what the scenario does not say. */
#include <stdlib.h>
#include <string.h>

#include "io/input.h"
#include "io/presets.h"
#include "io/scenario_read.h"

#define LEN(a)     (sizeof(a) / sizeof((a)[0]))
#define LONGEST_NS 1000000000000000000LL
#define TOKENS_MAX 1000000000 /* as in traces */

static bool enter(ds_reader *r, const char *section) {
  snprintf(r->prefix, sizeof r->prefix, "%s%s%s", r->root, section[0] ? "." : "", section);
  return true;
}

static bool missing(ds_reader *r, const ds_node *map, const char *key, const char *expected) {
  ds_complain(r->d, map, "%s is missing", ds_name(r, key));
  ds_diag_expected(r->d, "%s", expected);
  return false;
}

const ds_node *ds_layers_get(const ds_layers *l, const char *key) {
  const ds_node *n = ds_node_get(l->own, key);
  return n || !l->preset ? n : ds_node_get(l->preset, key);
}

static bool read_length(ds_reader *r, const ds_layers *g, const char *key, ds_length_law *l) {
  const ds_node *n = ds_layers_get(g, key);
  char section[64];
  if (!n)
    return missing(
        r, g->own, key,
        "a law, such as {law: fixed, value: 128} or {law: lognormal, mean: 550, p99: 3000}");
  snprintf(section, sizeof section, "generate.%s", key);
  return ds_read_law(r, n, section, false, l) && enter(r, "generate");
}

/* What the file holds decides what is generated, so its hash is a setting. */
static bool note_hash(ds_reader *r, const ds_node *rows, const ds_workload *w) {
  ds_input *in;
  if (!ds_input_open(w->rows_path, w->rows_path_given, &in, r->d)) return false;
  bool ok = true;
  for (;;) {
    in->at = in->end;
    if (in->ended) break;
    ok = ds_input_fill(in, r->d);
    if (!ok) break;
  }
  ok = ok && ds_note(r, "rows_sha256", rows, "", "%s", ds_input_sha256(in));
  ds_input_close(in);
  return ok;
}

/* lengths: {rows: FILE} draws input and output together from the rows of a trace. */
static bool read_rows(ds_reader *r, const ds_node *lengths, ds_workload *w) {
  static const char *const keys[] = {"rows", "order"};
  static const char *const orders[] = {"random", "equal", "recorded"};
  size_t k;
  enter(r, "generate.lengths");
  if (!ds_section(r, lengths, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *rows = ds_node_get(lengths, "rows");
  if (!rows) return missing(r, lengths, "rows", "rows: FILE, a trace");
  if (!ds_want_text(rows, ds_name(r, "rows"), w->rows_path_given, sizeof w->rows_path_given, r->d))
    return false;
  const char *base = ds_base_of(r, rows);
  bool whole = w->rows_path_given[0] == '/' || base[0] == '\0';
  int n = snprintf(w->rows_path, sizeof w->rows_path, "%s%s%s", whole ? "" : base,
                   whole || base[strlen(base) - 1] == '/' ? "" : "/", w->rows_path_given);
  if (n < 0 || (size_t)n >= sizeof w->rows_path || strcmp(w->rows_path_given, "-") == 0) {
    ds_complain(r->d, rows, "%s is no file", ds_name(r, "rows"));
    ds_diag_expected(r->d, "the path of a trace");
    return false;
  }
  if (!ds_note_text(r, "rows", rows, "", w->rows_path_given) || !note_hash(r, rows, w) ||
      !ds_opt_choice(r, lengths, "order", orders, LEN(orders), 0, &k))
    return false;
  w->rows_order = "rea"[k];
  return enter(r, "generate");
}

static bool read_lengths(ds_reader *r, const ds_layers *g, ds_workload *w) {
  const ds_node *lengths = ds_node_get(g->own, "lengths");
  if (!lengths)
    return read_length(r, g, "input_tokens", &w->input) &&
           read_length(r, g, "output_tokens", &w->output);
  static const char *const others[] = {"input_tokens", "output_tokens"};
  for (size_t i = 0; i < LEN(others); ++i) {
    const ds_node *n = ds_node_get(g->own, others[i]);
    if (!n) continue;
    ds_complain_key(r->d, n, "%s stands beside lengths", ds_name(r, others[i]));
    ds_diag_expected(r->d, "lengths: {rows: FILE}, or a law for input_tokens and output_tokens");
    return false;
  }
  return read_rows(r, lengths, w);
}

/* --- sessions ------------------------------------------------------------------------------ */

static bool session_law(ds_reader *r, const ds_node *map, const char *section, const char *key,
                        bool time, const char *preset, ds_length_law *l) {
  const ds_node *n = ds_node_get(map, key);
  char inner[64];
  enter(r, section);
  if (!n) return missing(r, map, key, preset);
  snprintf(inner, sizeof inner, "%s.%s", section, key);
  return ds_read_law(r, n, inner, time, l);
}

static bool read_agents(ds_reader *r, const ds_node *n, ds_session_law *s) {
  static const char *const keys[] = {"chance", "count", "turns", "input_tokens"};
  static const char section[] = "generate.session.sub_agents";
  enter(r, section);
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0)) return false;
  if (!ds_node_get(n, "chance")) return missing(r, n, "chance", "chance: 0.05, after each turn");
  return ds_opt_number(r, n, "chance", 0, 1, 0, &s->agents_chance) &&
         session_law(r, n, section, "count", false, "count: 2", &s->agents) &&
         session_law(r, n, section, "turns", false, "turns: 5", &s->agent_turns) &&
         session_law(r, n, section, "input_tokens", false, "input_tokens: 8000", &s->agent_input);
}

static bool read_session(ds_reader *r, const ds_node *n, ds_workload *w) {
  static const char *const keys[] = {"turns",       "think",      "input_tokens",
                                     "max_context", "compact_to", "sub_agents"};
  static const char section[] = "generate.session";
  ds_session_law *s = &w->session;
  if (!n) return true;
  enter(r, section);
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0)) return false;
  s->on = true;
  w->closed_loop = true;
  if (!session_law(r, n, section, "turns", false, "turns: {law: exponential, mean: 5}",
                   &s->turns) ||
      !session_law(r, n, section, "think", true, "think: {law: exponential, mean: 30 s}",
                   &s->think) ||
      !session_law(r, n, section, "input_tokens", false,
                   "input_tokens: a law of what each further turn adds", &s->input))
    return false;
  enter(r, section);
  if (ds_node_get(n, "max_context") &&
      !ds_opt_integer(r, n, "max_context", 2, TOKENS_MAX, 0, &s->max_context))
    return false;
  const ds_node *compact = ds_node_get(n, "compact_to"), *agents = ds_node_get(n, "sub_agents");
  if (compact && s->max_context == 0)
    return missing(r, n, "max_context", "max_context: 165000, beside compact_to");
  if (compact && !ds_opt_integer(r, n, "compact_to", 1, s->max_context - 1, 0, &s->compact_to))
    return false;
  return (!agents || read_agents(r, agents, s)) && enter(r, "generate");
}

static bool read_prefix(ds_reader *r, const ds_node *n, ds_workload *w) {
  static const char *const keys[] = {"groups", "tokens", "share", "theta"};
  ds_prefix_law *p = &w->prefix;
  if (!n) return true;
  enter(r, "generate.prefix");
  if (!ds_section(r, n, keys, LEN(keys), NULL, 0)) return false;
  if (!ds_opt_integer(r, n, "groups", 1, 1000000000, 1, &p->groups) ||
      !ds_opt_number(r, n, "theta", 0, 20, 0, &p->theta))
    return false;
  bool tokens = ds_node_get(n, "tokens") != NULL, share = ds_node_get(n, "share") != NULL;
  if (tokens == share) {
    ds_complain(r->d, n, "%s has %s of tokens and share", ds_name(r, ""),
                tokens ? "both" : "neither");
    ds_diag_expected(r->d, "tokens: 2000 (before each prompt) or share: 0.4 (of the prompt)");
    return false;
  }
  if (tokens && !ds_opt_number(r, n, "tokens", 1, TOKENS_MAX, 0, &p->tokens)) return false;
  if (share && !ds_opt_number(r, n, "share", 1e-6, 1, 0, &p->share)) return false;
  return enter(r, "generate");
}

/* --- all ----------------------------------------------------------------------------------- */

static bool read_how_many(ds_reader *r, const ds_layers *g, ds_workload *w) {
  const ds_node *requests = ds_node_get(g->own, "requests"),
                *duration = ds_node_get(g->own, "duration");
  char text[48];
  if (!requests && !duration) requests = ds_node_get(g->preset, "requests");
  if (!requests == !duration) {
    ds_complain(r->d, g->own, "%s has %s of requests and duration", ds_name(r, ""),
                requests ? "both" : "neither");
    ds_diag_expected(r->d, "one of requests: 10000 and duration: 600 s");
    return false;
  }
  if (requests)
    return ds_want_integer(requests, ds_name(r, "requests"), 1, 1000000000, &w->requests, r->d) &&
           ds_note(r, "requests", requests, "", "%lld", (long long)w->requests);
  if (!ds_want_time(duration, ds_name(r, "duration"), 1, LONGEST_NS, &w->duration_ns, r->d))
    return false;
  ds_time_format(w->duration_ns, text, sizeof text);
  return ds_note(r, "duration", duration, "", "%s", text);
}

static bool check_together(ds_reader *r, const ds_node *own, ds_workload *w) {
  const ds_node *duration = ds_node_get(own, "duration");
  bool seats = w->process == DS_ARRIVAL_CLOSED;
  enter(r, "generate");
  if (duration && (w->process == DS_ARRIVAL_BURST || seats)) {
    ds_complain_key(r->d, duration, "%s stands beside process: %s", ds_name(r, "duration"),
                    seats ? "closed-loop" : "burst-at-zero");
    ds_diag_expected(r->d,
                     seats ? "requests: how many in all" : "requests: how many arrive at time 0");
    return false;
  }
  if (duration && w->arrival.exact) {
    ds_complain_key(r->d, duration, "%s stands beside arrivals.exact", ds_name(r, "duration"));
    ds_diag_expected(r->d, "requests: the last arrives at requests / rate");
    return false;
  }
  const ds_node *session = ds_node_get(own, "session");
  if (session && w->process == DS_ARRIVAL_USERS) {
    ds_complain_key(r->d, session, "%s stands beside process: users", ds_name(r, "session"));
    ds_diag_expected(r->d, "arrivals of sessions, such as process: poisson");
    return false;
  }
  if (session && w->rows_path[0]) {
    ds_complain_key(r->d, session, "%s stands beside lengths", ds_name(r, "session"));
    ds_diag_expected(r->d, "input_tokens of the first turn and output_tokens, as laws");
    return false;
  }
  return true;
}

static bool read_with(ds_reader *r, const ds_layers *g, ds_workload *w) {
  enter(r, "generate");
  return read_how_many(r, g, w) && ds_read_arrivals(r, g, w) && enter(r, "generate") &&
         read_lengths(r, g, w) && read_session(r, ds_layers_get(g, "session"), w) &&
         read_prefix(r, ds_layers_get(g, "prefix"), w) &&
         ds_read_generated_images(r, ds_node_get(g->own, "images"), w) && check_together(r, g->own, w) &&
         enter(r, "");
}

bool ds_read_generate(ds_reader *r, const ds_node *generate, ds_workload *w) {
  static const char *const keys[] = {"requests", "duration",     "preset",
                                     "arrivals", "input_tokens", "output_tokens",
                                     "lengths",  "session",      "prefix", "images"};
  enter(r, "generate");
  if (!ds_section(r, generate, keys, LEN(keys), NULL, 0)) return false;
  const ds_node *preset = ds_node_get(generate, "preset");
  ds_layers g = {generate, NULL};
  if (!preset) return read_with(r, &g, w);
  const char *names[DS_PRESETS_MAX];
  size_t k, n = ds_preset_names(names);
  if (!ds_want_choice(preset, ds_name(r, "preset"), names, n, &k, r->d) ||
      !ds_note(r, "preset", preset, "", "%s", names[k]))
    return false;
  snprintf(w->preset, sizeof w->preset, "%s", names[k]);
  ds_doc doc;
  char file[64];
  snprintf(file, sizeof file, "preset %s", names[k]);
  if (!ds_doc_parse(ds_presets[k].text, strlen(ds_presets[k].text), file, &doc, r->d)) return false;
  g.preset = doc.root;
  bool ok = read_with(r, &g, w);
  ds_doc_free(&doc);
  return ok;
}
