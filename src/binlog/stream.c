#include "binlog/stream_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"

#define HEAD 512u /* the format description ends before this offset */
/* No change of a MEMORY table is larger: the server ends an event at 8 KB, and a row, of which an
 * event has two at most, at 64 KB. */
#define HALF_MAX (256u << 10)

#define BLOCK 4096u         /* servers write their logs in whole ones */
#define ENCRYPTED_HEAD 512u /* MySQL includes it in a file's size */

struct binlog {
    struct db_params params;
    struct {
        char *socket, *host, *user, *password, *tls_ca;
    } own; /* what `params` points to */
    struct binlog_options options;
    uint32_t id;
    struct db_binlog_pos from; /* where the file that is read was begun */

    struct binlog_wire wire;
    struct event_format format;
    struct binlog_position position;
    uint64_t skip; /* not 0: events before this offset are not returned */
    bool ended;
    bool broke_off;
    const char *bytes; /* of the last packet */
    size_t len;
    bool waiting;     /* the packet in `bytes` was not parsed yet */
    struct buf plain; /* compressed data of that packet, unpacked */
};

static void disconnect(struct binlog *b)
{
    binlog_wire_close(&b->wire);
    b->bytes = NULL;
    b->len = 0;
    b->waiting = false;
}

static int give_up(struct binlog *b, struct err *e)
{
    disconnect(b);
    if (e && e->cls == ERR_GAP)
        err_hint(e, "the log was purged, reset or damaged, or this is another server; what it held "
                    "from there on is lost, only a new dump closes the gap");
    return -1;
}

static int no_start(const struct binlog *b, struct err *e)
{
    return err_set(e, ERR_GAP, 0, "no event of %s begins at %llu", b->from.file,
                   (unsigned long long)b->from.pos);
}

/* A log transfer that is ended in order also ends with what looks like the end of the log. */
static int end_of_log(struct binlog *b, struct err *e)
{
    b->bytes = NULL;
    b->len = 0;
    if (!b->options.to_end)
        err_set(e, ERR_UNREACHABLE, 0, "the server stopped sending its binary log");
    else if (b->wire.until.file[0] && !binlog_position_reached(&b->position, &b->wire.until))
        err_set(e, ERR_UNREACHABLE, 0, "the server stopped sending its binary log before its end");
    else if (b->skip)
        no_start(b, e);
    else
        b->ended = true;
    return b->ended ? 0 : -1;
}

/* Some positions are reached by reading the file from its beginning. The protocol's offsets have 32
 * bits, and a file is longer when a huge group was written to it. And a MariaDB that is asked for
 * what directly follows the format description of an encrypted file sends garbage: it decrypts the
 * event that describes the encryption, which is not encrypted itself. */
static bool must_skip(uint64_t pos)
{
    return (pos > BINLOG_FIRST && pos < HEAD) || pos > UINT32_MAX;
}

/* `created_at` of the file, 0: unknown; `cut_off`: the file before it was not finished. Waits for the
 * first packet: only with it has the server accepted or refused. */
static int connect_at(struct binlog *b, const struct db_binlog_pos *from, uint32_t created_at,
                      bool cut_off, struct err *e)
{
    bool skip = must_skip(from->pos);
    uint32_t pos = skip ? BINLOG_FIRST : (uint32_t)from->pos;
    b->from = *from;
    binlog_position_set(&b->position, from->file, pos, created_at);
    b->position.cut_off = cut_off;
    b->skip = skip ? from->pos : 0;
    if (pos < BINLOG_FIRST || !from->file[0]) {
        err_set(e, ERR_GAP, 0, "no position in the binary log to start from");
        return give_up(b, e);
    }
    struct binlog_ask ask = {
        .file = b->from.file,
        .pos = pos,
        .id = b->id,
        .heartbeat = b->options.heartbeat,
        .to_end = b->options.to_end,
    };
    if (binlog_wire_open(&b->wire, &b->params, &ask, e) < 0)
        return -1;
    b->format = event_format_first(b->wire.checksum);
    int got = binlog_wire_next(&b->wire, &b->bytes, &b->len, e);
    if (got < 0 || (got == 0 && end_of_log(b, e) < 0))
        return give_up(b, e);
    b->waiting = got == 1;
    return 0;
}

static const char *keep(char **own, const char *s)
{
    *own = s ? xstrdup(s) : NULL;
    return *own;
}

struct binlog *binlog_open(const struct db_params *p, const struct db_binlog_pos *from,
                           const struct binlog_options *o, struct err *e)
{
    struct binlog *b = xcalloc(1, sizeof *b);
    b->params = *p;
    b->params.socket = keep(&b->own.socket, p->socket);
    b->params.host = keep(&b->own.host, p->host);
    b->params.user = keep(&b->own.user, p->user);
    b->params.password = keep(&b->own.password, p->password);
    b->params.tls_ca = keep(&b->own.tls_ca, p->tls_ca);
    b->options = *o;
    int rc = 0;
    if (getrandom(&b->id, sizeof b->id, 0) != (ssize_t)sizeof b->id)
        rc = err_sys(e, errno, "no random bytes for a server id");
    b->id |= UINT32_C(0x80000000); /* the upper half, which no admin would choose for a server */
    if (rc < 0 || connect_at(b, from, o->created_at, false, e) < 0) {
        binlog_close(b);
        return NULL;
    }
    return b;
}

/* Reads a packet and advances the position. */
static int read_event(struct binlog *b, struct event *out, struct err *e)
{
    int got = b->waiting ? 1 : binlog_wire_next(&b->wire, &b->bytes, &b->len, e);
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

/* On the way to an offset that could not be requested: is this event before it? 1, 0, -1. */
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

/* A server that is killed while it writes an event leaves a part of it, which it later refuses to
 * read. After the restart it starts another file, which continues where this one ends: no client
 * was told that the partial event had succeeded. More than one event is never skipped. */
static int skip_half_event(struct binlog *b, struct err *e)
{
    struct binlog_after after;
    struct err why = {0};
    if (!b->wire.half || b->skip)
        return -1;
    int got = binlog_wire_after(&b->params, b->position.file, &after, &why);
    if (got < 0)
        return err_pass(e, &why);
    if (got == 0 || after.size < b->position.pos || after.size - b->position.pos > HALF_MAX)
        return -1;
    b->broke_off |= after.size % BLOCK != 0 && after.size % BLOCK != ENCRYPTED_HEAD;
    struct db_binlog_pos from = {.pos = BINLOG_FIRST};
    memcpy(from.file, after.file, sizeof from.file);
    disconnect(b);
    return connect_at(b, &from, 0, true, e);
}

int binlog_next(struct binlog *b, struct event *out, struct err *e)
{
    int got, before = 0;
    if (b->ended)
        return 0;
    if (!b->wire.db)
        return err_set(e, ERR_UNREACHABLE, 0, "not connected to read the binary log");
    do {
        b->position.group.cut = false;
        got = read_event(b, out, e);
        if (got < 0 && skip_half_event(b, e) == 0)
            got = read_event(b, out, e);
        if (got == 1)
            before = before_start(b, out, e);
    } while (got == 1 && before == 1);
    return got < 0 || before < 0 ? give_up(b, e) : got;
}

const char *binlog_bytes(const struct binlog *b, size_t *len)
{
    *len = b->len;
    return b->bytes;
}

const char *binlog_file(const struct binlog *b, uint64_t *pos)
{
    *pos = b->position.pos;
    return b->position.file;
}

const struct transaction *binlog_transaction(const struct binlog *b)
{
    return &b->position.group;
}

uint32_t binlog_created_at(const struct binlog *b)
{
    return b->position.created_at;
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
        created_at = binlog_created_at(b);
    binlog_close(b);
    return created_at;
}

bool binlog_broke_off(const struct binlog *b)
{
    return b->broke_off;
}

void binlog_close(struct binlog *b)
{
    if (!b)
        return;
    disconnect(b);
    if (b->own.password)
        explicit_bzero(b->own.password, strlen(b->own.password));
    free(b->own.socket);
    free(b->own.host);
    free(b->own.user);
    free(b->own.password);
    free(b->own.tls_ca);
    buf_free(&b->plain);
    free(b);
}
