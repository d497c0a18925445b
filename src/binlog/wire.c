#include "binlog/stream_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"

#define LEAST_SILENCE 3000 /* ms: a busy server may be late with its heartbeat */
#define HEARTBEAT 1000     /* if none is requested: a server's own default is half a minute */
#define LARGEST_PACKET (1ul << 30)

/* Flags of the protocol. The second one asks a MariaDB for annotations, only so that no event is
 * omitted and each starts where the one before it ended; it asks a MySQL for heartbeats that
 * support offsets beyond 4 GiB. */
#define DUMP_TO_END 1u
#define DUMP_ALL 2u

#define NOT_READABLE 1236 /* the server's error for any failure to read its log */
#define SAME_ID 4052
#define INTERRUPTED 1317

/* ---- errors ---- */

/* All these share one number; only the text, which is not translated, distinguishes them. */
static void judge_unreadable(struct binlog_wire *w, const char *text, struct err *e)
{
    if (strstr(text, "same server_")) {
        e->cls = ERR_UNREACHABLE;
    } else if (strstr(text, "not open")) {
        e->cls = ERR_REFUSED;
        err_hint(e, "the server writes no binary log; log_bin in its my.cnf turns it on");
    } else if (strstr(text, "server id was not set") || strstr(text, "Misconfigured")) {
        e->cls = ERR_REFUSED;
        err_hint(e, "the server needs a server_id other than 0 in its my.cnf");
    } else if (strstr(text, "emory") || strstr(text, "I/O error")) {
        e->cls = ERR_QUERY; /* it may succeed next time */
    } else {
        w->half = strstr(text, "truncated in the middle of event") != NULL;
        e->cls = ERR_GAP;
    }
}

static int fail(struct binlog_wire *w, const char *what, struct err *e)
{
    unsigned num = mysql_errno(w->db->my);
    struct err why = {0};
    db_fail(w->db, w->began, what, &why);
    if (num == NOT_READABLE)
        judge_unreadable(w, mysql_error(w->db->my), &why);
    if (num == SAME_ID || num == INTERRUPTED) /* nothing is wrong with the log */
        why.cls = ERR_UNREACHABLE;
    if (num == 1227)
        err_hint(&why, "GRANT REPLICATION SLAVE, %s ON *.* TO the account of [mysql] user",
                 db_is_mariadb(w->db) ? "BINLOG MONITOR" : "REPLICATION CLIENT");
    return err_pass(e, &why);
}

/* ---- the session ---- */

/* Variables of both servers under their old and new names; an unknown one is just a user variable.
 * A replica sends the same: that it supports checksums, GTIDs and gaps, and its identity, so that
 * the server ends a dead session of ours that it still holds. */
static int set_up(struct binlog_wire *w, const struct binlog_ask *ask, int64_t heartbeat,
                  struct err *e)
{
    int64_t ns = heartbeat * 1000000;
    if (db_execf(w->db, e,
                 "SET @master_heartbeat_period=%" PRId64 ", @source_heartbeat_period=%" PRId64
                 ", @mariadb_slave_capability=4"
                 ", @master_binlog_checksum=@@global.binlog_checksum"
                 ", @source_binlog_checksum=@@global.binlog_checksum"
                 ", @slave_uuid='%08" PRIx32 "-0000-4000-8000-000000000000'"
                 ", @replica_uuid=@slave_uuid",
                 ns, ns, ask->id) < 0)
        return -1;
    struct err why = {0};
    SCOPED(xfree) char *sum = db_one(w->db, "SELECT @master_binlog_checksum", &why);
    w->checksum = sum && strcasecmp(sum, "NONE") != 0;
    if (why.cls == ERR_NONE)
        return 0;
    return err_pass(e, &why);
}

int binlog_wire_open(struct binlog_wire *w, const struct db_params *p, const struct binlog_ask *ask,
                     struct err *e)
{
    *w = (struct binlog_wire){0};
    struct db_params mine = *p;
    int64_t heartbeat = ask->heartbeat > 0 ? ask->heartbeat : HEARTBEAT;
    int64_t least = fault_limit("binlog.silence", LEAST_SILENCE);
    mine.read_timeout = heartbeat * 3 > least ? heartbeat * 3 : least;
    mine.schema = NULL;
    mine.bulk = false;
    w->db = db_open(&mine, e);
    if (!w->db)
        return -1;
    w->db->my->net.max_packet_size = LARGEST_PACKET; /* no event is larger */
    if (ask->to_end)
        db_binlog_pos(w->db, &w->until);
    w->began = clock_mono();
    if (set_up(w, ask, heartbeat, e) == 0) {
        if (client_log_open(&w->log, w->db->my, ask->file, ask->pos, ask->id,
                            DUMP_ALL | (ask->to_end ? DUMP_TO_END : 0)) == 0)
            return 0;
        fail(w, "asking for the binary log", e);
    }
    db_close(w->db);
    w->db = NULL;
    return -1;
}

int binlog_wire_next(struct binlog_wire *w, const char **bytes, size_t *len, struct err *e)
{
    const char *packet = NULL;
    size_t n = 0;
    w->began = clock_mono();
    int got = client_log_next(&w->log, &packet, &n);
    if (got < 0)
        return fail(w, "reading the binary log", e);
    if (got == 0)
        return 0;
    if (n < 2 || packet[0] != 0)
        return err_set(e, ERR_DAMAGED, 0, "the server sends something that is no event");
    *bytes = packet + 1; /* after the OK byte */
    *len = n - 1;
    return 1;
}

void binlog_wire_close(struct binlog_wire *w)
{
    if (!w->db)
        return;
    client_log_close(&w->log);
    db_close(w->db);
    w->db = NULL;
}

int binlog_wire_after(const struct db_params *p, const char *file, struct binlog_after *out,
                      struct err *e)
{
    struct db *db = db_open(p, e);
    struct db_rows *r = db ? db_select(db, "ni*", "SHOW BINARY LOGS", e) : NULL;
    bool found = false;
    int got = -1;
    while (r && (got = db_next(r, e)) == 1 && !found)
        if (strcmp(db_value(r, 0), file) == 0) {
            found = true;
            out->size = strtoull(db_value(r, 1), NULL, 10);
        }
    if (got == 1)
        snprintf(out->file, sizeof out->file, "%s", db_value(r, 0));
    db_rows_end(r);
    db_close(db);
    return got;
}
