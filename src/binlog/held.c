#include "binlog/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

#define HELD_MAX ((size_t)64 << 20) /* bytes of a transaction's changes */
#define HELD_KEPT ((size_t)1 << 20) /* bytes that remain allocated between transactions */
#define HELD_SAVEPOINTS 256u        /* more are not remembered */
#define HELD_XIDS 4096u             /* the oldest one is forgotten */

struct held_change {
    enum change_kind kind;
    struct change_table *table;
    size_t at, before_len, len; /* `before` is at this offset of the texts, `tuple` after its NUL */
};

struct held {
    struct buf texts;
    struct held_change *list;
    size_t count, room;
    /* each with the number of changes before it; `savepoint_count` may be larger */
    struct {
        uint64_t name;
        size_t changes;
    } savepoints[HELD_SAVEPOINTS];
    size_t savepoint_count;
    bool any;      /* the transaction has a change of a carried table */
    bool passed;   /* changes were passed on before the end */
    bool doubtful; /* it is not certain what a ROLLBACK TO has undone */
    enum { ENDS_COMMITTED, ENDS_ROLLED_BACK, ENDS_PREPARED } ends;
    uint64_t xid; /* of the transaction's XA END; 0: it has none */
    /* of prepared transactions without changes of carried tables; 0: free */
    uint64_t harmless[HELD_XIDS];
    size_t next; /* index that the next one gets */
};

struct held *held_new(void)
{
    return xcalloc(1, sizeof(struct held));
}

void held_free(struct held *h)
{
    if (!h)
        return;
    buf_free(&h->texts);
    free(h->list);
    free(h);
}

void held_drop(struct held *h)
{
    if (h->texts.cap > HELD_KEPT) /* a large transaction needed it */
        buf_free(&h->texts);
    if (h->room > HELD_KEPT / sizeof *h->list) {
        free(h->list);
        h->list = NULL;
        h->room = 0;
    }
    buf_clear(&h->texts);
    h->count = 0;
}

void held_begin(struct held *h)
{
    held_drop(h);
    h->savepoint_count = 0;
    h->any = h->passed = h->doubtful = false;
    h->ends = ENDS_COMMITTED;
    h->xid = 0;
}

void held_note(struct held *h)
{
    h->any = true;
}

/* Copies a text and its terminating NUL. */
static void held_add_text(struct held *h, const char *text, size_t len)
{
    if (len)
        buf_add(&h->texts, text, len);
    buf_addc(&h->texts, '\0');
}

bool held_add(struct held *h, const struct change *c)
{
    size_t more = c->before_len + c->len;
    held_note(h);
    h->passed |= h->texts.len + h->count * sizeof *h->list + more > HELD_MAX;
    if (h->passed)
        return false;
    if (h->count == h->room) {
        h->room = h->room ? 2 * h->room : 64;
        h->list = xrealloc(h->list, h->room * sizeof *h->list);
    }
    h->list[h->count++] =
        (struct held_change){c->kind, c->table, h->texts.len, c->before_len, c->len};
    held_add_text(h, c->before, c->before_len);
    held_add_text(h, c->tuple, c->len);
    return true;
}

bool held_get(const struct held *h, size_t i, struct change *c)
{
    if (i >= h->count)
        return false;
    const struct held_change *t = &h->list[i];
    const char *text = h->texts.p + t->at;
    *c = (struct change){.kind = t->kind,
                         .table = t->table,
                         .before = text,
                         .before_len = t->before_len,
                         .tuple = text + t->before_len + 1,
                         .len = t->len};
    return true;
}

/* ---- savepoints ---- */

static void held_savepoint(struct held *h, uint64_t name)
{
    if (h->savepoint_count < HELD_SAVEPOINTS) {
        h->savepoints[h->savepoint_count].name = name;
        h->savepoints[h->savepoint_count].changes = h->count;
    }
    h->savepoint_count++;
}

/* Drops the changes after the savepoint. If two savepoints have this name, the ROLLBACK TO is
 * doubtful: one of them may belong to a stored function. */
static void held_rollback_to(struct held *h, uint64_t name)
{
    size_t found = 0, changes = 0;
    bool known = name && h->savepoint_count <= HELD_SAVEPOINTS && !h->passed;
    for (size_t i = 0; known && i < h->savepoint_count; i++) {
        known = h->savepoints[i].name != 0;
        if (h->savepoints[i].name != name)
            continue;
        changes = h->savepoints[i].changes;
        found++;
    }
    if (!known || found != 1)
        h->doubtful |= h->any;
    else if (changes < h->count)
        h->count = changes;
}

/* ---- XA ---- */

/* Forgets a prepared transaction. Returns true if it had no changes of carried tables. */
static bool held_forget_xid(struct held *h, uint64_t xid)
{
    for (size_t i = 0; xid && i < HELD_XIDS; i++)
        if (h->harmless[i] == xid) {
            h->harmless[i] = 0;
            return true;
        }
    return false;
}

void held_prepare(struct held *h, bool read)
{
    h->ends = ENDS_PREPARED;
    held_forget_xid(h, h->xid);
    if (h->any || !read || !h->xid)
        return;
    h->harmless[h->next] = h->xid;
    h->next = (h->next + 1) % HELD_XIDS;
}

bool held_edge(struct held *h, const struct statement *st)
{
    bool known = true;
    switch (st->edge) {
    case STATEMENT_ROLLBACK:
        h->ends = ENDS_ROLLED_BACK;
        break;
    case STATEMENT_SAVEPOINT:
        held_savepoint(h, st->name);
        break;
    case STATEMENT_ROLLBACK_TO:
        held_rollback_to(h, st->name);
        break;
    case STATEMENT_XA_END:
        h->xid = st->name;
        break;
    case STATEMENT_XA_ROLLBACK:
        held_forget_xid(h, st->name);
        break;
    case STATEMENT_XA_COMMIT:
        known = held_forget_xid(h, st->name);
        break;
    case STATEMENT_NO_EDGE:
        break;
    }
    return !known;
}

/* ---- the end ---- */

enum held_end held_end(const struct held *h)
{
    bool happened = h->ends == ENDS_COMMITTED;
    if (happened ? h->doubtful : h->passed)
        return HELD_UNCERTAIN;
    return happened ? HELD_HAPPENED : HELD_UNDONE;
}
