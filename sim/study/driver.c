// SPDX-License-Identifier: GPL-3.0-or-later
#include "study/driver.h"

#include "study/client.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHUNK            4096   /* requests read and fed at a time: small enough for the cache */
#define STEP_EVENTS      200000 /* iterations between looks at the clock */
#define PROGRESS_FIRST_S 0.5
#define PROGRESS_EVERY_S 0.1

static void *heap_resize(void *opaque, void *old, size_t old_bytes, size_t new_bytes) {
  (void)opaque;
  (void)old_bytes;
  if (new_bytes == 0) {
    free(old);
    return NULL;
  }
  return realloc(old, new_bytes);
}

const ds_alloc ds_heap = {heap_resize, NULL};

typedef struct progress {
  bool on, shown;
  double start_s, next_s;
} progress;

static double clock_s(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void progress_begin(progress *p, bool wanted) {
  memset(p, 0, sizeof *p);
  p->on = wanted && isatty(STDERR_FILENO) == 1;
  if (!p->on) return;
  p->start_s = clock_s();
  p->next_s = p->start_s + PROGRESS_FIRST_S;
}

static void progress_show(progress *p, const ds_drive *drive) {
  if (!p->on) return;
  double now_s = clock_s();
  if (now_s < p->next_s) return;
  p->next_s = now_s + PROGRESS_EVERY_S;
  p->shown = true;
  int64_t at_ns;
  uint64_t finished, done, total;
  ds_sim_progress(drive->sim, &at_ns, &finished);
  done = total = 0;
  if (drive->trace != NULL) ds_trace_progress(drive->trace, &done, &total);
  char share[32] = "";
  if (total > 0)
    snprintf(share, sizeof share, ", %.0f %% of the trace read",
             100.0 * (double)done / (double)total);
  fprintf(stderr, "\r\033[K%" PRIu64 " requests finished, %.0f s simulated in %.1f s%s", finished,
          (double)at_ns * 1e-9, now_s - p->start_s, share);
  fflush(stderr);
}

static void progress_end(progress *p) {
  if (p->shown) fputs("\r\033[K", stderr);
  p->shown = false;
}

static bool complain(const ds_scenario *sc, const ds_drive *drive, ds_status status,
                     const ds_error *err, ds_diag *d) {
  if (status == DS_E_NOMEM) return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
  const char *text = err->text[0] != '\0' ? err->text : "the simulation failed";
  if (status == DS_E_POLICY || status == DS_E_STATE)
    return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "%s", text);
  if (err->request < 0 || drive == NULL || drive->trace == NULL)
    return ds_scenario_complain(sc, err, d);
  uint64_t index = ds_oversize_trace_index(&drive->oversize, (uint64_t)err->request);
  bool from_file = sc->workload.kind == DS_WORKLOAD_TRACE;
  const char *file = from_file ? sc->workload.path_given : sc->path;
  return ds_diag_set(d, DS_EXIT_INPUT, file, from_file ? ds_trace_line(drive->trace, index) : 0, 0,
                     "request %s: %s", ds_trace_id(drive->trace, index), text);
}

static void take_steps(const ds_drive_options *opt, ds_drive *drive) {
  if (opt->on_step == NULL) return;
  ds_step step;
  while (ds_sim_next_step(drive->sim, &step)) opt->on_step(opt->user, &step, drive);
}

static bool advance(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *drive,
                    progress *p, ds_diag *d) {
  bool more = true;
  while (more) {
    ds_error err = {DS_OK, -1, ""};
    ds_status status = ds_sim_step(drive->sim, STEP_EVENTS, &more, &err);
    if (status != DS_OK) return complain(sc, drive, status, &err, d);
    take_steps(opt, drive);
    progress_show(p, drive);
  }
  return true;
}

static bool keep_first(const ds_drive_options *opt, ds_drive *drive, const ds_request *r,
                       size_t n) {
  if (drive->n_first >= opt->keep_first) return true;
  if (drive->first == NULL) drive->first = malloc(opt->keep_first * sizeof *drive->first);
  if (drive->first == NULL) return false;
  size_t room = opt->keep_first - drive->n_first, take = n < room ? n : room;
  memcpy(drive->first + drive->n_first, r, take * sizeof *r);
  for (size_t i = drive->n_first; i < drive->n_first + take; i++)
    if (!ds_span_keep(&drive->first_spans, &drive->first[i].spans, drive->first[i].n_spans)) return false;
  drive->n_first += take;
  return true;
}

static bool out_of_memory(ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
}

/* ---- closed loop: everything is fed before the first step ---- */

/* The number of a request of the trace among those that are fed; false: it was rejected, as the *fed-th of them. */
static bool fed_number(const ds_oversize *o, uint64_t index, uint64_t *fed) {
  size_t low = 0, high = o->n; /* rejected ones before it */
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    if (o->rejected[middle].index < index)
      low = middle + 1;
    else
      high = middle;
  }
  bool rejected = low < o->n && o->rejected[low].index == index;
  *fed = rejected ? low : index - low;
  return !rejected;
}

/* Requests that wait for several. */
static bool join(const ds_scenario *sc, ds_drive *drive, ds_diag *d) {
  const ds_trace_join *j = NULL;
  size_t n = 0;
  bool good = drive->merged != NULL ? ds_merged_joins(drive->merged, &j, &n)
              : drive->trace != NULL ? ds_trace_joins(drive->trace, &j, &n) : true;
  if (!good) return out_of_memory(d);
  for (size_t i = 0; i < n; i++) {
    uint64_t follower, on;
    ds_error err = {DS_OK, -1, ""};
    if (!fed_number(&drive->oversize, j[i].follower, &follower) || !fed_number(&drive->oversize, j[i].on, &on)) continue;
    ds_status status = ds_sim_join(drive->sim, follower, on, &err);
    if (status != DS_OK) return complain(sc, drive, status, &err, d);
  }
  return true;
}

/* Numbers of the trace become those of what is fed. Who followed a rejected request follows whom
 * that one followed, or nobody. */
static void renumber(const ds_oversize *o, ds_request *r, size_t n) {
  for (size_t i = 0; o->n > 0 && i < n; i++) {
    while (r[i].after > 0) {
      uint64_t index = r[i].after - 1, fed;
      if (fed_number(o, index, &fed)) {
        r[i].after = 1 + fed;
        break;
      }
      r[i].after = o->rejected[fed].request.after; /* whom that one followed */
    }
  }
}

static bool read_whole(ds_drive *drive, ds_request **all, size_t *n, ds_diag *d) {
  size_t room = 0, got = 0;
  for (;;) {
    if (*n + CHUNK > room) {
      size_t more = room == 0 ? (size_t)CHUNK : 2 * room;
      ds_request *q = realloc(*all, more * sizeof *q);
      if (q == NULL) return out_of_memory(d);
      *all = q;
      room = more;
    }
    if (!ds_trace_read(drive->trace, *all + *n, CHUNK, &got, d)) return false;
    if (got == 0) return true;
    *n += got;
  }
}

static bool no_requests(const ds_scenario *sc, uint64_t read, ds_diag *d) {
  const char *file = sc->workload.kind == DS_WORKLOAD_TRACE ? sc->workload.path_given : sc->path;
  return ds_diag_set(d, DS_EXIT_INPUT, file, 0, 0, "%s",
                     read > 0 ? "no request of the workload fits a replica"
                              : "the workload has no requests");
}

/* From the server's times to the client's. */
static bool see(const ds_scenario *sc, ds_drive *drive, ds_diag *d) {
  if (ds_client_plain(&sc->workload)) return true;
  if (!ds_client_view(&sc->workload, drive->result, &drive->ordered)) return out_of_memory(d);
  drive->result = &drive->ordered.result;
  return true;
}

/* Some requests count less than others: each gap must be known to be whose. */
static bool has_silent(const ds_workload *w) {
  return w->warmup_requests > 0 || w->warmup_ns > 0 || w->patience.timeout_ns > 0;
}

/* Without the warm-up, and without the gaps of answers that nobody read to the end. */
static bool cut_silent(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *drive, ds_diag *d) {
  const ds_workload *w = &sc->workload;
  if (!has_silent(w)) return true;
  size_t all = drive->result->n;
  if (!ds_warmup_cut(w, &sc->run.slo.request, drive->result, opt->sim.exact_itl, &drive->ordered, &drive->arrivals,
                     &drive->warmup))
    return out_of_memory(d);
  drive->result = &drive->ordered.result;
  if (drive->result->n > 0) return true;
  ds_diag_set(d, DS_EXIT_INPUT, sc->path, 0, 0, "the warm-up takes all %zu requests", all);
  ds_diag_expected(d, "a workload that goes on after it");
  return false;
}

/* r is changed. */
static bool feed_whole(const ds_scenario *sc, const ds_drive_options *opt, bool closed,
                       ds_drive *drive, ds_request *r, size_t n, progress *p, ds_diag *d) {
  uint64_t read = n;
  if (!ds_oversize_apply(&drive->oversize, sc, ds_sim_memory(drive->sim)->kv_blocks, 0, r, &n))
    return out_of_memory(d);
  if (n == 0) return no_requests(sc, read, d);
  renumber(&drive->oversize, r, n);
  for (size_t i = 0; closed && i < n; i++) r[i].think_ns += sc->workload.rtt_ns;
  ds_error err = {DS_OK, -1, ""};
  ds_status status = ds_sim_feed(drive->sim, r, n, &err);
  if (status != DS_OK) return complain(sc, drive, status, &err, d);
  if (closed && !join(sc, drive, d)) return false;
  if (!closed && !(ds_arrivals_add(&drive->arrivals, r, n) && keep_first(opt, drive, r, n)))
    return out_of_memory(d);
  ds_sim_close(drive->sim);
  if (!advance(sc, opt, drive, p, d)) return false;
  drive->result = ds_sim_result(drive->sim);
  if (!closed) return see(sc, drive, d) && cut_silent(sc, opt, drive, d);
  if (!ds_by_arrival_of(drive->result, r, &drive->ordered, &drive->arrivals))
    return out_of_memory(d);
  drive->result = &drive->ordered.result;
  return see(sc, drive, d) && cut_silent(sc, opt, drive, d);
}

static bool feed_closed(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *drive,
                        progress *p, ds_diag *d) {
  ds_request *all = NULL;
  size_t n = 0;
  bool good =
      read_whole(drive, &all, &n, d) && feed_whole(sc, opt, true, drive, all, n, p, d);
  free(all);
  return good;
}

/* ---- open loop: fed as it is read ---- */

static bool feed_all(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *drive,
                     ds_request *chunk, progress *p, ds_diag *d) {
  uint64_t read = 0;
  for (;;) {
    size_t n;
    if (!ds_trace_read(drive->trace, chunk, CHUNK, &n, d)) return false;
    if (n == 0) break;
    uint64_t first = read;
    read += n;
    if (!ds_oversize_apply(&drive->oversize, sc, ds_sim_memory(drive->sim)->kv_blocks, first, chunk,
                           &n))
      return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    if (n == 0) continue;
    ds_error err = {DS_OK, -1, ""};
    ds_status status = ds_sim_feed(drive->sim, chunk, n, &err);
    if (status != DS_OK) return complain(sc, drive, status, &err, d);
    if (!ds_arrivals_add(&drive->arrivals, chunk, n) || !keep_first(opt, drive, chunk, n))
      return ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    if (!advance(sc, opt, drive, p, d)) return false;
  }
  if (drive->arrivals.n == 0) return no_requests(sc, read, d);
  ds_sim_close(drive->sim);
  return advance(sc, opt, drive, p, d);
}

static bool open_demand(const ds_scenario *sc, ds_merged **merged, ds_trace **trace, ds_diag *d) {
  if (sc->workload.kind == DS_WORKLOAD_MERGED)
    return ds_merged_open(&sc->workload, sc->run.seed, merged, trace, d);
  return ds_trace_open(&sc->workload, sc->run.seed, trace, d);
}

/* The caches as the whole workload would leave them. */
static bool warm(const ds_scenario *sc, ds_sim *sim, ds_request *chunk, ds_diag *d) {
  if (sc->workload.kind == DS_WORKLOAD_TRACE && strcmp(sc->workload.path, "-") == 0) {
    ds_diag_set(d, DS_EXIT_INPUT, NULL, 0, 0,
                "initial_cache is warm, but a trace on standard input can be read only once");
    ds_diag_expected(d, "a trace in a file, or initial_cache: empty");
    return false;
  }
  ds_trace *trace = NULL;
  ds_merged *merged = NULL;
  bool good = open_demand(sc, &merged, &trace, d);
  for (size_t n = 1; good && n > 0;) {
    good = ds_trace_read(trace, chunk, CHUNK, &n, d);
    ds_error err = {DS_OK, -1, ""};
    if (!good || n == 0) break;
    ds_status status = ds_sim_warm(sim, chunk, n, &err);
    if (status != DS_OK) good = complain(sc, NULL, status, &err, d);
  }
  if (trace != NULL) ds_trace_close(trace);
  ds_merged_close(merged);
  return good;
}

static bool begin(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *out, ds_diag *d) {
  ds_error err = {DS_OK, -1, ""};
  ds_run run = sc->run;
  ds_client_limits(&sc->workload, &run.slo.request);
  run.patience = ds_client_patience(&sc->workload);
  ds_status status = ds_sim_new(&run, sc->sched, sc->route, &opt->sim, &ds_heap, &out->sim, &err);
  if (status != DS_OK) return complain(sc, NULL, status, &err, d);
  out->arrivals.rtt_ns = sc->workload.rtt_ns;
  out->arrivals.capped = opt->sim.closed_loop && opt->sim.concurrency > 0;
  return true;
}

bool ds_drive_run(const ds_scenario *sc, const ds_drive_options *opt, ds_drive *out, ds_diag *d) {
  ds_drive_options own = *opt;
  if (!ds_client_plain(&sc->workload)) own.keep_first = 0; /* re-runs know nothing of clients */
  if (has_silent(&sc->workload)) {
    own.keep_first = 0;
    own.sim.records = own.sim.gaps = true;
  }
  own.sim.closed_loop = opt->sim.closed_loop || sc->workload.closed_loop || sc->workload.patience.retries > 0;
  if (sc->workload.closed_loop) own.sim.concurrency = (uint64_t)sc->workload.concurrency;
  if (!begin(sc, &own, out, d)) return false;
  if (!open_demand(sc, &out->merged, &out->trace, d)) return false;
  if (ds_trace_is_closed(out->trace) && !own.sim.closed_loop) { /* the file, not the scenario, says so */
    ds_sim_free(out->sim);
    out->sim = NULL;
    own.sim.closed_loop = true;
    if (!begin(sc, &own, out, d)) return false;
  }
  ds_request *chunk = malloc(CHUNK * sizeof *chunk);
  if (chunk == NULL) return out_of_memory(d);
  if (sc->run.pool.warm_cache && !warm(sc, out->sim, chunk, d)) {
    free(chunk);
    return false;
  }
  progress p;
  progress_begin(&p, opt->progress);
  bool good = own.sim.closed_loop ? feed_closed(sc, &own, out, &p, d)
                                  : feed_all(sc, &own, out, chunk, &p, d);
  progress_end(&p);
  free(chunk);
  if (good && !own.sim.closed_loop) {
    out->result = ds_sim_result(out->sim);
    good = see(sc, out, d) && cut_silent(sc, opt, out, d);
  }
  return good;
}

bool ds_drive_requests(const ds_scenario *sc, const ds_drive_options *opt, const ds_request *r,
                       size_t n, ds_drive *out, ds_diag *d) {
  if (!begin(sc, opt, out, d)) return false;
  ds_request *own = malloc((n + 1) * sizeof *own);
  if (own == NULL) return out_of_memory(d);
  if (n > 0) memcpy(own, r, n * sizeof *own);
  progress p;
  progress_begin(&p, opt->progress);
  bool good = feed_whole(sc, opt, opt->sim.closed_loop, out, own, n, &p, d);
  progress_end(&p);
  free(own);
  return good;
}

void ds_drive_free(ds_drive *drive) {
  if (drive->sim != NULL) ds_sim_free(drive->sim);
  if (drive->trace != NULL) ds_trace_close(drive->trace);
  ds_merged_close(drive->merged);
  ds_arrivals_free(&drive->arrivals);
  ds_oversize_free(&drive->oversize);
  ds_by_arrival_free(&drive->ordered);
  ds_warmup_free(&drive->warmup);
  free(drive->first);
  ds_span_room_free(&drive->first_spans);
  memset(drive, 0, sizeof *drive);
}

const char *ds_drive_id(ds_drive *drive, uint64_t k) {
  uint64_t index = ds_oversize_trace_index(&drive->oversize, k);
  if (drive->trace != NULL) return ds_trace_id(drive->trace, index);
  snprintf(drive->number, sizeof drive->number, "%" PRIu64, index);
  return drive->number;
}

size_t ds_drive_stream(const ds_drive *drive, size_t i) {
  if (drive->merged == NULL) return 0;
  i += drive->warmup.n;
  uint64_t fed = drive->ordered.index != NULL ? drive->ordered.index[i] : i;
  return ds_merged_stream(drive->merged, ds_oversize_trace_index(&drive->oversize, fed));
}

bool ds_drive_again(const ds_scenario *sc, const ds_request *r, size_t n, double stretch,
                    ds_sim **sim, ds_diag *d) {
  ds_sim_options opt;
  memset(&opt, 0, sizeof opt);
  ds_error err = {DS_OK, -1, ""};
  *sim = NULL;
  ds_status status = ds_sim_new(&sc->run, sc->sched, sc->route, &opt, &ds_heap, sim, &err);
  if (status != DS_OK) return complain(sc, NULL, status, &err, d);
  if (status == DS_OK && sc->run.pool.warm_cache) status = ds_sim_warm(*sim, r, n, &err);
  for (size_t i = 0; i < n && status == DS_OK; i++) {
    ds_request scaled = r[i];
    scaled.arrival_ns = (int64_t)((double)(r[i].arrival_ns - r[0].arrival_ns) * stretch + 0.5);
    status = ds_sim_feed(*sim, &scaled, 1, &err);
  }
  if (status == DS_OK) ds_sim_close(*sim);
  bool more = status == DS_OK;
  while (more) {
    status = ds_sim_step(*sim, STEP_EVENTS, &more, &err);
    if (status != DS_OK) break;
  }
  return status == DS_OK || complain(sc, NULL, status, &err, d);
}
