# Keel: one Makefile, everything it makes lies under $(BUILD).
#
#   make            the library, build/lib/libfdb_c.so
#   make demo       the hello world of the tutorial, run twice
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
BUILD    := $(BUILD)/sanitize-$(subst $(comma),-,$(SANITIZE))
CFLAGS   += -fsanitize=$(SANITIZE) -fno-sanitize-recover=all -DKEEL_SANITIZED
LDFLAGS  += -fsanitize=$(SANITIZE)
endif
LIBRARIES = -llmdb -lxxhash -lpthread

LIB      = $(BUILD)/lib/libfdb_c.so
ARCHIVE  = $(BUILD)/lib/libfdb_c.a
SOURCES  = $(wildcard src/util/*.c src/os/*.c src/database/*.c src/engine/*.c src/txn/*.c src/api/*.c)
OBJECTS  = $(SOURCES:%.c=$(BUILD)/%.o)
ALL_SOURCES := $(shell find src tests bench examples -name '*.[ch]' 2>/dev/null)

.DEFAULT_GOAL := all
.SECONDARY:
.DELETE_ON_ERROR:

.PHONY: all
all: $(LIB) ## build/lib/libfdb_c.so

# --- Debian packages: installed where that is possible, named in one line where it is not ---

PACKAGES = liblmdb-dev libxxhash-dev libcmocka-dev
DEPENDENCIES = $(BUILD)/.dependencies
$(DEPENDENCIES): tools/install_packages.sh
	@mkdir -p $(@D)
	@tools/install_packages.sh $(PACKAGES)
	@touch $@

# --- The library ---

$(BUILD)/src/%.o: src/%.c Makefile | $(DEPENDENCIES)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS) $(CFLAGS) -fPIC -fvisibility=hidden -MMD -MP -c $< -o $@

$(LIB): $(OBJECTS) src/api/libfdb_c.map
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(LDFLAGS) -shared -Wl,-soname,libfdb_c.so -Wl,-z,nodelete -Wl,-z,defs \
	  -Wl,--version-script=src/api/libfdb_c.map -o $@ $(OBJECTS) $(LIBRARIES)

# All of src in one archive: unit tests reach what the library hides.
$(ARCHIVE): $(OBJECTS)
	@mkdir -p $(@D)
	@rm -f $@
	ar rcs $@ $(OBJECTS)

ifneq ($(findstring thread,$(SANITIZE))$(findstring address,$(SANITIZE)),)
$(LIB): LDFLAGS := $(filter-out -Wl$(comma)-z$(comma)defs,$(LDFLAGS))
endif

-include $(shell find $(BUILD)/src $(BUILD)/tests -name '*.d' 2>/dev/null)
