#include "db/binlog_int.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Types that matter here beyond what their kind says. */
enum {
    TYPE_LOAD_QUERY = 18,
    TYPE_PAYLOAD = 40, /* a whole transaction, compressed */
    TYPE_GTID_LIST = 163,
    TYPE_QUERY_COMPRESSED = 165,
};

void binlog_place_set(struct binlog_place *p, const char *file, uint64_t pos, uint32_t born)
{
    *p = (struct binlog_place){.pos = pos, .born = born};
    snprintf(p->file, sizeof p->file, "%s", file);
}

/* ---- files ---- */

/* "binlog.000042": the length of what is before the dot, and the number; -1: none. */
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

/* By how many files `b` is behind `a`. Of another series: one, since the server goes by its index,
 * in which a renamed log follows the old one. */
static int64_t files_between(const char *a, const char *b)
{
    size_t base_a, base_b;
    int64_t n_a = file_number(a, &base_a), n_b = file_number(b, &base_b);
    return n_a < 0 || n_b < 0 || base_a != base_b || memcmp(a, b, base_a) != 0 ? 1 : n_b - n_a;
}

bool binlog_place_reached(const struct binlog_place *p, const struct db_point *end)
{
    if (strcmp(p->file, end->file) == 0)
        return p->pos >= end->pos;
    return files_between(end->file, p->file) > 0;
}

/* A rotation that is not part of a file: the answer to our question, then the way into each
 * further file. */
static int enter_file(struct binlog_place *p, const struct event *ev, struct err *e)
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
        return err_set(e, ERR_GAP, 0, "the binary log goes on in %s, which does not follow %s",
                       file, p->file);
    bool cut_off = p->end == PLACE_GOES_ON;
    binlog_place_set(p, file, BINLOG_FIRST, 0);
    p->confirmed = true;
    p->cut_off = cut_off;
    return 0;
}

/* ---- groups ---- */

static bool says(const struct event *ev, const char *sql)
{
    return ev->query.len == strlen(sql) && strncasecmp(ev->query.sql, sql, ev->query.len) == 0;
}

static bool begins_with(const struct event *ev, const char *sql)
{
    return ev->query.len >= strlen(sql) && strncasecmp(ev->query.sql, sql, strlen(sql)) == 0;
}

static void begin(struct binlog_place *p, enum place_group group, uint64_t at)
{
    p->group = group;
    p->group_pos = at;
    p->part = BINLOG_BEGINS;
}

static void end_group(struct binlog_place *p)
{
    p->group = PLACE_BETWEEN;
    p->part = BINLOG_ENDS;
}

/* A statement. MySQL says BEGIN behind the GTID, MariaDB's GTID stands for it. Old servers have no
 * GTID at all: a statement alone is a group. */
static void step_query(struct binlog_place *p, const struct event *ev, uint64_t at)
{
    if (says(ev, "BEGIN") || begins_with(ev, "XA START")) {
        if (p->group == PLACE_BETWEEN)
            begin(p, PLACE_TRANSACTION, at);
        p->group = PLACE_TRANSACTION;
    } else if (says(ev, "COMMIT") || says(ev, "ROLLBACK") || p->group != PLACE_TRANSACTION) {
        end_group(p);
    }
}

/* What cannot be read may still be a statement, or a whole transaction. */
static void step_unreadable(struct binlog_place *p, const struct event *ev)
{
    bool single = ev->type == TYPE_LOAD_QUERY || ev->type == TYPE_QUERY_COMPRESSED;
    if (ev->type == TYPE_PAYLOAD || (single && p->group == PLACE_STATEMENT))
        end_group(p);
}

static void step_group(struct binlog_place *p, const struct event *ev, uint64_t at)
{
    p->part = p->group == PLACE_BETWEEN ? BINLOG_OUTSIDE : BINLOG_WITHIN;
    switch (ev->kind) {
    case EVENT_GTID:
        begin(p, ev->gtid.mariadb && !ev->gtid.standalone ? PLACE_TRANSACTION : PLACE_STATEMENT,
              at);
        break;
    case EVENT_QUERY:
        step_query(p, ev, at);
        break;
    case EVENT_XID:
        end_group(p);
        break;
    case EVENT_MAP:
        if (p->group == PLACE_BETWEEN)
            begin(p, PLACE_STATEMENT, at);
        break;
    case EVENT_ROWS:
        if (p->group == PLACE_STATEMENT && ev->rows.ends)
            end_group(p);
        break;
    case EVENT_FORMAT: /* groups do not go beyond a file */
    case EVENT_ROTATE:
    case EVENT_STOP:
        p->group = PLACE_BETWEEN;
        p->part = BINLOG_OUTSIDE;
        break;
    case EVENT_LOST:
        if (p->group != PLACE_BETWEEN)
            end_group(p);
        break;
    case EVENT_UNREADABLE:
        step_unreadable(p, ev);
        break;
    case EVENT_SKIPPED:
    case EVENT_HEARTBEAT:
        break;
    }
}

/* ---- places ---- */

/* MariaDB 11.8 writes what a group consists of before it knows where it will lie. */
static bool unplaced(const struct binlog_place *p, const struct event *ev)
{
    if (ev->next != 0 || p->group == PLACE_BETWEEN)
        return false;
    switch (ev->kind) {
    case EVENT_QUERY:
    case EVENT_MAP:
    case EVENT_ROWS:
    case EVENT_XID:
    case EVENT_UNREADABLE:
        return true;
    case EVENT_SKIPPED:
        return ev->type != TYPE_GTID_LIST;
    case EVENT_FORMAT:
    case EVENT_ROTATE:
    case EVENT_STOP:
    case EVENT_GTID:
    case EVENT_HEARTBEAT:
    case EVENT_LOST:
        break;
    }
    return false;
}

/* Not part of the file? The place behind any other real event is 0 only where 4 GiB end. */
static bool made_up(const struct binlog_place *p, const struct event *ev)
{
    return ev->kind == EVENT_HEARTBEAT ||
           (ev->next == 0 && (uint32_t)(p->pos + ev->size) != 0 && !unplaced(p, ev));
}

/* A reset log begins anew under the same names, and a server may notice only at the end of a file
 * whose successor it then sends. A file that ended without a word was cut off by a crash: then a
 * new server began the next one. */
static int check_born(struct binlog_place *p, const struct event *ev, struct err *e)
{
    if (p->born && p->born != ev->at) {
        err_set(e, ERR_GAP, 0,
                "%s is not the file that was read before: the binary log was begun anew, or this "
                "is another server",
                p->file);
        return -1;
    }
    if (p->cut_off && ev->format.created == 0)
        return err_set(e, ERR_GAP, 0,
                       "%s does not follow what was read before it: the binary log was begun anew",
                       p->file);
    p->cut_off = false;
    p->born = ev->at;
    return 0;
}

static int step_made_up(struct binlog_place *p, const struct event *ev, struct err *e)
{
    if ((ev->kind == EVENT_ROTATE && enter_file(p, ev, e) < 0) ||
        (ev->kind == EVENT_FORMAT && check_born(p, ev, e) < 0))
        return -1;
    p->part = BINLOG_OUTSIDE;
    if (ev->kind == EVENT_HEARTBEAT && p->end == PLACE_UNKNOWN) /* the server waits for more */
        p->end = PLACE_GOES_ON;
    return 0;
}

int binlog_place_step(struct binlog_place *p, const struct event *ev, struct err *e)
{
    if (made_up(p, ev))
        return step_made_up(p, ev, e);
    if (!p->confirmed || (ev->next - ev->size != (uint32_t)p->pos && !unplaced(p, ev)))
        return err_set(e, ERR_DAMAGED, 0,
                       "%s: a %s event of %u bytes ends at %u (modulo 2^32), but %" PRIu64
                       " is where the next event begins",
                       p->file, ev->name, ev->size, ev->next, p->pos);
    if (ev->kind == EVENT_FORMAT && check_born(p, ev, e) < 0)
        return -1;
    uint64_t begins = p->pos;
    p->end = ev->kind == EVENT_ROTATE || ev->kind == EVENT_STOP ? PLACE_ENDED : PLACE_GOES_ON;
    p->pos += ev->size;
    step_group(p, ev, begins);
    return 0;
}
