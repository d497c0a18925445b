/* history.jsonl in the dump directory: what happened to the world, one JSON object per line. A line
 * counts once its newline is there; what else a kill, a power cut or a full disk leaves is ignored.
 * It is not signed: nothing is decided by it.
 *
 * A record has `at` (UTC, with milliseconds), `kind`, and what is known; null is not known. Records
 * stand in the order in which things happened, whatever the clock said. */
#ifndef WK_STORE_HISTORY_H
#define WK_STORE_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"

#define HISTORY_FILE "history.jsonl"

enum history_kind {
    HISTORY_STATE, /* state, reason, changed: it is another than before; samples of it as well:
                    * probe_ms, journal_lag_ms. unwatched_ms: for so long before `at` nobody watched
                    * the world (the machine slept, the clock was set); clock_set_ms: by so much */
    HISTORY_LOSS,
    HISTORY_RESTORE,
    HISTORY_DUMP,
    HISTORY_DRILL,
    HISTORY_VERIFY,
    HISTORY_CONDITION,
    HISTORY_STARTED, /* watched_until: the last sign of life of the supervisor before this one */
    HISTORY_STOPPED,
    HISTORY_OFFSITE,
    HISTORY_ROLLUP,
    HISTORY_WRITE_BACK,
    HISTORY_DAY, /* what is left of a day when its details are thinned out (store/timeline.h) */
    HISTORY_KINDS
};
const char *history_kind_name(enum history_kind kind); /* as in `kind` */
/* HISTORY_KINDS: it is none of them. */
enum history_kind history_kind_of(const json_t *record);
/* Its `at`; ms 0: it has none. */
wall_t history_at(const json_t *record);
/* A record of now. */
json_t *history_record(enum history_kind kind, json_t *fields /* taken; NULL: none */);

/* Appends one record and syncs it. Several processes may do so at a time. -1: nothing was added. */
int history_append(int dirfd, const json_t *record, struct err *e);

/* How far one reader has come; {0} at first. */
struct history_place {
    ino_t inode;
    off_t offset;
    char *last; /* the line before, owned: one that was added twice counts once */
};
/* Called with each whole line and, where it is a record, with that; NULL: it is none. */
typedef void history_seen(void *arg, const json_t *record, const char *line);
/* Reads what was added since. *from_start: another file is there now, and is read from its
 * beginning. A missing file has no lines. */
int history_read(int dirfd, struct history_place *place, bool *from_start, history_seen *see,
                 void *arg, struct err *e);
void history_place_free(struct history_place *place);

/* Replaces the file, unless it has grown beyond `place` meanwhile: ERR_CHANGED. */
int history_replace(int dirfd, const struct history_place *place, const struct buf *lines,
                    struct err *e);

#endif
