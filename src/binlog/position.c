#include "binlog/position.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- transactions ---- */

/* Event types that matter here in addition to their kind. */
enum {
    TYPE_LOAD_QUERY = 18,
    TYPE_PAYLOAD = 40, /* a whole compressed transaction */
    TYPE_GTID_LIST = 163,
};

static bool position_says(const struct event *ev, const char *sql)
{
    return ev->query.len == strlen(sql) && strncasecmp(ev->query.sql, sql, ev->query.len) == 0;
}

/* The log continues elsewhere, so an open transaction is incomplete. */
static void transaction_break(struct transaction *t)
{
    t->cut |= t->open;
    t->open = false;
    t->part = TRANSACTION_OUTSIDE;
}

static void position_begin(struct transaction *t, bool statement, uint64_t at)
{
    t->open = true;
    t->statement = statement;
    t->begins = at;
    t->part = TRANSACTION_BEGINS;
}

static void binlog_position_end(struct transaction *t, uint64_t at)
{
    t->part = t->open ? TRANSACTION_ENDS : TRANSACTION_SINGLE;
    t->begins = t->open ? t->begins : at;
    t->open = false;
}

/* Advances the state of the transaction. `at` is the offset of the event. Artificial events are
 * not part of the log and change nothing. */
static void transaction_step(struct transaction *t, const struct event *ev, uint64_t at)
{
    bool statement = t->open && t->statement;
    t->part = t->open ? TRANSACTION_WITHIN : TRANSACTION_OUTSIDE;
    switch (ev->kind) {
    case EVENT_GTID:
        transaction_break(t);
        position_begin(t, !ev->gtid.mariadb || ev->gtid.standalone, at);
        break;
    case EVENT_QUERY: /* outside of a transaction each statement is a transaction of its own */
        if (position_says(ev, "BEGIN") ||
            (ev->query.len >= 8 && strncasecmp(ev->query.sql, "XA START", 8) == 0)) {
            if (!t->open)
                position_begin(t, false, at);
            t->statement = false;
        } else if (position_says(ev, "COMMIT") || position_says(ev, "ROLLBACK") || !t->open ||
                   statement) {
            binlog_position_end(t, at);
        }
        break;
    case EVENT_XID:
        binlog_position_end(t, at);
        break;
    case EVENT_MAP:
        if (!t->open)
            position_begin(t, true, at);
        break;
    case EVENT_ROWS:
        if (statement && ev->rows.ends)
            binlog_position_end(t, at);
        break;
    case EVENT_FORMAT: /* transactions do not cross files */
    case EVENT_ROTATE:
    case EVENT_STOP:
        transaction_break(t);
        break;
    case EVENT_LOST:
        if (t->open)
            binlog_position_end(t, at);
        break;
    case EVENT_UNREADABLE: /* may be a statement or a whole transaction */
        if (ev->type == TYPE_PAYLOAD || (ev->type == TYPE_LOAD_QUERY && statement))
            binlog_position_end(t, at);
        break;
    case EVENT_SKIPPED:
    case EVENT_HEARTBEAT:
        break;
    }
}

/* Returns whether such an event is written within a transaction. */
static bool transaction_holds(const struct event *ev)
{
    return ev->kind == EVENT_QUERY || ev->kind == EVENT_MAP || ev->kind == EVENT_ROWS ||
           ev->kind == EVENT_XID || ev->kind == EVENT_UNREADABLE ||
           (ev->kind == EVENT_SKIPPED && ev->type != TYPE_GTID_LIST);
}

/* ---- files ---- */

void binlog_position_set(struct binlog_position *p, const char *file, uint64_t pos,
                         uint32_t created_at)
{
    struct transaction group = p->group;
    transaction_break(&group);
    *p = (struct binlog_position){
        .pos = pos, .created_at = created_at, .broke_off = p->broke_off, .group = group};
    snprintf(p->file, sizeof p->file, "%s", file);
}

/* Splits a name such as "binlog.000042". Returns the number and sets *base to the length before
 * the dot. Returns -1 if the name has another form. */
static int64_t file_number(const char *file, size_t *base)
{
    const char *dot = strrchr(file, '.');
    char *end = NULL;
    *base = dot ? (size_t)(dot - file) : strlen(file);
    if (!dot || dot[1] < '0' || dot[1] > '9')
        return -1;
    long long n = strtoll(dot + 1, &end, 10);
    return *end ? -1 : n;
}

/* Returns how many files after `a` file `b` is. If the base names differ, returns 1: the server
 * follows its index, in which a renamed log comes after the old one. */
static int64_t files_between(const char *a, const char *b)
{
    size_t base_a, base_b;
    int64_t n_a = file_number(a, &base_a), n_b = file_number(b, &base_b);
    return n_a < 0 || n_b < 0 || base_a != base_b || memcmp(a, b, base_a) != 0 ? 1 : n_b - n_a;
}

bool binlog_position_reached(const struct binlog_position *p, const struct db_binlog_pos *end)
{
    if (strcmp(p->file, end->file) == 0)
        return p->pos >= end->pos;
    return files_between(end->file, p->file) > 0;
}

/* Handles an artificial rotation. The first one confirms our request; each further one starts a
 * file. */
static int enter_file(struct binlog_position *p, const struct event *ev, struct err *e)
{
    const char *file = ev->rotate.file;
    bool here = strcmp(file, p->file) == 0 && ev->rotate.pos == p->pos;
    if (here) {
        p->confirmed = true;
        return 0;
    }
    if (!p->confirmed || ev->rotate.pos != BINLOG_FIRST)
        return err_set(e, ERR_DAMAGED, 0,
                       "the server sends its log from %s:%" PRIu64 ", not from %s:%" PRIu64, file,
                       ev->rotate.pos, p->file, p->pos);
    if (files_between(p->file, file) != 1)
        return err_set(e, ERR_GAP, 0, "the binary log continues in %s, which does not follow %s",
                       file, p->file);
    bool cut_off = p->end == POSITION_GOES_ON;
    binlog_position_set(p, file, BINLOG_FIRST, 0);
    p->confirmed = true;
    p->cut_off = cut_off;
    return 0;
}

/* ---- events ---- */

/* Returns whether the event has no position yet. MariaDB 11.8 writes the events of a transaction
 * before it knows their position, which is then 0. */
static bool is_unplaced(const struct binlog_position *p, const struct event *ev)
{
    return ev->next == 0 && p->group.open && transaction_holds(ev);
}

/* Returns whether the event is not part of the file. The position after an event of the file is
 * 0 only at a multiple of 4 GiB. */
static bool is_artificial(const struct binlog_position *p, const struct event *ev)
{
    return ev->kind == EVENT_HEARTBEAT ||
           (ev->next == 0 && (uint32_t)(p->pos + ev->size) != 0 && !is_unplaced(p, ev));
}

/* Checks that the file is the expected one. A reset log starts again with the same names. A
 * server may notice this only at the end of a file and then sends the successor. If a file ended
 * without a rotation, a crash truncated it, and a new server process started the next one. */
static int position_check_file(struct binlog_position *p, const struct event *ev, struct err *e)
{
    if (p->created_at && p->created_at != ev->at) {
        err_set(e, ERR_GAP, 0,
                "%s is not the file that was read before: the binary log was reset, or this is a "
                "different server",
                p->file);
        return -1;
    }
    if (p->cut_off && ev->format.created == 0)
        return err_set(e, ERR_GAP, 0,
                       "%s does not follow what was read before it: the binary log was reset",
                       p->file);
    p->cut_off = false;
    p->created_at = ev->at;
    return 0;
}

int binlog_position_step(struct binlog_position *p, const struct event *ev, struct err *e)
{
    if (is_artificial(p, ev)) {
        if ((ev->kind == EVENT_ROTATE && enter_file(p, ev, e) < 0) ||
            (ev->kind == EVENT_FORMAT && position_check_file(p, ev, e) < 0))
            return -1;
        p->group.part = TRANSACTION_OUTSIDE;
        if (ev->kind == EVENT_HEARTBEAT &&
            p->end == POSITION_UNKNOWN) /* the server waits for further events */
            p->end = POSITION_GOES_ON;
        return 0;
    }
    if (!p->confirmed || (ev->next - ev->size != (uint32_t)p->pos && !is_unplaced(p, ev)))
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: a %s event of %u bytes ends at %u (modulo 2^32), but the next event "
                       "begins at %" PRIu64 "",
                       p->file, ev->name, ev->size, ev->next, p->pos);
    if (ev->kind == EVENT_FORMAT && position_check_file(p, ev, e) < 0)
        return -1;
    p->end = ev->kind == EVENT_ROTATE || ev->kind == EVENT_STOP ? POSITION_ENDED : POSITION_GOES_ON;
    p->broke_off = p->broke_off && ev->kind == EVENT_FORMAT;
    transaction_step(&p->group, ev, p->pos);
    p->pos += ev->size;
    return 0;
}
