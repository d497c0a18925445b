/* pending.json: a restore that is about to swap, or has swapped and not yet cleaned up
 * (tests/models/swap.pml). The triggers in it are code that the next restore creates again, so a
 * file planted by another user must never be executed. Two things prove that it is ours:
 *
 * - The server holds its digest, in the comment of a table that exists only until the swap and its
 *   cleanup are done. As DDL the comment is as durable as the shadow tables, whatever the settings
 *   of the server's log, and needs no further privilege. restore/swap.c checks it, which also
 *   excludes a file of an earlier restore.
 * - With an HMAC key it is signed (store/kept.h).
 *
 * It holds structure, not SQL: of a trigger only the body is text that the server parses, and of a
 * CHECK constraint only the name is used, if the table has the same condition. */
#ifndef WK_STORE_PENDING_H
#define WK_STORE_PENDING_H

#include "base/err.h"
#include "mysql/objects.h"
#include "mysql/schema.h"
#include "mysql/sentinel.h"

#define PENDING_DIGEST 65 /* buffer for a SHA-256 in hex digits */

struct pending {
    bool there;
    char nonce[33];
    uint64_t generation;
    char dump[129];
    struct names tables;  /* the i-th one is swapped with shadow table i */
    char conflict[128];   /* file for the rows that the swap replaces */
    bool code;            /* the views, routines, … of that dump must be created as well */
    bool conflict_whole;  /* the file has all of them: the old tables are no longer needed */
    int64_t server_start; /* of the server on which the swap runs; 0: not known */
    struct db_triggers triggers;
    struct pending_checks {
        char *table, *lines; /* its CHECK constraints under their real names: constraints.h */
        uint64_t heap;       /* max_heap_table_size at its creation; 0: a durable table */
    } * checks;
    size_t check_count;
    char digest[PENDING_DIGEST]; /* digest of the file that was read */
};
/* Computes the SHA-256 of the text that pending_save() would write, without `conflict_whole`. It is
 * stored on the server before the file is written. */
int pending_digest(const struct pending *p, char hex[PENDING_DIGEST], struct err *e);
/* Loads it. A missing file gives there = false. Returns -1 for a malformed file, of which nothing
 * is used. */
int pending_load(int dirfd, struct pending *out, struct err *e);
int pending_save(int dirfd, const struct pending *p, struct err *e);
int pending_remove(int dirfd, struct err *e);
/* Reserves disk space for the next file, so that a full disk does not prevent a restore. Does
 * nothing if there is no space. */
void pending_reserve(int dirfd);
/* Renames the file to PENDING_ASIDE, replacing an earlier one. */
#define PENDING_ASIDE "pending.json.aside"
int pending_set_aside(int dirfd, struct err *e);
void pending_free(struct pending *p);

#endif
