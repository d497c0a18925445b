/* Writing a segment. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/codec.h"
#include "core/fault.h"
#include "core/file.h"
#include "journal/fold_int.h"
#include "journal/segment_int.h"
#include "store/seal.h"

#define KEY_COLUMNS 64u

struct segment_writer {
    int fd;
    char file[SEGMENT_NAME_MAX];
    uint64_t number;
    bool mac;
    struct segment_state s;
    const struct change_table **tables; /* i-th: as it was defined */
    size_t count;
    struct buf body;   /* of the frame that is to be written next */
    uint64_t at, sync; /* bytes in the file; of them on the disk */

    bool empty;   /* the open group holds nothing yet, and is not begun in the file */
    bool dropped; /* nothing more of the open group is taken */
    struct {
        uint64_t at;                /* where its first frame begins, */
        size_t body, tables, marks; /* and what stood before it */
        uint64_t changes;
    } group;                     /* what it takes to take it back */
    struct segment_place begins; /* where it begins in the log */
    struct {
        struct segment_place from, to;
        struct change_gtid gtid;
    } seen; /* the last group that ended: the file does not say so yet where it held nothing */
};

static struct segment_file file_of(const struct segment_writer *w)
{
    return (struct segment_file){w->fd, w->file, w->number, w->mac};
}

/* The whole body, and the word with its length in front of it. */
static int write_body(const struct segment_file *f, uint64_t at, uint32_t word, const char *body,
                      size_t len, struct err *e)
{
    unsigned char h[SEGMENT_FRAME] = SEGMENT_MAGIC;
    uint32_t n[3] = {word, codec_crc32(0, body, len), 0};
    for (unsigned i = 0; i < 12; i++) {
        if (i == 8)
            n[2] = segment_frame_crc(f->number, at, h);
        h[4 + i] = (unsigned char)(n[i / 4] >> (8 * (i % 4)));
    }
    if (file_write_all(f->fd, h, sizeof h) < 0 || file_write_all(f->fd, body, len) < 0)
        return err_sys(e, errno, "cannot write journal segment %s", f->name);
    return 0;
}

/* How long it has become; -1. */
static int64_t write_frame(const struct segment_file *f, uint64_t at, const char *body, size_t len,
                           bool within, struct err *e)
{
    uint32_t flag = within ? SEGMENT_WITHIN : 0;
    if (!f->mac)
        return write_body(f, at, (uint32_t)len | flag, body, len, e) < 0
                   ? -1
                   : (int64_t)(SEGMENT_FRAME + len);
    struct buf b = {0};
    uint32_t word = (uint32_t)(len + SEGMENT_MAC_LEN) | flag;
    buf_add(&b, body, len);
    int64_t rc = segment_mac_add(f, at, word, &b, e);
    if (rc == 0)
        rc = write_body(f, at, word, b.p, b.len, e) < 0 ? -1 : (int64_t)(SEGMENT_FRAME + b.len);
    buf_free(&b);
    return rc;
}

/* A frame of the first `len` bytes of the body. */
static int write_bytes(struct segment_writer *w, size_t len, bool within, struct err *e)
{
    struct segment_file f = file_of(w);
    if (len > SEGMENT_BODY_MAX - SEGMENT_MAC_LEN)
        return err_set(e, ERR_REFUSED, 0,
                       "a change of %zu bytes is too long for journal segment %s", len, w->file);
    fault_point("journal.write");
    int64_t n = write_frame(&f, w->at, w->body.p, len, within, e);
    if (n < 0)
        return -1;
    w->at += (uint64_t)n;
    w->body.len -= len;
    memmove(w->body.p, w->body.p + len, w->body.len);
    return 0;
}

/* Whole groups only: what there is before the one that is open. */
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

/* No frame holds whole groups and a part of one: so the part can be taken back. */
static int flush_large(struct segment_writer *w, struct err *e)
{
    if (w->body.len < SEGMENT_BODY)
        return 0;
    if (write_whole(w, e) < 0)
        return -1;
    return w->body.len < SEGMENT_BODY ? 0 : write_bytes(w, w->body.len, true, e);
}

static void put_op(struct segment_writer *w, enum segment_op op)
{
    buf_addc(&w->body, (char)op);
}

static int no_text(const char *file, struct err *e)
{
    return err_set(e, ERR_SYSTEM, 0, "cannot write journal segment %s: a name is not UTF-8", file);
}

static int put_json(struct buf *b, const char *file, enum segment_op op, json_t *o, size_t room,
                    struct err *e)
{
    char *s = json_dumps(o, JSON_COMPACT);
    size_t len = s ? strlen(s) : 0;
    json_decref(o);
    if (!s)
        return no_text(file, e);
    buf_addc(b, (char)op);
    segment_put_number(b, room > len ? room : len);
    buf_add(b, s, len);
    for (; len < room; len++)
        buf_addc(b, ' ');
    free(s);
    return 0;
}

/* ---- beginning ---- */

static int begin_file(struct segment_writer *w, int dirfd, const struct segment_head *h,
                      struct err *e)
{
    if (put_json(&w->body, w->file, SEGMENT_HEAD, segment_head_json(h), 0, e) < 0 ||
        write_bytes(w, w->body.len, false, e) < 0)
        return -1;
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot bring journal segment %s to the disk", w->file);
    w->sync = w->at;
    return file_sync_dir(dirfd, "the journal", e);
}

struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e)
{
    struct segment_writer *w = xcalloc(1, sizeof *w);
    struct segment_head own = *h;
    own.mac = w->mac = seal_on();
    segment_name(h->world, h->number, w->file);
    w->number = h->number;
    w->s.place = w->s.sum.to = w->seen.to = h->from;
    w->s.second = h->from.at.ms / 1000;
    w->fd = openat(dirfd, w->file, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        err_sys(e, errno, "cannot make journal segment %s", w->file);
    else if (begin_file(w, dirfd, &own, e) == 0)
        return w;
    else
        unlinkat(dirfd, w->file, 0); /* nothing is in it */
    segment_close(w);
    return NULL;
}

/* ---- groups ---- */

static int64_t second_of(const struct change *c)
{
    return c->at.ms / 1000;
}

static void keep_place(struct segment_place *p, const char *file, uint64_t pos, uint32_t born)
{
    if (strcmp(p->point.file, file) != 0) /* three times a group */
        snprintf(p->point.file, sizeof p->point.file, "%s", file);
    p->point.pos = pos;
    p->born = born;
}

/* Is `p` behind the place that the file says? */
static bool ahead(const struct segment_writer *w, const struct segment_place *p)
{
    return p->point.pos > w->s.place.point.pos ||
           strcmp(p->point.file, w->s.place.point.file) != 0 || p->born != w->s.place.born;
}

static void put_file(struct segment_writer *w, const struct segment_place *in)
{
    struct segment_place *p = &w->s.place;
    if (strcmp(p->point.file, in->point.file) == 0 && p->born == in->born)
        return;
    put_op(w, SEGMENT_FILE);
    segment_put_number(&w->body, in->born);
    segment_put_text(&w->body, in->point.file, strlen(in->point.file));
    keep_place(p, in->point.file, 0, in->born);
}

static void put_begin(struct segment_writer *w, const struct segment_place *from, wall_t at)
{
    if (!ahead(w, from)) /* where the last one ended */
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

/* The place of a change. */
static int take_place(const struct segment_writer *w, struct segment_place *p,
                      const struct change *c, struct err *e)
{
    if (strcmp(p->point.file, c->file) != 0 && !text_utf8_valid(c->file, strlen(c->file)))
        return no_text(w->file, e);
    keep_place(p, c->file, c->pos, c->born);
    p->at.ms = second_of(c) * 1000;
    return 0;
}

static int begin_group(struct segment_writer *w, const struct change *c, struct err *e)
{
    w->s.open = w->empty = true;
    w->dropped = false;
    w->s.gtid = c->gtid;
    return take_place(w, &w->begins, c, e);
}

/* The first change of a group begins it in the file too. */
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
        return err_set(e, ERR_DAMAGED, 0, "the log goes back from %s:%" PRIu64 " to %" PRIu64,
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

/* Also where it holds nothing the place behind it must be known some time: the last one of those
 * of other schemas stands for them all. */
static int end_group(struct segment_writer *w, const struct change *c, struct err *e)
{
    const struct segment_place *from = &w->begins;
    bool empty = w->empty;
    if (take_place(w, &w->seen.to, c, e) < 0)
        return -1;
    keep_place(&w->seen.from, from->point.file, from->point.pos, from->born);
    w->seen.gtid = c->gtid;
    w->dropped = false;
    if (empty) {
        w->s.open = w->empty = false;
        return 0;
    }
    return put_end(w, &w->seen.to, &w->seen.gtid, e) < 0 ? -1 : flush_large(w, e);
}

static bool place_due(const struct segment_writer *w)
{
    return !w->s.open && ahead(w, &w->seen.to);
}

static int put_due(struct segment_writer *w, struct err *e)
{
    if (!place_due(w))
        return 0;
    w->s.gtid = w->seen.gtid;
    put_begin(w, &w->seen.from, w->seen.to.at);
    return put_end(w, &w->seen.to, &w->seen.gtid, e);
}

/* Nothing of it happened. */
static int drop_group(struct segment_writer *w, struct err *e)
{
    if (w->empty)
        return 0;
    w->empty = true;
    w->count = w->group.tables;
    w->s.sum.changes = w->group.changes;
    w->s.sum.mark_count = w->group.marks;
    keep_place(&w->s.place, w->s.sum.to.point.file, w->s.sum.to.point.pos, w->s.sum.to.born);
    if (w->group.at == w->at) {
        w->body.len = w->group.body;
        return 0;
    }
    buf_clear(&w->body);
    if (ftruncate(w->fd, (off_t)w->group.at) < 0 || lseek(w->fd, (off_t)w->group.at, SEEK_SET) < 0)
        return err_sys(e, errno, "cannot take a group back in journal segment %s", w->file);
    w->at = w->group.at;
    if (w->sync > w->at)
        w->sync = w->at;
    return 0;
}

/* ---- changes ---- */

static int number_of(struct segment_writer *w, struct change_table *t, uint64_t *out, struct err *e)
{
    *out = (uint64_t)t->user - 1; /* NULL: the largest of all */
    if (*out < w->count && w->tables[*out] == t)
        return 0;
    if (put_json(&w->body, w->file, SEGMENT_DEFINE, segment_table_json(t), 0, e) < 0)
        return -1;
    if ((w->count & (w->count - 1)) == 0) /* at 0, 1, 2, 4, 8 … */
        w->tables = xrealloc(w->tables, (2 * w->count + 1) * sizeof(struct change_table *));
    *out = w->count++;
    w->tables[*out] = t;
    t->user = (void *)(*out + 1);
    return 0;
}

static int put_row(struct segment_writer *w, enum segment_op op, const struct change *c,
                   const char *tuple, size_t len, struct err *e)
{
    uint64_t n;
    if (number_of(w, c->table, &n, e) < 0)
        return -1;
    put_op(w, op);
    segment_put_number(&w->body, n);
    if (op != SEGMENT_TRUNCATE)
        segment_put_text(&w->body, tuple, len);
    w->s.sum.changes++;
    return 0;
}

/* Does the row keep its key? Then that is all there is to know of the row before. */
static bool same_key(const struct change *c)
{
    const struct change_table *t = c->table;
    size_t a[KEY_COLUMNS * 4], b[KEY_COLUMNS * 4], want = 0;
    for (size_t i = 0; i < t->key_count; i++)
        want = t->key[i] + 1 > want ? t->key[i] + 1 : want;
    if (want == 0 || want > sizeof a / sizeof *a ||
        fold_split(c->before, c->before_len, a, want) < want ||
        fold_split(c->tuple, c->len, b, want) < want)
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

static int put_update(struct segment_writer *w, const struct change *c, struct err *e)
{
    if (same_key(c))
        return put_row(w, SEGMENT_REPLACE, c, c->tuple, c->len, e);
    return put_row(w, SEGMENT_DELETE, c, c->before, c->before_len, e) < 0
               ? -1
               : put_row(w, SEGMENT_INSERT, c, c->tuple, c->len, e);
}

static int put_rows(struct segment_writer *w, const struct change *c, enum segment_op op,
                    struct err *e)
{
    if (w->dropped)
        return 0;
    open_group(w);
    int rc =
        c->kind == CHANGE_UPDATE ? put_update(w, c, e) : put_row(w, op, c, c->tuple, c->len, e);
    return rc < 0 ? -1 : flush_large(w, e);
}

static void put_reason(struct segment_writer *w, const char *why)
{
    struct buf clean = {0};
    text_clean(&clean, why, 600);
    segment_put_text(&w->body, clean.p, clean.len);
    buf_free(&clean);
}

static void put_mark(struct segment_writer *w, const struct statement_mark *m)
{
    json_t *o = segment_mark_json(m);
    char *s = json_dumps(o, JSON_COMPACT);
    segment_put_text(&w->body, s ? s : "", s ? strlen(s) : 0);
    free(s);
    json_decref(o);
}

/* Between groups it stands behind all that came before it. Within one a gap takes back what the
 * group held, and only the first one tells why. */
static int put_event(struct segment_writer *w, const struct change *c, enum segment_op op,
                     struct err *e)
{
    if (c->kind == CHANGE_GAP && w->s.open) {
        if (w->dropped)
            return 0;
        if (drop_group(w, e) < 0)
            return -1;
        w->dropped = true;
    }
    if (put_due(w, e) < 0)
        return -1;
    open_group(w);
    put_op(w, op);
    segment_put_number(&w->body, (uint64_t)second_of(c));
    if (c->kind == CHANGE_GAP)
        put_reason(w, c->why);
    else if (c->kind == CHANGE_SWAP)
        put_mark(w, c->mark);
    segment_note(&w->s.sum, c);
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
        return begin_group(w, c, e);
    case CHANGE_END:
        return end_group(w, c, e);
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
        return put_event(w, c, SEGMENT_GAP, e);
    case CHANGE_TABLE:
    case CHANGE_BEAT:
    case CHANGE_STRANGER:
        break;
    }
    return 0;
}

/* ---- to the disk ---- */

bool segment_dirty(const struct segment_writer *w)
{
    return w->body.len > 0 || w->sync < w->at || place_due(w);
}

/* A group that is open stays in memory, unless it is too large for that. */
int segment_sync(struct segment_writer *w, struct err *e)
{
    if (put_due(w, e) < 0 || write_whole(w, e) < 0)
        return -1;
    fault_point("journal.written");
    if (w->sync < w->at && fdatasync(w->fd) < 0)
        return err_sys(e, errno, "cannot bring journal segment %s to the disk", w->file);
    w->sync = w->at;
    return 0;
}

uint64_t segment_bytes(const struct segment_writer *w)
{
    return w->at + w->body.len;
}

const struct segment_sum *segment_written(struct segment_writer *w)
{
    segment_gtid(&w->s.last_gtid, &w->s.sum.to.point); /* not for each group */
    return &w->s.sum;
}

static int put_seal(struct buf *b, const char *file, const struct segment_sum *sum, struct err *e)
{
    /* the operation, and two bytes of length */
    return put_json(b, file, SEGMENT_SEAL, segment_sum_json(sum), SEGMENT_SEAL_BODY - 3, e);
}

static int write_seal(struct segment_writer *w, struct err *e)
{
    if (put_seal(&w->body, w->file, segment_written(w), e) < 0 ||
        write_bytes(w, w->body.len, false, e) < 0)
        return -1;
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot bring journal segment %s to the disk", w->file);
    return 0;
}

int segment_append_seal(const struct segment_file *f, uint64_t at, const struct segment_sum *sum,
                        struct err *e)
{
    struct buf b = {0};
    int rc = put_seal(&b, f->name, sum, e);
    if (rc == 0 && (ftruncate(f->fd, (off_t)at) < 0 || lseek(f->fd, (off_t)at, SEEK_SET) < 0))
        rc = err_sys(e, errno, "cannot end journal segment %s", f->name);
    if (rc == 0)
        rc = write_frame(f, at, b.p, b.len, false, e) < 0 ? -1 : 0;
    if (rc == 0 && fsync(f->fd) < 0)
        rc = err_sys(e, errno, "cannot end journal segment %s", f->name);
    buf_free(&b);
    return rc;
}

int segment_seal(struct segment_writer *w, struct err *e)
{
    int rc = cut_group(w, e);
    if (rc == 0)
        rc = segment_sync(w, e);
    if (rc == 0)
        rc = write_seal(w, e);
    segment_close(w);
    return rc;
}

void segment_close(struct segment_writer *w)
{
    if (!w)
        return;
    if (w->fd >= 0)
        close(w->fd);
    free(w->tables);
    buf_free(&w->body);
    free(w);
}
