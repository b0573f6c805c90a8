// SPDX-License-Identifier: GPL-3.0-or-later
#include "cli/options.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NAMES_MAX 96

void ds_unknown(ds_diag *d, const char *kind, const char *word, const char *const *candidates,
                size_t n) {
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "unknown %s '%s'", kind, word);
  const char *near = ds_nearest(word, candidates, n);
  if (near != NULL) ds_diag_hint(d, "did you mean %s?", near);
  char all[300];
  size_t used = 0;
  for (size_t i = 0; i < n && used < sizeof all; i++)
    used += (size_t)snprintf(all + used, sizeof all - used, "%s%s", i > 0 ? ", " : "", candidates[i]);
  if (n > 1 && used < sizeof all) ds_diag_expected(d, "one of %s", all);
}

static const ds_option *find(const ds_option *list, size_t n, const char *name, size_t bytes) {
  for (size_t i = 0; i < n; i++)
    if (strlen(list[i].name) == bytes && strncmp(list[i].name, name, bytes) == 0) return &list[i];
  return NULL;
}

static bool is_later(const ds_command *c, const char *name, size_t bytes) {
  for (size_t i = 0; c->later != NULL && c->later[i] != NULL; i++)
    if (strlen(c->later[i]) == bytes && strncmp(c->later[i], name, bytes) == 0) return true;
  return false;
}

static void unknown_option(const ds_command *c, const char *word, size_t bytes, ds_diag *d) {
  char name[128];
  snprintf(name, sizeof name, "%.*s", (int)(bytes < 100 ? bytes : 100), word);
  if (is_later(c, word, bytes)) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "option %s is not part of this version", name);
    return;
  }
  const char *names[NAMES_MAX];
  size_t n = 0;
  for (size_t i = 0; i < c->n_options && n < NAMES_MAX - 1; i++) names[n++] = c->options[i].name;
  for (size_t i = 0; i < c->n_more && n < NAMES_MAX - 1; i++) names[n++] = c->more_options[i].name;
  names[n++] = "--help";
  ds_unknown(d, "option", name, names, n);
}

/* ttft:2000, as vLLM's --goodput takes several of. */
static bool is_goodput(const char *word) {
  size_t n = strspn(word, "abcdefghijklmnopqrstuvwxyz0123456789");
  return n > 0 && word[n] == ':' && strspn(word + n + 1, "0123456789.") == strlen(word + n + 1);
}

ds_arg ds_args_next(ds_args *a, const ds_command *c, const ds_option **option, const char **value,
                    ds_diag *d) {
  *option = NULL;
  *value = NULL;
  if (a->at >= a->argc) return DS_ARG_END;
  char *word = a->argv[a->at++];
  if (!a->operands_only && strcmp(word, "--") == 0) {
    a->operands_only = true;
    return ds_args_next(a, c, option, value, d);
  }
  if (a->operands_only || word[0] != '-' || word[1] == '\0') {
    *value = word;
    if (a->operands_only || a->listing == NULL || !is_goodput(word)) return DS_ARG_OPERAND;
    *option = a->listing;
    return DS_ARG_OPTION;
  }
  a->listing = NULL;
  if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0) return DS_ARG_HELP;
  size_t bytes = strcspn(word, "=");
  const ds_option *o = find(c->options, c->n_options, word, bytes);
  if (o == NULL) o = find(c->more_options, c->n_more, word, bytes);
  if (o == NULL) {
    unknown_option(c, word, bytes, d);
    return DS_ARG_WRONG;
  }
  *option = o;
  if (strcmp(o->name, "--goodput") == 0) a->listing = o;
  bool joined = word[bytes] == '=';
  if (o->value == NULL) {
    if (!joined) return DS_ARG_OPTION;
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "option %s takes no value", o->name);
    return DS_ARG_WRONG;
  }
  if (joined) {
    *value = word + bytes + 1;
    return DS_ARG_OPTION;
  }
  if (a->at >= a->argc) {
    ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "option %s needs a value", o->name);
    ds_diag_expected(d, "%s %s", o->name, o->value);
    return DS_ARG_WRONG;
  }
  *value = a->argv[a->at++];
  return DS_ARG_OPTION;
}

/* Help text in two columns, the right one wrapped. */
#define HELP_COLUMN 29
#define HELP_WIDTH  80

static void help_text(ds_outfile *out, const char *text, size_t column, size_t margin) {
  bool first = true;
  while (*text != '\0') {
    size_t n = strcspn(text, " \n");
    if (!first && column + 1 + n > HELP_WIDTH) {
      ds_out_printf(out, "\n%*s", (int)margin, "");
      column = margin;
    } else if (!first) {
      ds_out_text(out, " ");
      column++;
    }
    first = false;
    ds_out_bytes(out, text, n);
    column += n;
    text += n;
    while (*text == ' ') text++;
    if (*text == '\n') {
      ds_out_printf(out, "\n%*s", (int)margin, "");
      column = margin;
      first = true;
      text++;
    }
  }
  ds_out_text(out, "\n");
}

static void help_options(ds_outfile *out, const ds_option *list, size_t n) {
  for (size_t i = 0; i < n; i++) {
    if (list[i].help == NULL) continue;
    char left[64];
    int w = snprintf(left, sizeof left, "  %s%s%s", list[i].name, list[i].value != NULL ? " " : "",
                     list[i].value != NULL ? list[i].value : "");
    ds_out_text(out, left);
    size_t used = (size_t)w;
    if (used + 2 > HELP_COLUMN) {
      ds_out_text(out, "\n");
      used = 0;
    }
    ds_out_printf(out, "%*s", (int)(HELP_COLUMN - used), "");
    help_text(out, list[i].help, HELP_COLUMN, HELP_COLUMN);
  }
}

void ds_help(ds_outfile *out, const ds_command *c) {
  ds_out_printf(out, "dryserve %s %s\n\n", c->name, c->synopsis);
  help_text(out, c->summary, 0, 0);
  if (c->text != NULL) {
    ds_out_text(out, "\n");
    help_text(out, c->text, 0, 0);
  }
  if (c->n_examples > 0) ds_out_text(out, "\nExamples\n");
  for (size_t i = 0; i < c->n_examples; i++)
    ds_out_printf(out, "  # %s\n  %s\n", c->examples[i].what, c->examples[i].command);
  ds_out_text(out, "\nOptions\n");
  help_options(out, c->options, c->n_options);
  if (c->n_more == 0) return;
  ds_out_printf(out, "\n%s\n", c->more_heading);
  help_options(out, c->more_options, c->n_more);
}

int ds_help_exit(const ds_command *c) {
  ds_diag d = {.exit = DS_EXIT_OK};
  ds_outfile *out = ds_outfile_open("-", &d);
  if (out == NULL) return ds_fail(&d, c->name);
  ds_help(out, c);
  if (!ds_outfile_close(out, &d)) {
    ds_outfile_discard(out);
    return ds_fail(&d, c->name);
  }
  return ds_outfile_publish(out, &d) ? DS_EXIT_OK : ds_fail(&d, c->name);
}

int ds_fail(const ds_diag *d, const char *command) {
  ds_diag_print(d, stderr);
  if (d->exit == DS_EXIT_USAGE)
    fprintf(stderr, "  see dryserve %s%s--help\n", command, command[0] != '\0' ? " " : "");
  return d->exit == DS_EXIT_OK ? DS_EXIT_RUNTIME : (int)d->exit;
}

void ds_say(const char *fmt, ...) {
  char text[1600];
  va_list args;
  va_start(args, fmt);
  vsnprintf(text, sizeof text, fmt, args);
  va_end(args);
  size_t column = 0;
  for (const char *word = text; *word != '\0';) {
    size_t n = strcspn(word, " ");
    if (column > 0 && column + 1 + n > 80) {
      fputs("\n  ", stderr);
      column = 2;
    } else if (column > 0) {
      fputc(' ', stderr);
      column++;
    }
    fwrite(word, 1, n, stderr);
    column += n;
    word += n;
    while (*word == ' ') word++;
  }
  fputc('\n', stderr);
}

bool ds_take_jobs(const char *value, int most, int *jobs, ds_diag *d) {
  char *end;
  long n = strtol(value, &end, 10);
  if (*end == '\0' && n >= 1 && n <= most) {
    *jobs = (int)n;
    return true;
  }
  ds_diag_set(d, DS_EXIT_USAGE, NULL, 0, 0, "--jobs '%s'", value);
  ds_diag_expected(d, "1 to %d", most);
  return false;
}

int ds_jobs_or_all(int asked) {
  long n = sysconf(_SC_NPROCESSORS_ONLN);
  return asked > 0 ? asked : n > 0 ? (int)n : 1;
}
