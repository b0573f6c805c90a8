// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/outfile.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES ((size_t)1 << 16)
#define TEMP_MAX     16 /* files that one process has open for writing at a time */
#define PATH_BYTES   4096
#define LINKS_MAX    40 /* as the kernel's own limit */

struct ds_outfile {
  char shown[512];         /* the name as the user gave it, for messages */
  char target[PATH_BYTES]; /* where it will be, links resolved */
  int temp;                /* index into temp_path, or -1: written in place or in memory */
  int fd;                  /* -1: memory */
  bool is_stdout;
  int error; /* errno of the first failure */
  char *buf;
  size_t used, cap;
};

/* Names of the temporary files that exist, for the signal handler: it may only touch plain static
 * data. */
static char temp_path[TEMP_MAX][PATH_BYTES];
static volatile sig_atomic_t temp_live[TEMP_MAX];

static void on_signal(int sig) {
  for (int i = 0; i < TEMP_MAX; i++)
    if (temp_live[i]) unlink(temp_path[i]);
  /* The disposition was reset on entry: end as the signal asks. */
  raise(sig);
}

static const int ending[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};

void ds_outfile_guard_signals(void) {
  struct sigaction act;
  memset(&act, 0, sizeof act);
  act.sa_handler = on_signal;
  act.sa_flags = (int)SA_RESETHAND;
  sigemptyset(&act.sa_mask);
  for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) {
    struct sigaction old;
    /* What the parent chose to ignore (nohup) stays ignored. */
    if (sigaction(ending[i], NULL, &old) == 0 && old.sa_handler == SIG_IGN) continue;
    sigaction(ending[i], &act, NULL);
  }
  act.sa_handler = SIG_IGN;
  act.sa_flags = 0;
  sigaction(SIGPIPE, &act, NULL);
  sigaction(SIGXFSZ, &act, NULL);
}

static void hold_signals(bool hold, sigset_t *saved) {
  if (!hold) {
    sigprocmask(SIG_SETMASK, saved, NULL);
    return;
  }
  sigset_t set;
  sigemptyset(&set);
  for (size_t i = 0; i < sizeof ending / sizeof ending[0]; i++) sigaddset(&set, ending[i]);
  sigprocmask(SIG_BLOCK, &set, saved);
}

static ds_outfile *outfile_new(const char *shown) {
  ds_outfile *f = calloc(1, sizeof *f);
  if (f == NULL) return NULL;
  f->cap = BUFFER_BYTES;
  f->buf = malloc(f->cap);
  if (f->buf == NULL) {
    free(f);
    return NULL;
  }
  snprintf(f->shown, sizeof f->shown, "%s", shown);
  f->temp = -1;
  f->fd = -1;
  return f;
}

static void outfile_free(ds_outfile *f) {
  free(f->buf);
  free(f);
}

/* An output that cannot exist (a directory, a missing folder) is a wrong argument; the rest is a
 * failure of the run. */
static ds_exit exit_of(int error) {
  return error == EISDIR || error == ENOENT || error == ENOTDIR || error == ELOOP ||
                 error == ENAMETOOLONG
             ? DS_EXIT_USAGE
             : DS_EXIT_RUNTIME;
}

static ds_outfile *cannot_open(ds_outfile *f, int error, ds_diag *d) {
  const char *why = error == ENOENT ? "its folder does not exist" : strerror(error);
  ds_diag_set(d, exit_of(error), NULL, 0, 0, "cannot write '%s': %s", f->shown, why);
  if (error == EISDIR) ds_diag_expected(d, "the name of a file");
  outfile_free(f);
  return NULL;
}

/* Follow symbolic links of the last component, whether or not the end exists. 0 or errno. */
static int follow_links(char *path) {
  for (int i = 0; i < LINKS_MAX; i++) {
    struct stat st;
    if (lstat(path, &st) != 0) return errno == ENOENT ? 0 : errno;
    if (!S_ISLNK(st.st_mode)) return 0;
    char to[PATH_BYTES], joined[2 * PATH_BYTES];
    ssize_t n = readlink(path, to, sizeof to - 1);
    if (n < 0) return errno;
    to[n] = '\0';
    const char *slash = strrchr(path, '/');
    if (to[0] == '/' || slash == NULL)
      snprintf(joined, sizeof joined, "%s", to);
    else
      snprintf(joined, sizeof joined, "%.*s/%s", (int)(slash - path), path, to);
    if (strlen(joined) >= PATH_BYTES) return ENAMETOOLONG;
    memcpy(path, joined, strlen(joined) + 1);
  }
  return ELOOP;
}

/* A temporary file in the target's folder, so that the rename stays within one file system. 0 or
 * errno. */
static int open_temp(ds_outfile *f, mode_t mode) {
  int slot = 0;
  while (slot < TEMP_MAX && temp_live[slot]) slot++;
  if (slot == TEMP_MAX) return EMFILE;
  const char *slash = strrchr(f->target, '/');
  int folder = slash == NULL ? 0 : (int)(slash + 1 - f->target);
  /* The whole name would make a too long one of a target that is just short enough. */
  int n = snprintf(temp_path[slot], PATH_BYTES, "%.*s.dryserve-%.32s.XXXXXX", folder, f->target,
                   f->target + folder);
  if (n < 0 || n >= PATH_BYTES) return ENAMETOOLONG;
  sigset_t saved;
  hold_signals(true, &saved);
  f->fd = mkstemp(temp_path[slot]);
  int error = f->fd < 0 ? errno : 0;
  if (error == 0) {
    temp_live[slot] = 1;
    f->temp = slot;
  }
  hold_signals(false, &saved);
  if (error == 0 && fchmod(f->fd, mode) != 0 && errno != EPERM) error = errno;
  return error;
}

static void drop_temp(ds_outfile *f) {
  if (f->temp < 0) return;
  unlink(temp_path[f->temp]);
  temp_live[f->temp] = 0;
  f->temp = -1;
}

static ds_outfile *open_stdout(ds_outfile *f) {
  f->is_stdout = true;
  f->fd = STDOUT_FILENO;
  snprintf(f->shown, sizeof f->shown, "standard output");
  return f;
}

ds_outfile *ds_outfile_open(const char *path, ds_diag *d) {
  ds_outfile *f = outfile_new(path);
  if (f == NULL) {
    ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "out of memory");
    return NULL;
  }
  if (strcmp(path, "-") == 0) return open_stdout(f);
  size_t length = strlen(path);
  if (length == 0) return cannot_open(f, ENOENT, d);
  if (length >= PATH_BYTES) return cannot_open(f, ENAMETOOLONG, d);
  if (path[length - 1] == '/') return cannot_open(f, EISDIR, d);
  memcpy(f->target, path, length + 1);

  struct stat st, out;
  bool exists = stat(path, &st) == 0;
  /* /dev/stdout and friends name what standard output already is: renaming over it would miss the
   * reader. */
  if (exists && fstat(STDOUT_FILENO, &out) == 0 && st.st_dev == out.st_dev &&
      st.st_ino == out.st_ino && !S_ISCHR(st.st_mode))
    return open_stdout(f);
  if (exists && S_ISDIR(st.st_mode)) return cannot_open(f, EISDIR, d);
  if (exists && !S_ISREG(st.st_mode)) {
    f->fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY);
    return f->fd < 0 ? cannot_open(f, errno, d) : f;
  }
  int error = follow_links(f->target);
  if (error == 0 && exists && access(f->target, W_OK) != 0) error = errno;
  if (error != 0) return cannot_open(f, error, d);
  mode_t mode;
  if (exists) {
    mode = st.st_mode & 07777;
  } else {
    mode_t mask = umask(0);
    umask(mask);
    mode = 0666 & ~mask;
  }
  error = open_temp(f, mode);
  if (error != 0) {
    if (f->fd >= 0) close(f->fd);
    drop_temp(f);
    return cannot_open(f, error, d);
  }
  return f;
}

ds_outfile *ds_outfile_memory(void) { return outfile_new("memory"); }

const char *ds_outfile_text(const ds_outfile *f, size_t *bytes) {
  if (bytes != NULL) *bytes = f->used;
  f->buf[f->used] = '\0'; /* room is always kept for it */
  return f->buf;
}

bool ds_outfile_is_stdout(const ds_outfile *f) { return f->is_stdout; }
bool ds_out_failed(const ds_outfile *f) { return f->error != 0; }

static void write_all(ds_outfile *f, const char *p, size_t n) {
  while (n > 0 && f->error == 0) {
    ssize_t put = write(f->fd, p, n);
    if (put < 0) {
      if (errno != EINTR) f->error = errno;
      continue;
    }
    p += put;
    n -= (size_t)put;
  }
}

static void flush(ds_outfile *f) {
  if (f->fd >= 0) {
    write_all(f, f->buf, f->used);
    f->used = 0;
    return;
  }
  if (f->cap > SIZE_MAX / 2) {
    f->error = ENOMEM;
    f->used = 0;
    return;
  }
  char *bigger = realloc(f->buf, 2 * f->cap);
  if (bigger == NULL) {
    f->error = ENOMEM;
    f->used = 0;
    return;
  }
  f->buf = bigger;
  f->cap *= 2;
}

void ds_out_bytes(ds_outfile *f, const void *p, size_t n) {
  const char *from = p;
  while (n > 0 && f->error == 0) {
    size_t room = f->cap - 1 - f->used;
    if (room == 0) {
      flush(f);
      continue;
    }
    size_t take = n < room ? n : room;
    memcpy(f->buf + f->used, from, take);
    f->used += take;
    from += take;
    n -= take;
  }
}

void ds_out_text(ds_outfile *f, const char *text) { ds_out_bytes(f, text, strlen(text)); }

void ds_out_printf(ds_outfile *f, const char *fmt, ...) {
  char small[DS_OUT_ROOM];
  va_list args;
  va_start(args, fmt);
  int n = vsnprintf(small, sizeof small, fmt, args);
  va_end(args);
  if (n < 0) return;
  if ((size_t)n < sizeof small) {
    ds_out_bytes(f, small, (size_t)n);
    return;
  }
  char *big = malloc((size_t)n + 1);
  if (big == NULL) {
    f->error = ENOMEM;
    return;
  }
  va_start(args, fmt);
  vsnprintf(big, (size_t)n + 1, fmt, args);
  va_end(args);
  ds_out_bytes(f, big, (size_t)n);
  free(big);
}

char *ds_out_room(ds_outfile *f, size_t n) {
  if (f->cap - 1 - f->used < n) flush(f);
  if (f->error != 0) f->used = 0;
  return f->buf + f->used;
}

void ds_out_used(ds_outfile *f, size_t n) { f->used += n; }

bool ds_outfile_close(ds_outfile *f, ds_diag *d) {
  if (f->fd >= 0) {
    flush(f);
    /* Standard output stays open: a later message may still want to know where it goes. */
    if (!f->is_stdout && close(f->fd) != 0 && f->error == 0) f->error = errno;
    f->fd = -1;
  }
  if (f->error == 0) return true;
  ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "cannot write '%s': %s", f->shown,
              strerror(f->error));
  if (f->is_stdout)
    ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "cannot write standard output: %s",
                strerror(f->error));
  return false;
}

bool ds_outfile_publish(ds_outfile *f, ds_diag *d) {
  bool good = true;
  if (f->temp >= 0) {
    if (rename(temp_path[f->temp], f->target) != 0) {
      good = ds_diag_set(d, DS_EXIT_RUNTIME, NULL, 0, 0, "cannot write '%s': %s", f->shown,
                         strerror(errno));
      drop_temp(f);
    } else {
      temp_live[f->temp] = 0;
      f->temp = -1;
    }
  }
  outfile_free(f);
  return good;
}

void ds_outfile_discard(ds_outfile *f) {
  if (f == NULL) return;
  if (f->fd >= 0 && !f->is_stdout) close(f->fd);
  drop_temp(f);
  outfile_free(f);
}
