#include "changes.h"
#include "binlog/statement_scope.h"
#include "journal/segment_read.h"

#include <stdlib.h>
#include <string.h>

static void promise(bool kept)
{
    if (!kept)
        abort();
}

static void see(struct changes *m, const void *data, size_t len)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < len; i++)
        m->hash = (m->hash ^ p[i]) * UINT64_C(0x100000001b3);
}

static void see_text(struct changes *m, const char *s)
{
    see(m, s, strlen(s) + 1);
}

static void see_table(struct changes *m, const struct change_table *t)
{
    promise(t != NULL && t->name[0] && strlen(t->columns) < sizeof t->columns && t->counter >= -1);
    see_text(m, t->name);
    for (size_t i = 0; i < t->key_count; i++)
        see(m, &t->key[i], sizeof t->key[i]);
}

/* Within a file places never go back. */
static void see_place(struct changes *m, const struct change *c)
{
    promise(c->file[0] && strlen(c->file) < sizeof m->file && c->pos <= INT64_MAX);
    promise(strcmp(c->file, m->file) != 0 || c->created_at != m->created_at || c->pos >= m->pos);
    memcpy(m->file, c->file, strlen(c->file) + 1);
    m->created_at = c->created_at;
    m->pos = c->pos;
    see_text(m, c->file);
    see(m, &c->pos, sizeof c->pos);
    see(m, &c->gtid.seq, sizeof c->gtid.seq);
}

static void see_row(struct changes *m, const struct change *c, const char *from, const char *end)
{
    promise(m->within);
    see_table(m, c->table);
    m->rows++;
    if (c->kind == CHANGE_TRUNCATE)
        return;
    promise(!from || (c->tuple >= from && c->tuple <= end && c->len <= (size_t)(end - c->tuple)));
    see(m, c->tuple, c->len);
}

static void see_scope(struct changes *m, const struct change *c)
{
    promise(c->scope->count > 0 && c->scope->count <= STATEMENT_SCOPE_TABLES);
    for (size_t i = 0; i < c->scope->count; i++) {
        const struct scope_table *t = &c->scope->tables[i];
        promise(t->name[0] && strlen(t->name) < sizeof t->name && !t->table);
        promise(t->deed <= SCOPE_ARRIVED);
        see_text(m, t->name);
    }
    promise(!c->sql == !c->sql_len);
    see(m, c->sql ? c->sql : "", c->sql_len);
    see_text(m, c->create ? c->create : "");
}

static void see_event(struct changes *m, const struct change *c)
{
    m->marks += !c->unmissed;
    if (c->kind == CHANGE_GAP)
        see_text(m, c->why);
    if (c->scope)
        see_scope(m, c);
    if (c->kind != CHANGE_SWAP)
        return;
    see_text(m, c->mark->dump);
    see_text(m, c->mark->nonce);
    see_text(m, c->mark->upto.file);
}

void changes_take(struct changes *m, const struct change *c, const char *from, const char *end)
{
    see(m, &c->kind, sizeof c->kind);
    promise(c->at.ms >= 0 && c->at.ms < INT64_C(1000) << 32);
    switch (c->kind) {
    case CHANGE_BEGIN:
    case CHANGE_END:
        promise(m->within == (c->kind == CHANGE_END));
        see_place(m, c);
        m->within = c->kind == CHANGE_BEGIN;
        m->groups += c->kind == CHANGE_END;
        break;
    case CHANGE_TABLE:
        promise(m->within);
        see_table(m, c->table);
        break;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
        see_row(m, c, from, end);
        break;
    case CHANGE_LOST:
    case CHANGE_SWAP:
    case CHANGE_GAP:
        see_event(m, c);
        break;
    case CHANGE_CREATED:
    case CHANGE_DEFINED:
        see_scope(m, c);
        break;
    case CHANGE_UPDATE:
    case CHANGE_CUT:
    case CHANGE_MARKER:
    case CHANGE_UNKNOWN_TABLE:
    case CHANGE_EXISTS:
    case CHANGE_UNREAD:
        abort();
    }
}

void changes_sum(const struct changes *m, const struct segment_sum *s)
{
    promise(s->groups == m->groups && s->changes == m->rows && s->mark_count == m->marks);
}
