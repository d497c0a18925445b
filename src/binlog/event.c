#include "binlog/event.h"

#include <string.h>
#include <zlib.h>

#include "base/codec.h"
#include "base/cursor.h"

#define FORMAT_TYPE 15u
#define FORMAT_FIXED 57u      /* bytes before the list of header lengths */
#define FORMAT_TRAILER 5u     /* the type of the checksum, and a checksum */
#define FLAG_IN_USE 0x01u     /* flag of a format description: the file was not closed */
#define FLAG_IGNORE 0x80u     /* a reader that does not know the type may skip it */
#define GTID_STANDALONE 0x01u /* flag of MariaDB's GTID event */
#define ROWS_END 0x01u        /* flag of row events: the last one of the statement */
#define LEAST_PACKED 1032u    /* zlib's highest compression ratio */
#define LARGEST_PLAIN (1u << 30)

/* ---- bodies ---- */

/* What follows the common header, without a checksum. `post` is the part of fixed length; it has
 * at least as many bytes as types[] requires. */
struct input {
    struct cursor post, body;
};

/* Reads one type of event. Returns NULL, or a text that says what is malformed. A broken cursor
 * need not be reported. */
typedef const char *read_fn(struct input *in, struct event *out);

static const struct event_type {
    const char *name;
    enum event_kind kind;
    uint8_t post;
    read_fn *read;
    enum event_op op; /* for row events */
    /* format of row events: `v2` has extra data before the rows; `options`: MySQL has options
     * before second images */
    bool v2, options;
    bool packed; /* its contents are compressed */
} types[EVENT_TYPES];

/* Returns a name of `n` bytes with a NUL after it, or NULL if it is malformed. */
static const char *event_name_of(struct cursor *c, size_t n)
{
    const uint8_t *p = cursor_bytes(c, n + 1);
    return p && memchr(p, '\0', n + 1) == p + n ? (const char *)p : NULL;
}

static const char *read_rotate(struct input *in, struct event *out)
{
    struct cursor *c = &in->body;
    size_t n = cursor_left(c);
    out->rotate.pos = cursor_number(&in->post, 8);
    if (n == 0 || n > 255 || memchr(c->at, '\0', n))
        return "it does not name a file";
    memcpy(out->rotate.file, c->at, n);
    return NULL;
}

/* Reads the head of compressed data: a prefix with the algorithm and the number of length bytes,
 * then the length in big endian. The compressed bytes follow. */
static const char *read_packed_head(struct cursor *c, struct event *out)
{
    unsigned mark = (unsigned)cursor_number(c, 1), n = mark & 7;
    const uint8_t *p = cursor_bytes(c, n);
    if (!p)
        return NULL;
    if ((mark & 0xf8) != 0x80 || n == 0 || n > 4)
        return "its compression is unknown";
    for (out->packed_len = 0; n--; p++)
        out->packed_len = out->packed_len << 8 | *p;
    out->packed = true;
    return NULL;
}

/* Returns the collation's number without MariaDB's 1024 for those without padding. */
static unsigned collation_kin(unsigned collation)
{
    return collation > 1024 && collation < 2048 ? collation - 1024 : collation;
}

/* Returns whether a collation belongs to UTF-8, ASCII or binary, in all of which quotes and blanks
 * are ASCII's and names are UTF-8. Our own sessions use binary. MariaDB's newest collations have
 * ranges of their own. Source: information_schema.COLLATIONS of MariaDB 10.5, 10.11 and 11.8 and of
 * MySQL 9.7. A new collation of UTF-8 counts as another character set, which costs a dump at
 * most. */
static bool names_are_utf8(unsigned collation)
{
    static const struct {
        unsigned from, to;
    } ranges[] = {{11, 11}, {33, 33},   {45, 46},   {63, 63},   {65, 65},   {76, 76},
                  {83, 83}, {192, 247}, {255, 323}, {576, 578}, {608, 610}, {2048, 2559}};
    unsigned kin = collation_kin(collation);
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        if (kin >= ranges[i].from && kin <= ranges[i].to)
            return true;
    return false;
}

/* Reads the session's variables up to its character set. Each begins with a code, which determines
 * its length. */
static void read_letters(struct cursor c, struct event *out)
{
    enum { FLAGS2, SQL_MODE, CATALOG, AUTO_INCREMENT, CHARSET, CATALOG_NZ = 6 };
    enum { SWE7 = 10, SWE7_BIN = 82 }; /* collations swe7_swedish_ci and swe7_bin */
    while (!c.broken && cursor_left(&c)) {
        switch (cursor_number(&c, 1)) {
        case FLAGS2:
        case AUTO_INCREMENT:
            cursor_bytes(&c, 4);
            break;
        case SQL_MODE:
            cursor_bytes(&c, 8);
            break;
        case CATALOG:
            cursor_bytes(&c, cursor_number(&c, 1) + 1);
            break;
        case CATALOG_NZ:
            cursor_bytes(&c, cursor_number(&c, 1));
            break;
        case CHARSET: {
            unsigned client = (unsigned)cursor_number(&c, 2);
            out->query.other_letters = !c.broken && !names_are_utf8(client);
            unsigned kin = collation_kin(client);
            out->query.unreadable = !c.broken && (kin == SWE7 || kin == SWE7_BIN);
            return;
        }
        default:
            return;
        }
    }
}

static const char *read_query(struct input *in, struct event *out)
{
    cursor_bytes(&in->post, 8); /* skips the session's id and the seconds */
    size_t schema = (size_t)cursor_number(&in->post, 1);
    cursor_bytes(&in->post, 2); /* skips the error code */
    uint64_t len = cursor_number(&in->post, 2);
    const uint8_t *session = cursor_bytes(&in->body, len);
    if (session)
        read_letters((struct cursor){session, session + len, false}, out);
    out->query.schema = event_name_of(&in->body, schema);
    if (!out->query.schema)
        return "the name of its schema is not terminated";
    const char *wrong = types[out->type].packed ? read_packed_head(&in->body, out) : NULL;
    out->query.sql = (const char *)in->body.at;
    out->query.len = cursor_left(&in->body);
    return wrong;
}

static const char *read_gtid_mysql(struct input *in, struct event *out)
{
    cursor_bytes(&in->post, 1); /* skips the flags */
    const uint8_t *uuid = cursor_bytes(&in->post, sizeof out->gtid.uuid);
    if (uuid)
        memcpy(out->gtid.uuid, uuid, sizeof out->gtid.uuid);
    out->gtid.seq = cursor_number(&in->post, 8);
    return NULL;
}

/* Reads a number of MySQL's serialization. The count of trailing one bits in the first byte is
 * the number of bytes that follow it. */
static uint64_t serial_number(struct cursor *c)
{
    unsigned more = 0;
    if (!cursor_left(c)) {
        c->broken = true;
        return 0;
    }
    while (more < 8 && *c->at >> more & 1)
        more++;
    if (more == 8) {
        c->at++;
        return cursor_number(c, 8);
    }
    return cursor_number(c, more + 1) >> (more + 1);
}

static const char *serial_text(struct cursor *c, char *out, size_t size)
{
    uint64_t n = serial_number(c);
    const uint8_t *p = cursor_bytes(c, n);
    if (!p)
        return NULL;
    if (n >= size || memchr(p, '\0', n))
        return "its tag is not a valid name";
    memcpy(out, p, n);
    return NULL;
}

/* Reads fields, each preceded by its number, in ascending order: flags, SID, GNO, tag, and
 * others. */
static const char *read_gtid_tagged(struct input *in, struct event *out)
{
    if (serial_number(&in->body) != 1)
        return "its format version is unknown";
    serial_number(&in->body); /* skips the length */
    serial_number(&in->body); /* skips the number of the last field that a reader must know */
    for (uint64_t field = serial_number(&in->body); !in->body.broken;
         field = serial_number(&in->body)) {
        if (field == 0)
            serial_number(&in->body);
        else if (field == 1)
            for (size_t i = 0; i < sizeof out->gtid.uuid; i++)
                out->gtid.uuid[i] = (uint8_t)serial_number(&in->body);
        else if (field == 2)
            out->gtid.seq = serial_number(&in->body) >> 1; /* the lowest bit is the sign */
        else
            return field == 3 ? serial_text(&in->body, out->gtid.tag, sizeof out->gtid.tag) : NULL;
    }
    return NULL;
}

static const char *read_gtid_mariadb(struct input *in, struct event *out)
{
    out->gtid.mariadb = true;
    out->gtid.seq = cursor_number(&in->post, 8);
    out->gtid.domain = (uint32_t)cursor_number(&in->post, 4);
    out->gtid.standalone = cursor_number(&in->post, 1) & GTID_STANDALONE;
    return NULL;
}

/* Returns a bit set with one bit for each column. */
static const uint8_t *column_bits(struct cursor *body, uint64_t columns)
{
    return cursor_bytes(body, columns / 8 + (columns % 8 != 0));
}

static const char *read_map(struct input *in, struct event *out)
{
    struct event_map *m = &out->map;
    struct cursor *c = &in->body;
    m->table_id = cursor_number(&in->post, 6);
    m->schema = event_name_of(c, (size_t)cursor_number(c, 1));
    m->table = event_name_of(c, (size_t)cursor_number(c, 1));
    uint64_t columns = cursor_packed(c);
    m->types = cursor_bytes(c, columns);
    m->columns = (size_t)columns;
    uint64_t meta = cursor_packed(c);
    m->meta = cursor_bytes(c, meta);
    m->meta_len = (size_t)meta;
    column_bits(c, columns); /* skips the set of nullable columns */
    m->extra = c->at;
    m->extra_len = cursor_left(c);
    if (!m->schema || !m->table)
        return "the name of its table is not terminated";
    return columns ? NULL : "it has no columns";
}

/* Recognizes an event without a table or rows, with which a statement may end. All bytes of its
 * table id are ones; the format determines their number. */
static bool is_dummy(const struct event_rows *r)
{
    return r->len == 0 &&
           (r->table_id == 0xffffff || r->table_id == 0xffffffffffff || r->table_id == 0xffffffff);
}

static const char *event_read_rows(struct input *in, struct event *out)
{
    const struct event_type *t = &types[out->type];
    struct event_rows *r = &out->rows;
    struct cursor *c = &in->body;
    r->op = t->op;
    r->options = t->options;
    r->table_id = cursor_number(&in->post, 6);
    r->ends = cursor_number(&in->post, 2) & ROWS_END;
    if (t->v2) {
        uint64_t extra = cursor_number(&in->post, 2); /* the length includes these two bytes */
        if (extra < 2 || !cursor_bytes(c, extra - 2))
            return "its extra data is truncated";
    }
    uint64_t columns = cursor_packed(c);
    r->columns = (size_t)columns;
    r->present = column_bits(c, columns);
    if (r->op == EVENT_UPDATE)
        r->present_after = column_bits(c, columns);
    r->len = cursor_left(c);
    if (columns == 0)
        return "it has no columns";
    const char *wrong = NULL;
    if (!c->broken && is_dummy(r))
        out->kind = EVENT_SKIPPED;
    else if (!c->broken && t->packed)
        wrong = read_packed_head(c, out);
    r->data = (const char *)c->at;
    r->len = cursor_left(c);
    return wrong;
}

/* Reads an XA PREPARE. MySQL logs an XA COMMIT … ONE PHASE as one that is committed. */
static const char *read_prepare(struct input *in, struct event *out)
{
    out->prepared = cursor_number(&in->body, 1) == 0;
    return NULL;
}

/* ---- types ---- */

/* How a follower of row changes handles each type. A type without a name is unknown. `post` is
 * the minimum length of the fixed part that is read. For XA PREPARE see EVENT_XID. A payload is
 * a compressed transaction. MySQL also compresses changes of MEMORY tables if a statement fails
 * half-way; a payload with such a DELETE was observed, so payloads cannot be skipped. */
static const struct event_type types[EVENT_TYPES] = {
    [1] = {"START_V3", EVENT_UNREADABLE},
    [2] = {"QUERY", EVENT_QUERY, 13, read_query},
    [3] = {"STOP", EVENT_STOP},
    [4] = {"ROTATE", EVENT_ROTATE, 8, read_rotate},
    [5] = {"INTVAR", EVENT_SKIPPED},
    [6] = {"LOAD", EVENT_UNREADABLE},
    [7] = {"SLAVE", EVENT_SKIPPED},
    [8] = {"CREATE_FILE", EVENT_UNREADABLE},
    [9] = {"APPEND_BLOCK", EVENT_UNREADABLE},
    [10] = {"EXEC_LOAD", EVENT_UNREADABLE},
    [11] = {"DELETE_FILE", EVENT_UNREADABLE},
    [12] = {"NEW_LOAD", EVENT_UNREADABLE},
    [13] = {"RAND", EVENT_SKIPPED},
    [14] = {"USER_VAR", EVENT_SKIPPED},
    [FORMAT_TYPE] = {"FORMAT_DESCRIPTION", EVENT_FORMAT},
    [16] = {"XID", EVENT_XID},
    [17] = {"BEGIN_LOAD_QUERY", EVENT_UNREADABLE},
    [18] = {"EXECUTE_LOAD_QUERY", EVENT_UNREADABLE},
    [19] = {"TABLE_MAP", EVENT_MAP, 8, read_map},
    [20] = {"PRE_GA_WRITE_ROWS", EVENT_UNREADABLE},
    [21] = {"PRE_GA_UPDATE_ROWS", EVENT_UNREADABLE},
    [22] = {"PRE_GA_DELETE_ROWS", EVENT_UNREADABLE},
    [23] = {"WRITE_ROWS_V1", EVENT_ROWS, 8, event_read_rows, EVENT_INSERT},
    [24] = {"UPDATE_ROWS_V1", EVENT_ROWS, 8, event_read_rows, EVENT_UPDATE},
    [25] = {"DELETE_ROWS_V1", EVENT_ROWS, 8, event_read_rows, EVENT_DELETE},
    [26] = {"INCIDENT", EVENT_LOST},
    [27] = {"HEARTBEAT", EVENT_HEARTBEAT},
    [28] = {"IGNORABLE", EVENT_SKIPPED},
    [29] = {"ROWS_QUERY", EVENT_SKIPPED},
    [30] = {"WRITE_ROWS", EVENT_ROWS, 10, event_read_rows, EVENT_INSERT, .v2 = true},
    [31] = {"UPDATE_ROWS", EVENT_ROWS, 10, event_read_rows, EVENT_UPDATE, .v2 = true},
    [32] = {"DELETE_ROWS", EVENT_ROWS, 10, event_read_rows, EVENT_DELETE, .v2 = true},
    [33] = {"GTID", EVENT_GTID, 25, read_gtid_mysql},
    [34] = {"ANONYMOUS_GTID", EVENT_GTID, 25, read_gtid_mysql},
    [35] = {"PREVIOUS_GTIDS", EVENT_SKIPPED},
    [36] = {"TRANSACTION_CONTEXT", EVENT_SKIPPED},
    [37] = {"VIEW_CHANGE", EVENT_SKIPPED},
    [38] = {"XA_PREPARE", EVENT_XID, 0, read_prepare},
    [39] = {"PARTIAL_UPDATE_ROWS", EVENT_ROWS, 10, event_read_rows, EVENT_UPDATE, .v2 = true,
            .options = true},
    [40] = {"TRANSACTION_PAYLOAD", EVENT_UNREADABLE},
    [41] = {"HEARTBEAT_V2", EVENT_HEARTBEAT},
    [42] = {"GTID_TAGGED", EVENT_GTID, 0, read_gtid_tagged},
    [160] = {"ANNOTATE_ROWS", EVENT_SKIPPED},
    [161] = {"BINLOG_CHECKPOINT", EVENT_SKIPPED},
    [162] = {"GTID", EVENT_GTID, 13, read_gtid_mariadb},
    [163] = {"GTID_LIST", EVENT_SKIPPED},
    [164] = {"START_ENCRYPTION", EVENT_SKIPPED},
    [165] = {"QUERY_COMPRESSED", EVENT_QUERY, 13, read_query, .packed = true},
    [166] = {"WRITE_ROWS_COMPRESSED_V1", EVENT_ROWS, 8, event_read_rows, EVENT_INSERT,
             .packed = true},
    [167] = {"UPDATE_ROWS_COMPRESSED_V1", EVENT_ROWS, 8, event_read_rows, EVENT_UPDATE,
             .packed = true},
    [168] = {"DELETE_ROWS_COMPRESSED_V1", EVENT_ROWS, 8, event_read_rows, EVENT_DELETE,
             .packed = true},
    [169] = {"WRITE_ROWS_COMPRESSED", EVENT_ROWS, 10, event_read_rows, EVENT_INSERT, .v2 = true,
             .packed = true},
    [170] = {"UPDATE_ROWS_COMPRESSED", EVENT_ROWS, 10, event_read_rows, EVENT_UPDATE, .v2 = true,
             .packed = true},
    [171] = {"DELETE_ROWS_COMPRESSED", EVENT_ROWS, 10, event_read_rows, EVENT_DELETE, .v2 = true,
             .packed = true},
};

/* ---- events ---- */

struct event_format event_format_first(bool checksum)
{
    struct event_format f = {.checksum = checksum};
    for (unsigned i = 0; i < EVENT_TYPES; i++)
        f.post[i] = types[i].post;
    return f;
}

static int event_damaged(const struct event *ev, const char *what, struct err *e)
{
    return err_set(e, ERR_DAMAGED, 0, "binary log event %s (type %u) that ends at %lu: %s",
                   ev->name ? ev->name : "header", ev->type, (unsigned long)ev->next, what);
}

/* Computes the checksum of an event. It excludes the flag that says that a file is in use,
 * because the server changes the flag in place. */
static uint32_t event_checksum(const uint8_t *bytes, size_t len, bool format)
{
    uint8_t flag = bytes[17] & (uint8_t)~FLAG_IN_USE;
    if (!format)
        return codec_crc32(0, bytes, len);
    uint32_t crc = codec_crc32(0, bytes, 17);
    crc = codec_crc32(crc, &flag, 1);
    return codec_crc32(crc, bytes + 18, len - 18);
}

/* Recognizes a damaged format description. Even one that announces no checksums has a checksum,
 * but the sender may have changed it. If the checksum is correct for one that announces
 * checksums, this very byte is damaged. */
static bool lost_its_checksum(const uint8_t *bytes, size_t len, uint32_t stored)
{
    const uint8_t crc32_kind = 1;
    uint8_t head[EVENT_HEADER];
    memcpy(head, bytes, sizeof head);
    head[17] &= (uint8_t)~FLAG_IN_USE;
    uint32_t crc = codec_crc32(0, head, sizeof head);
    crc = codec_crc32(crc, bytes + EVENT_HEADER, len - EVENT_HEADER - FORMAT_TRAILER);
    return codec_crc32(crc, &crc32_kind, 1) == stored;
}

/* Verifies the checksum and removes it from `body`. */
static const char *event_verify(const struct event_format *f, const uint8_t *bytes, size_t len,
                                const struct event *ev, struct cursor *body)
{
    bool format = ev->type == FORMAT_TYPE, expected = f->checksum;
    if (format) {
        if (cursor_left(body) < FORMAT_FIXED + FORMAT_TRAILER)
            return "it is truncated";
        uint8_t kind = body->end[-(int)FORMAT_TRAILER];
        if (kind > 1)
            return "its checksum algorithm is unknown";
        expected = kind == 1;
    }
    if (!format && !expected)
        return NULL;
    if (cursor_left(body) < 4)
        return "it is truncated";
    body->end -= 4;
    struct cursor c = {body->end, body->end + 4, false};
    uint32_t stored = (uint32_t)cursor_number(&c, 4);
    if (expected ? event_checksum(bytes, len - 4, format) != stored
                 : lost_its_checksum(bytes, len, stored))
        return "its checksum is wrong";
    return NULL;
}

static const char *event_read_format(struct cursor *c, struct event_format *out)
{
    *out = (struct event_format){0};
    unsigned version = (unsigned)cursor_number(c, 2);
    cursor_bytes(c, 50); /* skips the server's version */
    out->created = (uint32_t)cursor_number(c, 4);
    size_t header = (size_t)cursor_number(c, 1);
    if (c->broken || version != 4 || header != EVENT_HEADER)
        return "it does not describe version 4 of the binary log";
    out->checksum = c->end[-1] == 1;
    c->end--;
    size_t n = cursor_left(c);
    if (n < FORMAT_TYPE || n >= EVENT_TYPES)
        return "it describes too few or too many types of events";
    memcpy(out->post + 1, c->at, n);
    if (out->post[FORMAT_TYPE] != (uint8_t)(FORMAT_FIXED + n))
        return "its length differs from the length in its header";
    return NULL;
}

static const char *read_body(const struct event_format *f, struct cursor *body, struct event *out)
{
    const struct event_type *t = &types[out->type];
    if (out->type == FORMAT_TYPE)
        return event_read_format(body, &out->format);
    if (!t->read)
        return NULL;
    unsigned n = f->post[out->type];
    if (n < t->post)
        return "it is shorter than the format description says";
    struct input in = {.body = *body};
    const uint8_t *post = cursor_bytes(&in.body, n);
    if (!post)
        return "it is truncated";
    in.post = (struct cursor){post, post + n, false};
    const char *wrong = t->read(&in, out);
    return in.post.broken || in.body.broken ? "it is truncated" : wrong;
}

int event_read(const struct event_format *f, const char *bytes, size_t len, struct event *out,
               struct err *e)
{
    const uint8_t *p = (const uint8_t *)bytes;
    struct cursor c = {p, p + len, false};
    *out = (struct event){.bytes = bytes};
    out->at = (uint32_t)cursor_number(&c, 4);
    out->type = (unsigned)cursor_number(&c, 1);
    out->server_id = (uint32_t)cursor_number(&c, 4);
    out->size = (uint32_t)cursor_number(&c, 4);
    out->next = (uint32_t)cursor_number(&c, 4);
    out->flags = (unsigned)cursor_number(&c, 2);
    const struct event_type *t = &types[out->type];
    out->name = t->name ? t->name : "of an unknown type";
    out->kind = t->name ? t->kind : out->flags & FLAG_IGNORE ? EVENT_SKIPPED : EVENT_UNREADABLE;
    if (c.broken || out->size != len)
        return event_damaged(out, "its length differs from the length in its header", e);
    const char *wrong = event_verify(f, p, len, out, &c);
    if (!wrong)
        wrong = read_body(f, &c, out);
    return wrong ? event_damaged(out, wrong, e) : 0;
}

/* ---- decompressing ---- */

int event_unpack(struct event *ev, struct buf *plain, struct err *e)
{
    bool rows = ev->kind == EVENT_ROWS;
    if (!ev->packed)
        return 0;
    const char *data = rows ? ev->rows.data : ev->query.sql;
    size_t len = rows ? ev->rows.len : ev->query.len;
    uLongf made = ev->packed_len;
    uLong taken = len;
    bool good = len <= LARGEST_PLAIN && ev->packed_len <= LARGEST_PLAIN &&
                ev->packed_len / LEAST_PACKED <= len;
    buf_clear(plain);
    if (good) {
        buf_reserve(plain, made);
        good = uncompress2((Bytef *)plain->p, &made, (const Bytef *)data, &taken) == Z_OK &&
               made == ev->packed_len && taken == len;
        plain->len = made;
    }
    if (!good)
        return event_damaged(ev, "its decompressed contents differ from its header", e);
    ev->packed = false;
    if (rows) {
        ev->rows.data = plain->p;
        ev->rows.len = plain->len;
        if (is_dummy(&ev->rows))
            ev->kind = EVENT_SKIPPED;
    } else {
        ev->query.sql = plain->p;
        ev->query.len = plain->len;
    }
    return 0;
}
