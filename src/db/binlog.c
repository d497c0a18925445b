#include "db/binlog_int.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "core/text.h"

#define HEAD 512u /* the format description ends before this place */
/* No change of a MEMORY table is larger: the server ends an event at 8 KB, and a row, which is
 * there twice at most, has 64 KB. */
#define HALF_MAX (256u << 10)

struct binlog {
    struct db_params params;
    struct {
        char *socket, *host, *user, *password, *tls_ca;
    } own; /* what `params` points to */
    struct binlog_options options;
    uint32_t id;
    struct binlog_place from; /* where to begin when connecting: file, pos, born, end, cut_off */
    bool back;                /* from there, events come that were given out before */

    struct binlog_wire wire;
    struct event_format format;
    struct binlog_place place;
    uint64_t skip; /* not 0: events before this place are not given out */
    bool given;    /* something was, since connecting */
    bool ended;
    const char *bytes; /* of the last packet */
    size_t len;
    bool waiting; /* the packet in `bytes` was not looked at yet */
};

/* Half of all numbers, none of which a person would give a server. */
static int take_id(struct binlog *b, struct err *e)
{
    uint32_t raw;
    if (getrandom(&raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return err_sys(e, errno, "no random bytes for a server id");
    b->id = raw | UINT32_C(0x80000000);
    return 0;
}

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

/* A dump that is cut off in order also ends in what looks like the end of the log. */
static int end_of_log(struct binlog *b, struct err *e)
{
    b->bytes = NULL;
    b->len = 0;
    if (!b->options.to_end)
        err_set(e, ERR_UNREACHABLE, 0, "the server ended the reading of its binary log");
    else if (b->wire.until.file[0] && !binlog_place_reached(&b->place, &b->wire.until))
        err_set(e, ERR_UNREACHABLE, 0,
                "the server ended the reading of its binary log before its end");
    else if (b->skip)
        no_start(b, e);
    else
        b->ended = true;
    return b->ended ? 0 : -1;
}

/* Some places are reached by reading the file from its beginning. The protocol's places have 32
 * bits, and a file is longer when a huge group was written to it. And who asks a MariaDB for what
 * is right behind the format description of an encrypted file gets noise: there the server decrypts
 * what tells of the encryption, which is not encrypted itself. */
static bool must_skip(uint64_t pos)
{
    return (pos > BINLOG_FIRST && pos < HEAD) || pos > UINT32_MAX;
}

/* The first packet is waited for here: only then has the server said yes or no. */
static int connect_from(struct binlog *b, struct err *e)
{
    bool skip = must_skip(b->from.pos);
    uint32_t pos = skip ? BINLOG_FIRST : (uint32_t)b->from.pos;
    struct binlog_ask ask = {
        .file = b->from.file,
        .pos = pos,
        .id = b->id,
        .heartbeat = b->options.heartbeat,
        .to_end = b->options.to_end,
    };
    binlog_place_set(&b->place, b->from.file, pos, b->from.born);
    b->place.end = skip ? PLACE_UNKNOWN : b->from.end;
    b->place.cut_off = !skip && b->from.cut_off;
    b->skip = skip ? b->from.pos : 0;
    b->given = false;
    b->ended = false;
    if (pos < BINLOG_FIRST || !b->from.file[0]) {
        err_set(e, ERR_GAP, 0, "no place in the binary log to begin at");
        return give_up(b, e);
    }
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

static void keep_params(struct binlog *b, const struct db_params *p)
{
    b->params = *p;
    b->params.socket = keep(&b->own.socket, p->socket);
    b->params.host = keep(&b->own.host, p->host);
    b->params.user = keep(&b->own.user, p->user);
    b->params.password = keep(&b->own.password, p->password);
    b->params.tls_ca = keep(&b->own.tls_ca, p->tls_ca);
}

struct binlog *binlog_open(const struct db_params *p, const struct db_point *from,
                           const struct binlog_options *o, struct err *e)
{
    struct binlog *b = xcalloc(1, sizeof *b);
    keep_params(b, p);
    b->options = *o;
    binlog_place_set(&b->from, from->file, from->pos, o->born);
    if (take_id(b, e) == 0 && connect_from(b, e) == 0)
        return b;
    binlog_close(b);
    return NULL;
}

/* Reads a packet, and takes its place. */
static int read_event(struct binlog *b, struct event *out, struct err *e)
{
    int got = b->waiting ? 1 : binlog_wire_next(&b->wire, &b->bytes, &b->len, e);
    b->waiting = false;
    if (got <= 0)
        return got == 0 ? end_of_log(b, e) : -1;
    if (event_read(&b->format, b->bytes, b->len, out, e) < 0 ||
        binlog_place_step(&b->place, out, e) < 0)
        return -1;
    if (out->kind == EVENT_FORMAT)
        b->format = out->format;
    return 1;
}

/* On the way to a place that could not be asked for: is this event before it? 1, 0, -1. */
static int before_start(struct binlog *b, const struct event *ev, struct err *e)
{
    if (!b->skip)
        return 0;
    if (strcmp(b->place.file, b->from.file) != 0 || b->place.pos > b->skip ||
        ev->kind == EVENT_HEARTBEAT) /* the server waits at the end of its log */
        return no_start(b, e);
    if (b->place.pos == b->skip)
        b->skip = 0;
    return 1;
}

/* A server that is killed while it writes an event leaves half of it, which it refuses to read
 * later on. When it comes back it begins another file, which goes on where this one ends: nobody
 * was told that what half an event says was done. More than one event is never passed over. */
static int pass_over_half(struct binlog *b, struct err *e)
{
    struct binlog_after after;
    struct err why = {0};
    if (!b->wire.half || b->skip)
        return -1;
    int got = binlog_wire_after(&b->params, b->place.file, &after, &why);
    if (got < 0 && e)
        *e = why;
    if (got <= 0 || after.size < b->place.pos || after.size - b->place.pos > HALF_MAX)
        return -1;
    binlog_place_set(&b->from, after.file, BINLOG_FIRST, 0);
    b->from.cut_off = true;
    disconnect(b);
    return connect_from(b, e);
}

static int next_event(struct binlog *b, struct event *out, struct err *e)
{
    int got = read_event(b, out, e);
    return got < 0 && pass_over_half(b, e) == 0 ? read_event(b, out, e) : got;
}

int binlog_next(struct binlog *b, struct event *out, struct err *e)
{
    int got, before = 0;
    if (b->ended)
        return 0;
    if (!b->wire.db)
        return err_set(e, ERR_UNREACHABLE, 0, "not connected to read the binary log");
    do {
        got = next_event(b, out, e);
        if (got == 1)
            before = before_start(b, out, e);
    } while (got == 1 && before == 1);
    if (got < 0 || before < 0)
        return give_up(b, e);
    if (got == 1)
        b->given = true;
    return got;
}

int binlog_again(struct binlog *b, struct err *e)
{
    if (b->given) {
        bool within = b->place.group != PLACE_BETWEEN;
        b->back = within;
        binlog_place_set(&b->from, b->place.file, within ? b->place.group_pos : b->place.pos,
                         b->place.born);
        b->from.end = within ? PLACE_GOES_ON : b->place.end;
        b->from.cut_off = b->place.cut_off;
        b->given = false;
    }
    bool same_id = b->wire.same_id;
    disconnect(b);
    if ((same_id && take_id(b, e) < 0) || connect_from(b, e) < 0)
        return -1;
    bool back = b->back;
    b->back = false;
    return back ? 1 : 0;
}

const char *binlog_bytes(const struct binlog *b, size_t *len)
{
    *len = b->len;
    return b->bytes;
}

const char *binlog_file(const struct binlog *b, uint64_t *pos)
{
    *pos = b->place.pos;
    return b->place.file;
}

const char *binlog_group(const struct binlog *b, uint64_t *pos)
{
    *pos = b->place.group == PLACE_BETWEEN ? b->place.pos : b->place.group_pos;
    return b->place.file;
}

enum binlog_part binlog_part(const struct binlog *b)
{
    return b->place.part;
}

uint32_t binlog_born(const struct binlog *b)
{
    return b->place.born;
}

uint32_t binlog_birth(const struct db_params *p, const char *file)
{
    const struct binlog_options o = {.heartbeat = 1000, .to_end = true};
    struct db_point from = {.pos = 4};
    struct event ev;
    struct err ignored;
    uint32_t born = 0;
    snprintf(from.file, sizeof from.file, "%s", file);
    struct binlog *b = binlog_open(p, &from, &o, &ignored);
    while (b && born == 0 && binlog_next(b, &ev, &ignored) == 1)
        born = binlog_born(b);
    binlog_close(b);
    return born;
}

const struct event_format *binlog_format(const struct binlog *b)
{
    return &b->format;
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
    free(b);
}
