// SPDX-License-Identifier: GPL-3.0-or-later
/* Output files appear whole or not at all, whatever the target is. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "io/outfile.h"

static char folder[PATH_MAX], path[2 * PATH_MAX];

static const char *in_folder(const char *name) {
  snprintf(path, sizeof path, "%s/%s", folder, name);
  return path;
}

static void make_folder(void) {
  const char *base = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/dryserve-outfile.XXXXXX",
           base != NULL && base[0] != '\0' ? base : "/tmp");
  cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void) {
  DIR *d = opendir(folder);
  cr_assert_not_null(d);
  for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
    if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 &&
        unlink(in_folder(e->d_name)) != 0)
      rmdir(in_folder(e->d_name));
  closedir(d);
  rmdir(folder);
}

static int entries(void) {
  DIR *d = opendir(folder);
  cr_assert_not_null(d);
  int n = -2; /* . and .. */
  while (readdir(d) != NULL) n++;
  closedir(d);
  return n;
}

static void put_file(const char *name, const char *text) {
  FILE *f = fopen(in_folder(name), "w");
  cr_assert_not_null(f);
  fputs(text, f);
  fclose(f);
}

static void holds(const char *name, const char *text) {
  char got[256] = "";
  FILE *f = fopen(in_folder(name), "r");
  cr_assert_not_null(f, "%s is not there", name);
  size_t n = fread(got, 1, sizeof got - 1, f);
  fclose(f);
  got[n] = '\0';
  cr_assert_str_eq(got, text);
}

TestSuite(outfile, .init = make_folder, .fini = remove_folder);

Test(outfile, appears_when_published_and_not_before) {
  ds_diag d = {.exit = DS_EXIT_OK};
  ds_outfile *f = ds_outfile_open(in_folder("a"), &d);
  cr_assert_not_null(f, "%s", d.text);
  ds_out_text(f, "new");
  cr_assert_neq(access(in_folder("a"), F_OK), 0);
  cr_assert(ds_outfile_close(f, &d));
  cr_assert_neq(access(in_folder("a"), F_OK), 0);
  cr_assert(ds_outfile_publish(f, &d));
  holds("a", "new");
  cr_assert_eq(entries(), 1);
  mode_t mask = umask(0);
  umask(mask);
  struct stat st;
  cr_assert_eq(stat(in_folder("a"), &st), 0);
  cr_assert_eq(st.st_mode & 0777, 0666 & ~mask, "as any program would create it");
}

Test(outfile, keeps_the_old_file_until_then) {
  ds_diag d = {.exit = DS_EXIT_OK};
  put_file("a", "old");
  chmod(in_folder("a"), 0640);
  ds_outfile *f = ds_outfile_open(in_folder("a"), &d);
  ds_out_text(f, "new");
  ds_outfile_discard(f);
  holds("a", "old");
  cr_assert_eq(entries(), 1);
  f = ds_outfile_open(in_folder("a"), &d);
  ds_out_text(f, "new");
  cr_assert(ds_outfile_close(f, &d) && ds_outfile_publish(f, &d));
  holds("a", "new");
  struct stat st;
  cr_assert_eq(stat(in_folder("a"), &st), 0);
  cr_assert_eq(st.st_mode & 0777, 0640, "permissions stay");
  ds_outfile_discard(NULL);
}

Test(outfile, follows_symbolic_links) {
  ds_diag d = {.exit = DS_EXIT_OK};
  char link_path[2 * PATH_MAX];
  const char *const ends[] = {"real", "not-yet"};
  put_file("real", "old");
  for (int i = 0; i < 2; i++) {
    snprintf(link_path, sizeof link_path, "%s/link%d", folder, i);
    cr_assert_eq(symlink(ends[i], link_path), 0);
    char second[2 * PATH_MAX];
    snprintf(second, sizeof second, "%s/second%d", folder, i);
    cr_assert_eq(symlink(link_path, second), 0, "a link to a link, absolute");
    ds_outfile *f = ds_outfile_open(second, &d);
    cr_assert_not_null(f, "%s", d.text);
    ds_out_text(f, "new");
    cr_assert(ds_outfile_close(f, &d) && ds_outfile_publish(f, &d));
    holds(ends[i], "new");
    struct stat st;
    cr_assert_eq(lstat(second, &st), 0);
    cr_assert(S_ISLNK(st.st_mode), "the link is still one");
  }
  snprintf(link_path, sizeof link_path, "%s/loop", folder);
  cr_assert_eq(symlink("loop", link_path), 0);
  cr_assert_null(ds_outfile_open(link_path, &d));
  cr_assert_eq(d.exit, DS_EXIT_USAGE);
}

Test(outfile, refuses_what_cannot_be_a_file) {
  const struct {
    const char *name, *says;
    ds_exit exit;
  } cases[] = {{"", "directory", DS_EXIT_USAGE},
               {"missing/a", "folder does not exist", DS_EXIT_USAGE},
               {"file/a", "Not a directory", DS_EXIT_USAGE},
               {"new/", "directory", DS_EXIT_USAGE}};
  put_file("file", "");
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    ds_diag d = {.exit = DS_EXIT_OK};
    cr_assert_null(ds_outfile_open(in_folder(cases[i].name), &d));
    cr_assert_eq(d.exit, cases[i].exit, "%s: %s", cases[i].name, d.text);
    cr_assert_not_null(strstr(d.text, cases[i].says), "%s", d.text);
    cr_assert_not_null(strstr(d.text, in_folder(cases[i].name)), "names the file: %s", d.text);
  }
  ds_diag d = {.exit = DS_EXIT_OK};
  cr_assert_null(ds_outfile_open("", &d));
  char *long_name = malloc(300 + PATH_MAX);
  cr_assert_not_null(long_name);
  int n = snprintf(long_name, PATH_MAX, "%s/", folder);
  memset(long_name + n, 'x', 300);
  long_name[n + 300] = '\0';
  ds_outfile *f = ds_outfile_open(long_name, &d);
  free(long_name);
  cr_assert_null(f);
  cr_assert_eq(entries(), 1);
  if (geteuid() == 0) return; /* root may write anywhere */
  chmod(folder, 0500);
  f = ds_outfile_open(in_folder("a"), &d);
  chmod(folder, 0700);
  cr_assert_null(f);
  cr_assert_eq(d.exit, DS_EXIT_RUNTIME);
  chmod(in_folder("file"), 0400);
  cr_assert_null(ds_outfile_open(in_folder("file"), &d), "a read-only file is not replaced");
}

Test(outfile, writes_devices_and_pipes_in_place) {
  ds_diag d = {.exit = DS_EXIT_OK};
  ds_outfile *f = ds_outfile_open("/dev/full", &d);
  cr_assert_not_null(f);
  ds_out_text(f, "x");
  cr_assert_not(ds_outfile_close(f, &d));
  cr_assert_eq(d.exit, DS_EXIT_RUNTIME);
  cr_assert_not_null(strstr(d.text, "/dev/full"), "%s", d.text);
  cr_assert_not_null(strstr(d.text, "No space left"), "%s", d.text);
  ds_outfile_discard(f);
  cr_assert_eq(mkfifo(in_folder("pipe"), 0600), 0);
  int reader = open(in_folder("pipe"), O_RDONLY | O_NONBLOCK);
  cr_assert_geq(reader, 0);
  f = ds_outfile_open(in_folder("pipe"), &d);
  cr_assert_not_null(f);
  ds_out_text(f, "through");
  cr_assert(ds_outfile_close(f, &d) && ds_outfile_publish(f, &d));
  char got[16] = "";
  cr_assert_eq(read(reader, got, sizeof got), 7);
  cr_assert_str_eq(got, "through");
  ds_outfile_guard_signals();
  f = ds_outfile_open(in_folder("pipe"), &d);
  close(reader);
  ds_out_text(f, "nobody");
  cr_assert_not(ds_outfile_close(f, &d));
  cr_assert_not_null(strstr(d.text, "Broken pipe"), "%s", d.text);
  ds_outfile_discard(f);
  struct stat st;
  cr_assert_eq(stat(in_folder("pipe"), &st), 0);
  cr_assert(S_ISFIFO(st.st_mode), "never renamed over");
}

Test(outfile, full_disk_in_the_middle_leaves_nothing) {
  /* A limit on the size of files stands for a disk that fills up: a write fails after others went
   * through. */
  pid_t child = fork();
  cr_assert_geq(child, 0);
  if (child == 0) {
    ds_outfile_guard_signals();
    struct rlimit small = {200000, 200000};
    setrlimit(RLIMIT_FSIZE, &small);
    ds_diag d = {.exit = DS_EXIT_OK};
    ds_outfile *f = ds_outfile_open(in_folder("big"), &d);
    if (f == NULL) _exit(9);
    int lines = 0;
    for (; lines < 100000 && !ds_out_failed(f); lines++)
      ds_out_text(f, "some text that is repeated\n");
    bool refused =
        lines > 1000 && lines < 100000 && !ds_outfile_close(f, &d) && d.exit == DS_EXIT_RUNTIME;
    ds_outfile_discard(f);
    _exit(refused ? 0 : 1);
  }
  int status = 0;
  cr_assert_eq(waitpid(child, &status, 0), child);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %d", status);
  cr_assert_eq(entries(), 0);
}

Test(outfile, signals_remove_temporary_files) {
  const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU};
  for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
      signal(signals[i], SIG_DFL);
      ds_outfile_guard_signals();
      ds_diag d = {.exit = DS_EXIT_OK};
      ds_outfile *a = ds_outfile_open(in_folder("a"), &d), *b = ds_outfile_open(in_folder("b"), &d);
      if (a == NULL || b == NULL || entries() != 2) _exit(9);
      raise(signals[i]);
      _exit(8);
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert(WIFSIGNALED(status) && WTERMSIG(status) == signals[i], "signal %d: status %d",
              signals[i], status);
    cr_assert_eq(entries(), 0, "signal %d", signals[i]);
  }
}

Test(outfile, long_and_odd_content) {
  ds_diag d = {.exit = DS_EXIT_OK};
  ds_outfile *f = ds_outfile_open(in_folder("long"), &d), *m = ds_outfile_memory();
  cr_assert(f != NULL && m != NULL);
  char word[3000];
  memset(word, 'w', sizeof word - 1);
  word[sizeof word - 1] = '\0';
  size_t want = 0;
  for (int i = 0; i < 400; i++) {
    ds_outfile *both[] = {f, m};
    for (int k = 0; k < 2; k++) {
      ds_out_printf(both[k], "%d %s\n", i % 10,
                    word); /* longer than what is formatted on the stack */
      char *room = ds_out_room(both[k], DS_OUT_ROOM);
      memset(room, 'r', DS_OUT_ROOM);
      ds_out_used(both[k], DS_OUT_ROOM);
    }
    want += 2 + strlen(word) + 1 + DS_OUT_ROOM;
  }
  size_t bytes;
  const char *text = ds_outfile_text(m, &bytes);
  cr_assert_eq(bytes, want);
  cr_assert(ds_outfile_close(f, &d) && ds_outfile_publish(f, &d));
  FILE *in = fopen(in_folder("long"), "r");
  cr_assert_not_null(in);
  for (size_t i = 0; i < want; i++) cr_assert_eq(fgetc(in), text[i], "byte %zu", i);
  cr_assert_eq(fgetc(in), EOF);
  fclose(in);
  ds_outfile_discard(m);
}
