#include "binlog/stream.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/fault.h"
#include "base/text.h"
#include "mysql/account.h"
#include "mysql/conn_int.h"
#include "sql/privileges.h"

#define LEAST_SILENCE 3000 /* in ms, because a busy server may send its heartbeat late */
/* used if none is requested; the server's own default is half a minute */
#define HEARTBEAT 1000
#define LARGEST_PACKET (1ul << 30)

/* Flags of the protocol. The second one asks a MariaDB server for annotations, so that no event
 * is omitted and each one starts where the previous one ended. It asks a MySQL server for
 * heartbeats that support offsets beyond 4 GiB. */
#define DUMP_TO_END 1u
#define DUMP_ALL 2u

#define NOT_READABLE 1236 /* the server's error number for any failure to read its log */
#define SAME_ID 4052

#define HEAD 512u /* the format description ends before this offset */
/* Upper bound of a change of a MEMORY table. The server ends an event at 8 KB and a row, of
 * which an event has at most two, at 64 KB. */
#define HALF_MAX (256u << 10)

#define BLOCK 4096u         /* servers write their logs in whole blocks */
#define ENCRYPTED_HEAD 512u /* MySQL includes this head in a file's size */

struct binlog {
    struct db_params params;
    struct binlog_options options;
    uint32_t id;               /* our server id */
    struct db_binlog_pos from; /* where reading of the current file began */

    struct db *db; /* NULL if it is closed */
    struct client_log log;
    /* with to_end: the log's end before reading began, if we have the privilege to read it */
    struct db_binlog_pos until;
    mono_t began; /* when waiting for a packet began */
    bool half;    /* reading ended at an event that is only partly in the file */

    struct event_format format;
    struct binlog_position position;
    uint64_t skip; /* events before this offset are not returned; 0 if there are none */
    bool ended;
    const char *bytes; /* contents of the last packet */
    size_t len;
    bool waiting;     /* the packet in `bytes` was not parsed yet */
    struct buf plain; /* decompressed contents of that packet */
};

/* ---- errors ---- */

/* Classifies an error of reading the log. All of them share one number; only the text, which is
 * not translated, distinguishes them. */
static void judge_unreadable(struct binlog *b, const char *text, struct err *e)
{
    if (strstr(text, "same server_")) {
        e->cls = ERR_UNREACHABLE;
    } else if (strstr(text, "not open")) {
        e->cls = ERR_REFUSED;
        err_hint(e, "the server writes no binary log; set log_bin in its my.cnf");
    } else if (strstr(text, "server id was not set") || strstr(text, "Misconfigured")) {
        e->cls = ERR_REFUSED;
        err_hint(e, "the server needs a server_id other than 0 in its my.cnf");
    } else if (strstr(text, "emory") || strstr(text, "I/O error")) {
        e->cls = ERR_QUERY; /* another attempt may succeed */
    } else {
        b->half = strstr(text, "truncated in the middle of event") != NULL;
        e->cls = ERR_GAP;
    }
}

/* Adds a hint on missing privileges. It uses a new session, because the server accepts no
 * further queries in the one that was refused. */
static void hint_privileges(const struct binlog *b, struct err *e)
{
    static const int needed[] = {MAY_READ_LOG, MAY_ASK_LOG, -1};
    struct db_params p = b->params;
    struct err ignored;
    struct db *db = db_open(&p, &ignored);
    err_hint(e, "worldkeeper --check prints the GRANT");
    if (db)
        db_hint_server(db, needed, e);
    db_close(db);
}

static int stream_fail(struct binlog *b, const char *what, struct err *e)
{
    unsigned num = mysql_errno(b->db->my);
    struct err why = {0};
    db_fail(b->db, b->began, what, &why);
    if (num == NOT_READABLE)
        judge_unreadable(b, mysql_error(b->db->my), &why);
    if (num == SAME_ID || num == DB_INTERRUPTED) /* the log itself is intact */
        why.cls = ERR_UNREACHABLE;
    if (num == 1227)
        hint_privileges(b, &why);
    return err_pass(e, &why);
}

/* ---- the session ---- */

static void stream_disconnect(struct binlog *b)
{
    if (b->db)
        client_log_close(&b->log);
    db_close(b->db);
    b->db = NULL;
    b->waiting = false;
}

/* Sets variables of both servers under their old and new names; a server treats an unknown one
 * as a user variable. A replica sends the same: support for checksums, GTIDs and gaps, and its
 * identity. The identity lets the server end a dead session of ours. */
static int stream_set_up(struct binlog *b, int64_t heartbeat, struct err *e)
{
    int64_t ns = heartbeat * 1000000;
    if (db_execf(b->db, e,
                 "SET @master_heartbeat_period=%" PRId64 ", @source_heartbeat_period=%" PRId64
                 ", @mariadb_slave_capability=4"
                 ", @master_binlog_checksum=@@global.binlog_checksum"
                 ", @source_binlog_checksum=@@global.binlog_checksum"
                 ", @slave_uuid='%08" PRIx32 "-0000-4000-8000-000000000000'"
                 ", @replica_uuid=@slave_uuid",
                 ns, ns, b->id) < 0)
        return -1;
    struct err why = {0};
    SCOPED(xfree) char *sum = db_one(b->db, "SELECT @master_binlog_checksum", &why);
    b->format = event_format_first(sum && strcasecmp(sum, "NONE") != 0);
    return why.cls == ERR_NONE ? 0 : err_pass(e, &why);
}

/* Connects and requests the log. `pos` has 32 bits in the protocol. */
static int stream_connect_server(struct binlog *b, uint32_t pos, struct err *e)
{
    struct db_params mine = b->params;
    int64_t heartbeat = b->options.heartbeat > 0 ? b->options.heartbeat : HEARTBEAT;
    int64_t least = fault_limit("binlog.silence", LEAST_SILENCE);
    mine.read_timeout = heartbeat * 3 > least ? heartbeat * 3 : least;
    mine.schema = NULL;
    mine.bulk = false;
    struct db *db = b->db = db_open(&mine, e);
    if (!db)
        return -1;
    db->my->net.max_packet_size = LARGEST_PACKET; /* no event is larger */
    if (b->options.to_end)
        db_binlog_pos(db, &b->until);
    b->began = clock_mono();
    if (stream_set_up(b, heartbeat, e) == 0) {
        if (client_log_open(&b->log, db->my, b->from.file, pos, b->id,
                            DUMP_ALL | (b->options.to_end ? DUMP_TO_END : 0)) == 0)
            return 0;
        stream_fail(b, "asking for the binary log", e);
    }
    db_close(db);
    b->db = NULL;
    return -1;
}

/* Reads a packet. Returns 1 with the bytes of an event, valid until the next call. Returns 0 if
 * the server has no more events, -1 on error. */
static int next_packet(struct binlog *b, struct err *e)
{
    const char *packet = NULL;
    size_t n = 0;
    b->began = clock_mono();
    int got = client_log_next(&b->log, &packet, &n);
    if (got < 0)
        return stream_fail(b, "reading the binary log", e);
    if (got == 0)
        return 0;
    if (n < 2 || packet[0] != 0)
        return err_set(e, ERR_DAMAGED, 0, "the server sent data that is not an event");
    b->bytes = packet + 1; /* skips the OK byte */
    b->len = n - 1;
    return 1;
}

static int give_up(struct binlog *b, struct err *e)
{
    stream_disconnect(b);
    if (e && e->cls == ERR_GAP)
        err_hint(e, "the log was purged, reset or damaged, or this is a different server; its "
                    "changes from there on are lost, and only a new dump closes the gap");
    return -1;
}

static int no_start(const struct binlog *b, struct err *e)
{
    return err_set(e, ERR_GAP, 0, "no event of %s begins at %llu", b->from.file,
                   (unsigned long long)b->from.pos);
}

/* Handles the end of the log. A log transfer that the server ends regularly also looks like the
 * end of the log. */
static int end_of_log(struct binlog *b, struct err *e)
{
    if (!b->options.to_end)
        err_set(e, ERR_UNREACHABLE, 0, "the server stopped sending its binary log");
    else if (b->until.file[0] && !binlog_position_reached(&b->position, &b->until))
        err_set(e, ERR_UNREACHABLE, 0, "the server stopped sending its binary log before its end");
    else if (b->skip)
        no_start(b, e);
    else
        b->ended = true;
    return b->ended ? 0 : -1;
}

/* Connects at a position. `created_at` is the creation time of the file, 0 if unknown. `cut_off`
 * means that the previous file was not finished. Waits for the first packet, because only then
 * has the server accepted or refused the request. */
static int connect_at(struct binlog *b, const struct db_binlog_pos *from, uint32_t created_at,
                      bool cut_off, struct err *e)
{
    /* Some positions must be reached by reading the file from its beginning. The protocol's
     * offsets have 32 bits, and a file can be longer if a huge transaction was written to it.
     * MariaDB also sends garbage if it is asked for what directly follows the format description
     * of an encrypted file: it decrypts the event that describes the encryption, which is not
     * encrypted itself. */
    bool skip = (from->pos > BINLOG_FIRST && from->pos < HEAD) || from->pos > UINT32_MAX;
    uint32_t pos = skip ? BINLOG_FIRST : (uint32_t)from->pos;
    b->from = *from;
    binlog_position_set(&b->position, from->file, pos, created_at);
    b->position.cut_off = cut_off;
    b->skip = skip ? from->pos : 0;
    if (pos < BINLOG_FIRST || !from->file[0]) {
        err_set(e, ERR_GAP, 0, "no start position in the binary log is known");
        return give_up(b, e);
    }
    b->half = false;
    if (stream_connect_server(b, pos, e) < 0)
        return -1;
    int got = next_packet(b, e);
    if (got < 0 || (got == 0 && end_of_log(b, e) < 0))
        return give_up(b, e);
    b->waiting = got == 1;
    return 0;
}

struct binlog *binlog_open(const struct db_params *p, const struct db_binlog_pos *from,
                           const struct binlog_options *o, struct err *e)
{
    struct binlog *b = xcalloc(1, sizeof *b);
    b->params = *p;
    b->options = *o;
    int rc = 0;
    if (getrandom(&b->id, sizeof b->id, 0) != (ssize_t)sizeof b->id)
        rc = err_sys(e, errno, "cannot get random bytes for a server id");
    /* the upper half of the range, which no administrator would choose for a server */
    b->id |= UINT32_C(0x80000000);
    if (rc < 0 || connect_at(b, from, o->created_at, false, e) < 0) {
        binlog_close(b);
        return NULL;
    }
    return b;
}

/* Reads a packet and advances the position. */
static int stream_read_event(struct binlog *b, struct event *out, struct err *e)
{
    int got = b->waiting ? 1 : next_packet(b, e);
    b->waiting = false;
    if (got <= 0)
        return got == 0 ? end_of_log(b, e) : -1;
    if (event_read(&b->format, b->bytes, b->len, out, e) < 0 ||
        event_unpack(out, &b->plain, e) < 0 || binlog_position_step(&b->position, out, e) < 0)
        return -1;
    if (out->kind == EVENT_FORMAT)
        b->format = out->format;
    return 1;
}

/* Checks whether the event is before an offset that could not be requested. Returns 1 if it is,
 * 0 if not, -1 on error. */
static int before_start(struct binlog *b, const struct event *ev, struct err *e)
{
    if (!b->skip)
        return 0;
    if (strcmp(b->position.file, b->from.file) != 0 || b->position.pos > b->skip ||
        ev->kind == EVENT_HEARTBEAT) /* the server waits at the end of its log */
        return no_start(b, e);
    if (b->position.pos == b->skip)
        b->skip = 0;
    return 1;
}

/* Reads the next file from the server's list, on a separate connection. Returns 1, 0 if the file
 * is not in the list or is the last one, or -1 on error. */
static int file_after(const struct db_params *p, const char *file, uint64_t *size, char next[256],
                      struct err *e)
{
    struct db *db = db_open(p, e);
    struct db_rows *r = db ? db_select(db, "ni*", "SHOW BINARY LOGS", e) : NULL;
    bool found = false;
    int got = -1;
    while (r && (got = db_next(r, e)) == 1 && !found)
        if (strcmp(db_value(r, 0), file) == 0) {
            found = true;
            *size = strtoull(db_value(r, 1), NULL, 10);
        }
    if (got == 1)
        snprintf(next, 256, "%s", db_value(r, 0));
    db_rows_end(r);
    db_close(db);
    return got;
}

/* Skips a partial event. A server that is killed while it writes an event leaves a part of it,
 * which it later refuses to read. After the restart it starts another file, which continues
 * where this one ends: no client was told that the partial event had succeeded. At most one
 * event is skipped. */
static int skip_half_event(struct binlog *b, struct err *e)
{
    uint64_t size = 0;
    struct db_binlog_pos from = {.pos = BINLOG_FIRST};
    struct err why = {0};
    if (!b->half || b->skip)
        return -1;
    int got = file_after(&b->params, b->position.file, &size, from.file, &why);
    if (got < 0)
        return err_pass(e, &why);
    if (got == 0 || size < b->position.pos || size - b->position.pos > HALF_MAX)
        return -1;
    b->position.broke_off |= size % BLOCK != 0 && size % BLOCK != ENCRYPTED_HEAD;
    stream_disconnect(b);
    return connect_at(b, &from, 0, true, e);
}

int binlog_next(struct binlog *b, struct event *out, struct err *e)
{
    int got, before = 0;
    if (b->ended)
        return 0;
    if (!b->db)
        return err_set(e, ERR_UNREACHABLE, 0, "cannot read the binary log: not connected");
    do {
        b->position.group.cut = false;
        got = stream_read_event(b, out, e);
        if (got < 0 && skip_half_event(b, e) == 0)
            got = stream_read_event(b, out, e);
        if (got == 1)
            before = before_start(b, out, e);
    } while (got == 1 && before == 1);
    return got < 0 || before < 0 ? give_up(b, e) : got;
}

const struct binlog_position *binlog_at(const struct binlog *b)
{
    return &b->position;
}

uint32_t binlog_file_created_at(const struct db_params *p, const char *file)
{
    const struct binlog_options o = {.heartbeat = 1000, .to_end = true};
    struct db_binlog_pos from = {.pos = 4};
    struct event ev;
    struct err ignored;
    uint32_t created_at = 0;
    snprintf(from.file, sizeof from.file, "%s", file);
    struct binlog *b = binlog_open(p, &from, &o, &ignored);
    while (b && created_at == 0 && binlog_next(b, &ev, &ignored) == 1)
        created_at = b->position.created_at;
    binlog_close(b);
    return created_at;
}

void binlog_close(struct binlog *b)
{
    if (!b)
        return;
    stream_disconnect(b);
    buf_free(&b->plain);
    free(b);
}
