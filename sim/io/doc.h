// SPDX-License-Identifier: GPL-3.0-or-later
/* A YAML or JSON text as a small tree: mappings, lists and scalars, each with its place, nothing
 * interpreted. One document; no aliases, anchors, tags or complex keys; a duplicate key is an
 * error. The tree and its strings belong to the ds_doc. */
#ifndef DS_IO_DOC_H
#define DS_IO_DOC_H

#include "io/diag.h"
#include "io/units.h"

typedef enum ds_node_kind { DS_NODE_SCALAR, DS_NODE_MAP, DS_NODE_LIST } ds_node_kind;

typedef struct ds_node ds_node;
struct ds_node {
  ds_node_kind kind;
  bool quoted;                  /* a scalar in quotes or a block: always text */
  int32_t line, column;         /* 1-based; 0 on the command line */
  const char *file;             /* for messages */
  const char *text;             /* scalar; valid UTF-8 */
  ds_node *first, *last, *next; /* children in order; next sibling */
  size_t n;                     /* children */
  const char *key;              /* inside a mapping */
  int32_t key_line, key_column;
};

typedef struct ds_doc {
  ds_node *root;  /* never NULL after success */
  char file[512]; /* name for messages */
  struct ds_doc_block *blocks;
} ds_doc;

#define DS_DOC_MAX_BYTES (4u << 20)
#define DS_DOC_MAX_DEPTH 24
#define DS_DOC_MAX_KEYS  512

/* The text is not kept. out->root is set on success; free with ds_doc_free either way. */
bool ds_doc_parse(const char *text, size_t bytes, const char *file, ds_doc *out, ds_diag *d);
/* The bytes of a file of at most DS_DOC_MAX_BYTES ("-": standard input); *text is malloc'd, and a 0 byte
 * follows it. */
bool ds_file_read(const char *path, const char *name, char **text, size_t *bytes, ds_diag *d);
void ds_doc_free(ds_doc *doc);

/* UTF-8 throughout, and no NUL. */
bool ds_utf8_valid(const char *text, size_t bytes);

/* New nodes in the document's memory; NULL when that is out. */
ds_node *ds_doc_node(ds_doc *doc, ds_node_kind kind, const ds_node *place);
char *ds_doc_text(ds_doc *doc, const char *text, size_t bytes);
void ds_node_append(ds_node *parent, ds_node *child);

/* Value of a key, or NULL. */
const ds_node *ds_node_get(const ds_node *map, const char *key);
/* Plain (unquoted) null, ~ or nothing at all. */
bool ds_node_is_null(const ds_node *n);

/* Typed reading. `key` is the dotted path for messages; on failure false and *d says why, at the
 * node's place. */
bool ds_complain(ds_diag *d, const ds_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* The same at the node's key. */
bool ds_complain_key(ds_diag *d, const ds_node *at, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
bool ds_want_map(const ds_node *n, const char *key, ds_diag *d);
bool ds_want_list(const ds_node *n, const char *key, ds_diag *d);
/* Every key of the mapping is one of these (which may be several dotted names' last parts). */
bool ds_want_keys(const ds_node *map, const char *key, const char *const *keys, size_t n_keys,
                  ds_diag *d);
/* Plain text without control characters, 1 to cap - 1 bytes. */
bool ds_want_text(const ds_node *n, const char *key, char *out, size_t cap, ds_diag *d);
bool ds_want_bool(const ds_node *n, const char *key, bool *out, ds_diag *d);
bool ds_want_integer(const ds_node *n, const char *key, int64_t min, int64_t max, int64_t *out,
                     ds_diag *d);
bool ds_want_number(const ds_node *n, const char *key, double min, double max, double *out,
                    ds_diag *d);
bool ds_want_quantity(const ds_node *n, const char *key, ds_dim dim, double min, double max,
                      double *out, ds_diag *d);
bool ds_want_time(const ds_node *n, const char *key, int64_t min_ns, int64_t max_ns, int64_t *out,
                  ds_diag *d);
/* Index of the scalar among `names`. */
bool ds_want_choice(const ds_node *n, const char *key, const char *const *names, size_t n_names,
                    size_t *out, ds_diag *d);

#endif
