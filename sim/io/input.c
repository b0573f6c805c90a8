// SPDX-License-Identifier: GPL-3.0-or-later
#include "io/input.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#define BUFFER_BYTES                                                                               \
  (128u << 10) /* small enough that hashing and parsing find it in the second-level cache */
#define PACKED_BYTES (64u << 10)

typedef enum packing { PACKED_NOT, PACKED_GZIP, PACKED_ZSTD } packing;

/* A folder is read as a tar archive of its .json files, in order of their names. */
typedef struct folder {
  char **file; /* names */
  size_t n, at;
  int fd;      /* of the file being read; -1: none */
  uint64_t left;      /* bytes of it that its header promised */
  size_t pad;         /* zeros behind it */
  unsigned char header[512];
  size_t header_at;   /* of 512: all written */
} folder;

struct ds_input_state {
  ds_input in;
  char name[512], path[1024];
  int fd;
  bool close_fd, raw_ended, in_member; /* in_member: the packed stream has begun and not ended */
  char *buffer;
  size_t capacity; /* without the pad */
  packing packed;
  unsigned char *raw; /* packed bytes */
  size_t raw_at, raw_end;
  z_stream gzip;
  bool gzip_open;
  ZSTD_DStream *zstd;
  EVP_MD_CTX *hash;
  char hex[65];
  uint64_t done, total;
  folder *folder; /* NULL: a file */
};

static struct ds_input_state *state_of(const ds_input *in) { return in->state; }

/* ---- folders ---- */

static void folder_free(folder *f) {
  if (f == NULL) return;
  if (f->fd >= 0) close(f->fd);
  for (size_t i = 0; i < f->n; i++) free(f->file[i]);
  free(f->file);
  free(f);
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static bool is_json(const char *name) {
  size_t n = strlen(name);
  return name[0] != '.' && n > 5 && n < 100 && strcmp(name + n - 5, ".json") == 0;
}

/* The names of its .json files. NULL with *d filled. */
static folder *folder_open(const char *path, const char *name, ds_diag *d) {
  folder *f = calloc(1, sizeof *f);
  DIR *dir = opendir(path);
  bool good = f != NULL && dir != NULL;
  size_t room = 0;
  for (const struct dirent *e; good && (e = readdir(dir)) != NULL;) {
    if (!is_json(e->d_name)) continue;
    if (f->n == room) {
      room = room == 0 ? 64 : 2 * room;
      char **more = realloc(f->file, room * sizeof *more);
      good = more != NULL;
      if (!good) break;
      f->file = more;
    }
    good = (f->file[f->n] = strdup(e->d_name)) != NULL;
    f->n += good;
  }
  if (dir != NULL) closedir(dir);
  if (f != NULL) f->fd = -1;
  if (!good) {
    ds_diag_set(d, DS_EXIT_RUNTIME, name, 0, 0, "cannot read the folder");
  } else if (f->n == 0) {
    good = false;
    ds_diag_set(d, DS_EXIT_INPUT, name, 0, 0, "is a directory without .json files");
    ds_diag_expected(d, "a file, or a folder of agents' sessions (.json)");
  }
  if (good) {
    qsort(f->file, f->n, sizeof *f->file, by_name);
    f->header_at = sizeof f->header;
    return f;
  }
  folder_free(f);
  return NULL;
}

/* The next file's tar header: its name and size, and nothing that depends on who made it when. */
static bool folder_next(struct ds_input_state *s, ds_diag *d) {
  folder *f = s->folder;
  struct stat st;
  char path[1200];
  const char *file = f->file[f->at++];
  snprintf(path, sizeof path, "%s/%s", s->path, file);
  f->fd = open(path, O_RDONLY | O_CLOEXEC);
  if (f->fd < 0 || fstat(f->fd, &st) != 0)
    return ds_diag_set(d, DS_EXIT_INPUT, path, 0, 0, "cannot open: %s", strerror(errno));
  f->left = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
  f->pad = (size_t)((512 - f->left % 512) % 512);
  memset(f->header, 0, sizeof f->header);
  snprintf((char *)f->header, 100, "%s", file);
  snprintf((char *)f->header + 100, 8, "0000644");
  snprintf((char *)f->header + 124, 12, "%011llo", (unsigned long long)f->left);
  memcpy(f->header + 257, "ustar\00000", 8);
  f->header[156] = '0';
  memset(f->header + 148, ' ', 8);
  unsigned sum = 0;
  for (size_t i = 0; i < sizeof f->header; i++) sum += f->header[i];
  snprintf((char *)f->header + 148, 8, "%06o", sum);
  f->header_at = 0;
  return true;
}

/* Bytes of the archive; 0 at its end. A file that is shorter by now is an error; what has grown is left out. */
static bool folder_read(struct ds_input_state *s, char *to, size_t room, size_t *n, ds_diag *d) {
  folder *f = s->folder;
  *n = 0;
  for (;;) {
    if (f->header_at < sizeof f->header) {
      size_t k = sizeof f->header - f->header_at < room ? sizeof f->header - f->header_at : room;
      memcpy(to, f->header + f->header_at, k);
      f->header_at += k;
      *n = k;
      return true;
    }
    if (f->left > 0) {
      size_t want = f->left < room ? (size_t)f->left : room;
      ssize_t got = read(f->fd, to, want);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0)
        return ds_diag_set(d, DS_EXIT_RUNTIME, s->name, 0, 0, "%s: cannot read it whole", f->file[f->at - 1]);
      f->left -= (uint64_t)got;
      *n = (size_t)got;
      return true;
    }
    if (f->pad > 0) {
      *n = f->pad < room ? f->pad : room;
      memset(to, 0, *n);
      f->pad -= *n;
      return true;
    }
    if (f->fd >= 0) close(f->fd);
    f->fd = -1;
    if (f->at == f->n) return true;
    if (!folder_next(s, d)) return false;
  }
}

/* Raw bytes of the file, hashed. *n 0 at the end. */
static bool read_raw(struct ds_input_state *s, void *to, size_t room, size_t *n, ds_diag *d) {
  ssize_t got;
  *n = 0;
  if (s->folder != NULL) {
    size_t some;
    if (!folder_read(s, to, room, &some, d)) return false;
    got = (ssize_t)some;
  } else {
    do {
      got = read(s->fd, to, room);
    } while (got < 0 && errno == EINTR);
  }
  if (got < 0) {
    return ds_diag_set(d, DS_EXIT_RUNTIME, s->name, 0, 0, "cannot read: %s", strerror(errno));
  }
  if (got == 0) s->raw_ended = true;
  *n = (size_t)got;
  s->done += (uint64_t)got;
  if (got > 0 && EVP_DigestUpdate(s->hash, to, (size_t)got) != 1) {
    return ds_diag_set(d, DS_EXIT_RUNTIME, s->name, 0, 0, "cannot compute SHA-256");
  }
  return true;
}

static bool corrupt(const struct ds_input_state *s, const char *kind, const char *why, ds_diag *d) {
  return ds_diag_set(d, DS_EXIT_INPUT, s->name, 0, 0, "damaged %s data: %s", kind, why);
}

static bool unpack_gzip(struct ds_input_state *s, char *to, size_t room, size_t *n, ds_diag *d) {
  s->gzip.next_in = s->raw + s->raw_at;
  s->gzip.avail_in = (uInt)(s->raw_end - s->raw_at);
  s->gzip.next_out = (unsigned char *)to;
  s->gzip.avail_out = room > 1u << 30 ? 1u << 30 : (uInt)room;
  uInt before = s->gzip.avail_out;
  int rc = inflate(&s->gzip, Z_NO_FLUSH);
  s->raw_at = s->raw_end - s->gzip.avail_in;
  *n = before - s->gzip.avail_out;
  if (rc == Z_STREAM_END) {
    s->in_member = false;
    inflateReset(&s->gzip);
  } else if (rc != Z_OK && rc != Z_BUF_ERROR) {
    return corrupt(s, "gzip", s->gzip.msg != NULL ? s->gzip.msg : "cannot be unpacked", d);
  }
  return true;
}

static bool unpack_zstd(struct ds_input_state *s, char *to, size_t room, size_t *n, ds_diag *d) {
  ZSTD_inBuffer from = {s->raw, s->raw_end, s->raw_at};
  ZSTD_outBuffer out = {to, room, 0};
  size_t rc = ZSTD_decompressStream(s->zstd, &out, &from);
  if (ZSTD_isError(rc)) return corrupt(s, "zstd", ZSTD_getErrorName(rc), d);
  s->raw_at = from.pos;
  *n = out.pos;
  if (rc == 0) s->in_member = false;
  return true;
}

/* Unpacked bytes, at least one unless the end has come. Members and frames may follow each other.
 */
static bool read_packed(struct ds_input_state *s, char *to, size_t room, size_t *n, ds_diag *d) {
  const char *kind = s->packed == PACKED_GZIP ? "gzip" : "zstd";
  *n = 0;
  while (*n == 0) {
    if (s->raw_at == s->raw_end && !s->raw_ended) {
      s->raw_at = 0;
      if (!read_raw(s, s->raw, PACKED_BYTES, &s->raw_end, d)) return false;
    }
    bool dry = s->raw_at == s->raw_end;
    if (dry && !s->in_member) return true;
    if (!dry) s->in_member = true;
    size_t raw_before = s->raw_at;
    if (!(s->packed == PACKED_GZIP ? unpack_gzip(s, to, room, n, d)
                                   : unpack_zstd(s, to, room, n, d)))
      return false;
    /* Nothing in and nothing out: an unpacker that still holds output would have given it. */
    if (dry && *n == 0 && s->raw_at == raw_before && s->in_member)
      return corrupt(s, kind, "it ends too early", d);
  }
  return true;
}

/* Room for at least one more byte behind `end`: move the rest to the front, or grow. */
static bool make_room(struct ds_input_state *s, ds_diag *d) {
  ds_input *in = &s->in;
  size_t have = (size_t)(in->end - in->at);
  if (in->at > s->buffer) {
    memmove(s->buffer, in->at, have);
  } else if (have == s->capacity) {
    size_t larger = s->capacity * 2;
    char *b = realloc(s->buffer, larger + DS_INPUT_PAD);
    if (b == NULL)
      return ds_diag_set(d, DS_EXIT_RUNTIME, s->name, in->line + 1, 0, "out of memory");
    s->buffer = b;
    s->capacity = larger;
  }
  in->at = s->buffer;
  in->end = s->buffer + have;
  return true;
}

bool ds_input_fill(ds_input *in, ds_diag *d) {
  struct ds_input_state *s = state_of(in);
  if (in->ended) return true;
  if (!make_room(s, d)) return false;
  size_t room = s->capacity - (size_t)(in->end - in->at), n = 0;
  bool good = s->packed == PACKED_NOT ? read_raw(s, in->end, room, &n, d)
                                      : read_packed(s, in->end, room, &n, d);
  in->end += n;
  memset(in->end, 0, DS_INPUT_PAD);
  if (good && n == 0) in->ended = true;
  return good;
}

bool ds_input_peek(ds_input *in, size_t want, ds_diag *d) {
  while (!in->ended && (size_t)(in->end - in->at) < want) {
    if (!ds_input_fill(in, d)) return false;
  }
  return true;
}

/* How the file begins decides whether it is packed; the first bytes are already in the buffer. */
static bool look_for_packing(struct ds_input_state *s, ds_diag *d) {
  static const unsigned char gzip_magic[2] = {0x1f, 0x8b}, zstd_magic[4] = {0x28, 0xb5, 0x2f, 0xfd};
  ds_input *in = &s->in;
  if (!ds_input_peek(in, 4, d)) return false;
  size_t have = (size_t)(in->end - in->at);
  if (have >= 2 && memcmp(in->at, gzip_magic, 2) == 0) s->packed = PACKED_GZIP;
  if (have >= 4 && memcmp(in->at, zstd_magic, 4) == 0) s->packed = PACKED_ZSTD;
  if (s->packed == PACKED_NOT) return true;
  size_t raw_room = have > PACKED_BYTES ? have : PACKED_BYTES;
  s->raw = malloc(raw_room);
  if (s->packed == PACKED_GZIP) {
    s->gzip_open = inflateInit2(&s->gzip, 15 + 16) == Z_OK;
  } else {
    s->zstd = ZSTD_createDStream();
  }
  if (s->raw == NULL || (s->packed == PACKED_GZIP ? !s->gzip_open : s->zstd == NULL)) {
    return ds_diag_set(d, DS_EXIT_RUNTIME, s->name, 0, 0, "out of memory");
  }
  memcpy(s->raw, in->at, have);
  s->raw_end = have;
  in->at = in->end = s->buffer;
  in->ended = false;
  return ds_input_fill(in, d);
}

bool ds_input_open(const char *path, const char *name, ds_input **out, ds_diag *d) {
  *out = NULL;
  bool standard = strcmp(path, "-") == 0;
  if (name == NULL) name = path;
  if (strcmp(name, "-") == 0) name = "standard input";
  int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) {
    ds_exit why =
        errno == EMFILE || errno == ENFILE || errno == ENOMEM ? DS_EXIT_RUNTIME : DS_EXIT_INPUT;
    return ds_diag_set(d, why, name, 0, 0, "cannot open: %s", strerror(errno));
  }
  struct ds_input_state *s = calloc(1, sizeof *s);
  if (s != NULL) {
    s->capacity = BUFFER_BYTES;
    s->buffer = malloc(s->capacity + DS_INPUT_PAD);
    s->hash = EVP_MD_CTX_new();
  }
  if (s == NULL || s->buffer == NULL || s->hash == NULL ||
      EVP_DigestInit_ex(s->hash, EVP_sha256(), NULL) != 1) {
    if (!standard) close(fd);
    if (s != NULL) {
      free(s->buffer);
      EVP_MD_CTX_free(s->hash);
      free(s);
    }
    return ds_diag_set(d, DS_EXIT_RUNTIME, name, 0, 0, "out of memory");
  }
  s->fd = fd;
  s->close_fd = !standard;
  size_t length = strlen(name);
  if (length >= sizeof s->name) length = sizeof s->name - 1;
  memcpy(s->name, name, length);
  s->in.name = s->name;
  s->in.state = s;
  s->in.at = s->in.end = s->buffer;
  memset(s->buffer, 0, DS_INPUT_PAD);
  struct stat st;
  bool known = fstat(fd, &st) == 0;
  if (known && S_ISREG(st.st_mode)) s->total = (uint64_t)st.st_size;
  if (known && S_ISDIR(st.st_mode)) {
    snprintf(s->path, sizeof s->path, "%s", path);
    s->folder = folder_open(path, name, d);
    if (s->folder == NULL) {
      ds_input_close(&s->in);
      return false;
    }
  }
  if (!look_for_packing(s, d)) {
    ds_input_close(&s->in);
    return false;
  }
  *out = &s->in;
  return true;
}

void ds_input_close(ds_input *in) {
  if (in == NULL) return;
  struct ds_input_state *s = state_of(in);
  if (s->close_fd) close(s->fd);
  if (s->gzip_open) inflateEnd(&s->gzip);
  ZSTD_freeDStream(s->zstd);
  EVP_MD_CTX_free(s->hash);
  folder_free(s->folder);
  free(s->raw);
  free(s->buffer);
  free(s);
}

bool ds_input_line(ds_input *in, size_t max_bytes, char **line, size_t *bytes, ds_diag *d) {
  size_t seen = 0;
  char *end;
  for (;;) {
    size_t have = (size_t)(in->end - in->at);
    end = have > seen ? memchr(in->at + seen, '\n', have - seen) : NULL;
    if (end != NULL) {
      end++;
      break;
    }
    if (in->ended) {
      end = in->end;
      break;
    }
    if (have > max_bytes) {
      ds_diag_set(d, DS_EXIT_INPUT, in->name, in->line + 1, 0, "a line of more than %zu bytes",
                  max_bytes);
      ds_diag_expected(d, "one request a line");
      return false;
    }
    seen = have;
    if (!ds_input_fill(in, d)) return false;
  }
  *line = in->at;
  *bytes = (size_t)(end - in->at);
  in->at = end;
  if (*bytes > 0) in->line++;
  return true;
}

const char *ds_input_sha256(ds_input *in) {
  static const char digit[] = "0123456789abcdef";
  struct ds_input_state *s = state_of(in);
  unsigned char sum[EVP_MAX_MD_SIZE];
  unsigned int n = 0;
  EVP_MD_CTX *copy = EVP_MD_CTX_new();
  s->hex[0] = '\0';
  if (copy != NULL && EVP_MD_CTX_copy_ex(copy, s->hash) == 1 &&
      EVP_DigestFinal_ex(copy, sum, &n) == 1 && n == 32) {
    for (unsigned int i = 0; i < n; i++) {
      s->hex[2 * i] = digit[sum[i] >> 4];
      s->hex[2 * i + 1] = digit[sum[i] & 15];
    }
    s->hex[64] = '\0';
  }
  EVP_MD_CTX_free(copy);
  return s->hex;
}

void ds_input_progress(const ds_input *in, uint64_t *done, uint64_t *total) {
  const struct ds_input_state *s = state_of(in);
  *done = s->done;
  *total = s->total;
}
