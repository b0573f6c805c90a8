# SPDX-License-Identifier: GPL-3.0-or-later
# Build of dryserve. `make help` lists the targets.
#
# Variables: CC=clang, CFLAGS=..., V=1 (show commands), DEV=1 (warnings are errors), O=dir (where to build),
# CONFIG=release|debug|asan|fuzz|gcc-O0|gcc-O3|clang-O0|clang-O3, PREFIX=, DESTDIR=, NO_INSTALL=1, TEST_JOBS=n.

.DELETE_ON_ERROR:
.SUFFIXES:
.DEFAULT_GOAL := all
SHELL := /bin/sh
MAKEFLAGS += --no-builtin-rules

CONFIG ?= release
O ?= build
PREFIX ?= /usr/local
DESTDIR ?=
DATADIR = $(PREFIX)/share/dryserve
B := $(O)/$(CONFIG)
PKG := sim/packaging

# --- layers: an include may only point left (make check-dag) ----------------------------------------------------
CORE_LAYERS := base spec cost kv metric engine sched route core
APP_LAYERS := io stat gen study report
CLI_LAYERS := cli
LAYERS := $(CORE_LAYERS) $(APP_LAYERS) $(CLI_LAYERS)

sources = $(sort $(foreach l,$(1),$(wildcard sim/$(l)/*.c)))
CORE_SRC := $(call sources,$(CORE_LAYERS))
APP_SRC := $(call sources,$(APP_LAYERS))
CLI_SRC := $(call sources,$(CLI_LAYERS))
HEADERS := $(sort $(foreach l,$(LAYERS),$(wildcard sim/$(l)/*.h)))

CORE_OBJ := $(CORE_SRC:%.c=$(B)/%.o) $(B)/gen/registry_tables.o
APP_OBJ := $(APP_SRC:%.c=$(B)/%.o)
CLI_OBJ := $(CLI_SRC:%.c=$(B)/%.o)

UNIT := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/unit/test_*.c)))
PROPERTY := $(patsubst %.c,$(B)/%,$(sort $(wildcard tests/property/prop_*.c)))
NAIVE := $(patsubst tests/naive/%.c,$(B)/tests/%.run,$(sort $(wildcard tests/naive/*.c)))
RUN_TESTS := $(sort $(wildcard tests/run/*.sh))

# --- compilers and flags -----------------------------------------------------------------------------------------
ifeq ($(origin CC),default)
CC := gcc
endif
ifneq ($(filter clang-% fuzz,$(CONFIG)),)
override CC := clang
endif
ifneq ($(filter gcc-%,$(CONFIG)),)
override CC := gcc
endif
OPT_release := -O2
OPT_debug := -O0 -g -DDS_CHECKING
OPT_asan := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=undefined -DDS_CHECKING
OPT_fuzz := -O1 -g -fsanitize=fuzzer-no-link,address,undefined -DDS_CHECKING
OPT_gcc-O0 := -O0
OPT_gcc-O2 := -O2
OPT_gcc-O3 := -O3
OPT_clang-O0 := -O0
OPT_clang-O2 := -O2
OPT_clang-O3 := -O3
ifndef OPT_$(CONFIG)
$(error no such CONFIG: $(CONFIG); known: release debug asan fuzz gcc-O0 gcc-O2 gcc-O3 clang-O0 clang-O2 clang-O3)
endif

WARN := -Wall -Wextra -Wpedantic -Wshadow -Wdouble-promotion -Wstrict-prototypes -Wmissing-prototypes -Wcast-qual \
  -Wwrite-strings -Wundef -Wformat=2 -Wswitch-enum -Wvla $(if $(DEV),-Werror)
WARN_SIM := -Wconversion -Wsign-conversion $(if $(findstring clang,$(CC)),-Wmissing-variable-declarations)
CFLAGS ?=
BASE_FLAGS = -std=c11 $(OPT_$(CONFIG)) -fno-common $(WARN) -Isim $(CFLAGS) -MMD -MP
CORE_FLAGS = $(BASE_FLAGS) $(WARN_SIM) -ffp-contract=off -fno-math-errno
POSIX := -D_POSIX_C_SOURCE=200809L
APP_FLAGS = $(BASE_FLAGS) $(WARN_SIM) -ffp-contract=off $(POSIX) -pthread
# Criterion's macros trip -Wconversion and a few more; tests join checks by & so that each has its say.
TEST_FLAGS = $(BASE_FLAGS) -ffp-contract=off $(POSIX) -pthread -Wno-missing-prototypes -Wno-cast-qual -Wno-double-promotion \
  $(if $(findstring clang,$(CC)),-Wno-bitwise-instead-of-logical,-Wno-format-truncation)

# Only what is installed is named, and only what is used ends in the program (--as-needed).
pkg_libs = $(shell pkg-config --libs $(1) 2>/dev/null || echo $(2))
LIBS = $(eval LIBS := $(call pkg_libs,libfyaml,-lfyaml) $(call pkg_libs,jansson,-ljansson) -lcsv \
  $(call pkg_libs,gsl,-lgsl -lgslcblas) $(call pkg_libs,libcrypto,-lcrypto) $(call pkg_libs,zlib,-lz) \
  $(call pkg_libs,libzstd,-lzstd) -lm)$(LIBS)
AS_NEEDED := $(if $(filter Darwin,$(shell uname -s)),,-Wl,--as-needed)
LINK = $(CC) $(OPT_$(CONFIG)) $(CFLAGS) $(LDFLAGS) -pthread $(AS_NEEDED)
AR ?= ar

# One short line a step; the whole command with V=1; nothing with -s.
silent := $(findstring s,$(firstword -$(MAKEFLAGS)))
say = $(if $(V),,@$(if $(silent),,printf '  %-5s %s\n' $(1) $(2);))
jobs = $(if $(findstring jobserver,$(MAKEFLAGS)),,-j$$(nproc 2>/dev/null || echo 2))

# --- what users type -----------------------------------------------------------------------------------------------
.PHONY: help
help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: quickstart
quickstart: ## install what is missing, build, and answer a first question
	@$(PKG)/install-deps.sh build
	@echo 'dryserve: building'
	@$(MAKE) $(jobs) --no-print-directory $(if $(V),,-s) all
	$(PROGRAM) run studies/chat-h200.yaml

# Built with the default O, the program is left at ./dryserve.
PROGRAM := $(if $(filter build,$(O)),./dryserve,$(O)/dryserve)
.PHONY: all
all: $(PROGRAM) ## build the program and leave it at ./dryserve

$(PROGRAM): $(B)/dryserve
	$(call say,COPY,$@)cp $< $@.new && mv -f $@.new $@

.PHONY: lib
lib: $(B)/libdscore.a ## build the pure core as a library, without input and output

.PHONY: test
test: ## install what is missing, build, run all quick tests (under a minute)
	@$(PKG)/install-deps.sh build test
	@echo 'dryserve: building'
	@$(MAKE) $(jobs) --no-print-directory $(if $(V),,-s) all tests
	@$(MAKE) --no-print-directory run-tests

.PHONY: check
check: ## everything that must hold before a change lands: test, and other compilers, sanitizers, lint
	@$(PKG)/install-deps.sh build test check
	@tests/check/check.sh

.PHONY: check-deep
check-deep: ## what takes longer: valgrind, static analysis by gcc and clang
	@$(PKG)/install-deps.sh build test check deep
	@tests/check/deep.sh

.PHONY: bench
bench: $(B)/dryserve ## how fast the simulation itself is
	@$(MAKE) --no-print-directory $(if $(V),,-s) $(B)/tests/bench/bench $(B)/tests/bench/bench_kv \
	  $(B)/tests/bench/bench_readers $(B)/tests/bench/make_azure
	@$(B)/tests/bench/make_azure 1000000 > $(B)/tests/bench/million.csv
	DRYSERVE=$(B)/dryserve BUILD=$(B) $(B)/tests/bench/bench 1000000 3 $(abspath $(B)/tests/bench/million.csv)
	$(B)/tests/bench/bench_kv 1000000 3
	@for i in $$(seq 300); do cat traces/chat-turns-sample.jsonl; done | sed 's/"id":"[^"]*",//' > $(B)/tests/bench/native.jsonl
	@for i in $$(seq 3000); do cat traces/mooncake-sample.jsonl; done > $(B)/tests/bench/mooncake.jsonl
	$(B)/tests/bench/bench_readers $(B)/tests/bench/million.csv $(B)/tests/bench/mooncake.jsonl $(B)/tests/bench/native.jsonl

.PHONY: clean
clean: ## remove everything built
	rm -rf $(O) $(if $(filter build,$(O)),dryserve)

# --- building ------------------------------------------------------------------------------------------------------
# Objects depend on the flags they were compiled with: changing CC, CFLAGS or PREFIX rebuilds.
FLAGS_LINE = $(CC) | $(CORE_FLAGS) | $(APP_FLAGS) | $(TEST_FLAGS) | $(LDFLAGS)
.PHONY: FORCE
FORCE:
quoted = '$(subst ','\'',$(1))'
keep = @mkdir -p $(@D); echo $(call quoted,$(1)) | cmp -s - $@ || echo $(call quoted,$(1)) > $@
$(B)/flags: FORCE
	$(call keep,$(FLAGS_LINE))
# The installed data folder is compiled into one object only.
$(B)/prefix: FORCE
	$(call keep,$(DATADIR))
$(B)/sim/cli/main.o: $(B)/prefix
$(B)/sim/cli/main.o: APP_FLAGS += -DDS_INSTALLED_DATA_DIR='"$(DATADIR)"'

$(CORE_OBJ): OBJ_FLAGS = $(CORE_FLAGS)
$(APP_OBJ) $(CLI_OBJ): OBJ_FLAGS = $(APP_FLAGS)

$(B)/sim/%.o: sim/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,CC,$<)$(CC) $(OBJ_FLAGS) -c -o $@ $<

# The list of schedulers and routers is the listing of their folders.
POLICY_SRC := $(sort $(wildcard sim/sched/*.c) $(wildcard sim/route/*.c))
$(B)/gen/registry_tables.c: $(PKG)/make-registry.sh FORCE
	@mkdir -p $(@D)
	@$(PKG)/make-registry.sh $(POLICY_SRC) > $@.new
	@if cmp -s $@.new $@; then rm -f $@.new; else mv $@.new $@; fi
$(B)/gen/registry_tables.o: $(B)/gen/registry_tables.c $(B)/flags
	$(call say,CC,$<)$(CC) $(OBJ_FLAGS) -c -o $@ $<

# Made anew when the list of members changes too, so that a deleted source does not linger.
$(B)/members: FORCE
	$(call keep,$(CORE_OBJ) $(APP_OBJ) $(CLI_OBJ))
$(B)/libdscore.a: $(CORE_OBJ)
$(B)/libdsapp.a: $(APP_OBJ)
$(B)/libdscore.a $(B)/libdsapp.a: $(B)/members
	$(call say,AR,$@)rm -f $@ && $(AR) rcs $@ $(filter %.o,$^)

$(B)/dryserve: $(CLI_OBJ) $(B)/libdsapp.a $(B)/libdscore.a $(B)/members
	$(call say,LINK,$@)$(LINK) -o $@ $(filter-out %/members,$^) $(LIBS)

# --- tests: built -----------------------------------------------------------------------------------------------------
.PHONY: tests
tests: $(UNIT) $(PROPERTY) $(NAIVE) $(B)/dryserve

CRITERION = $(call pkg_libs,criterion,-lcriterion)
$(B)/tests/unit/%: tests/unit/%.c $(B)/libdsapp.a $(B)/libdscore.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(CC) $(TEST_FLAGS) -MT $@ -c -o $@.o $< && \
	  $(LINK) -o $@ $@.o $(B)/libdsapp.a $(B)/libdscore.a $(CRITERION) $(LIBS)
$(B)/tests/property/%: tests/property/%.c $(B)/libdsapp.a $(B)/libdscore.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(CC) $(TEST_FLAGS) -MT $@ -c -o $@.o $< && \
	  $(LINK) -o $@ $@.o $(filter %.o,$^) $(B)/libdsapp.a $(B)/libdscore.a $(LIBS)
$(B)/tests/bench/%: tests/bench/%.c $(B)/libdsapp.a $(B)/libdscore.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,BENCH,$<)$(CC) $(TEST_FLAGS) -MT $@ -c -o $@.o $< && \
	  $(LINK) -o $@ $@.o $(B)/libdsapp.a $(B)/libdscore.a $(LIBS)
$(B)/tests/check/%: tests/check/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(CC) $(TEST_FLAGS) -MF $@.d -o $@ $< $(CRITERION) -lm
# Fuzz targets define LLVMFuzzerTestOneInput (CONFIG=fuzz).
$(B)/tests/fuzz/%: tests/fuzz/%.c $(B)/libdsapp.a $(B)/libdscore.a $(B)/flags
	@mkdir -p $(@D)
	$(call say,FUZZ,$<)$(CC) $(TEST_FLAGS) -fsanitize=fuzzer -MF $@.d -o $@ $< $(B)/libdsapp.a $(B)/libdscore.a $(LIBS)
# The naive simulators must share nothing with sim/: no include path, no archive.
$(B)/tests/property/prop_naive: $(B)/tests/library/naive.o
$(B)/tests/property/prop_policies: $(B)/tests/library/naive_policies.o
$(B)/tests/library/%.o: tests/naive/%.c tests/naive/naive_library.h tests/naive/naive_reading.h $(B)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(CC) $(filter-out -Isim,$(TEST_FLAGS)) -DNAIVE_LIBRARY -c -o $@ $<
$(B)/tests/%.run: tests/naive/%.c $(B)/flags
	@mkdir -p $(@D)
	$(call say,TEST,$<)$(CC) $(filter-out -Isim,$(TEST_FLAGS)) -MF $@.d -o $(@:.run=) $< \
	  $(call pkg_libs,jansson,-ljansson) -lm && touch $@

# --- tests: run --------------------------------------------------------------------------------------------------------
TEST_JOBS ?= $(shell nproc 2>/dev/null || echo 2)
QUICK_CHECKS := $(PKG)/check-dag.sh $(PKG)/check-headers.sh $(PKG)/check-pure.sh
.PHONY: run-tests
run-tests:
	@BUILD=$(B) DRYSERVE=$(B)/dryserve CONFIG=$(CONFIG) JOBS=$(TEST_JOBS) $(PKG)/run-tests.sh \
	  $(PROPERTY) $(RUN_TESTS) $(UNIT) $(if $(filter release,$(CONFIG)),$(QUICK_CHECKS))

.PHONY: check-dag check-headers check-pure
check-dag: ## includes point only from right to left
	@$(PKG)/check-dag.sh
check-headers: ## each header compiles alone, and twice
	@$(PKG)/check-headers.sh
check-pure: ## the core needs nothing but mem* and str*, has no writable globals, builds for wasm without imports
	@$(MAKE) --no-print-directory $(if $(V),,-s) CONFIG=gcc-O2 lib
	@BUILD=$(O)/gcc-O2 $(PKG)/check-pure.sh

.PHONY: asan
asan: ## run the unit, property and command-line tests under the address and undefined-behaviour sanitizers
	@tests/check/asan.sh

.PHONY: lint
lint: ## clang-tidy and cppcheck
	@tests/check/lint.sh

FORMATTED = $(CORE_SRC) $(APP_SRC) $(CLI_SRC) $(HEADERS) $(wildcard tests/*/*.c)
.PHONY: fmt fmt-check
fmt: ## format all C with clang-format
	clang-format -i $(FORMATTED)
fmt-check: ## name the files whose format differs
	@clang-format --dry-run --Werror $(FORMATTED)

.PHONY: new-scheduler
new-scheduler: ## write sim/sched/NAME.c, a scheduler to fill in: make new-scheduler NAME=my-policy
	@$(PKG)/new-scheduler.sh '$(NAME)'

.PHONY: golden-update
golden-update: all ## write hashes of golden outputs and the answers in README.md anew, after a change that is meant to change them
	@tests/check/determinism.sh --update
	@tests/run/readme.sh --update

# --- installing ------------------------------------------------------------------------------------------------------
DATA_FOLDERS := models hwprofiles traces studies
.PHONY: install uninstall
install: all ## install under PREFIX (default /usr/local), below DESTDIR
	@$(PKG)/install.sh $(PROGRAM) '$(DESTDIR)$(PREFIX)' $(DATA_FOLDERS)
uninstall: ## remove what install put there
	rm -f '$(DESTDIR)$(PREFIX)/bin/dryserve'
	rm -rf '$(DESTDIR)$(DATADIR)'

# What the scripts need to know: `make -s print-CORE_FLAGS`.
.PHONY: print-%
print-%:
	@echo '$($*)'

-include $(CORE_OBJ:.o=.d) $(APP_OBJ:.o=.d) $(CLI_OBJ:.o=.d) $(UNIT:=.d) $(PROPERTY:=.d) $(NAIVE:=.d) $(patsubst tests/bench/%.c,$(B)/tests/bench/%.d,$(wildcard tests/bench/*.c))
