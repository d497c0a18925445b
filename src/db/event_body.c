#include <string.h>

#include "db/event_int.h"

#define ROWS_END 0x01u        /* flag of row events: the statement's last one */
#define GTID_STANDALONE 0x01u /* flag of MariaDB's GTID */
#define ROWS_V2 30u

/* `n` bytes and a NUL behind them; NULL where that is not so. */
static const char *name_of(struct cursor *c, size_t n)
{
    const uint8_t *p = cursor_bytes(c, n + 1);
    return p && memchr(p, '\0', n + 1) == p + n ? (const char *)p : NULL;
}

/* All that is left of the body as the name of a file. */
static const char *file_name(struct cursor *c, char out[256])
{
    size_t n = cursor_left(c);
    if (n == 0 || n > 255 || memchr(c->at, '\0', n))
        return "it names no file";
    memcpy(out, c->at, n);
    out[n] = '\0';
    c->at = c->end;
    return NULL;
}

const char *event_body_rotate(const struct event_format *f, struct cursor *post,
                              struct cursor *body, struct event *out)
{
    (void)f;
    out->rotate.pos = cursor_number(post, 8);
    return file_name(body, out->rotate.file);
}

/* MariaDB puts a place that the header cannot hold in front of the name. */
const char *event_body_heartbeat(const struct event_format *f, struct cursor *post,
                                 struct cursor *body, struct event *out)
{
    (void)post;
    out->rotate.pos = out->next || !f->mariadb ? out->next : cursor_number(body, 8);
    return body->broken ? NULL : file_name(body, out->rotate.file);
}

/* Fields of a number, a length and that many bytes; 0 ends them. */
const char *event_body_heartbeat2(const struct event_format *f, struct cursor *post,
                                  struct cursor *body, struct event *out)
{
    (void)f, (void)post;
    while (cursor_left(body)) {
        uint64_t field = cursor_packed(body);
        if (field == 0)
            break;
        uint64_t len = cursor_packed(body);
        struct cursor value = {body->at, body->at, false};
        if (!cursor_bytes(body, len))
            return NULL;
        value.end = body->at;
        const char *wrong = field == 1 ? file_name(&value, out->rotate.file) : NULL;
        if (field == 2)
            out->rotate.pos = cursor_packed(&value);
        if (wrong || value.broken)
            return "it does not tell where the sender is";
    }
    return out->rotate.file[0] ? NULL : "it names no file";
}

/* The variables begin with those that are always there: options, then sql_mode. */
static uint64_t sql_mode_of(const uint8_t *vars, size_t len)
{
    struct cursor c = {vars, vars + len, false};
    if (len && *vars == 0)
        cursor_bytes(&c, 5);
    if (cursor_number(&c, 1) != 1)
        return 0;
    uint64_t mode = cursor_number(&c, 8);
    return c.broken ? 0 : mode;
}

const char *event_body_query(const struct event_format *f, struct cursor *post, struct cursor *body,
                             struct event *out)
{
    (void)f;
    cursor_bytes(post, 8); /* session, seconds */
    size_t schema = (size_t)cursor_number(post, 1);
    out->query.error = (unsigned)cursor_number(post, 2);
    size_t len = (size_t)cursor_number(post, 2);
    const uint8_t *vars = cursor_bytes(body, len);
    if (!vars)
        return NULL;
    out->query.sql_mode = sql_mode_of(vars, len);
    out->query.schema = name_of(body, schema);
    out->query.sql = (const char *)body->at;
    out->query.len = cursor_left(body);
    return out->query.schema ? NULL : "the name of its schema has no end";
}

const char *event_body_gtid_mysql(const struct event_format *f, struct cursor *post,
                                  struct cursor *body, struct event *out)
{
    (void)f, (void)body;
    cursor_bytes(post, 1); /* flags */
    const uint8_t *uuid = cursor_bytes(post, sizeof out->gtid.uuid);
    if (uuid)
        memcpy(out->gtid.uuid, uuid, sizeof out->gtid.uuid);
    out->gtid.seq = cursor_number(post, 8);
    return NULL;
}

/* A number of MySQL's serialization: the ones at the low end of the first byte tell how many bytes
 * follow it. */
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
        return "its tag is no name";
    memcpy(out, p, n);
    return NULL;
}

/* Fields with their numbers in front, in ascending order: flags, SID, GNO, tag, and more. */
const char *event_body_gtid_tagged(const struct event_format *f, struct cursor *post,
                                   struct cursor *body, struct event *out)
{
    (void)f, (void)post;
    if (serial_number(body) != 1)
        return "it is in an unknown version of its form";
    serial_number(body); /* length */
    serial_number(body); /* the last field that must be known */
    for (uint64_t field = serial_number(body); !body->broken; field = serial_number(body)) {
        if (field == 0)
            serial_number(body);
        else if (field == 1)
            for (size_t i = 0; i < sizeof out->gtid.uuid; i++)
                out->gtid.uuid[i] = (uint8_t)serial_number(body);
        else if (field == 2)
            out->gtid.seq = serial_number(body) >> 1; /* the lowest bit is its sign */
        else
            return field == 3 ? serial_text(body, out->gtid.tag, sizeof out->gtid.tag) : NULL;
    }
    return NULL;
}

const char *event_body_gtid_mariadb(const struct event_format *f, struct cursor *post,
                                    struct cursor *body, struct event *out)
{
    (void)f, (void)body;
    out->gtid.mariadb = true;
    out->gtid.seq = cursor_number(post, 8);
    out->gtid.domain = (uint32_t)cursor_number(post, 4);
    out->gtid.standalone = cursor_number(post, 1) & GTID_STANDALONE;
    return NULL;
}

/* Servers before 5.1.4 had four bytes for it. */
static uint64_t table_id(struct cursor *post)
{
    return cursor_number(post, cursor_left(post) == 6 ? 4 : 6);
}

/* Bit set with one bit for each column. */
static const uint8_t *column_bits(struct cursor *body, uint64_t columns)
{
    return cursor_bytes(body, columns / 8 + (columns % 8 != 0));
}

const char *event_body_map(const struct event_format *f, struct cursor *post, struct cursor *body,
                           struct event *out)
{
    struct event_map *m = &out->map;
    (void)f;
    m->table_id = table_id(post);
    m->schema = name_of(body, (size_t)cursor_number(body, 1));
    m->table = name_of(body, (size_t)cursor_number(body, 1));
    uint64_t columns = cursor_packed(body);
    m->types = cursor_bytes(body, columns);
    m->columns = (size_t)columns;
    uint64_t meta = cursor_packed(body);
    m->meta = cursor_bytes(body, meta);
    m->meta_len = (size_t)meta;
    column_bits(body, columns); /* which of them may be NULL */
    m->extra = body->at;
    m->extra_len = cursor_left(body);
    if (!m->schema || !m->table)
        return "the name of its table has no end";
    return columns ? NULL : "it has no columns";
}

/* A statement that has nothing more to tell ends with an event without a table or rows. */
static bool is_dummy(const struct event_rows *r)
{
    return r->len == 0 &&
           (r->table_id == 0xffffff || r->table_id == 0xffffffffffff || r->table_id == 0xffffffff);
}

static const char *rows_body(struct cursor *post, struct cursor *body, enum event_op op,
                             struct event *out)
{
    struct event_rows *r = &out->rows;
    r->op = op;
    r->table_id = table_id(post);
    r->ends = cursor_number(post, 2) & ROWS_END;
    if (out->type >= ROWS_V2) {
        uint64_t extra = cursor_number(post, 2); /* with these two bytes */
        if (extra < 2 || !cursor_bytes(body, extra - 2))
            return "its extra data is cut off";
    }
    uint64_t columns = cursor_packed(body);
    r->columns = (size_t)columns;
    r->present = column_bits(body, columns);
    if (op == EVENT_UPDATE)
        r->present_after = column_bits(body, columns);
    r->data = (const char *)body->at;
    r->len = cursor_left(body);
    if (columns == 0)
        return "it has no columns";
    if (!body->broken && is_dummy(r))
        out->kind = EVENT_SKIPPED;
    return NULL;
}

const char *event_body_insert(const struct event_format *f, struct cursor *post,
                              struct cursor *body, struct event *out)
{
    (void)f;
    return rows_body(post, body, EVENT_INSERT, out);
}

const char *event_body_update(const struct event_format *f, struct cursor *post,
                              struct cursor *body, struct event *out)
{
    (void)f;
    return rows_body(post, body, EVENT_UPDATE, out);
}

const char *event_body_delete(const struct event_format *f, struct cursor *post,
                              struct cursor *body, struct event *out)
{
    (void)f;
    return rows_body(post, body, EVENT_DELETE, out);
}

/* With binlog_row_value_options: changed parts of JSON; also where a table has none of that. */
const char *event_body_partial(const struct event_format *f, struct cursor *post,
                               struct cursor *body, struct event *out)
{
    (void)f;
    out->rows.options = true;
    return rows_body(post, body, EVENT_UPDATE, out);
}
