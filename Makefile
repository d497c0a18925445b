# make            build/release/worldkeeper
# make SAN=1      build/san/worldkeeper, with AddressSanitizer and UndefinedBehaviorSanitizer
# make ISAL=no    without ISA-L, also where it is installed (default: with it where it is found)
# make unit       build and run the unit tests (SAN=1: with sanitizers)
# make lint       clang-format, cppcheck, clang-tidy: quiet or red
# make coverage   which lines and branches the tests reach (COVERAGE="unit system", scripts/coverage.sh)
# make bench      measure dumps and restores beside other tools (tests/bench/README.md): an hour
# make oracle     build/oracle/worldkeeper, with Oracle's client library, in Debian sid (as root)
# make install    PREFIX, DESTDIR (SYSCONFDIR: where an empty worldkeeper/ is made; --world reads /etc/worldkeeper)

VERSION := 0.1.0
PREFIX  ?= /usr/local
DESTDIR ?=
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
CC ?= gcc
FUZZ_CC ?= clang

ifdef SAN
BUILD := build/san
MODE  := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
else ifdef FUZZ
BUILD := build/fuzz
CC    := $(FUZZ_CC)
MODE  := -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
else ifdef COV
BUILD := build/cov
MODE  := -O0 -g --coverage -fprofile-update=atomic
COV_OBJ := $(BUILD)/tests/tools/coverage.o
else
BUILD := build/release
MODE  := -O2 -g -DNDEBUG -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=3
endif

# The client library: mysqlclient is Oracle's or stands for MariaDB's, whichever is installed.
MYSQL_PC ?= $(shell pkg-config --exists mysqlclient && echo mysqlclient || echo libmariadb)
PKGS  := $(MYSQL_PC) zlib inih jansson libcrypto
# libcurl is loaded when a message is sent (src/report/curl.c): linked, it would cost each supervisor 4 MB.
HEADER_PKGS := $(PKGS) libcurl
# ISA-L is loaded by who packs or unpacks (src/core/codec_isal.c): it too would cost each supervisor.
ISAL ?= $(shell pkg-config --exists libisal && echo yes || echo no)
ifeq ($(ISAL),yes)
HEADER_PKGS += libisal
ISAL_DEF := -DWK_ISAL
endif
# Texts for people are cut where they are too long, on purpose (src/core/err.h).
WARN  := -Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow -Wstrict-prototypes \
         -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2 -Wundef -Wvla \
         -Wswitch-enum -Wnull-dereference -Wlogical-op -Wduplicated-cond \
         -Wno-format-truncation
ifdef FUZZ
WARN  := # of another compiler
endif
HARD  := -fstack-protector-strong -fstack-clash-protection -fPIE
# Only x86 has it. The linker marks a program for shadow stacks when all its parts are, and Debian's first
# and last ones are not; they need nothing for it, so the mark is set. For IBT they would.
ifneq ($(filter x86_64% i686%,$(shell $(CC) -dumpmachine)),)
HARD  += -fcf-protection
CET   := -Wl,-z,shstk
endif
CPPFLAGS_ALL := -D_GNU_SOURCE -DWK_VERSION='"$(VERSION)"' $(ISAL_DEF) -Isrc $(shell pkg-config --cflags $(HEADER_PKGS) | sed 's/-I/-isystem /g') $(CPPFLAGS)
CFLAGS_ALL   := -std=c11 $(WARN) $(HARD) $(MODE) $(CFLAGS)
LDFLAGS_ALL  := -pie -Wl,-z,relro,-z,now -Wl,-z,noexecstack $(CET) -Wl,--as-needed $(MODE) $(LDFLAGS)
LIBS  := $(shell pkg-config --libs $(PKGS)) -ldl -pthread

SRC  := $(sort $(wildcard src/*.c src/*/*.c))
OBJ  := $(SRC:%.c=$(BUILD)/%.o)
BIN  := $(BUILD)/worldkeeper
# Unit tests bring a clock of their own and no main.
UNIT_OBJ := $(filter-out $(BUILD)/src/main.o $(BUILD)/src/core/clock.o,$(OBJ))
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(BUILD)/unit/%)

.PHONY: all unit unit-build lint format install clean
all: $(BIN)

$(BIN): $(OBJ) $(COV_OBJ)
	$(CC) $(LDFLAGS_ALL) $(COV_OBJ:%=-Wl,--wrap=kill) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

# What asks whether ISA-L is there is built anew when the answer changes.
$(BUILD)/src/core/codec_isal.o $(BUILD)/tests/unit/test_codec.o: $(BUILD)/isal.$(ISAL)
$(BUILD)/isal.$(ISAL):
	@mkdir -p $(@D)
	@rm -f $(BUILD)/isal.*
	@touch $@

$(BUILD)/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/tests/unit/fake_clock.o $(UNIT_OBJ)
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS) -lcmocka

# cmocka 2 deprecates names whose successors cmocka 1 has not. Optimizing what runs once takes longer than it saves.
$(BUILD)/tests/unit/%.o: CFLAGS_ALL += -Wno-deprecated-declarations -U_FORTIFY_SOURCE -O0

unit-build: $(UNIT_BIN)

# Every program is run, also after one failed; any failure makes the whole red. Some at a time: each
# says what it has to say when it is over, appended: two that write at one place lose what one said.
unit: $(UNIT_BIN)
	@rm -f $(BUILD)/unit/said
	@printf '%s\n' $(UNIT_BIN) | xargs -P 4 -I{} sh -c \
	  '{} >{}.out 2>&1; rc=$$?; echo "== {}"; cat {}.out; [ $$rc = 0 ]' >>$(BUILD)/unit/said; rc=$$?; \
	  cat $(BUILD)/unit/said; exit $$rc

CHECKED := $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/unit/*.[ch] tests/bench/*.[ch] tests/tools/*.[ch] tests/fuzz/*.[ch]))
lint:
	bash tests/arrows.sh
	bash tests/arrows.sh --self-check
	clang-format --dry-run --Werror $(CHECKED)
	cppcheck --quiet -j$$(nproc) --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --error-exitcode=1 -Isrc -D_GNU_SOURCE -DWK_VERSION='""' src tests/unit tests/bench tests/tools tests/fuzz
	+$(MAKE) --no-print-directory -s -k -j$$(nproc) $(SRC:%=tidy/%)

# How many states of a function clang's analyzer looks at: its own number. A fifth of it takes a third of the time.
ANALYZER_NODES ?= 225000

.PHONY: $(SRC:%=tidy/%)
$(SRC:%=tidy/%): tidy/%:
	clang-tidy --quiet --warnings-as-errors='*' $* -- -std=c11 $(CPPFLAGS_ALL) \
	  -Xclang -analyzer-config -Xclang max-nodes=$(ANALYZER_NODES) 2>&1 | { grep -vE '^[0-9]+ warnings? generated|^$$' && exit 1 || exit 0; }

format:
	clang-format -i $(CHECKED)

install: $(BIN)
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/worldkeeper
	install -D -m 0644 etc/worldkeeper.8 $(DESTDIR)$(PREFIX)/share/man/man8/worldkeeper.8
	install -D -m 0644 etc/example.ini $(DESTDIR)$(PREFIX)/share/doc/worldkeeper/example.ini
	install -D -m 0755 scripts/migrate.sh $(DESTDIR)$(PREFIX)/share/worldkeeper/migrate.sh
	install -d -m 0755 $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSUSERSDIR) $(DESTDIR)$(SYSCONFDIR)/worldkeeper
	sed 's|@PREFIX@|$(PREFIX)|g' systemd/worldkeeper@.service > $(DESTDIR)$(UNITDIR)/worldkeeper@.service
	chmod 0644 $(DESTDIR)$(UNITDIR)/worldkeeper@.service
	install -m 0644 systemd/worldkeeper.sysusers $(DESTDIR)$(SYSUSERSDIR)/worldkeeper.conf

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(wildcard $(BUILD)/tests/unit/*.d)

# Everything in tests/bench is a program of one file.
BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
.PHONY: bench bench-tools
bench:
	scripts/bench.sh
bench-tools: $(BENCH_BIN)
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
-include $(wildcard $(BUILD)/tests/bench/*.d)

# This one is made of the program's own code.
$(BUILD)/bench/scan: $(BUILD)/tests/bench/scan.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# Reads the binary log as the journal does, for the system tests.
$(BUILD)/tools/binlog_read: $(BUILD)/tests/tools/binlog_read.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# Prints journal segments, for the system tests.
$(BUILD)/tools/segment_read: $(BUILD)/tests/tools/segment_read.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# Flips and cuts what is stored, for the fault campaign.
$(BUILD)/tools/flips: $(BUILD)/tests/tools/flips.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)

# Decodes a file of the binary log with the program's own code, for the system tests.
$(BUILD)/tools/row_images: $(BUILD)/tests/tools/row_images.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
-include $(BUILD)/tests/tools/row_images.d

# A server loads this one, whatever the rest is built with.
$(BUILD)/tools/%.so: tests/tools/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 $(WARN) -fPIC -shared -O2 -o $@ $<

.PHONY: oracle
oracle:
	scripts/oracle-client.sh

# make fuzz           fuzzes what reads bytes of others, FUZZ_SECONDS each target (needs clang)
# make fuzz-NAME      one target
# make fuzz-replay    the files in tests/fuzz/corpus once, with the sanitizers of any compiler
FUZZ_SECONDS ?= 120
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_HELP := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/fuzz/fuzz_% tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)))
# What a target stands in for: the server that a restore talks to.
FUZZ_LINK_dump := -Wl,--wrap=db_exec -Wl,--wrap=db_execf -Wl,--wrap=loader_table -Wl,--wrap=loader_insert_raw
FUZZ_LINK_answer := -lcurl
.PHONY: fuzz fuzz-replay $(FUZZ_TARGETS:%=fuzz-%) $(FUZZ_TARGETS:%=run-%) $(FUZZ_TARGETS:%=replay-%)
fuzz: $(FUZZ_TARGETS:%=fuzz-%)
fuzz-replay:
	+$(MAKE) --no-print-directory SAN=1 $(FUZZ_TARGETS:%=replay-%)
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%:
	+$(MAKE) --no-print-directory FUZZ=1 run-$*

# Of it each target takes what it needs.
$(BUILD)/worldkeeper.a: $(filter-out $(BUILD)/src/main.o,$(OBJ))
	rm -f $@
	ar rcs $@ $^
.PRECIOUS: $(BUILD)/tests/fuzz/%.o
$(BUILD)/fuzzer/%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_HELP) $(BUILD)/worldkeeper.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(LIBS) $(FUZZ_LINK_$*)
$(BUILD)/replay/%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(FUZZ_HELP) $(BUILD)/worldkeeper.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS) $(FUZZ_LINK_$*)
# What is found new stays in build/fuzz/corpus.
$(FUZZ_TARGETS:%=run-%): run-%: $(BUILD)/fuzzer/%
	@mkdir -p build/fuzz/corpus/$*
	$< -max_total_time=$(FUZZ_SECONDS) -max_len=9000 -timeout=10 -malloc_limit_mb=512 -print_final_stats=1 \
	  $(patsubst %,-dict=%,$(wildcard tests/fuzz/$*.dict)) -artifact_prefix=build/fuzz/$*- \
	  build/fuzz/corpus/$* tests/fuzz/corpus/$*
$(FUZZ_TARGETS:%=replay-%): replay-%: $(BUILD)/replay/%
	$< $(sort $(wildcard tests/fuzz/corpus/$*/*))
-include $(wildcard $(BUILD)/tests/fuzz/*.d)

.PHONY: coverage
coverage:
	scripts/coverage.sh $(COVERAGE)

# make ledger         kills a server LEDGER_ROUNDS times under writers that keep books, and audits the world;
# make ledger-follow  throws its disk away too, and tells how much of the newest play that costs
LEDGER_ROUNDS ?= 100
LEDGER := cd tests/system && WORLDKEEPER=$(CURDIR)/$(BIN) WK_LEDGER_ROUNDS=$(LEDGER_ROUNDS) \
  /usr/bin/python3 -m pytest -q -s -p no:cacheprovider -k test_ledger
.PHONY: ledger ledger-follow
ledger: $(BIN)
	$(LEDGER) test_journal.py
ledger-follow: $(BIN)
	$(LEDGER) test_journal_follow.py

# make soak           a game that writes for SOAK_SECONDS, and faults at random
SOAK_SECONDS ?= 28800
.PHONY: soak
soak: $(BIN)
	WORLDKEEPER=$(CURDIR)/$(BIN) tests/soak/soak.py --seconds $(SOAK_SECONDS)

# make faults   every fault of tests/faults at every point: hours; FAULT_TESTS names some of its files,
#               WK_FAULT_POINTS=30 takes so many points of each sweep (tests/faults/README.md). As root: it mounts disks.
FAULT_JOBS ?= 4
FAULT_TESTS ?= .
.PHONY: faults
faults: $(BIN)
	cd tests/faults && WORLDKEEPER=$(CURDIR)/$(BIN) WK_FAULT_POINTS=$${WK_FAULT_POINTS:-0} \
	  WK_FAULT_CUTS=$${WK_FAULT_CUTS:-1000} WK_FAULT_KILLS=$${WK_FAULT_KILLS:-1000} \
	  /usr/bin/python3 -m pytest -q -n $(FAULT_JOBS) -m "long or not long" $(FAULT_TESTS)

# make mutants        does the suite notice seven mistakes? each is built and tested
.PHONY: mutants
mutants: $(BIN)
	tests/mutants/mutants.py
