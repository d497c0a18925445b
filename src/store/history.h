/* history.jsonl in the dump directory: the events of the world, one JSON object per line. A line
 * counts when its newline has been written; anything else that a kill, a power cut or a full disk
 * leaves is ignored. It is not signed, because nothing is decided by it.
 *
 * A record has `at` (UTC, with milliseconds), `kind`, and the known facts; null means unknown.
 * Records are in the order of the events, whatever the clock said. */
#ifndef WK_STORE_HISTORY_H
#define WK_STORE_HISTORY_H

#include <jansson.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/text.h"

#define HISTORY_FILE "history.jsonl"

enum history_kind {
    /* state, reason, and `changed` if the state is another than before. Samples have probe_ms and
     * journal_lag_ms. unwatched_ms: how long before `at` nothing watched the world (the machine
     * slept, the clock was set); clock_set_ms: by how much it was set */
    HISTORY_STATE,
    HISTORY_LOSS,
    HISTORY_RESTORE,
    HISTORY_DUMP,
    HISTORY_DRILL,
    HISTORY_VERIFY,
    HISTORY_CONDITION,
    HISTORY_STARTED, /* watched_until: the last sign of life of the previous supervisor */
    HISTORY_STOPPED,
    HISTORY_OFFSITE,
    HISTORY_ROLLUP,
    HISTORY_WRITE_BACK,
    HISTORY_DAY, /* the summary of a day whose details were thinned out (store/timeline.h) */
    HISTORY_KINDS
};
const char *history_kind_name(enum history_kind kind); /* text of `kind` */
/* Returns HISTORY_KINDS if it is none of them. */
enum history_kind history_kind_of(const json_t *record);
/* Returns its `at`; ms 0: it has none. */
wall_t history_at(const json_t *record);
/* Returns a record with the current time. */
json_t *history_record(enum history_kind kind, json_t *fields /* taken; NULL: none */);

/* Appends one record and syncs it. Several processes may do so at the same time. Returns -1 if
 * nothing was added. */
int history_append(int dirfd, const json_t *record, struct err *e);

/* The position of one reader; {0} at first. */
struct history_place {
    ino_t inode;
    off_t offset;
    char *last; /* the previous line, owned: a line that was added twice counts once */
};
/* Called with each complete line and its record; NULL: the line is not a record. */
typedef void history_seen(void *arg, const json_t *record, const char *line);
/* Reads the lines added since the last call. *from_start: the file was replaced and is read from
 * its beginning. A missing file has no lines. */
int history_read(int dirfd, struct history_place *place, bool *from_start, history_seen *see,
                 void *arg, struct err *e);
void history_place_free(struct history_place *place);

/* Replaces the file. ERR_CHANGED if it has grown beyond `place` meanwhile. */
int history_replace(int dirfd, const struct history_place *place, const struct buf *lines,
                    struct err *e);

#endif
