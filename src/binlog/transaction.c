#include "binlog/transaction.h"

#include <string.h>
#include <strings.h>

/* Event types that matter here in addition to their kind. */
enum {
    TYPE_LOAD_QUERY = 18,
    TYPE_PAYLOAD = 40, /* a whole transaction, compressed */
    TYPE_GTID_LIST = 163,
};

static bool says(const struct event *ev, const char *sql)
{
    return ev->query.len == strlen(sql) && strncasecmp(ev->query.sql, sql, ev->query.len) == 0;
}

static bool begins_with(const struct event *ev, const char *sql)
{
    return ev->query.len >= strlen(sql) && strncasecmp(ev->query.sql, sql, strlen(sql)) == 0;
}

void transaction_break(struct transaction *t)
{
    t->cut |= t->open;
    t->open = false;
    t->part = TRANSACTION_OUTSIDE;
}

static void begin(struct transaction *t, bool statement, uint64_t at)
{
    t->open = true;
    t->statement = statement;
    t->begins = at;
    t->part = TRANSACTION_BEGINS;
}

static void end(struct transaction *t, uint64_t at)
{
    t->part = t->open ? TRANSACTION_ENDS : TRANSACTION_SINGLE;
    t->begins = t->open ? t->begins : at;
    t->open = false;
}

void transaction_step(struct transaction *t, const struct event *ev, uint64_t at)
{
    bool statement = t->open && t->statement;
    t->part = t->open ? TRANSACTION_WITHIN : TRANSACTION_OUTSIDE;
    switch (ev->kind) {
    case EVENT_GTID:
        transaction_break(t);
        begin(t, !ev->gtid.mariadb || ev->gtid.standalone, at);
        break;
    case EVENT_QUERY: /* outside of a transaction each statement is a group */
        if (says(ev, "BEGIN") || begins_with(ev, "XA START")) {
            if (!t->open)
                begin(t, false, at);
            t->statement = false;
        } else if (says(ev, "COMMIT") || says(ev, "ROLLBACK") || !t->open || statement) {
            end(t, at);
        }
        break;
    case EVENT_XID:
        end(t, at);
        break;
    case EVENT_MAP:
        if (!t->open)
            begin(t, true, at);
        break;
    case EVENT_ROWS:
        if (statement && ev->rows.ends)
            end(t, at);
        break;
    case EVENT_FORMAT: /* groups do not cross files */
    case EVENT_ROTATE:
    case EVENT_STOP:
        transaction_break(t);
        break;
    case EVENT_LOST:
        if (t->open)
            end(t, at);
        break;
    case EVENT_UNREADABLE: /* may still be a statement, or a whole transaction */
        if (ev->type == TYPE_PAYLOAD || (ev->type == TYPE_LOAD_QUERY && statement))
            end(t, at);
        break;
    case EVENT_SKIPPED:
    case EVENT_HEARTBEAT:
        break;
    }
}

bool transaction_holds(const struct event *ev)
{
    return ev->kind == EVENT_QUERY || ev->kind == EVENT_MAP || ev->kind == EVENT_ROWS ||
           ev->kind == EVENT_XID || ev->kind == EVENT_UNREADABLE ||
           (ev->kind == EVENT_SKIPPED && ev->type != TYPE_GTID_LIST);
}
