# Keel: one Makefile, everything it makes lies under $(BUILD).
#
#   make            the library, build/lib/libfdb_c.so
#   make demo       the tutorial's class scheduling, run on an embedded database
#   make test       every test that needs nothing but Debian's packages
#   make help       all targets

BUILD    ?= build
CC       ?= gcc
PREFIX   ?= /usr/local
DESTDIR  ?=
SANITIZE ?=

WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Werror=implicit-function-declaration
OPTIMIZE ?= -O2
CFLAGS   = -std=gnu11 $(OPTIMIZE) -g -fno-omit-frame-pointer $(WARNINGS) -pthread
CPPFLAGS = -Isrc -Iinclude -DFDB_API_VERSION=740
ifneq ($(SANITIZE),)
# Sanitized objects never mix with ordinary ones.
comma := ,
override BUILD := $(BUILD)/sanitize-$(subst $(comma),-,$(SANITIZE))
CFLAGS   += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -DKEEL_SANITIZED
LDFLAGS  += -fsanitize=$(SANITIZE)
endif
LIBRARIES = -llmdb -lxxhash -lpthread

LIB      = $(BUILD)/lib/libfdb_c.so
ARCHIVE  = $(BUILD)/lib/libfdb_c.a
SOURCES  = $(wildcard src/util/*.c src/os/*.c src/database/*.c src/engine/*.c src/txn/*.c src/remote/*.c src/cluster/*.c src/api/*.c)
OBJECTS  = $(SOURCES:%.c=$(BUILD)/%.o)
KEEL_LIB = $(BUILD)/lib/libkeel.so
KEEL_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard layers/*.c recipes/*.c))

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

.PHONY: all
all: $(LIB) $(KEEL_LIB) $(BUILD)/bin/keel ## build/lib/libfdb_c.so, build/lib/libkeel.so and the command build/bin/keel

# --- Debian packages: installed where that is possible, named in one line where it is not ---

PACKAGES = g++ liblmdb-dev libxxhash-dev libjansson-dev libcmocka-dev libcsv-dev libedit-dev python3 pkg-config dpkg-dev
DEPENDENCIES = $(BUILD)/.dependencies
$(DEPENDENCIES): tools/install_packages.sh
	@mkdir -p $(@D)
	@tools/install_packages.sh $(PACKAGES)
	@touch $@

# --- The library ---

$(BUILD)/src/%.o: src/%.c Makefile | $(DEPENDENCIES)
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(LIB): $(OBJECTS) src/api/libfdb_c.map
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libfdb_c.so -Wl,-z,nodelete -Wl,-z,defs \
	  -Wl,--version-script=src/api/libfdb_c.map -o $@ $(OBJECTS) $(LIBRARIES)

# All of src in one archive: unit tests reach what the library hides.
$(ARCHIVE): $(OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	@ar rcs $@ $(OBJECTS)

# The layers see the public headers only, and the linker lets them call nothing but libfdb_c.
$(BUILD)/layers/%.o: layers/%.c Makefile | $(DEPENDENCIES)
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) -Iinclude -Ilayers $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(BUILD)/recipes/%.o: recipes/%.c Makefile | $(DEPENDENCIES)
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) -Iinclude -Ilayers -Irecipes $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(KEEL_LIB): $(KEEL_OBJECTS) $(LIB)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libkeel.so.0 -Wl,-z,nodelete -Wl,-z,defs -Wl,-rpath,'$$ORIGIN:$$ORIGIN/keel' \
	  -o $@ $(KEEL_OBJECTS) -L$(BUILD)/lib -lfdb_c -ljansson -lm -lpthread
	@ln -sf $(@F) $@.0

# --- Programs on top of the public API: linked as a user would link them ---

PROGRAM_FLAGS = -std=gnu11 $(OPTIMIZE) -g -Wall -Wextra -Iinclude -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE))
PROGRAM_LIBRARIES = -L$(BUILD)/lib -lfdb_c -Wl,-rpath,'$$ORIGIN/../lib' -lpthread

LINK_PROGRAM = @mkdir -p $(@D); echo "link $@"; $(CC) $(PROGRAM_FLAGS) $(filter %.c,$^) -o $@ $(PROGRAM_LIBRARIES)

$(BUILD)/bin/hello: examples/hello.c $(LIB)
	$(LINK_PROGRAM)
$(BUILD)/bin/%: tests/crash/%.c $(LIB)
	$(LINK_PROGRAM)
MODEL_HELPERS = $(filter-out tests/model/sequential.c tests/model/concurrent.c,$(wildcard tests/model/*.c))
$(BUILD)/bin/model-%: tests/model/%.c $(MODEL_HELPERS) $(wildcard tests/model/*.h) $(LIB)
	$(LINK_PROGRAM)

$(BUILD)/bin/bench: bench/bench.c bench/bench_rows.h $(LIB)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(PROGRAM_FLAGS) $< -o $@ $(PROGRAM_LIBRARIES) -llmdb

$(BUILD)/bin/bench-remote: bench/bench_remote.c bench/bench_rows.h $(LIB)
	$(LINK_PROGRAM)

$(BUILD)/bin/remote-%: tests/remote/%.c $(LIB)
	$(LINK_PROGRAM)

# Stands in for the official client library where there is none: see tests/cluster/stub_forward.c.
STUBS = $(foreach name,stub stub_620 stub_600 stub_broken,$(BUILD)/lib/libfdb_$(name).so)
$(BUILD)/lib/libfdb_%.so: tests/cluster/stub_forward.c tests/cluster/stub_own.c tests/cluster/%.map tests/cluster/stub.h src/cluster/functions.h
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) -std=gnu11 -O2 -g -Wall -Wextra $(CPPFLAGS) $(if $(filter stub_6%,$*),-DSTUB_API_VERSION=$(*:stub_%=%)) -fPIC -shared \
	  -Wl,-z,nodelete -Wl,--version-script=tests/cluster/$*.map -o $@ $(filter %.c,$^)
$(BUILD)/bin/test-cluster: $(wildcard tests/cluster/test_cluster.c tests/cluster/everything.c tests/cluster/legacy.c) tests/cluster/cluster.h $(LIB)
	$(LINK_PROGRAM)

MISUSE_SOURCES = $(wildcard tests/misuse/*.c)
$(BUILD)/bin/misuse: $(MISUSE_SOURCES) $(wildcard tests/misuse/*.h) $(LIB)
	$(LINK_PROGRAM)

# Programs on libkeel.
KEEL_PROGRAM_LIBRARIES = -L$(BUILD)/lib -lkeel $(PROGRAM_LIBRARIES)
LINK_KEEL_PROGRAM = @mkdir -p $(@D); echo "link $@"; $(CC) $(PROGRAM_FLAGS) $(filter %.c,$^) -o $@ $(KEEL_PROGRAM_LIBRARIES)
LAYER_NAMES = $(patsubst tests/layers/test_%.c,%,$(wildcard tests/layers/test_*.c))
$(BUILD)/bin/layer-%: tests/layers/test_%.c $(wildcard tests/layers/*.h) $(KEEL_LIB)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(PROGRAM_FLAGS) -Ilayers $< -o $@ $(KEEL_PROGRAM_LIBRARIES) -lcmocka -lm
RECIPE_NAMES = $(patsubst tests/recipes/test_%.c,%,$(wildcard tests/recipes/test_*.c))
$(BUILD)/bin/recipe-%: tests/recipes/test_%.c $(wildcard tests/recipes/*.h) $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM) -lcmocka -ljansson -lm
EXAMPLE_NAMES = $(filter-out hello,$(patsubst examples/%.c,%,$(wildcard examples/*.c)))
$(BUILD)/bin/example-%: examples/%.c $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM) -lm
RECIPE_BENCH_NAMES = $(patsubst bench/recipe_%.c,%,$(wildcard bench/recipe_*.c))
$(BUILD)/bin/bench-recipe-%: bench/recipe_%.c bench/recipe_bench.h $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM) -lm
$(BUILD)/bin/fuzz-tuple: tests/fuzz/fuzz_tuple.c $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM)
$(BUILD)/bin/bench-tuple: bench/bench_tuple.c $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM)
$(BUILD)/bin/bench-bulk: bench/bench_bulk.c $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM)
$(BUILD)/bin/bulk-%: tests/bulk/%.c $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM)
$(BUILD)/bin/keel-stacktester: $(wildcard tests/stacktester/*.c) $(wildcard tests/stacktester/*.h) $(KEEL_LIB)
	$(LINK_KEEL_PROGRAM)

CONFORMANCE_SOURCES = $(wildcard tests/conformance/*.c)
$(BUILD)/bin/conformance: $(CONFORMANCE_SOURCES) $(wildcard tests/conformance/*.h) $(LIB)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(PROGRAM_FLAGS) $(CONFORMANCE_SOURCES) -o $@ $(PROGRAM_LIBRARIES) -lcmocka

UNIT_NAMES = $(patsubst tests/unit/test_%.c,%,$(wildcard tests/unit/test_*.c))
UNIT_HELPERS = $(filter-out tests/unit/test_%.c,$(wildcard tests/unit/*.c))
$(BUILD)/bin/unit-%: tests/unit/test_%.c $(UNIT_HELPERS) $(wildcard tests/unit/*.h) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) -std=gnu11 $(OPTIMIZE) -g -Wall -Wextra $(CPPFLAGS) -Itests/unit -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) \
	  $< $(UNIT_HELPERS) -o $@ $(ARCHIVE) $(LIBRARIES) -lcmocka

# What goes over the socket, damaged: they need the frames that the library hides.
$(BUILD)/bin/fuzz-protocol $(BUILD)/bin/fuzz-answers: $(BUILD)/bin/fuzz-%: tests/fuzz/fuzz_%.c tests/fuzz/served.h $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) -std=gnu11 $(OPTIMIZE) -g -Wall -Wextra $(CPPFLAGS) -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) \
	  $< -o $@ $(ARCHIVE) $(LIBRARIES)

# Linked against everything, with the system's calls in between taken over: see the file.
$(BUILD)/bin/points: tests/crash/points.c $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) -std=gnu11 $(OPTIMIZE) -g -Wall -Wextra $(CPPFLAGS) -pthread $(if $(SANITIZE),-fsanitize=$(SANITIZE)) \
	  $< -o $@ $(ARCHIVE) $(LIBRARIES)

# --- The keel command: everything in one binary, so that it runs wherever it is copied to ---

KEEL = $(BUILD)/bin/keel
CLI_OBJECTS = $(patsubst %.c,$(BUILD)/%.o,$(wildcard cli/*.c))
$(BUILD)/cli/%.o: cli/%.c Makefile | $(DEPENDENCIES)
	@mkdir -p $(@D)
	@echo "cc $<"
	@$(CC) $(CPPFLAGS) -Icli $(CFLAGS) -MMD -MP -c $< -o $@
$(KEEL): $(CLI_OBJECTS) $(KEEL_OBJECTS) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(CFLAGS) $(LDFLAGS) -o $@ $(CLI_OBJECTS) $(KEEL_OBJECTS) $(ARCHIVE) $(LIBRARIES) -ljansson -lcsv -ledit -lm

# A test that runs commands beside writers in one process: all of keel but its main.
$(BUILD)/bin/operation-load: tests/cli/operation_load.c $(filter-out $(BUILD)/cli/main.o,$(CLI_OBJECTS)) $(KEEL_OBJECTS) $(ARCHIVE)
	@mkdir -p $(@D)
	@echo "link $@"
	@$(CC) $(CPPFLAGS) -Icli $(CFLAGS) $(LDFLAGS) $(filter-out $(ARCHIVE),$^) -o $@ $(ARCHIVE) $(LIBRARIES) -ljansson -lcsv -ledit -lm

# --- The demo ---

.PHONY: demo
demo: $(BUILD)/bin/example-class_scheduling all ## builds Keel and runs the tutorial's class scheduling on an embedded database
	@rm -rf $(BUILD)/demo.db
	@$(BUILD)/bin/example-class_scheduling $(BUILD)/demo.db 300 30
	@echo
	@echo "That was examples/class_scheduling.c (docs/tutorial.md builds it step by step). Its data is still there. Try:"
	@echo "    $(BUILD)/bin/keel $(BUILD)/demo.db tree                                  the directories"
	@echo "    $(BUILD)/bin/keel $(BUILD)/demo.db getrange '/scheduling(\"attends\")'    who attends what"
	@echo "    $(BUILD)/bin/keel $(BUILD)/demo.db                                       a shell; type help"
	@echo "    make test                                                     every test"

# The smallest program, run twice: the second run finds the first one's data.
.PHONY: hello
hello: $(BUILD)/bin/hello ## examples/hello.c twice: the second run finds what the first one wrote
	@rm -rf $(BUILD)/hello.db
	@$(BUILD)/bin/hello $(BUILD)/hello.db
	@$(BUILD)/bin/hello $(BUILD)/hello.db

# --- Tests ---

SCRATCH = $(abspath $(BUILD))/scratch
TESTS = includes=tests/check_includes.sh headers=tests/headers/check_headers.sh exports='tests/api/exports.sh $(LIB)' abi='tests/api/libkeel_abi.sh $(KEEL_LIB)' \
	$(if $(SANITIZE),,package='$(MAKE) -s deb && tests/package/check_package.sh $(BUILD) $(DEB)') \
	$(foreach name,$(UNIT_NAMES),unit-$(name)=$(BUILD)/bin/unit-$(name)) \
	conformance=$(BUILD)/bin/conformance \
	conformance-joined='KEEL_TEST_HOLDER=$(BUILD)/bin/remote-holder $(BUILD)/bin/conformance' \
	remote-joined=$(BUILD)/bin/remote-joined remote-bank='$(BUILD)/bin/remote-bank $(BANK_KILLS)' \
	cluster='STUB_CALLS=$(SCRATCH)/stub-calls $(BUILD)/bin/test-cluster $(BUILD)/lib' \
	cluster-conformance='STUB_CALLS=$(SCRATCH)/stub-calls tests/cluster/through_stub.sh $(BUILD)/lib $(BUILD)/bin/conformance' \
	cluster-conformance-620='STUB=libfdb_stub_620.so KEEL_TEST_API_VERSION=620 tests/cluster/through_stub.sh $(BUILD)/lib $(BUILD)/bin/conformance' \
	cluster-calls='tests/cluster/check_calls.sh $(SCRATCH)/stub-calls' \
	cluster-recipes='tests/cluster/through_stub.sh $(BUILD)/lib tests/each.sh $(RECIPE_PROGRAMS)' \
	cluster-command='tests/cluster/through_stub.sh $(BUILD)/lib tests/cluster/command.sh $(KEEL)' \
	cluster-silent='tests/cluster/through_stub.sh $(BUILD)/lib tests/cluster/silent.sh $(KEEL)' \
	misuse=$(BUILD)/bin/misuse \
	fuzz-tuple=$(BUILD)/bin/fuzz-tuple fuzz-answers=$(BUILD)/bin/fuzz-answers fuzz-protocol=$(BUILD)/bin/fuzz-protocol \
	docs-tutorial='tests/docs/check_excerpts.py docs/tutorial.md examples/class_scheduling.c' hello='$(MAKE) -s hello' reference='$(MAKE) -s reference' \
	docs-c='CFLAGS="$(if $(SANITIZE),-fsanitize=$(SANITIZE))" tests/layers/check_docs.sh $(BUILD) README.md docs/layers.md docs/practices.md docs/bulk.md' \
	$(foreach name,$(LAYER_NAMES),layer-$(name)=$(BUILD)/bin/layer-$(name)) \
	$(foreach name,$(RECIPE_NAMES),recipe-$(name)=$(BUILD)/bin/recipe-$(name)) \
	$(foreach name,$(EXAMPLE_NAMES),example-$(name)=$(BUILD)/bin/example-$(name)) \
	$(foreach name,$(RECIPE_BENCH_NAMES),growth-$(name)='$(BUILD)/bin/bench-recipe-$(name) $(GROWTH_MAX)') \
	bulk-kills='$(BUILD)/bin/bulk-kills $(SCRATCH)/bulk-kills $(BULK_KILLS)' \
	bulk-million='$(BUILD)/bin/bulk-million $(SCRATCH)/bulk-million $(BULK_USERS)' \
	model-sequential=$(BUILD)/bin/model-sequential \
	model-concurrent=$(BUILD)/bin/model-concurrent \
	crash='$(BUILD)/bin/crash $(SCRATCH)/crash $(CRASH_ROUNDS)' points='env -u KEEL_ROUNDS $(BUILD)/bin/points' \
	cli='tests/cli/run.py $(KEEL)' \
	demo='$(MAKE) -s demo && $(MAKE) -s demo'
CRASH_ROUNDS ?= 20
BANK_KILLS ?= 6
# The tests of layers and recipes that use a database which may be anywhere.
RECIPE_PROGRAMS = $(foreach name,$(filter directory%,$(LAYER_NAMES)),$(BUILD)/bin/layer-$(name)) $(foreach name,$(RECIPE_NAMES),$(BUILD)/bin/recipe-$(name))
GROWTH_MAX ?= 10000
BULK_KILLS ?= 2
BULK_USERS ?= 100000
TEST_PROGRAMS = $(foreach name,$(UNIT_NAMES),$(BUILD)/bin/unit-$(name)) $(BUILD)/bin/conformance $(BUILD)/bin/crash $(BUILD)/bin/points \
	$(BUILD)/bin/remote-holder $(BUILD)/bin/remote-joined $(BUILD)/bin/remote-bank $(BUILD)/bin/test-cluster $(STUBS) \
	$(BUILD)/bin/misuse $(BUILD)/bin/fuzz-tuple $(BUILD)/bin/fuzz-answers $(BUILD)/bin/fuzz-protocol $(foreach name,$(LAYER_NAMES),$(BUILD)/bin/layer-$(name)) \
	$(foreach name,$(RECIPE_NAMES),$(BUILD)/bin/recipe-$(name)) $(foreach name,$(EXAMPLE_NAMES),$(BUILD)/bin/example-$(name)) \
	$(foreach name,$(RECIPE_BENCH_NAMES),$(BUILD)/bin/bench-recipe-$(name)) $(BUILD)/bin/bulk-kills $(BUILD)/bin/bulk-million \
	$(BUILD)/bin/model-sequential $(BUILD)/bin/model-concurrent $(BUILD)/bin/hello $(KEEL) $(BUILD)/bin/operation-load

.PHONY: test
test: $(TEST_PROGRAMS) $(LIB) $(KEEL_LIB) ## every test; the last line counts them
	@rm -rf $(SCRATCH) && mkdir -p $(SCRATCH)
	@TMPDIR=$(SCRATCH) tests/run.sh $(BUILD)/test-logs $(TESTS)

.PHONY: test-clients
test-clients: $(LIB) $(KEEL_LIB) $(KEEL) $(BUILD)/bin/keel-stacktester ## real clients from the package registries on our library
	@tests/clients/run.sh $(abspath $(BUILD))/lib

# The conformance suite, the tests of layers and recipes, and the stack tester against any libfdb_c.so and cluster:
#   make conformance FDB_LIB=/usr/lib/libfdb_c.so FDB_CLUSTER=/etc/foundationdb/fdb.cluster
# Without FDB_LIB it is ours, which finds the official one by itself (KEEL_FDB_LIBRARY). FDB_API_VERSION lowers the version that is
# selected, for a library older than 7.4. See docs/scaling.md.
FDB_LIB ?= $(abspath $(LIB))
FDB_CLUSTER ?=
FDB_API_VERSION ?=
ON_CLUSTER = $(if $(filter-out $(abspath $(LIB)),$(FDB_LIB)),LD_LIBRARY_PATH=$(dir $(FDB_LIB)) LD_PRELOAD=$(FDB_LIB)) \
	KEEL_TEST_CLUSTER=$(if $(FDB_CLUSTER),$(abspath $(FDB_CLUSTER))) KEEL_TEST_ERASE=$(ERASE) \
	$(if $(FDB_API_VERSION),KEEL_TEST_API_VERSION=$(FDB_API_VERSION))
.PHONY: conformance
conformance: $(BUILD)/bin/conformance ## the conformance suite; FDB_LIB=… FDB_CLUSTER=… to judge it by another library
	$(ON_CLUSTER) $(BUILD)/bin/conformance

.PHONY: test-recipes
test-recipes: $(RECIPE_PROGRAMS) ## tests of layers and recipes; FDB_LIB=… FDB_CLUSTER=… on an empty cluster (ERASE=1 empties it first)
	@mkdir -p $(SCRATCH)
	@TMPDIR=$(SCRATCH) tests/run.sh $(BUILD)/recipe-logs $(foreach program,$(RECIPE_PROGRAMS),\
	  $(notdir $(program))='$(ON_CLUSTER) $(if $(FDB_API_VERSION),KEEL_API_VERSION=$(FDB_API_VERSION)) $(program)')

.PHONY: test-stack
test-stack: $(LIB) $(KEEL_LIB) $(BUILD)/bin/keel-stacktester ## the binding tester's stack machine, beside the one on Python; FDB_CLUSTER=… runs ours there
	@$(ON_CLUSTER) tests/clients/run.sh $(abspath $(BUILD))/lib stack

# Everything once more under a checker. The random tests run fewer rounds there; the rest is the same.
.PHONY: test-sanitized
test-sanitized: ## make test under the address, undefined and thread sanitizers
	@KEEL_ROUNDS=$(or $(ROUNDS),300) $(MAKE) SANITIZE=address,undefined CRASH_ROUNDS=5 BULK_USERS=20000 test
	@KEEL_ROUNDS=$(or $(ROUNDS),300) $(MAKE) SANITIZE=thread CRASH_ROUNDS=5 BULK_USERS=20000 test

VALGRIND = valgrind -q --error-exitcode=9 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite --num-callers=30
.PHONY: test-valgrind
test-valgrind: $(TEST_PROGRAMS) ## the unit tests, the conformance suite and short model tests under valgrind
	@tools/install_packages.sh valgrind
	@rm -rf $(SCRATCH) && mkdir -p $(SCRATCH)
	@TMPDIR=$(SCRATCH) KEEL_COMMITS=2 KEEL_ROUNDS=$(or $(ROUNDS),20) tests/run.sh $(BUILD)/valgrind-logs \
	  $(foreach name,$(UNIT_NAMES),unit-$(name)='$(VALGRIND) $(BUILD)/bin/unit-$(name)') \
	  conformance='$(VALGRIND) $(BUILD)/bin/conformance' \
	  model-sequential='$(VALGRIND) $(BUILD)/bin/model-sequential' \
	  model-concurrent='$(VALGRIND) $(BUILD)/bin/model-concurrent'

.PHONY: test-remote-minute
test-remote-minute: $(BUILD)/bin/remote-bank ## eight processes on one database, its owner killed every second for a minute
	@$(BUILD)/bin/remote-bank 60 1000

.PHONY: soak
soak: $(TEST_PROGRAMS) ## the random tests for longer: SOAK=N times the usual rounds (20)
	@rm -rf $(SCRATCH) && mkdir -p $(SCRATCH)
	@TMPDIR=$(SCRATCH) KEEL_SOAK=$(or $(SOAK),20) tests/run.sh $(BUILD)/soak-logs \
	  model-sequential='KEEL_SEED=$$(date +%s) KEEL_ROUNDS=$$((3000 * KEEL_SOAK)) $(BUILD)/bin/model-sequential' \
	  model-concurrent='KEEL_SEED=$$(date +%s) KEEL_ROUNDS=$$((200 * KEEL_SOAK)) $(BUILD)/bin/model-concurrent' \
	  crash='$(BUILD)/bin/crash $(SCRATCH)/crash $$((20 * KEEL_SOAK)) $$(date +%s)' \
	  points='KEEL_ROUNDS=$$((500 * KEEL_SOAK)) $(BUILD)/bin/points' \
	  fuzz-protocol='KEEL_SEED=$$(date +%s) KEEL_ROUNDS=$$((150 * KEEL_SOAK)) $(BUILD)/bin/fuzz-protocol' \
	  fuzz-answers='KEEL_SEED=$$(date +%s) KEEL_ROUNDS=$$((10 * KEEL_SOAK)) $(BUILD)/bin/fuzz-answers' \
	  remote-bank='$(BUILD)/bin/remote-bank 60 1000' \
	  bulk-kills='$(BUILD)/bin/bulk-kills $(SCRATCH)/bulk-kills $$((2 * KEEL_SOAK)) $$(date +%s)' \
	  bulk-million='$(BUILD)/bin/bulk-million $(SCRATCH)/bulk-million 1000000'

.PHONY: bench
bench: $(BUILD)/bin/bench $(BUILD)/bin/bench-tuple ## reads beside LMDB, commits beside write+fdatasync, in one run; tuples
	@rm -rf $(BUILD)/bench-data
	@$(BUILD)/bin/bench-tuple
	@$(BUILD)/bin/bench $(BUILD)/bench-data $(ROWS)
	@rm -rf $(BUILD)/bench-data

.PHONY: bench-bulk
bench-bulk: $(BUILD)/bin/bench-bulk ## bulk loads of up to ROWS rows (1000000): rows a second, and memory that does not grow
	@rm -rf $(BUILD)/bench-bulk-data*
	@$(BUILD)/bin/bench-bulk $(BUILD)/bench-bulk-data $(ROWS)
	@rm -rf $(BUILD)/bench-bulk-data*

.PHONY: bench-remote
bench-remote: $(BUILD)/bin/bench-remote ## a database of another process: gets beside Redis on a Unix socket, commits beside in-process, in one run
	@tools/install_packages.sh redis-server
	@rm -rf $(BUILD)/bench-remote-data
	@$(BUILD)/bin/bench-remote $(BUILD)/bench-remote-data $(ROWS)
	@rm -rf $(BUILD)/bench-remote-data

.PHONY: bench-import
bench-import: $(KEEL) ## keel import beside sqlite3's .import: ROWS rows (1000000), best of ROUNDS (3)
	@tools/install_packages.sh sqlite3
	@bench/bench_import.py $(KEEL) $(BUILD)/bench-import $(or $(ROWS),1000000) $(or $(ROUNDS),3)

.PHONY: bench-recipes
bench-recipes: $(foreach name,$(RECIPE_BENCH_NAMES),$(BUILD)/bin/bench-recipe-$(name)) ## rows read and time as each recipe's structure grows to SIZE elements (1000000)
	@for name in $(RECIPE_BENCH_NAMES); do $(BUILD)/bin/bench-recipe-$$name $(or $(SIZE),1000000) || exit 1; done

LIBDIR ?= $(PREFIX)/lib
.PHONY: install
install: all ## the command, the libraries and their headers under PREFIX (DESTDIR, LIBDIR); SHADOW=1: also in the place of an official libfdb_c
	@tools/install.sh $(BUILD) '$(DESTDIR)' $(PREFIX) $(LIBDIR) $(if $(SHADOW),shadow)

VERSION := $(shell sed -nE 's/^\#define KEEL_VERSION "(.*)"$$/\1/p' include/keel/version.h)
.PHONY: dist
dist: ## build/keel-VERSION.tar.gz, what git has committed
	@mkdir -p $(BUILD)
	git archive --prefix=keel-$(VERSION)/ -o $(BUILD)/keel-$(VERSION).tar.gz HEAD

DEB = $(BUILD)/keel_$(VERSION)_$(shell dpkg --print-architecture).deb
.PHONY: deb
deb: $(DEB) ## the Debian package
$(DEB): all $(wildcard docs/*) tools/install.sh tools/make_deb.sh
	@tools/make_deb.sh $(BUILD)

REFERENCE_HEADERS = include/foundationdb/fdb_c.h $(wildcard include/keel/*.h)
.PHONY: reference
reference: ## the API reference, made from the headers: build/reference/index.md
	@tools/make_reference.py $(BUILD)/reference $(REFERENCE_HEADERS)

.PHONY: clean
clean: ## removes build/
	rm -rf build

.PHONY: help
help: ## this list
	@sed -nE 's/^([a-z-]+):[^#]*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

-include $(shell find $(BUILD)/src $(BUILD)/layers $(BUILD)/recipes $(BUILD)/cli -name '*.d' 2>/dev/null)
