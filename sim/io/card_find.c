// SPDX-License-Identifier: GPL-3.0-or-later
/* From a card's name to its file. The plain name is one stat per folder; only when that fails are
 * the heads of all cards read for their aliases, since opening a scenario should not cost more than
 * the cards that it names. */
#include <ctype.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "io/card.h"

#define HEAD_BYTES 4096

static bool join(char *out, size_t cap, const char *dir, const char *rest) {
  const char *slash = dir[0] == '\0' || dir[strlen(dir) - 1] == '/' ? "" : "/";
  int n =
      snprintf(out, cap, "%s%s%s", rest[0] == '/' ? "" : dir, rest[0] == '/' ? "" : slash, rest);
  return n >= 0 && (size_t)n < cap;
}

static bool is_file(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

static bool is_folder(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool ends_with(const char *s, const char *tail) {
  size_t n = strlen(s), m = strlen(tail);
  return n > m && strcmp(s + n - m, tail) == 0;
}

static bool has_extension(const char *s) {
  return ends_with(s, ".yaml") || ends_with(s, ".yml") || ends_with(s, ".json");
}

static bool same_word(const char *a, const char *b) {
  for (; *a && *b; ++a, ++b)
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
  return *a == *b;
}

/* --- heads --------------------------------------------------------------------------------- */

static size_t read_head(const char *path, char *buf) {
  FILE *f = fopen(path, "rb");
  if (!f) return 0;
  size_t n = fread(buf, 1, HEAD_BYTES - 1, f);
  fclose(f);
  buf[n] = '\0';
  return n;
}

/* What follows `key:` at the start of a line, or NULL. */
static const char *line_value(const char *head, const char *key) {
  size_t n = strlen(key);
  for (const char *s = head; s; s = strchr(s, '\n')) {
    if (*s == '\n') ++s;
    if (strncmp(s, key, n) == 0 && s[n] == ':') return s + n + 1;
  }
  return NULL;
}

static void line_word(const char *head, const char *key, char *out, size_t cap) {
  const char *s = line_value(head, key);
  size_t n = 0;
  for (s = s ? s + strspn(s, " \t\"'") : ""; *s && !strchr(" \t\r\n\"'#", *s) && n + 1 < cap; ++s)
    out[n++] = *s;
  out[n] = '\0';
}

/* The next alias after *at, of a flow or a block list; false at the end. */
static bool next_alias(const char **at, char *out, size_t cap) {
  const char *s = *at;
  for (;;) {
    s += strspn(s, " \t\r,[");
    if (*s == '#') s += strcspn(s, "\n");
    if (*s == '\n' && (s[1] == ' ' || s[1] == '-' || s[1] == '\n' || s[1] == '\r' || s[1] == ']')) {
      ++s;
      continue;
    }
    if (*s == '-' && s[1] == ' ') {
      s += 2;
      continue;
    }
    if (*s == '#' || (*s == '\n' && s[1] == '#')) {
      ++s;
      continue;
    }
    break;
  }
  if (*s == '\0' || *s == '\n' || *s == ']') return false;
  char quote = *s == '"' || *s == '\'' ? *s++ : '\0';
  size_t n = quote ? strcspn(s, quote == '"' ? "\"" : "'") : strcspn(s, ",]\n\r#");
  *at = s + n + (quote && s[n] ? 1 : 0);
  while (!quote && n > 0 && (s[n - 1] == ' ' || s[n - 1] == '\t')) --n;
  if (n >= cap) n = cap - 1;
  memcpy(out, s, n);
  out[n] = '\0';
  return true;
}

/* A scenario or another thing that happens to have the name is no card: the head must say `model:
 * 1`. */
static bool marked(ds_card_kind kind, const char *path) {
  char head[HEAD_BYTES], word[8];
  if (!is_file(path) || read_head(path, head) == 0) return false;
  line_word(head, ds_card_schemas[kind].noun, word, sizeof word);
  return strcmp(word, "1") == 0;
}

/* --- folders ------------------------------------------------------------------------------- */

static int by_name(const void *a, const void *b) {
  const char *const *x = a, *const *y = b;
  return strcmp(*x, *y);
}

void ds_card_names_free(char **names, size_t n) {
  for (size_t i = 0; i < n; ++i) free(names[i]);
  free(names);
}

static char *copy(const char *s, size_t n) {
  char *p = malloc(n + 1);
  if (!p) return NULL;
  memcpy(p, s, n);
  p[n] = '\0';
  return p;
}

static bool push(char ***list, size_t *n, const char *s, size_t bytes) {
  if ((*n & (*n - 1)) == 0) {
    char **more = realloc(*list, (*n ? *n * 2 : 1) * sizeof **list);
    if (!more) return false;
    *list = more;
  }
  char *p = copy(s, bytes);
  if (!p) return false;
  (*list)[(*n)++] = p;
  return true;
}

bool ds_card_names(ds_card_kind kind, const char *dir, char ***names, size_t *n) {
  char folder[1100];
  *names = NULL;
  *n = 0;
  if (!join(folder, sizeof folder, dir, ds_card_schemas[kind].folder)) return false;
  DIR *d = opendir(folder);
  if (!d) return true; /* nothing there */
  bool ok = true;
  for (const struct dirent *e = readdir(d); ok && e; e = readdir(d))
    if (ends_with(e->d_name, ".yaml") && e->d_name[0] != '.')
      ok = push(names, n, e->d_name, strlen(e->d_name) - 5);
  closedir(d);
  if (ok) {
    if (*n > 0) qsort(*names, *n, sizeof **names, by_name);
    return true;
  }
  ds_card_names_free(*names, *n);
  *names = NULL;
  *n = 0;
  return false;
}

/* --- search -------------------------------------------------------------------------------- */

typedef struct search {
  ds_card_kind kind;
  const char *name;
  char *path; /* result */
  size_t cap;
  bool found;
  char newest[16]; /* date of the newest of a family so far */
  char **seen;     /* every name and alias, for the suggestion */
  size_t n_seen;
} search;

static void look_into(search *s, const char *stem, const char *path) {
  char head[HEAD_BYTES], word[128], date[16];
  if (read_head(path, head) == 0) return;
  push(&s->seen, &s->n_seen, stem, strlen(stem));
  bool match = same_word(stem, s->name);
  const char *at = line_value(head, "aliases");
  while (at && next_alias(&at, word, sizeof word)) {
    push(&s->seen, &s->n_seen, word, strlen(word));
    match = match || same_word(word, s->name);
  }
  if (match && !s->found) {
    snprintf(s->path, s->cap, "%s", path);
    s->found = true;
  }
  if (s->kind != DS_CARD_ENGINE || s->found) return;
  line_word(head, "family", word, sizeof word);
  line_word(head, "date", date, sizeof date);
  if (word[0]) push(&s->seen, &s->n_seen, word, strlen(word));
  if (!same_word(word, s->name) || strcmp(date, s->newest) <= 0) return;
  snprintf(s->newest, sizeof s->newest, "%s", date);
  snprintf(s->path, s->cap, "%s", path);
}

/* By alias, or by file name in other letters, or by family. */
static void look_through(search *s, const char *dir) {
  char **names, file[256], folder[1100], path[1400];
  size_t n;
  if (s->found || !ds_card_names(s->kind, dir, &names, &n)) return;
  for (size_t i = 0; i < n && !s->found; ++i) {
    if (!join(folder, sizeof folder, dir, ds_card_schemas[s->kind].folder)) continue;
    snprintf(file, sizeof file, "%.240s.yaml", names[i]);
    if (join(path, sizeof path, folder, file)) look_into(s, names[i], path);
  }
  ds_card_names_free(names, n);
}

static bool by_plain_name(const search *s, const char *base_dir, const ds_data_dirs *dirs) {
  char file[256], folder[1100];
  if (strchr(s->name, '/') || strlen(s->name) > 200) return false;
  snprintf(file, sizeof file, "%s.yaml", s->name);
  if (join(s->path, s->cap, base_dir, file) && marked(s->kind, s->path)) return true;
  for (size_t i = 0; i <= dirs->n; ++i) {
    const char *dir = i == 0 ? base_dir : dirs->dir[i - 1];
    if (join(folder, sizeof folder, dir, ds_card_schemas[s->kind].folder) &&
        join(s->path, s->cap, folder, file) && is_file(s->path))
      return true;
  }
  return false;
}

static bool not_found(const search *s, const ds_node *at, ds_diag *d) {
  const char *noun = ds_card_schemas[s->kind].noun;
  ds_complain(d, at, "no %s is called '%.100s'", noun, s->name);
  ds_diag_expected(d, "a name that `dryserve list %s` shows, or a path to a card%s",
                   s->kind == DS_CARD_HARDWARE ? "hardware"
                   : s->kind == DS_CARD_MODEL  ? "models"
                                               : "engines",
                   s->kind == DS_CARD_MODEL ? " or a config.json" : "");
  const char *near =
      s->n_seen ? ds_nearest(s->name, (const char *const *)s->seen, s->n_seen) : NULL;
  if (near) ds_diag_hint(d, "did you mean %s?", near);
  return false;
}

bool ds_card_find(ds_card_kind kind, const char *name, const char *base_dir,
                  const ds_data_dirs *dirs, const ds_node *at, char *path, size_t cap, ds_diag *d) {
  search s = {.kind = kind, .name = name, .path = path, .cap = cap};
  if (strchr(name, '/') || has_extension(name)) {
    if (join(path, cap, base_dir, name)) {
      if (is_file(path)) return true;
      char inside[1400];
      if (kind == DS_CARD_MODEL && is_folder(path) &&
          join(inside, sizeof inside, path, "config.json") && is_file(inside) &&
          join(path, cap, "", inside))
        return true;
    }
    if (has_extension(name) || name[0] == '/' || name[0] == '.') {
      ds_complain(d, at, "there is no file '%.200s'", name);
      ds_diag_expected(d, "the path of a %s card, relative to the file that names it",
                       ds_card_schemas[kind].noun);
      return false;
    }
  } else if (by_plain_name(&s, base_dir, dirs)) {
    return true;
  }
  look_through(&s, base_dir);
  for (size_t i = 0; i < dirs->n; ++i) look_through(&s, dirs->dir[i]);
  bool ok = s.found || s.newest[0] != '\0' || not_found(&s, at, d);
  ds_card_names_free(s.seen, s.n_seen);
  return ok;
}
