/* Segments for tests: a writer with a model beside it, that knows what a reader must give out. Both
 * speak in texts, a line for each change. */
#ifndef WK_TESTS_SEGMENT_KIT_H
#define WK_TESTS_SEGMENT_KIT_H

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../tools/change_names.h"
#include "base/codec.h"
#include "base/text.h"
#include "dir_kit.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "journal/segment_write.h"

#define KIT_WORLD "world"
#define KIT_TABLES 6u

/* ---- texts ---- */

/* A long one by its beginning and its checksum. */
static inline void kit_show_tuple(struct buf *b, const char *s, size_t len)
{
    buf_add(b, s, len < 80 ? len : 40);
    if (len >= 80)
        buf_printf(b, "... %zu %08x", len, (unsigned)codec_crc32(0, s, len));
}

static inline void kit_show(struct buf *b, const struct change *c)
{
    const struct change_table *t = c->table;
    buf_printf(b, "%s", change_names[c->kind]);
    if (c->kind == CHANGE_BEGIN || c->kind == CHANGE_END)
        buf_printf(b, " %s:%" PRIu64 " born %u %u-%u-%" PRIu64, c->file, c->pos,
                   (unsigned)c->created_at, (unsigned)c->gtid.domain, (unsigned)c->gtid.server,
                   c->gtid.seq);
    if (!t)
        buf_printf(b, " at %" PRId64, c->at.ms / 1000);
    if (c->kind == CHANGE_SWAP)
        buf_printf(b, " %s %s %s:%" PRIu64, c->mark->dump, c->mark->nonce, c->mark->upto.file,
                   c->mark->upto.pos);
    if (c->kind == CHANGE_GAP)
        buf_printf(b, " %s", c->why);
    if (t)
        buf_printf(b, " %s ", t->name);
    if (c->kind == CHANGE_TABLE) {
        buf_printf(b, "%s counter %d key", t->columns, t->counter);
        for (size_t i = 0; i < t->key_count; i++)
            buf_printf(b, " %u", t->key[i]);
    }
    if (t && c->tuple)
        kit_show_tuple(b, c->tuple, c->len);
    buf_addc(b, '\n');
}

/* ---- reading ---- */

struct kit_read {
    struct buf text;
    struct err e;
    int got; /* the last answer */
    bool finalized;
    struct segment_head head;
    struct segment_sum sum;
};

/* Changes of a group stand within it, and say where it begins. */
static inline void kit_check_nesting(const struct change *c, struct change *open)
{
    bool within = open->kind == CHANGE_BEGIN;
    bool event = c->kind == CHANGE_LOST || c->kind == CHANGE_SWAP || c->kind == CHANGE_GAP;
    assert_int_equal(c->kind == CHANGE_BEGIN, !within && !event);
    if (within && c->kind != CHANGE_END) {
        assert_string_equal(c->file, open->file);
        assert_int_equal(c->pos, open->pos);
        assert_int_equal(c->gtid.seq, open->gtid.seq);
        assert_true(event || c->at.ms == open->at.ms);
    }
    if (c->kind == CHANGE_BEGIN) {
        *open = *c;
        open->file = xstrdup(c->file);
    } else if (c->kind == CHANGE_END) {
        free((char *)(uintptr_t)open->file);
        *open = (struct change){.kind = CHANGE_END};
    }
}

static inline void kit_read_from(struct segment_reader *r, struct kit_read *k)
{
    struct change c, open = {.kind = CHANGE_END};
    buf_adds(&k->text, "");
    while ((k->got = segment_next(r, &c, &k->e)) == 1) {
        kit_check_nesting(&c, &open);
        kit_show(&k->text, &c);
    }
    assert_true(k->got < 0 || open.kind != CHANGE_BEGIN);
    if (open.kind == CHANGE_BEGIN)
        free((char *)(uintptr_t)open.file);
    k->head = *segment_head(r);
    k->sum = *segment_sum(r);
    k->finalized = segment_finalized(r);
    struct err again;
    assert_int_equal(segment_next(r, &c, &again), 0); /* there is nothing behind the end */
}

/* All of it. The caller frees the text. */
static inline struct kit_read kit_read_segment(const char *file)
{
    struct kit_read k = {.got = -1};
    struct segment_reader *r = segment_open(kit_dir, file, &k.e);
    if (r)
        kit_read_from(r, &k);
    else
        buf_adds(&k.text, "");
    segment_reader_close(r);
    return k;
}

static inline void kit_same_place(const struct segment_place *a, const struct segment_place *b)
{
    assert_string_equal(a->point.file, b->point.file);
    assert_int_equal(a->point.pos, b->point.pos);
    assert_string_equal(a->point.gtid, b->point.gtid);
    assert_string_equal(a->point.gtid_after, b->point.gtid_after);
    assert_int_equal(a->created_at, b->created_at);
    assert_int_equal(a->at.ms, b->at.ms);
}

static inline void kit_same_sum(const struct segment_sum *a, const struct segment_sum *b)
{
    kit_same_place(&a->to, &b->to);
    assert_int_equal(a->groups, b->groups);
    assert_int_equal(a->changes, b->changes);
    assert_int_equal(a->mark_count, b->mark_count);
    for (size_t i = 0; i < a->mark_count && i < SEGMENT_MARKS; i++) {
        assert_int_equal(a->marks[i].kind, b->marks[i].kind);
        assert_int_equal(a->marks[i].at.ms, b->marks[i].at.ms);
        assert_string_equal(a->marks[i].text, b->marks[i].text);
    }
}

/* ---- the model ---- */

struct kit_place {
    char file[256];
    uint64_t pos;
    uint32_t created_at;
};

struct kit_segment {
    struct segment_writer *w;
    struct segment_head head;
    char file[SEGMENT_NAME_MAX];
    struct buf whole, open;      /* what is read of whole groups, and would be of the open one */
    struct kit_place now;        /* where the log is */
    struct kit_place told, seen; /* behind the last group in the segment, and behind any */
    struct kit_place seen_begins;
    int64_t told_at, seen_at;
    struct change_gtid seen_gtid, last_gtid;
    struct change begin; /* of the open group; file is `begins.file` */
    struct kit_place begins;
    bool within, empty, dropped;
    uint64_t groups, changes, open_changes;
    size_t marks, open_marks;
    const struct change_table *defined[16];
    size_t tables, open_tables;
};

static unsigned kit_key_first[] = {0}, kit_key_apart[] = {2, 0}, kit_key_last[] = {2};
static struct change_table kit_tables[KIT_TABLES];

/* Each time anew, as the decoder makes them. */
static inline void kit_define_tables(void)
{
    static const struct change_table tables[KIT_TABLES] = {
        {.name = "planets", .columns = "0123456789abcdef", .key = kit_key_first, .key_count = 1},
        {.name = "fleet's \"best\" `x`\\",
         .columns = "f",
         .counter = 2,
         .key = kit_key_apart,
         .key_count = 2},
        {.name = "no key", .columns = "", .counter = -1},
        {.name = "\xc3\xa4\xe2\x82\xac\xe4\xb8\x96",
         .columns = "00",
         .counter = -1,
         .key = kit_key_last,
         .key_count = 1},
        {.name = "%s\t\n\x7f{}",
         .columns = "1",
         .counter = 65535,
         .key = kit_key_first,
         .key_count = 1},
        {.name = "nothing", .columns = "2", .counter = 0},
    };
    memcpy(kit_tables, tables, sizeof kit_tables);
}

static inline struct segment_head kit_head(uint64_t number)
{
    struct segment_head h = {.world = KIT_WORLD,
                             .schema = "game",
                             .number = number,
                             .server = "uid",
                             .hostname = "host",
                             .made = {1700000000123},
                             .why = "this is the first segment"};
    h.from.at.ms = 1700000000000;
    snprintf(h.from.point.file, sizeof h.from.point.file, "log.000001");
    h.from.point.pos = 1000;
    return h;
}

static inline void kit_begin_segment(struct kit_segment *m, const struct segment_head *h)
{
    struct err e = {0};
    *m = (struct kit_segment){.head = *h};
    segment_name(h->world, h->number, m->file);
    snprintf(m->now.file, sizeof m->now.file, "%s", h->from.point.file);
    m->now.pos = h->from.point.pos;
    m->now.created_at = h->from.created_at;
    m->told = m->seen = m->now;
    m->told_at = m->seen_at = h->from.at.ms / 1000;
    buf_adds(&m->whole, "");
    buf_adds(&m->open, "");
    m->w = segment_create(kit_dir, h, &e);
    if (!m->w)
        fail_msg("%s", e.text);
}

static inline void kit_forget_segment(struct kit_segment *m)
{
    segment_close(m->w);
    buf_free(&m->whole);
    buf_free(&m->open);
    *m = (struct kit_segment){0};
}

/* Texts live until the next change, as those of the decoder do. */
static inline char *kit_copy(const char *s, size_t len)
{
    char *p = malloc(len ? len : 1);
    assert_non_null(p);
    if (len)
        memcpy(p, s, len);
    return p;
}

static inline int kit_put_change(struct segment_writer *w, const struct change *c, struct err *e)
{
    struct change copy = *c;
    char *before = kit_copy(c->before, c->before_len), *tuple = kit_copy(c->tuple, c->len);
    char *file = kit_copy(c->file ? c->file : "", c->file ? strlen(c->file) + 1 : 1);
    copy.before = before;
    copy.tuple = tuple;
    copy.file = c->file ? file : NULL;
    err_clear(e);
    int rc = segment_put(w, &copy, e);
    memset(file, 'x', c->file ? strlen(c->file) : 0);
    free(before);
    free(tuple);
    free(file);
    return rc;
}

static inline void kit_change(struct kit_segment *m, const struct change *c)
{
    struct err e;
    if (kit_put_change(m->w, c, &e) < 0)
        fail_msg("%s: %s", change_names[c->kind], e.text);
}

/* What the segment says between whole groups about those that hold nothing. */
static inline void kit_due(struct kit_segment *m)
{
    if (m->within || (strcmp(m->seen.file, m->told.file) == 0 && m->seen.pos == m->told.pos))
        return;
    struct change c = {.kind = CHANGE_BEGIN,
                       .file = m->seen_begins.file,
                       .pos = m->seen_begins.pos,
                       .created_at = m->seen_begins.created_at,
                       .at = {m->seen_at * 1000},
                       .gtid = m->seen_gtid};
    kit_show(&m->whole, &c);
    c.kind = CHANGE_END;
    c.file = m->seen.file;
    c.pos = m->seen.pos;
    c.created_at = m->seen.created_at;
    kit_show(&m->whole, &c);
    m->told = m->seen;
    m->told_at = m->seen_at;
    m->groups++;
    if (m->seen_gtid.seq)
        m->last_gtid = m->seen_gtid;
}

static inline void kit_begin(struct kit_segment *m, int64_t at, const struct change_gtid *g)
{
    m->begins = m->now;
    m->begin = (struct change){.kind = CHANGE_BEGIN,
                               .file = m->begins.file,
                               .pos = m->begins.pos,
                               .created_at = m->begins.created_at,
                               .at = {at * 1000}};
    if (g)
        m->begin.gtid = *g;
    m->within = m->empty = true;
    m->dropped = false;
    kit_change(m, &m->begin);
}

static inline void kit_filled(struct kit_segment *m)
{
    if (!m->empty)
        return;
    m->empty = false;
    buf_clear(&m->open);
    kit_show(&m->open, &m->begin);
    m->open_changes = m->open_marks = m->open_tables = 0;
}

static inline void kit_drop(struct kit_segment *m)
{
    buf_clear(&m->open);
    m->empty = true;
}

static inline void kit_shown(struct kit_segment *m, enum change_kind kind, struct change_table *t,
                             const char *tuple, size_t len)
{
    struct change c = {.kind = kind, .table = t, .tuple = tuple, .len = len};
    bool known = false;
    for (size_t i = 0; i < m->tables + m->open_tables; i++)
        known |= m->defined[i] == t;
    if (!known) {
        kit_show(&m->open, &(struct change){.kind = CHANGE_TABLE, .table = t});
        assert_true(m->tables + m->open_tables < COUNT(m->defined));
        m->defined[m->tables + m->open_tables++] = t;
    }
    kit_show(&m->open, &c);
    m->open_changes++;
}

/* `same`: an UPDATE leaves the key as it is. */
static inline void kit_row(struct kit_segment *m, enum change_kind kind, struct change_table *t,
                           const struct buf *before, const struct buf *tuple, bool same)
{
    struct change c = {.kind = kind,
                       .table = t,
                       .file = m->begins.file,
                       .pos = m->begins.pos,
                       .created_at = m->begins.created_at,
                       .at = m->begin.at,
                       .gtid = m->begin.gtid};
    if (before) {
        c.before = before->p;
        c.before_len = before->len;
    }
    if (tuple) {
        c.tuple = tuple->p;
        c.len = tuple->len;
    }
    kit_change(m, &c);
    if (m->dropped)
        return;
    kit_filled(m);
    if (kind == CHANGE_UPDATE && !same) {
        kit_shown(m, CHANGE_DELETE, t, c.before, c.before_len);
        kit_shown(m, CHANGE_INSERT, t, c.tuple, c.len);
    } else {
        kit_shown(m, kind == CHANGE_UPDATE ? CHANGE_REPLACE : kind, t, c.tuple, c.len);
    }
}

static inline void kit_insert(struct kit_segment *m, unsigned table, const char *tuple)
{
    struct buf b = {.p = xstrdup(tuple), .len = strlen(tuple)};
    kit_row(m, CHANGE_INSERT, &kit_tables[table], NULL, &b, false);
    buf_free(&b);
}

static inline void kit_event(struct kit_segment *m, enum change_kind kind, int64_t at,
                             const char *text)
{
    struct statement_mark mark = {.nonce = "nonce", .upto = {.file = "log.000001", .pos = 4711}};
    struct change c = {.kind = kind, .file = m->now.file, .pos = m->now.pos, .at = {at * 1000}};
    snprintf(mark.dump, sizeof mark.dump, "%s", text);
    c.mark = kind == CHANGE_SWAP ? &mark : NULL;
    c.why = kind == CHANGE_GAP ? text : NULL;
    kit_change(m, &c);
    if (!m->within) {
        kit_due(m);
        kit_show(&m->whole, &c);
        m->marks++;
        return;
    }
    if (kind == CHANGE_GAP && m->dropped) /* the first one tells why */
        return;
    if (kind == CHANGE_GAP)
        kit_drop(m);
    m->dropped |= kind == CHANGE_GAP;
    kit_filled(m);
    kit_show(&m->open, &c);
    m->open_marks++;
}

/* Behind `by` bytes more of the log. */
static inline void kit_end(struct kit_segment *m, uint64_t by)
{
    m->now.pos += by;
    m->seen = m->now;
    m->seen_begins = m->begins;
    m->seen_at = m->begin.at.ms / 1000;
    m->seen_gtid = m->begin.gtid;
    m->within = false;
    struct change c = m->begin;
    c.kind = CHANGE_END;
    c.file = m->now.file;
    c.pos = m->now.pos;
    kit_change(m, &c);
    if (m->empty)
        return;
    kit_show(&m->open, &c);
    buf_add(&m->whole, m->open.p, m->open.len);
    buf_clear(&m->open);
    m->told = m->seen;
    m->told_at = m->seen_at;
    m->groups++;
    m->changes += m->open_changes;
    m->marks += m->open_marks;
    m->tables += m->open_tables;
    m->open_tables = 0;
    if (c.gtid.seq)
        m->last_gtid = c.gtid;
}

static inline void kit_cut(struct kit_segment *m)
{
    kit_change(m, &(struct change){.kind = CHANGE_CUT, .file = m->now.file, .pos = m->now.pos});
    kit_drop(m);
    m->open_tables = 0;
    m->within = false;
}

static inline void kit_rotate(struct kit_segment *m, uint32_t created_at)
{
    unsigned n = (unsigned)strtoul(m->now.file + 4, NULL, 10);
    snprintf(m->now.file, sizeof m->now.file, "log.%06u", n + 1);
    m->now.pos = 256;
    m->now.created_at = created_at;
}

/* What the model says of the whole. */
static inline void kit_check_sum(const struct kit_segment *m, const struct segment_sum *s)
{
    struct db_binlog_pos to = m->head.from.point;
    segment_gtid(&m->last_gtid, &to);
    assert_string_equal(s->to.point.file, m->told.file);
    assert_int_equal(s->to.point.pos, m->told.pos);
    assert_string_equal(s->to.point.gtid, to.gtid);
    assert_int_equal(s->to.created_at, m->told.created_at);
    assert_int_equal(s->to.at.ms / 1000, m->told_at);
    assert_int_equal(s->groups, m->groups);
    assert_int_equal(s->changes, m->changes);
    assert_int_equal(s->mark_count, m->marks);
}

static inline void kit_same_text(const struct buf *got, const struct buf *want)
{
    size_t i = 0;
    while (i < got->len && i < want->len && got->p[i] == want->p[i])
        i++;
    if (i == got->len && i == want->len)
        return;
    while (i > 0 && got->p[i - 1] != '\n')
        i--;
    fail_msg("read:\n%.300s\nnot:\n%.300s", got->p + i, want->p + i);
}

static inline void kit_sync(struct kit_segment *m)
{
    struct err e;
    if (segment_sync(m->w, &e) < 0)
        fail_msg("%s", e.text);
    kit_due(m);
}

/* Another reader sees all whole groups, and nothing else. */
static inline void kit_check_open(const struct kit_segment *m)
{
    struct kit_read k = kit_read_segment(m->file);
    if (k.got < 0)
        fail_msg("%s", k.e.text);
    assert_false(k.finalized);
    kit_same_text(&k.text, &m->whole);
    kit_check_sum(m, &k.sum);
    buf_free(&k.text);
}

static inline void kit_check_finalized(const struct kit_segment *m)
{
    struct err e;
    struct segment_head head;
    struct segment_sum sum;
    struct kit_read k = kit_read_segment(m->file);
    if (k.got < 0)
        fail_msg("%s", k.e.text);
    assert_true(k.finalized);
    kit_same_text(&k.text, &m->whole);
    kit_check_sum(m, &k.sum);
    assert_int_equal(segment_peek(kit_dir, m->file, &head, &sum, &e), 1);
    kit_same_sum(&sum, &k.sum);
    assert_memory_equal(&head, &k.head, sizeof head);
    buf_free(&k.text);
}

static inline void kit_finalize(struct kit_segment *m)
{
    struct err e;
    if (segment_finalize(m->w, &e) < 0)
        fail_msg("%s", e.text);
    m->w = NULL;
    if (m->within)
        kit_drop(m);
    m->within = false;
    kit_due(m);
    kit_check_finalized(m);
}

#endif
