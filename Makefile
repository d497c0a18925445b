# make help lists the targets: those lines below that begin with "## ".
## make             build/release/worldkeeper
## make SAN=1       build/san/worldkeeper, with AddressSanitizer and UndefinedBehaviorSanitizer
## make TSAN=1      build/tsan/worldkeeper, with ThreadSanitizer
## make ISAL=no     without ISA-L, also where it is installed (default: with it where it is found)
## make PARTS="ledger offsite"   build/release-without-…: only these optional parts (src/parts/parts.mk); PARTS= is the core
## make unit        build and run the unit tests (SAN=1: with sanitizers)
## make lint        include rules, clang-format, cppcheck, clang-tidy: silent or red
## make format      clang-format over all C files
## make install     PREFIX, DESTDIR; SYSCONFDIR: where worldkeeper/ is made (--world reads /etc/worldkeeper)

VERSION := 0.3.0
PREFIX  ?= /usr/local
DESTDIR ?=
SYSCONFDIR ?= /etc
UNITDIR ?= $(PREFIX)/lib/systemd/system
SYSUSERSDIR ?= $(PREFIX)/lib/sysusers.d
ifeq ($(origin CC),default)
CC := gcc
endif
FUZZ_CC ?= clang

PIE   := -fPIE
ifdef SAN
BUILD := build/san
MODE  := -O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize-recover=all
# The tests start it thousands of times: what need not be loaded, or moved to where it was loaded, costs nothing. To
# register what surrounds each constant takes a third of a start: only make nightly (WK_WHOLE) does. An index beyond
# an array is found in any case, by UndefinedBehaviorSanitizer.
PIE   := -fno-pie
GLOBALS := $(if $(filter yes,$(WK_WHOLE)),1,0)
MODE  += $(if $(findstring gcc,$(CC)),--param asan-globals=$(GLOBALS))
BUILT_ANEW := $(BUILD)/globals.$(GLOBALS)
BIN_SAN := $(if $(findstring gcc,$(CC)),-static-libasan -static-libubsan)
SAN_OBJ := $(BUILD)/tests/tools/sanitizer.o
else ifdef TSAN
BUILD := build/tsan
MODE  := -O1 -g -fno-omit-frame-pointer -fsanitize=thread
PIE   := -fno-pie
BIN_SAN := $(if $(findstring gcc,$(CC)),-static-libtsan)
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

# Objects do not depend on the choice of parts, so they are shared; what is linked of them has its own directory.
include src/parts/parts.mk
BLANK := $(subst x, ,x)
OUT := $(BUILD)$(if $(LEFT_OUT),-without-$(subst $(BLANK),-,$(LEFT_OUT)))

# The client library: mysqlclient is Oracle's or stands for MariaDB's, whichever is installed.
MYSQL_PC ?= $(shell pkg-config --exists mysqlclient && echo mysqlclient || echo libmariadb)
PKGS  := $(MYSQL_PC) zlib inih jansson libssl libcrypto
# libcurl is loaded when a message is sent (src/net/curl.c): linked, it would cost each supervisor 4 MB.
HEADER_PKGS := $(PKGS) libcurl
# ISA-L is loaded by who packs or unpacks (src/base/codec_isal.c): it too would cost each supervisor.
ISAL ?= $(shell pkg-config --exists libisal && echo yes || echo no)
ifeq ($(ISAL),yes)
HEADER_PKGS += libisal
ISAL_DEF := -DWK_ISAL
endif
# Texts for people are cut where they are too long, on purpose (src/base/line.h).
WARN  := -Wall -Wextra -Wpedantic -Werror -Wconversion -Wshadow -Wstrict-prototypes \
         -Wmissing-prototypes -Wpointer-arith -Wcast-qual -Wwrite-strings -Wformat=2 -Wundef -Wvla \
         -Wswitch-enum -Wnull-dereference -Wlogical-op -Wduplicated-cond \
         -Wno-format-truncation
ifdef FUZZ
WARN  := # of another compiler
endif
HARD  := -fstack-protector-strong -fstack-clash-protection $(PIE)
# Only x86 has it. The linker marks a program for shadow stacks when all its parts are, and Debian's first
# and last ones are not; they need nothing for it, so the mark is set. For IBT they would.
ifneq ($(filter x86_64% i686%,$(shell $(CC) -dumpmachine)),)
HARD  += -fcf-protection
CET   := -Wl,-z,shstk
endif
# Where the client library looks for its plugins, if not where it was built to.
ifdef PLUGIN_DIR
PLUGIN_DEF := -DWK_PLUGIN_DIR='"$(PLUGIN_DIR)"'
endif
CPPFLAGS_ALL := -D_GNU_SOURCE $(PLUGIN_DEF) -DWK_VERSION='"$(VERSION)"' $(ISAL_DEF) -Isrc $(shell pkg-config --cflags $(HEADER_PKGS) | sed 's/-I/-isystem /g') $(CPPFLAGS)
CFLAGS_ALL   := -std=c11 $(WARN) $(HARD) $(MODE) $(CFLAGS)
LDFLAGS_ALL  := $(if $(filter -fPIE,$(PIE)),-pie,-no-pie) -Wl,-z,relro,-z,now -Wl,-z,noexecstack $(CET) -Wl,--as-needed $(MODE) $(LDFLAGS)
LIBS  := $(shell pkg-config --libs $(PKGS)) -ldl -pthread

# The daemon has nothing of worldkeeper-setup, which starts other programs.
SETUP_SRC := $(sort $(wildcard src/setup/*.c))
SETUP_OBJ := $(SETUP_SRC:%.c=$(BUILD)/%.o)
SETUP := $(OUT)/worldkeeper-setup
SRC  := $(filter-out $(SETUP_SRC) src/parts/%,$(sort $(wildcard src/*.c src/*/*.c)))
OBJ  := $(SRC:%.c=$(BUILD)/%.o)
BIN  := $(OUT)/worldkeeper
# Unit tests bring a clock of their own and no main. Sections of all parts are the core's to read, and so to test.
UNIT_SRC := $(sort $(wildcard tests/unit/test_*.c))
ifneq ($(LEFT_OUT),)
LEFT_OUT_SRC := $(foreach p,$(LEFT_OUT),$(FILES_$p))
OBJ := $(filter-out $(LEFT_OUT_SRC:%.c=$(BUILD)/%.o),$(OBJ)) $(LEFT_OUT:%=$(OUT)/src/parts/no_%.o)
# A test that includes a header of a part tests that part.
UNIT_SRC := $(shell grep -LE '$(subst $(BLANK),|,$(patsubst src/%,"%,$(patsubst %.c,%.h,$(subst %.c,,$(LEFT_OUT_SRC)))))' $(UNIT_SRC))
endif
UNIT_OBJ := $(filter-out $(BUILD)/src/main.o $(BUILD)/src/base/clock.o,$(OBJ)) $(filter-out $(BUILD)/src/setup/main.o,$(SETUP_OBJ))
ifneq ($(LEFT_OUT),)
OBJ := $(filter-out $(BUILD)/src/config/parts.o,$(OBJ)) $(OUT)/src/config/parts.o
endif
UNIT_BIN := $(UNIT_SRC:tests/unit/%.c=$(OUT)/unit/%)

.PHONY: all help unit unit-build unit-run lint format install clean
all: $(BIN) $(SETUP)

help:
	@sed -n 's/^## //p' Makefile

$(BIN): $(OBJ) $(COV_OBJ) $(SAN_OBJ)
	$(CC) $(LDFLAGS_ALL) $(BIN_SAN) $(COV_OBJ:%=-Wl,--wrap=kill) -o $@ $^ $(LIBS)

# Of the daemon it takes what it needs.
$(SETUP): $(SETUP_OBJ) $(COV_OBJ) $(SAN_OBJ) $(OUT)/worldkeeper.a
	$(CC) $(LDFLAGS_ALL) $(BIN_SAN) $(COV_OBJ:%=-Wl,--wrap=kill) -o $@ $^ $(LIBS)

$(BUILD)/%.o: %.c Makefile $(BUILT_ANEW)
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) -MMD -MP -c -o $@ $<

ifneq ($(LEFT_OUT),)
$(OUT)/%.o: %.c Makefile
	@mkdir -p $(@D)
	$(CC) $(CPPFLAGS_ALL) $(CFLAGS_ALL) $(if $(filter src/config/parts.c,$<),-DWK_LEFT_OUT='$(foreach p,$(LEFT_OUT),"$p",)') -MMD -MP -c -o $@ $<
endif

# What asks whether ISA-L is there is built anew when the answer changes.
$(BUILD)/src/base/codec_isal.o $(BUILD)/tests/unit/test_codec.o: $(BUILD)/isal.$(ISAL)
$(BUILD)/isal.$(ISAL) $(BUILT_ANEW):
	@mkdir -p $(@D)
	@rm -f $(basename $@).*
	@touch $@

$(BUILD)/src/progress/central_sql.o: src/progress/central.sql
$(BUILD)/src/page/assets.o: $(wildcard src/page/*.html src/page/*.js src/page/*.css src/page/*.svg src/page/*.atom)

# Of the program each takes what it needs.
$(OUT)/unit/%: $(BUILD)/tests/unit/%.o $(BUILD)/tests/unit/fake_clock.o $(SAN_OBJ) $(OUT)/unit.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS) -lcmocka
$(OUT)/unit.a: $(UNIT_OBJ)
	rm -f $@
	ar rcs $@ $^

# cmocka 2 deprecates names whose successors cmocka 1 has not. Optimizing what runs once takes longer than it saves.
$(BUILD)/tests/unit/%.o: CFLAGS_ALL += -Wno-deprecated-declarations -U_FORTIFY_SOURCE -O0

unit-build: $(UNIT_BIN)

unit: $(UNIT_BIN)
	+$(MAKE) --no-print-directory -s unit-run

# Every program is run, also after one failed; any failure makes the whole red. Some at a time: each
# says what it has to say when it is over, appended: two that write at one place lose what one said.
unit-run:
	@rm -f $(OUT)/unit/said
	@printf '%s\n' $(UNIT_BIN) | xargs -P 4 -I{} sh -c \
	  '{} >{}.out 2>&1; rc=$$?; echo "== {}"; cat {}.out; [ $$rc = 0 ]' >>$(OUT)/unit/said; rc=$$?; \
	  cat $(OUT)/unit/said; exit $$rc

CHECKED := $(sort $(wildcard src/*.[ch] src/*/*.[ch] tests/unit/*.[ch] tests/bench/*.[ch] tests/tools/*.[ch] tests/fuzz/*.[ch]))
# clang-format and clang-tidy find something else with each version: this source is held against that of Debian 12.
LLVM = $(shell clang-format --version 2>/dev/null | sed -n 's/.*version \([0-9]*\)\..*/\1/p')
OF_12 = $(filter 14,$(LLVM))
TIDIED := $(sort $(SRC) $(SETUP_SRC) $(wildcard src/parts/no_*.c))
lint:
	bash tests/arrows.sh
	bash tests/arrows.sh --self-check
	$(if $(OF_12),clang-format --dry-run --Werror $(CHECKED),@echo 'left out: clang-format and clang-tidy, which are of LLVM $(LLVM) and not 14, as in Debian 12')
	cppcheck --quiet -j$$(nproc) --std=c11 --enable=warning,performance,portability --inline-suppr \
	  --suppress=missingIncludeSystem --suppress=normalCheckLevelMaxBranches --error-exitcode=1 -Isrc -D_GNU_SOURCE -DWK_VERSION='""' -DJSON_INTEGER_FORMAT='"lld"' src tests/unit tests/bench tests/tools tests/fuzz
	$(if $(OF_12),+$(MAKE) --no-print-directory -s -k -j$$(nproc) $(TIDIED:%=tidy/%))

# How many states of a function clang's analyzer looks at: its own number. A fifth of it takes a third of the time, a
# twentieth an eighth.
ANALYZER_NODES ?= 225000

.PHONY: $(TIDIED:%=tidy/%)
$(TIDIED:%=tidy/%): tidy/%:
	@tests/tidy.sh $* $(ANALYZER_NODES) -std=c11 $(CPPFLAGS_ALL)

format:
	clang-format -i $(CHECKED)

install: $(BIN) $(SETUP)
	install -D -m 0755 $(BIN) $(DESTDIR)$(PREFIX)/bin/worldkeeper
	install -D -m 0755 $(SETUP) $(DESTDIR)$(PREFIX)/bin/worldkeeper-setup
	install -D -m 0644 etc/worldkeeper-setup.8 $(DESTDIR)$(PREFIX)/share/man/man8/worldkeeper-setup.8
	install -D -m 0644 etc/worldkeeper.8 $(DESTDIR)$(PREFIX)/share/man/man8/worldkeeper.8
	for f in etc/*.7; do install -D -m 0644 "$$f" $(DESTDIR)$(PREFIX)/share/man/man7/$${f##*/} || exit 1; done
	install -D -m 0644 etc/example.ini $(DESTDIR)$(PREFIX)/share/doc/worldkeeper/example.ini
	install -D -m 0755 scripts/migrate.sh $(DESTDIR)$(PREFIX)/share/worldkeeper/migrate.sh
	install -D -m 0644 src/progress/central.sql $(DESTDIR)$(PREFIX)/share/worldkeeper/progress-central.sql
	install -d -m 0755 $(DESTDIR)$(UNITDIR) $(DESTDIR)$(SYSUSERSDIR) $(DESTDIR)$(SYSCONFDIR)/worldkeeper
	sed 's|@PREFIX@|$(PREFIX)|g' systemd/worldkeeper@.service > $(DESTDIR)$(UNITDIR)/worldkeeper@.service
	chmod 0644 $(DESTDIR)$(UNITDIR)/worldkeeper@.service
	install -m 0644 systemd/worldkeeper.target $(DESTDIR)$(UNITDIR)/worldkeeper.target
	install -m 0644 systemd/worldkeeper.sysusers $(DESTDIR)$(SYSUSERSDIR)/worldkeeper.conf
	install -m 0755 systemd/restart-worlds $(DESTDIR)$(PREFIX)/share/worldkeeper/restart-worlds
	install -D -m 0644 etc/completion/worldkeeper.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/worldkeeper
	install -D -m 0644 etc/completion/_worldkeeper $(DESTDIR)$(PREFIX)/share/zsh/vendor-completions/_worldkeeper
	install -D -m 0644 etc/prometheus/worldkeeper.rules.yml $(DESTDIR)$(PREFIX)/share/worldkeeper/prometheus/worldkeeper.rules.yml
	install -D -m 0644 etc/grafana/worldkeeper.json $(DESTDIR)$(PREFIX)/share/worldkeeper/grafana/worldkeeper.json
	install -D -m 0755 etc/ocf/world $(DESTDIR)$(PREFIX)/lib/ocf/resource.d/worldkeeper/world
	for f in etc/failover/*; do install -D -m 0644 "$$f" $(DESTDIR)$(PREFIX)/share/doc/worldkeeper/failover/$${f##*/} || exit 1; done
	install -D -m 0644 etc/apparmor/worldkeeper $(DESTDIR)$(PREFIX)/share/doc/worldkeeper/apparmor/worldkeeper

## make deb          the Debian package, into build/package, with the tools of this machine (scripts/deps.sh package);
##                  sudo scripts/build-deb.sh builds it in a temporary Debian
## make release     source tarball, packages for Debian 12 and 13, checksums, bills of materials, into build/dist (as root)
.PHONY: deb release
deb:
	@scripts/build-deb.sh --here
release:
	@scripts/release.sh $(if $(RELEASE_CACHE),--cache '$(RELEASE_CACHE)')

clean:
	rm -rf build

-include $(OBJ:.o=.d) $(SETUP_OBJ:.o=.d) $(wildcard $(BUILD)/tests/unit/*.d)

# Everything in tests/bench is a program of one file.
BENCH_BIN := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
## make bench       measure dumps and restores beside other tools (tests/bench/README.md): an hour
.PHONY: bench bench-tools
bench:
	scripts/bench.sh
bench-tools: $(BENCH_BIN)
$(BUILD)/bench/%: $(BUILD)/tests/bench/%.o
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
-include $(wildcard $(BUILD)/tests/bench/*.d)

# Programs made of the program's own code; each says in its first comment what it is for.
OWN_TOOLS := bench/scan $(addprefix tools/,binlog_read code_make flips lease_call remote_call row_images segment_read table_rewrite)
$(OWN_TOOLS:%=$(BUILD)/%): $(BUILD)/%: $(BUILD)/tests/%.o $(filter-out $(BUILD)/src/main.o,$(OBJ))
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS)
-include $(wildcard $(BUILD)/tests/tools/*.d)

# A server loads this one, whatever the rest is built with.
$(BUILD)/tools/%.so: tests/tools/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 $(WARN) -fPIC -shared -O2 -o $@ $<

## make oracle      build/oracle/worldkeeper, with Oracle's client library, in Debian sid (as root)
.PHONY: oracle
oracle:
	scripts/oracle-client.sh

## make fuzz        fuzz what reads bytes of others, FUZZ_SECONDS for each target (needs clang)
## make fuzz-NAME   one target
## make fuzz-campaign  each target until it had FUZZ_MINUTES of CPU time; it can be ended and goes on the next time
##                  (tests/fuzz/campaign.py; FUZZ_CAMPAIGN holds more of its options)
## make fuzz-replay the files in tests/fuzz/corpus once, with the sanitizers of any compiler
FUZZ_SECONDS ?= 120
FUZZ_MINUTES ?= 30
FUZZ_CAMPAIGN ?=
FUZZ_TIMEOUT ?= 10
FUZZ_TARGETS := $(patsubst tests/fuzz/fuzz_%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
FUZZ_HELP := $(patsubst %.c,$(BUILD)/%.o,$(filter-out tests/fuzz/fuzz_% tests/fuzz/replay.c,$(wildcard tests/fuzz/*.c)))
# What a target stands in for: the server that a restore talks to.
FUZZ_LINK_dump := -Wl,--wrap=mysql_real_query -Wl,--wrap=mysql_use_result -Wl,--wrap=mysql_errno -Wl,--wrap=db_is_mariadb -Wl,--wrap=db_word -Wl,--wrap=db_warnings -Wl,--wrap=loader_table -Wl,--wrap=loader_insert_raw -Wl,--wrap=loader_empty -Wl,--wrap=loader_recount -Wl,--wrap=shadow_alter
FUZZ_LINK_answer := -lcurl
FUZZ_LINK_list := -lcurl
# Leaks would be looked for each time, since a thread of the target's own allocates too; the replay finds them.
# Nor at its end, where memory that the client library loses of a malformed answer (unpack_fields(), when it cannot allocate
# the columns) would be found.
FUZZ_FLAGS_server := -detect_leaks=0
FUZZ_ENV_server := ASAN_OPTIONS=detect_leaks=0
.PHONY: fuzz fuzz-replay fuzz-campaign fuzzers $(FUZZ_TARGETS:%=fuzz-%) $(FUZZ_TARGETS:%=run-%) $(FUZZ_TARGETS:%=rerun-%) $(FUZZ_TARGETS:%=replay-%)
fuzz: $(FUZZ_TARGETS:%=fuzz-%)
fuzz-replay:
	+$(MAKE) --no-print-directory SAN=1 $(FUZZ_TARGETS:%=replay-%)
$(FUZZ_TARGETS:%=fuzz-%): fuzz-%:
	+$(MAKE) --no-print-directory FUZZ=1 run-$*
fuzzers: $(FUZZ_TARGETS:%=$(BUILD)/fuzzer/%)
fuzz-campaign:
	+$(MAKE) --no-print-directory FUZZ=1 fuzzers
	tests/fuzz/campaign.py --minutes $(FUZZ_MINUTES) $(FUZZ_CAMPAIGN)

# Of it each target takes what it needs.
$(OUT)/worldkeeper.a: $(filter-out $(BUILD)/src/main.o,$(OBJ))
	rm -f $@
	ar rcs $@ $^
.PRECIOUS: $(BUILD)/tests/fuzz/%.o
$(BUILD)/fuzzer/%: $(BUILD)/tests/fuzz/fuzz_%.o $(FUZZ_HELP) $(OUT)/worldkeeper.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -fsanitize=fuzzer -o $@ $^ $(LIBS) $(FUZZ_LINK_$*)
$(BUILD)/replay/%: $(BUILD)/tests/fuzz/fuzz_%.o $(BUILD)/tests/fuzz/replay.o $(FUZZ_HELP) $(OUT)/worldkeeper.a
	@mkdir -p $(@D)
	$(CC) $(LDFLAGS_ALL) -o $@ $^ $(LIBS) $(FUZZ_LINK_$*)
# What is found new stays in build/fuzz/corpus. rerun-NAME builds nothing: its CPU time is that of the target.
define FUZZ_RUN
	@mkdir -p build/fuzz/corpus/$*
	$(FUZZ_ENV_$*) $(BUILD)/fuzzer/$* -max_total_time=$(FUZZ_SECONDS) -max_len=9000 -timeout=$(FUZZ_TIMEOUT) -malloc_limit_mb=512 -print_final_stats=1 \
	  $(FUZZ_FLAGS_$*) $(patsubst %,-dict=%,$(wildcard tests/fuzz/$*.dict)) -artifact_prefix=build/fuzz/$*- \
	  build/fuzz/corpus/$* tests/fuzz/corpus/$*
endef
$(FUZZ_TARGETS:%=run-%): run-%: $(BUILD)/fuzzer/%
	$(FUZZ_RUN)
$(FUZZ_TARGETS:%=rerun-%): rerun-%:
	$(FUZZ_RUN)
$(FUZZ_TARGETS:%=replay-%): replay-%: $(BUILD)/replay/%
	$< $(sort $(wildcard tests/fuzz/corpus/$*/*))
-include $(wildcard $(BUILD)/tests/fuzz/*.d)

## make tsan        build/tsan/worldkeeper, and the tests of what uses threads (scripts/tsan.sh): any race makes it red
.PHONY: tsan
tsan:
	scripts/tsan.sh

## make coverage    which lines and branches the tests reach (COVERAGE="unit system", scripts/coverage.sh)
.PHONY: coverage
coverage:
	scripts/coverage.sh $(COVERAGE)

## make core        the core without its optional parts: its unit tests, then worlds that are lost and come back
.PHONY: core core-run
core:
	+$(MAKE) --no-print-directory PARTS= core-run
core-run: $(BIN) unit
	cd tests/system && WORLDKEEPER="$(CURDIR)/$(BIN)" /usr/bin/python3 -m pytest -q \
	  -k "test_restore_after_a_loss or test_a_killed_server_gets_its_world_back or test_a_whole_journal_loses_nothing or test_by_hand_on_a_new_server or test_mail_reaches_every_recipient"

## make kills       kill a server KILL_ROUNDS times under writers that record what was acknowledged, and audit the world
## make kills-follow   the same, and its disk is lost too: how much of the newest play does that cost?
LEDGER_ROUNDS ?= 100
KILL_ROUNDS ?= $(LEDGER_ROUNDS)
KILLS := cd tests/system && WORLDKEEPER="$(CURDIR)/$(BIN)" WK_KILL_ROUNDS=$(KILL_ROUNDS) \
  /usr/bin/python3 -m pytest -q -s -o timeout=0 -k test_kills
.PHONY: kills kills-follow ledger ledger-follow
kills: $(BIN)
	$(KILLS) test_journal.py
kills-follow: $(BIN)
	$(KILLS) test_journal_follow.py
# Their names before "ledger" was a kind of table.
ledger: kills
ledger-follow: kills-follow

## make ledger-torture  totals that are read while writers write and rollups run: LEDGER_ROWS rows and LEDGER_ROLLUPS rollups
##                  of each kind of ledger, on both kinds of server, the same again with LEDGER_SEED
LEDGER_ROWS ?= 1700000
LEDGER_ROLLUPS ?= 1700
LEDGER_SERVERS ?= mariadb mysql
LEDGER_SEED ?=
.PHONY: ledger-torture
ledger-torture: $(BIN)
	for kind in $(LEDGER_SERVERS); do (cd tests/system && WK_KIND=$$kind WORLDKEEPER="$(CURDIR)/$(BIN)" \
	  WK_LEDGER_ROWS=$(LEDGER_ROWS) WK_LEDGER_ROLLUPS=$(LEDGER_ROLLUPS) WK_LEDGER_SEED=$(LEDGER_SEED) \
	  /usr/bin/python3 -m pytest -q -s -o timeout=0 test_ledger_torture.py) || exit 1; done
## make progress-torture   game servers over one central store of progress, killed, stopped and cut off; the same with worlds
##                  of their own, lost and restored: each PROGRESS_ROUNDS times 30 seconds
PROGRESS_ROUNDS ?= 100
.PHONY: progress-torture
progress-torture: $(BIN)
	cd tests/system && WORLDKEEPER="$(CURDIR)/$(BIN)" WK_PROGRESS_ROUNDS=$(PROGRESS_ROUNDS) \
	  /usr/bin/python3 -m pytest -q -s -o timeout=0 -k "test_torture or test_local" test_progress_torture.py

## make takeover-torture   two machines that may keep one world, disturbed TAKEOVER_ROUNDS times with the lease in a store, with
##                  none, in one etcd and in three, on both kinds of server; the same again with TAKEOVER_SEED, and with
##                  TAKEOVER_ONLY=peers only what these words of tests/system/wk/takeover.py do; a run that was ended
##                  goes on where it was, for the same commit (TAKEOVER_STATE; remove that file for another one)
TAKEOVER_ROUNDS ?= 85
TAKEOVER_SEED ?=
TAKEOVER_KINDS ?= s3 none etcd etcd3
TAKEOVER_SERVERS ?= mariadb mysql
TAKEOVER_ONLY ?=
TAKEOVER_STATE ?= $(abspath $(BUILD))/takeover.json
.PHONY: takeover-torture
takeover-torture: $(BIN)
	for kind in $(TAKEOVER_SERVERS); do (cd tests/system && WK_KIND=$$kind WORLDKEEPER="$(CURDIR)/$(BIN)" \
	  WK_TAKEOVER_ROUNDS=$(TAKEOVER_ROUNDS) WK_TAKEOVER_SEED=$(TAKEOVER_SEED) WK_TAKEOVER_KINDS="$(TAKEOVER_KINDS)" \
	  WK_TAKEOVER_ONLY="$(TAKEOVER_ONLY)" WK_TAKEOVER_STATE=$(TAKEOVER_STATE) \
	  WK_TAKEOVER_COMMIT=$(shell git rev-parse --short HEAD 2>/dev/null) \
	  /usr/bin/python3 -m pytest -q -s -o timeout=0 -k test_torture test_takeover_torture.py) || exit 1; done

## make changes     CHANGES losses after random changes of definitions, under random settings of the next server and with
##                  sessions that hold locks, on each kind of server, with a binary log and without; a run that was
##                  ended goes on where it was (CHANGES_STATE; remove that file for another one), the same again with
##                  CHANGES_SEED; CHANGES_SERVERS may name any kind that scripts/servers.sh has fetched, as mariadb-11.8
CHANGES ?= 2000
CHANGES_SEED ?=
CHANGES_SERVERS ?= mariadb mysql
CHANGES_STATE ?= $(abspath $(BUILD))/changes.json
.PHONY: changes
changes: $(BIN)
	for kind in $(CHANGES_SERVERS); do (cd tests/system && WK_KIND=$$kind WORLDKEEPER="$(CURDIR)/$(BIN)" \
	  WK_CHANGES=$(CHANGES) WK_SEED=$(CHANGES_SEED) WK_CHANGES_MIXED=yes WK_CHANGES_STATE=$(CHANGES_STATE) \
	  /usr/bin/python3 -m pytest -q -s -o timeout=0 test_restore_changes.py) || exit 1; done

## make soak        a game that writes for SOAK_SECONDS, and faults at random
SOAK_SECONDS ?= 28800
.PHONY: soak
soak: $(BIN)
	WORLDKEEPER="$(CURDIR)/$(BIN)" tests/soak/soak.py --seconds $(SOAK_SECONDS)

## make definitions definitions of tables and of code that were tampered with, DEFINITIONS of each, against a real server
DEFINITIONS ?= 1000000
.PHONY: definitions
definitions: $(BIN)
	cd tests/system && WORLDKEEPER="$(CURDIR)/$(BIN)" WK_DEFINITIONS=$(DEFINITIONS) WK_CASES=$(DEFINITIONS) \
	  /usr/bin/python3 -m pytest -q -s -o timeout=0 -k "tampered or test_fuzz_of_definitions" test_dump_text.py test_code.py

## make faults      every fault of tests/faults at every point: hours, as root. FAULT_TESTS names some of its files,
##                  WK_FAULT_POINTS=30 takes so many points of each sweep (tests/faults/README.md)
FAULT_JOBS ?= 4
FAULT_TESTS ?= .
.PHONY: faults
faults: $(BIN)
	cd tests/faults && WORLDKEEPER="$(CURDIR)/$(BIN)" WK_FAULT_POINTS=$${WK_FAULT_POINTS:-0} \
	  WK_FAULT_CUTS=$${WK_FAULT_CUTS:-1000} WK_FAULT_KILLS=$${WK_FAULT_KILLS:-1000} \
	  /usr/bin/python3 -m pytest -q -n $(FAULT_JOBS) -m "long or not long" $(FAULT_TESTS)

## make models      the models of tests/models, with Spin: every state, and a counterexample without each rule; MODELS=--whole
##                  takes larger bounds (tests/models/README.md)
MODELS ?=
.PHONY: models
models:
	tests/models/run.py $(MODELS)

## make report      the long campaigns, in slices and in turn, and what they found: tests/REPORT.md. It takes many hours, and
##                  can be ended and continued: REPORT="--seconds 3600 kills-mysql power" (tests/report.py --help)
REPORT ?=
.PHONY: report
report: $(BIN)
	tests/report.py $(REPORT)

## make nightly     what takes hours, as root: the two commands on three kinds of fresh machine and on Debian 13, the core on
##                  sid and MariaDB 10.5, every state of the analyzer, races of threads, all of the tests of which each run
##                  takes a share, and half an hour of CPU time of each fuzzer
.PHONY: nightly
nightly:
	scripts/clean-root.sh
	scripts/clean-root.sh --container
	scripts/clean-root.sh --user
	scripts/clean-root.sh --suite trixie
	scripts/clean-root.sh --boot tests/upgrade.sh
	+$(MAKE) first-hour
	scripts/clean-root.sh --suite sid 'WK_WHOLE=yes scripts/test.sh core'
	scripts/servers.sh fetch mariadb-10.5
	WK_KIND=mariadb-10.5 WK_WHOLE=yes scripts/test.sh core
	+$(MAKE) lint
	+$(MAKE) core
	+$(MAKE) PARTS="ledger offsite" unit
	scripts/tsan.sh
	+$(MAKE) models MODELS=--whole
	WK_WHOLE=yes scripts/test.sh build build-san unit unit-san system system-san system-mysql unit-oracle system-oracle
	+$(MAKE) kills kills-follow changes ledger-torture progress-torture takeover-torture faults soak mutants
	+$(MAKE) fuzz-campaign

## make settings    every session variable of a server at its least and greatest values, on each of SETTINGS_SERVERS
SETTINGS_SERVERS ?= mariadb mysql
.PHONY: settings
settings: $(BIN)
	for kind in $(SETTINGS_SERVERS); do (cd tests/system && WK_WHOLE=yes WK_KIND=$$kind WORLDKEEPER="$(CURDIR)/$(BIN)" \
	  /usr/bin/python3 -m pytest -q -n 2 -o timeout=0 test_settings.py) || exit 1; done

## make first-hour  the commands of a newcomer, timed: bare Debians with systemd and a game's server, from the clone to a world
##                  that is supervised, drilled and followed, then a kill of the server. FIRST_HOUR_SUITES, FIRST_HOUR_SERVERS;
##                  FIRST_HOUR_CACHE: a directory for what scripts/clean-root.sh keeps
FIRST_HOUR_SUITES ?= bookworm trixie
FIRST_HOUR_SERVERS ?= mariadb mysql
FIRST_HOUR_KEPT = $(if $(FIRST_HOUR_CACHE),--tar $(FIRST_HOUR_CACHE)/$$suite.tar --cache $(FIRST_HOUR_CACHE))
.PHONY: first-hour
first-hour:
	for suite in $(FIRST_HOUR_SUITES); do out=build/package/$$suite; \
	  scripts/build-deb.sh --suite $$suite --out $$out $(FIRST_HOUR_KEPT) || exit 1; for server in $(FIRST_HOUR_SERVERS); do \
	  scripts/clean-root.sh --suite $$suite --boot --bring $$out/worldkeeper_*.deb $(FIRST_HOUR_KEPT) \
	    "apt-get -qq install --yes --no-install-recommends python3 >/dev/null && tests/tools/first_hour.py $$server ../worldkeeper_*.deb" || \
	    exit 1; done; done

## make takeover-mutants   does the oracle of takeover-torture see? it runs on the versions of tests/mutants/takeover.py, each
##                  of which breaks a rule of tests/models/README.md, until it reports a violation
.PHONY: takeover-mutants
takeover-mutants: $(BIN)
	tests/mutants/takeover.py

## make mutants     does the suite notice the mistakes of tests/mutants? each is built and tested
.PHONY: mutants
mutants: $(BIN)
	tests/mutants/mutants.py
