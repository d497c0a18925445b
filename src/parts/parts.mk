# The optional parts, and the files of each; all others are the core. src/README.md shows what a part
# adds to the core. A program without a part has src/parts/no_PART.c in place of these files.
OPTIONAL := ledger progress offsite standby page
PARTS ?= $(OPTIONAL)
FILES_ledger   := src/ledger/%.c src/actions/ledgers.c src/check/rules_ledgers.c src/dump/ledger_count.c \
                  src/restore/ledgers.c src/supervisor/rollups.c
FILES_progress := src/progress/%.c src/actions/progress.c src/check/rules_progress.c src/supervisor/write_back.c
FILES_offsite  := src/offsite/%.c src/actions/from.c src/check/rules_offsite.c src/supervisor/offsite.c
FILES_standby  := src/standby/%.c src/actions/lease_keep.c src/actions/standby.c src/actions/whose.c \
                  src/check/rules_standby.c src/supervisor/lease.c src/supervisor/lease_table.c \
                  src/supervisor/standby.c
FILES_page     := src/page/%.c
# A part that another one calls freely: it cannot be left out alone.
NEEDS_standby  := offsite

LEFT_OUT := $(filter-out $(PARTS),$(OPTIONAL))
$(if $(filter-out $(OPTIONAL),$(PARTS)),$(error PARTS: there is no $(filter-out $(OPTIONAL),$(PARTS)); there are: $(OPTIONAL)))
$(foreach p,$(PARTS),$(if $(filter $(LEFT_OUT),$(NEEDS_$p)),$(error PARTS: $p needs $(NEEDS_$p))))
