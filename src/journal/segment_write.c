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

#define KEY_COLUMNS 64u

struct segment_writer {
    int fd;
    char file[SEGMENT_NAME_MAX];
    uint64_t number;
    struct segment_state s;
    const struct change_table **tables; /* i-th: as it was defined */
    size_t count;
    struct buf body;   /* of the frame that is to be written next */
    uint64_t at, sync; /* bytes in the file; of them on the disk */

    bool empty;   /* the open group holds nothing yet, and is not begun in the file */
    bool dropped; /* nothing more of the open group is taken */
    struct {
        uint64_t at;         /* where its first frame begins, */
        size_t body, tables; /* and what stood before it */
        uint64_t changes;
    } group;                   /* what it takes to take it back */
    struct segment_place seen; /* behind groups that hold nothing: the file does not say so yet */
    struct change_gtid seen_gtid;
};

static int write_frame(int fd, uint64_t number, uint64_t at, const char *body, size_t len,
                       bool within)
{
    unsigned char h[SEGMENT_FRAME] = SEGMENT_MAGIC;
    uint32_t n[3] = {(uint32_t)len | (within ? SEGMENT_WITHIN : 0), codec_crc32(0, body, len), 0};
    for (unsigned i = 0; i < 12; i++) {
        if (i == 8)
            n[2] = segment_frame_crc(number, at, h);
        h[4 + i] = (unsigned char)(n[i / 4] >> (8 * (i % 4)));
    }
    return file_write_all(fd, h, sizeof h) < 0 || file_write_all(fd, body, len) < 0 ? -1 : 0;
}

/* A frame of the first `len` bytes of the body. */
static int write_bytes(struct segment_writer *w, size_t len, bool within, struct err *e)
{
    fault_point("journal.write");
    if (write_frame(w->fd, w->number, w->at, w->body.p, len, within) < 0)
        return err_sys(e, errno, "cannot write journal segment %s", w->file);
    w->at += SEGMENT_FRAME + len;
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

static void put_json(struct buf *b, enum segment_op op, json_t *o, size_t room)
{
    char *s = json_dumps(o, JSON_COMPACT);
    size_t len = s ? strlen(s) : 0;
    buf_addc(b, (char)op);
    segment_put_number(b, room > len ? room : len);
    buf_add(b, s ? s : "", len);
    for (; len < room; len++)
        buf_addc(b, ' ');
    free(s);
    json_decref(o);
}

/* ---- beginning ---- */

static int begin_file(struct segment_writer *w, int dirfd, const struct segment_head *h,
                      struct err *e)
{
    put_json(&w->body, SEGMENT_HEAD, segment_head_json(h), 0);
    if (write_bytes(w, w->body.len, false, e) < 0)
        return -1;
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot bring journal segment %s to the disk", w->file);
    w->sync = w->at;
    return file_sync_dir(dirfd, "the journal", e);
}

struct segment_writer *segment_create(int dirfd, const struct segment_head *h, struct err *e)
{
    struct segment_writer *w = xcalloc(1, sizeof *w);
    segment_name(h->world, h->number, w->file);
    w->number = h->number;
    w->s.place = w->s.sum.to = w->seen = h->from;
    w->s.second = h->from.at.ms / 1000;
    w->fd = openat(dirfd, w->file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (w->fd < 0)
        err_sys(e, errno, "cannot make journal segment %s", w->file);
    else if (begin_file(w, dirfd, h, e) == 0)
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

static void put_begin(struct segment_writer *w)
{
    const struct change_gtid *g = &w->s.gtid, *last = &w->s.last_gtid;
    bool next =
        g->seq && g->seq == last->seq + 1 && g->domain == last->domain && g->server == last->server;
    put_op(w, SEGMENT_BEGIN);
    segment_put_number(&w->body, next ? SEGMENT_NEXT : g->seq ? SEGMENT_GTID : 0);
    segment_put_difference(&w->body, w->s.place.at.ms / 1000 - w->s.second);
    if (g->seq && !next) {
        segment_put_number(&w->body, g->domain);
        segment_put_number(&w->body, g->server);
        segment_put_number(&w->body, g->seq);
    }
    w->empty = false;
}

static void begin_group(struct segment_writer *w, const struct change *c)
{
    w->s.open = w->empty = true;
    w->dropped = false;
    w->s.gtid = c->gtid;
    w->s.place.at.ms = second_of(c) * 1000;
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
    put_begin(w);
}

static void put_file(struct segment_writer *w, const char *file, uint32_t born)
{
    struct segment_place *p = &w->s.place;
    if (strcmp(p->point.file, file) == 0 && p->born == born)
        return;
    put_op(w, SEGMENT_FILE);
    segment_put_number(&w->body, born);
    segment_put_text(&w->body, file, strlen(file));
    snprintf(p->point.file, sizeof p->point.file, "%s", file);
    p->point.pos = 0;
    p->born = born;
}

static void put_end(struct segment_writer *w, const struct segment_place *to,
                    const struct change_gtid *g)
{
    put_file(w, to->point.file, to->born);
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
}

/* Also where it holds nothing the place behind it must be known some time: but not for each of
 * another schema's. */
static int end_group(struct segment_writer *w, const struct change *c, struct err *e)
{
    bool empty = w->empty;
    w->seen.point.pos = c->pos;
    snprintf(w->seen.point.file, sizeof w->seen.point.file, "%s", c->file);
    w->seen.born = c->born;
    w->seen.at.ms = second_of(c) * 1000;
    w->seen_gtid = c->gtid;
    w->dropped = false;
    if (empty) {
        w->s.open = w->empty = false;
        return 0;
    }
    put_end(w, &w->seen, &w->seen_gtid);
    return flush_large(w, e);
}

static bool place_due(const struct segment_writer *w)
{
    return !w->s.open && (w->seen.point.pos != w->s.place.point.pos ||
                          strcmp(w->seen.point.file, w->s.place.point.file) != 0);
}

/* Nothing of it happened. */
static int drop_group(struct segment_writer *w, struct err *e)
{
    if (w->empty)
        return 0;
    w->empty = true;
    w->count = w->group.tables;
    w->s.sum.changes = w->group.changes;
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

static uint64_t number_of(struct segment_writer *w, struct change_table *t)
{
    size_t n = (size_t)t->user - 1; /* NULL: the largest of all */
    if (n < w->count && w->tables[n] == t)
        return n;
    put_json(&w->body, SEGMENT_DEFINE, segment_table_json(t), 0);
    w->tables = xrealloc(w->tables, (w->count + 1) * sizeof *w->tables);
    w->tables[w->count] = t;
    t->user = (void *)(w->count + 1);
    return w->count++;
}

static void put_row(struct segment_writer *w, enum segment_op op, const struct change *c,
                    const char *tuple, size_t len)
{
    uint64_t n = number_of(w, c->table);
    put_op(w, op);
    segment_put_number(&w->body, n);
    if (op != SEGMENT_TRUNCATE)
        segment_put_text(&w->body, tuple, len);
    w->s.sum.changes++;
}

/* Does the row keep its key? Then that is all there is to know of the row before. */
static bool same_key(const struct change *c)
{
    const struct change_table *t = c->table;
    size_t a[KEY_COLUMNS * 4], b[KEY_COLUMNS * 4], want = 0;
    for (size_t i = 0; i < t->key_count; i++)
        want = t->key[i] + 1 > want ? t->key[i] + 1 : want;
    if (want == 0 || want > sizeof a / sizeof *a ||
        fold_split(c->before, c->before_len, a, want) == 0 ||
        fold_split(c->tuple, c->len, b, want) == 0)
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

static int put_rows(struct segment_writer *w, const struct change *c, struct err *e)
{
    if (w->dropped)
        return 0;
    open_group(w);
    switch (c->kind) {
    case CHANGE_INSERT:
        put_row(w, SEGMENT_INSERT, c, c->tuple, c->len);
        break;
    case CHANGE_DELETE:
        put_row(w, SEGMENT_DELETE, c, c->tuple, c->len);
        break;
    case CHANGE_TRUNCATE:
        put_row(w, SEGMENT_TRUNCATE, c, NULL, 0);
        break;
    case CHANGE_REPLACE:
        put_row(w, SEGMENT_REPLACE, c, c->tuple, c->len);
        break;
    case CHANGE_UPDATE:
        if (same_key(c)) {
            put_row(w, SEGMENT_REPLACE, c, c->tuple, c->len);
        } else {
            put_row(w, SEGMENT_DELETE, c, c->before, c->before_len);
            put_row(w, SEGMENT_INSERT, c, c->tuple, c->len);
        }
        break;
    case CHANGE_BEGIN:
    case CHANGE_TABLE:
    case CHANGE_END:
    case CHANGE_CUT:
    case CHANGE_LOST:
    case CHANGE_SWAP:
    case CHANGE_GAP:
    case CHANGE_BEAT:
    case CHANGE_STRANGER:
        break;
    }
    return flush_large(w, e);
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

static int put_event(struct segment_writer *w, const struct change *c, struct err *e)
{
    if (c->kind == CHANGE_GAP && w->s.open) {
        if (drop_group(w, e) < 0)
            return -1;
        w->dropped = true;
    }
    open_group(w);
    put_op(w, c->kind == CHANGE_LOST   ? SEGMENT_LOST
              : c->kind == CHANGE_SWAP ? SEGMENT_SWAP
                                       : SEGMENT_GAP);
    segment_put_number(&w->body, (uint64_t)second_of(c));
    if (c->kind == CHANGE_GAP)
        put_reason(w, c->why);
    else if (c->kind == CHANGE_SWAP)
        put_mark(w, c->mark);
    segment_note(&w->s.sum, c);
    return 0;
}

int segment_put(struct segment_writer *w, const struct change *c, struct err *e)
{
    switch (c->kind) {
    case CHANGE_BEGIN:
        begin_group(w, c);
        return 0;
    case CHANGE_END:
        return end_group(w, c, e);
    case CHANGE_CUT:
        if (drop_group(w, e) < 0)
            return -1;
        w->s.open = w->empty = w->dropped = false;
        return 0;
    case CHANGE_INSERT:
    case CHANGE_DELETE:
    case CHANGE_UPDATE:
    case CHANGE_REPLACE:
    case CHANGE_TRUNCATE:
        return put_rows(w, c, e);
    case CHANGE_LOST:
    case CHANGE_SWAP:
    case CHANGE_GAP:
        return put_event(w, c, e);
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
    if (place_due(w)) {
        w->s.gtid = w->seen_gtid;
        w->s.place.at = w->seen.at;
        put_begin(w);
        put_end(w, &w->seen, &w->seen_gtid);
    }
    if (write_whole(w, e) < 0)
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

const struct segment_sum *segment_written(const struct segment_writer *w)
{
    return &w->s.sum;
}

static void put_seal(struct buf *b, const struct segment_sum *sum)
{
    /* the operation, and two bytes of length */
    put_json(b, SEGMENT_SEAL, segment_sum_json(sum), SEGMENT_SEAL_BODY - 3);
}

static int write_seal(struct segment_writer *w, struct err *e)
{
    struct segment_sum sum = w->s.sum;
    segment_gtid(&w->s.last_gtid, &sum.to.point);
    put_seal(&w->body, &sum);
    if (write_bytes(w, w->body.len, false, e) < 0)
        return -1;
    if (fsync(w->fd) < 0)
        return err_sys(e, errno, "cannot bring journal segment %s to the disk", w->file);
    return 0;
}

int segment_append_seal(int fd, const char *file, uint64_t number, uint64_t at,
                        const struct segment_sum *sum, struct err *e)
{
    struct buf b = {0};
    put_seal(&b, sum);
    int rc = ftruncate(fd, (off_t)at) < 0 || lseek(fd, (off_t)at, SEEK_SET) < 0 ||
                     write_frame(fd, number, at, b.p, b.len, false) < 0 || fsync(fd) < 0
                 ? err_sys(e, errno, "cannot end journal segment %s", file)
                 : 0;
    buf_free(&b);
    return rc;
}

int segment_seal(struct segment_writer *w, struct err *e)
{
    int rc = w->s.open ? drop_group(w, e) : 0;
    w->s.open = false;
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
