#include "journal/segment_write.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/file.h"
#include "journal/segment_frame.h"
#include "journal/segment_int.h"
#include "journal/segment_op.h"
#include "journal/segment_read.h"
#include "sql/literal.h"
#include "store/signature.h"

#define KEY_COLUMNS 64u

struct segment_writer {
    char name[SEGMENT_NAME_MAX];
    struct segment_file f;
    struct segment_state s;
    /* [i] is the definition that the file contains for table i */
    const struct change_table **tables;
    size_t count;
    struct buf body;   /* contents of the next frame */
    uint64_t at, sync; /* bytes in the file; `sync`: bytes that are synced */
    uint64_t urgent;   /* offset up to which there are changes */

    bool empty;   /* the current transaction has no changes yet and is not in the file */
    bool dropped; /* the rest of the current transaction is discarded */
    struct {
        uint64_t at;                /* where its first frame begins */
        size_t body, tables, marks; /* the counts before it */
        uint64_t changes;
    } group;                     /* what is needed to discard the transaction */
    struct segment_place begins; /* its position in the log */
    /* the last transaction that ended; it is not in the file yet if it had no changes */
    struct {
        struct segment_place from, to;
        struct change_gtid gtid;
    } seen;
    bool quiet; /* seen.to.at is later than that transaction and not in the file yet */
};

/* ---- frames ---- */

/* Writes a frame that contains the first `len` bytes of the body. */
static int write_bytes(struct segment_writer *w, size_t len, bool within, struct err *e)
{
    if (len > SEGMENT_BODY_MAX - SEGMENT_MAC_LEN)
        return err_set(e, ERR_REFUSED, 0,
                       "a change of %zu bytes is too long for journal segment %s", len, w->name);
    fault_point("journal.write");
    int64_t n = segment_frame_write(&w->f, w->at, w->body.p, len, within, e);
    if (n < 0)
        return -1;
    w->at += (uint64_t)n;
    w->urgent = w->at;
    w->body.len -= len;
    memmove(w->body.p, w->body.p + len, w->body.len);
    return 0;
}

/* Writes complete transactions, which are those before the open one. */
static int write_whole(struct segment_writer *w, struct err *e)
{
    bool open = w->s.open && !w->empty;
    size_t len = !open ? w->body.len : w->group.at == w->at ? w->group.body : 0;
    if (len == 0)
        return 0;
    if (write_bytes(w, len, false, e) < 0)
        return -1;
    w->group.at = w->at;
    w->group.body = 0;
    return 0;
}

/* Writes a large body. No frame contains both complete transactions and part of another one, so
 * that the part can be discarded. */
static int flush_large(struct segment_writer *w, struct err *e)
{
    if (w->body.len < SEGMENT_BODY)
        return 0;
    if (write_whole(w, e) < 0)
        return -1;
    return w->body.len < SEGMENT_BODY ? 0 : write_bytes(w, w->body.len, true, e);
}

static int sync_file(const struct segment_writer *w, int (*sync)(int), struct err *e)
{
    if (sync(w->f.fd) == 0)
        return 0;
    return err_sys(e, errno, "cannot sync journal segment %s", w->name);
}

/* ---- operations ---- */

static void put_op(struct segment_writer *w, enum segment_op op)
{
    buf_addc(&w->body, (char)op);
}

static int no_text(const char *file, struct err *e)
{
    return err_set(e, ERR_SYSTEM, 0, "cannot write journal segment %s: a name is not UTF-8", file);
}

/* Appends `o` as text and takes ownership of it. The text is padded with blanks to length
 * `room`; if `room` is 0, it is not padded. */
static int put_json(struct buf *b, const char *file, json_t *o, size_t room, struct err *e)
{
    SCOPED(xfree) char *s = json_dumps(o, JSON_COMPACT);
    size_t len = s ? strlen(s) : 0;
    json_decref(o);
    if (!s)
        return no_text(file, e);
    segment_put_number(b, room > len ? room : len);
    buf_add(b, s, len);
    for (; len < room; len++)
        buf_addc(b, ' ');
    return 0;
}

/* ---- beginning ---- */

struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e)
{
    struct segment_writer *w = xcalloc(1, sizeof *w);
    struct segment_head own = *h;
    own.mac = signature_on();
    segment_name(h->world, h->number, w->name);
    w->s.place = w->s.sum.to = w->seen.to = h->from;
    w->s.second = h->from.at.ms / 1000;
    int fd = openat(dirfd, w->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    w->f = (struct segment_file){fd, w->name, h->number, own.mac};
    put_op(w, SEGMENT_HEAD);
    if (fd < 0) {
        err_sys(e, errno, "cannot create journal segment %s", w->name);
    } else if (put_json(&w->body, w->name, segment_head_json(&own), 0, e) < 0 ||
               write_bytes(w, w->body.len, false, e) < 0 || sync_file(w, fsync, e) < 0 ||
               file_sync_dir(dirfd, "the journal", e) < 0) {
        unlinkat(dirfd, w->name, 0); /* the file contains no changes */
    } else {
        w->sync = w->at;
        return w;
    }
    segment_close(w);
    return NULL;
}

/* ---- transactions ---- */

static void segment_write_keep_place(struct segment_place *p, const char *file, uint64_t pos,
                                     uint32_t created_at)
{
    /* compared first, because this is called three times per transaction */
    if (strcmp(p->point.file, file) != 0)
        snprintf(p->point.file, sizeof p->point.file, "%s", file);
    p->point.pos = pos;
    p->created_at = created_at;
}

/* Returns whether `p` is after the position in the file. */
static bool segment_write_ahead(const struct segment_writer *w, const struct segment_place *p)
{
    return p->point.pos > w->s.place.point.pos ||
           strcmp(p->point.file, w->s.place.point.file) != 0 ||
           p->created_at != w->s.place.created_at;
}

static void put_file(struct segment_writer *w, const struct segment_place *in)
{
    struct segment_place *p = &w->s.place;
    if (strcmp(p->point.file, in->point.file) == 0 && p->created_at == in->created_at)
        return;
    put_op(w, SEGMENT_FILE);
    segment_put_number(&w->body, in->created_at);
    segment_put_text(&w->body, in->point.file, strlen(in->point.file));
    segment_write_keep_place(p, in->point.file, 0, in->created_at);
}

/* Begins a transaction. If `from` is NULL or not ahead, it begins where the last one ended. */
static void put_begin(struct segment_writer *w, const struct segment_place *from, wall_t at)
{
    if (from && !segment_write_ahead(w, from))
        from = NULL;
    const struct change_gtid *g = &w->s.gtid, *last = &w->s.last_gtid;
    bool next =
        g->seq && g->seq == last->seq + 1 && g->domain == last->domain && g->server == last->server;
    if (from)
        put_file(w, from);
    put_op(w, SEGMENT_BEGIN);
    segment_put_number(&w->body, (from ? SEGMENT_BEHIND : 0) | (next     ? SEGMENT_NEXT
                                                                : g->seq ? SEGMENT_GTID
                                                                         : 0));
    segment_put_difference(&w->body, at.ms / 1000 - w->s.second);
    if (from) {
        segment_put_number(&w->body, from->point.pos - w->s.place.point.pos);
        w->s.place.point.pos = from->point.pos;
    }
    if (g->seq && !next) {
        segment_put_number(&w->body, g->domain);
        segment_put_number(&w->body, g->server);
        segment_put_number(&w->body, g->seq);
    }
    w->empty = false;
}

/* Reads the position of a change. */
static int take_place(const struct segment_writer *w, struct segment_place *p,
                      const struct change *c, struct err *e)
{
    if (strcmp(p->point.file, c->file) != 0 && !text_utf8_valid(c->file, strlen(c->file)))
        return no_text(w->name, e);
    segment_write_keep_place(p, c->file, c->pos, c->created_at);
    p->at.ms = c->at.ms / 1000 * 1000;
    return 0;
}

/* Begins the transaction in the file at its first change. */
static void open_group(struct segment_writer *w)
{
    if (!w->s.open || !w->empty)
        return;
    w->group.at = w->at;
    w->group.body = w->body.len;
    w->group.tables = w->count;
    w->group.changes = w->s.sum.changes;
    w->group.marks = w->s.sum.mark_count;
    put_begin(w, &w->begins, w->begins.at);
}

static int put_end(struct segment_writer *w, const struct segment_place *to,
                   const struct change_gtid *g, struct err *e)
{
    put_file(w, to);
    if (to->point.pos < w->s.place.point.pos)
        return err_set(e, ERR_DAMAGED, 0,
                       "the binlog position went back from %s:%" PRIu64 " to %" PRIu64,
                       to->point.file, w->s.place.point.pos, to->point.pos);
    put_op(w, SEGMENT_END);
    segment_put_number(&w->body, to->point.pos - w->s.place.point.pos);
    w->s.place.point.pos = to->point.pos;
    w->s.second = to->at.ms / 1000;
    w->s.place.at = to->at;
    if (g->seq)
        w->s.last_gtid = *g;
    w->s.sum.groups++;
    w->s.sum.to = w->s.place;
    w->s.open = false;
    return 0;
}

/* Ends a transaction. The position after it must become known even if it is empty. Of
 * consecutive transactions of other schemas, only the last one is recorded. */
static int segment_write_end_group(struct segment_writer *w, const struct change *c, struct err *e)
{
    if (take_place(w, &w->seen.to, c, e) < 0)
        return -1;
    segment_write_keep_place(&w->seen.from, w->begins.point.file, w->begins.point.pos,
                             w->begins.created_at);
    w->seen.gtid = c->gtid;
    w->dropped = false;
    if (w->empty) {
        w->s.open = w->empty = false;
        return 0;
    }
    return put_end(w, &w->seen.to, &w->seen.gtid, e) < 0 ? -1 : flush_large(w, e);
}

static bool place_due(const struct segment_writer *w)
{
    return !w->s.open && (w->quiet || segment_write_ahead(w, &w->seen.to));
}

/* Writes a pending position. A time alone is written as an empty transaction without a GTID,
 * because the previous one already has it. */
static int put_due(struct segment_writer *w, struct err *e)
{
    if (!place_due(w))
        return 0;
    bool moved = segment_write_ahead(w, &w->seen.to);
    w->s.gtid = moved ? w->seen.gtid : (struct change_gtid){0};
    w->quiet = false;
    put_begin(w, moved ? &w->seen.from : NULL, w->seen.to.at);
    return put_end(w, &w->seen.to, &w->s.gtid, e);
}

int segment_quiet(struct segment_writer *w, wall_t until, struct err *e)
{
    uint64_t urgent = w->urgent;
    bool changes = segment_urgent(w);
    if (w->s.open || until.ms / 1000 <= w->seen.to.at.ms / 1000)
        return 0;
    w->seen.to.at.ms = until.ms / 1000 * 1000;
    w->quiet = true;
    if (put_due(w, e) < 0 || write_whole(w, e) < 0)
        return -1;
    if (!changes)
        w->urgent = urgent;
    return 0;
}

/* Discards the transaction as if it had not happened. */
static int drop_group(struct segment_writer *w, struct err *e)
{
    if (w->empty)
        return 0;
    w->empty = true;
    w->count = w->group.tables;
    w->s.sum.changes = w->group.changes;
    w->s.sum.mark_count = w->group.marks;
    segment_write_keep_place(&w->s.place, w->s.sum.to.point.file, w->s.sum.to.point.pos,
                             w->s.sum.to.created_at);
    if (w->group.at == w->at) {
        w->body.len = w->group.body;
        return 0;
    }
    buf_clear(&w->body);
    if (ftruncate(w->f.fd, (off_t)w->group.at) < 0 ||
        lseek(w->f.fd, (off_t)w->group.at, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot roll back a transaction in journal segment %s", w->name);
    w->at = w->group.at;
    if (w->sync > w->at)
        w->sync = w->at;
    w->urgent = w->at;
    return 0;
}

/* ---- changes ---- */

static int segment_write_number_of(struct segment_writer *w, struct change_table *t, uint64_t *out,
                                   struct err *e)
{
    *out = (uint64_t)t->user - 1; /* if `user` is NULL, this is the largest value */
    if (*out < w->count && w->tables[*out] == t)
        return 0;
    put_op(w, SEGMENT_DEFINE);
    if (put_json(&w->body, w->name, segment_table_json(t), 0, e) < 0)
        return -1;
    w->tables = xgrow(w->tables, w->count, sizeof(struct change_table *));
    *out = w->count++;
    w->tables[*out] = t;
    t->user = (void *)(*out + 1);
    return 0;
}

static int segment_write_put_row(struct segment_writer *w, enum segment_op op,
                                 const struct change *c, const char *tuple, size_t len,
                                 struct err *e)
{
    uint64_t n;
    if (segment_write_number_of(w, c->table, &n, e) < 0)
        return -1;
    put_op(w, op);
    segment_put_number(&w->body, n);
    if (op != SEGMENT_TRUNCATE)
        segment_put_text(&w->body, tuple, len);
    w->s.sum.changes++;
    return 0;
}

static bool segment_write_split(const char *tuple, size_t len, size_t *ends, size_t want)
{
    size_t fields;
    return sql_split_tuple(tuple, tuple + len, ends, want, &fields) == tuple + len &&
           fields >= want;
}

/* Returns whether the row keeps its key. If so, nothing else of the old row is needed. */
static bool segment_write_same_key(const struct change *c)
{
    const struct change_table *t = c->table;
    size_t a[KEY_COLUMNS * 4], b[KEY_COLUMNS * 4], want = 0;
    for (size_t i = 0; i < t->key_count; i++)
        want = t->key[i] + 1 > want ? t->key[i] + 1 : want;
    if (want == 0 || want > sizeof a / sizeof *a ||
        !segment_write_split(c->before, c->before_len, a, want) ||
        !segment_write_split(c->tuple, c->len, b, want))
        return false;
    for (size_t i = 0; i < t->key_count; i++) {
        unsigned k = t->key[i];
        size_t from_a = k ? a[k - 1] : 0, from_b = k ? b[k - 1] : 0;
        if (a[k] - from_a != b[k] - from_b ||
            memcmp(c->before + from_a, c->tuple + from_b, a[k] - from_a) != 0)
            return false;
    }
    return true;
}

static int put_rows(struct segment_writer *w, const struct change *c, enum segment_op op,
                    struct err *e)
{
    if (w->dropped)
        return 0;
    open_group(w);
    if (c->kind == CHANGE_UPDATE && !segment_write_same_key(c)) {
        if (segment_write_put_row(w, SEGMENT_DELETE, c, c->before, c->before_len, e) < 0)
            return -1;
        op = SEGMENT_INSERT;
    }
    return segment_write_put_row(w, op, c, c->tuple, c->len, e) < 0 ? -1 : flush_large(w, e);
}

static int segment_write_put_gap(struct segment_writer *w, const struct change *c, bool part,
                                 struct err *e)
{
    SCOPED(buf_free) struct buf text = {0};
    text_clean(&text, c->why, 600);
    SCOPED(xfree) char *tables = NULL;
    if (part) {
        json_t *o = segment_tables_json(c);
        tables = o ? json_dumps(o, JSON_COMPACT) : NULL;
        json_decref(o);
        if (!tables)
            return no_text(w->name, e);
        buf_addc(&text, '\n');
        buf_adds(&text, tables);
    }
    segment_put_text(&w->body, text.p, text.len);
    return 0;
}

/* Stores an event. Between transactions it follows everything before it. Within a transaction, a
 * gap discards the transaction's contents, and only the first gap gives the reason. A gap of a
 * single table discards nothing, and neither does a gap of some tables before the transaction
 * has changes. */
static int put_event(struct segment_writer *w, const struct change *c, enum segment_op op,
                     struct err *e)
{
    bool part = c->scope && (!w->s.open || w->empty || c->scope->count == 1);
    if (w->s.open && w->dropped && (op == SEGMENT_GAP || op == SEGMENT_TABLES))
        return 0;
    if (op == SEGMENT_GAP && w->s.open && !part) {
        if (drop_group(w, e) < 0)
            return -1;
        w->dropped = true;
    }
    if (put_due(w, e) < 0)
        return -1;
    open_group(w);
    put_op(w, op);
    segment_put_number(&w->body, (uint64_t)(c->at.ms / 1000));
    if (op == SEGMENT_TABLES)
        return put_json(&w->body, w->name, segment_tables_json(c), 0, e);
    if (op == SEGMENT_GAP && segment_write_put_gap(w, c, part, e) < 0)
        return -1;
    if (op == SEGMENT_SWAP && put_json(&w->body, w->name, segment_mark_json(c->mark), 0, e) < 0)
        return -1;
    /* an event within a transaction is noted where the transaction begins, even if only its end
     * revealed the event */
    struct change noted = *c;
    if (w->s.open) {
        noted.file = w->begins.point.file;
        noted.pos = w->begins.point.pos;
    }
    segment_note(&w->s.sum, &noted);
    return 0;
}

static int cut_group(struct segment_writer *w, struct err *e)
{
    if (!w->s.open)
        return 0;
    if (drop_group(w, e) < 0)
        return -1;
    w->s.open = w->empty = w->dropped = false;
    return 0;
}

int segment_put(struct segment_writer *w, const struct change *c, struct err *e)
{
    switch (c->kind) {
    case CHANGE_BEGIN:
        w->s.open = w->empty = true;
        w->dropped = false;
        w->s.gtid = c->gtid;
        return take_place(w, &w->begins, c, e);
    case CHANGE_END:
        return segment_write_end_group(w, c, e);
    case CHANGE_CUT:
        return cut_group(w, e);
    case CHANGE_INSERT:
        return put_rows(w, c, SEGMENT_INSERT, e);
    case CHANGE_DELETE:
        return put_rows(w, c, SEGMENT_DELETE, e);
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
        return put_rows(w, c, SEGMENT_REPLACE, e);
    case CHANGE_TRUNCATE:
        return put_rows(w, c, SEGMENT_TRUNCATE, e);
    case CHANGE_LOST:
        return put_event(w, c, SEGMENT_LOST, e);
    case CHANGE_SWAP:
        return put_event(w, c, SEGMENT_SWAP, e);
    case CHANGE_GAP:
        return put_event(w, c, c->unmissed ? SEGMENT_TABLES : SEGMENT_GAP, e);
    case CHANGE_CREATED:
    case CHANGE_DEFINED:
        return put_event(w, c, SEGMENT_TABLES, e);
    case CHANGE_TABLE:
    case CHANGE_MARKER:
    case CHANGE_UNKNOWN_TABLE:
    case CHANGE_EXISTS:
    case CHANGE_UNREAD:
        break;
    }
    return 0;
}

/* ---- syncing ---- */

bool segment_urgent(const struct segment_writer *w)
{
    return w->body.len > 0 || w->sync < w->urgent;
}

bool segment_dirty(const struct segment_writer *w)
{
    return segment_urgent(w) || w->sync < w->at || place_due(w);
}

/* Writes and syncs the segment. An open transaction stays in memory unless it is too large. */
int segment_sync(struct segment_writer *w, struct err *e)
{
    if (put_due(w, e) < 0 || write_whole(w, e) < 0)
        return -1;
    fault_point("journal.written");
    if (w->sync < w->at && sync_file(w, fdatasync, e) < 0)
        return -1;
    w->sync = w->at;
    return 0;
}

uint64_t segment_bytes(const struct segment_writer *w)
{
    return w->at + w->body.len;
}

const struct segment_sum *segment_written(struct segment_writer *w)
{
    segment_gtid(&w->s.last_gtid, &w->s.sum.to.point); /* not done for each transaction */
    return &w->s.sum;
}

static int put_summary(struct buf *b, const char *file, const struct segment_sum *sum,
                       struct err *e)
{
    buf_addc(b, SEGMENT_SUMMARY);
    /* subtracts the operation and two bytes of length */
    return put_json(b, file, segment_sum_json(sum), SEGMENT_SUMMARY_BODY - 3, e);
}

int segment_append_summary(const struct segment_file *f, uint64_t at, const struct segment_sum *sum,
                           struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    int rc = put_summary(&b, f->name, sum, e);
    if (rc == 0 && (ftruncate(f->fd, (off_t)at) < 0 || lseek(f->fd, (off_t)at, SEEK_SET) < 0))
        rc = err_sys(e, errno, "cannot finish journal segment %s", f->name);
    if (rc == 0)
        rc = segment_frame_write(f, at, b.p, b.len, false, e) < 0 ? -1 : 0;
    if (rc == 0 && fsync(f->fd) < 0)
        rc = err_sys(e, errno, "cannot finish journal segment %s", f->name);
    return rc;
}

int segment_finalize(struct segment_writer *w, struct err *e)
{
    int rc = cut_group(w, e);
    if (rc == 0)
        rc = segment_sync(w, e);
    if (rc == 0)
        rc = put_summary(&w->body, w->name, segment_written(w), e);
    if (rc == 0)
        rc = write_bytes(w, w->body.len, false, e);
    if (rc == 0)
        rc = sync_file(w, fsync, e);
    segment_close(w);
    return rc;
}

void segment_close(struct segment_writer *w)
{
    if (!w)
        return;
    if (w->f.fd >= 0)
        close(w->f.fd);
    free(w->tables);
    buf_free(&w->body);
    free(w);
}
