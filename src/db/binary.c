#include "db/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/conn_int.h"
#include "db/real.h"
#include "db/value.h"

/* Columns may hold up to 4 GiB: a buffer begins with this at most and grows to what arrives. */
#define BUFFER_FIRST 65536u
/* Room that any value may need beside its own digits or twice its bytes. */
#define VALUE_ROOM 48u

enum kind { KIND_INT, KIND_FLOAT, KIND_DOUBLE, KIND_DATE, KIND_DATETIME, KIND_TIME, KIND_BYTES };

struct slot {
    enum kind kind;
    bool is_unsigned;
    unsigned width;         /* bytes of a whole number */
    unsigned pad, decimals; /* digits: ZEROFILL; of a second */
    union {
        int8_t i8;
        int16_t i16;
        int32_t i32;
        int64_t i64;
        float f;
        double d;
        MYSQL_TIME time;
    } value;
    char *bytes;
    unsigned long length;
    client_bool null;
};

struct db_binary {
    struct db *db;
    MYSQL_STMT *stmt;
    const struct db_binary_field *fields;
    struct slot *slots; /* NULL until the first run */
    MYSQL_BIND *binds;
    size_t count;
    uint64_t number, rows;
    mono_t began;
};

/* The library leaves some errors in the connection, others in the statement. */
static int failed(struct db_binary *b, const char *what, struct err *e)
{
    if (mysql_stmt_errno(b->stmt))
        return db_fail_stmt(b->db, b->stmt, b->began, what, e);
    return db_fail(b->db, b->began, what, e);
}

struct db_binary *db_binary_open(struct db *db, const char *sql,
                                 const struct db_binary_field *fields, size_t count, struct err *e)
{
    struct db_binary *b = xcalloc(1, sizeof *b);
    b->db = db;
    b->fields = fields;
    b->count = count;
    b->began = clock_mono();
    b->stmt = mysql_stmt_init(db->my);
    if (b->stmt && mysql_stmt_prepare(b->stmt, sql, strlen(sql)) == 0)
        return b;
    if (b->stmt)
        failed(b, "statement refused", e);
    else
        db_fail(db, b->began, "no statement", e);
    db_binary_close(b);
    return NULL;
}

/* How the library shall deliver a field; all that is not named comes as bytes. */
static enum enum_field_types set_kind(struct slot *s, enum enum_field_types type)
{
    switch ((int)type) {
    case MYSQL_TYPE_TINY:
        s->width = 1;
        return type;
    case MYSQL_TYPE_SHORT:
    case MYSQL_TYPE_YEAR:
        s->width = 2;
        return MYSQL_TYPE_SHORT;
    case MYSQL_TYPE_INT24:
    case MYSQL_TYPE_LONG:
        s->width = 4;
        return MYSQL_TYPE_LONG;
    case MYSQL_TYPE_LONGLONG:
        s->width = 8;
        return type;
    case MYSQL_TYPE_FLOAT:
        s->kind = KIND_FLOAT;
        return type;
    case MYSQL_TYPE_DOUBLE:
        s->kind = KIND_DOUBLE;
        return type;
    case MYSQL_TYPE_DATE:
        s->kind = KIND_DATE;
        return type;
    case MYSQL_TYPE_DATETIME:
    case MYSQL_TYPE_TIMESTAMP:
        s->kind = KIND_DATETIME;
        return type;
    case MYSQL_TYPE_TIME:
        s->kind = KIND_TIME;
        return type;
    default:
        s->kind = KIND_BYTES;
        return MYSQL_TYPE_STRING;
    }
}

static void make_slot(struct slot *s, MYSQL_BIND *bind, const MYSQL_FIELD *f)
{
    bind->buffer_type = set_kind(s, f->type);
    bind->buffer = &s->value;
    bind->buffer_length = sizeof s->value;
    bind->is_unsigned = s->is_unsigned = (f->flags & UNSIGNED_FLAG) != 0;
    bind->is_null = &s->null;
    bind->length = &s->length;
    s->pad = f->flags & ZEROFILL_FLAG ? (unsigned)f->length : 0;
    s->decimals = f->decimals > 6 ? 0 : f->decimals;
    if (s->kind == KIND_BYTES) {
        bind->buffer_length = f->length < BUFFER_FIRST ? f->length + 1 : BUFFER_FIRST;
        bind->buffer = s->bytes = xcalloc(bind->buffer_length, 1);
    }
}

/* After the first run the fields are known. */
static int bind_fields(struct db_binary *b, struct err *e)
{
    MYSQL_RES *res = mysql_stmt_result_metadata(b->stmt);
    if (!res)
        return failed(b, "the statement has no result", e);
    size_t n = mysql_num_fields(res);
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    bool same = n == b->count;
    for (size_t i = 0; i < n && same; i++)
        same = !b->fields[i].name || strcmp(b->fields[i].name, fields[i].name) == 0;
    if (same) {
        b->slots = xcalloc(n, sizeof *b->slots);
        b->binds = xcalloc(n, sizeof *b->binds);
        for (size_t i = 0; i < n; i++)
            make_slot(&b->slots[i], &b->binds[i], &fields[i]);
    }
    mysql_free_result(res);
    if (!same)
        return err_set(e, ERR_CHANGED, 0, "the columns are not those of a moment ago");
    return mysql_stmt_bind_result(b->stmt, b->binds) ? failed(b, "cannot take rows", e) : 0;
}

int db_binary_run(struct db_binary *b, uint64_t number, bool at_once, struct err *e)
{
    MYSQL_BIND limit = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &b->number};
    limit.is_unsigned = 1;
    b->began = clock_mono();
    b->number = number;
    b->rows = 0;
    mysql_stmt_free_result(b->stmt);
    if ((mysql_stmt_param_count(b->stmt) && mysql_stmt_bind_param(b->stmt, &limit)) ||
        mysql_stmt_execute(b->stmt))
        return failed(b, "query refused", e);
    if (!b->slots && bind_fields(b, e) < 0)
        return -1;
    return at_once && mysql_stmt_store_result(b->stmt) ? failed(b, "reading rows", e) : 0;
}

static char *put_int(char *o, const struct slot *s)
{
    int64_t v = s->width == 1   ? s->value.i8
                : s->width == 2 ? s->value.i16
                : s->width == 4 ? s->value.i32
                                : s->value.i64;
    if (s->is_unsigned)
        return db_put_digits(o, (uint64_t)v << (64 - 8 * s->width) >> (64 - 8 * s->width), s->pad);
    if (v >= 0)
        return db_put_digits(o, (uint64_t)v, 0);
    *o++ = '-';
    return db_put_digits(o, -(uint64_t)v, 0);
}

static char *put_real(char *o, const struct slot *s)
{
    char text[REAL_MAX];
    size_t len = real_text(s->kind == KIND_FLOAT ? (double)s->value.f : s->value.d, text);
    return db_put_value(o, DB_DOUBLE, text, len);
}

static char *put_time(char *o, const struct slot *s)
{
    const MYSQL_TIME *t = &s->value.time;
    if (s->kind == KIND_TIME) {
        if (t->neg)
            *o++ = '-';
        o = db_put_digits(o, t->day * 24u + t->hour, 2);
    } else {
        o = db_put_digits(o, t->year, 4);
        *o++ = '-';
        o = db_put_digits(o, t->month, 2);
        *o++ = '-';
        o = db_put_digits(o, t->day, 2);
        if (s->kind == KIND_DATE)
            return o;
        *o++ = ' ';
        o = db_put_digits(o, t->hour, 2);
    }
    *o++ = ':';
    o = db_put_digits(o, t->minute, 2);
    *o++ = ':';
    o = db_put_digits(o, t->second, 2);
    if (s->decimals == 0)
        return o;
    static const unsigned parts[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    *o++ = '.';
    return db_put_digits(o, t->second_part / parts[s->decimals], s->decimals);
}

/* NULL: a text that is no member of the column. */
static char *put_bytes(char *o, const struct slot *s, const struct db_binary_field *f)
{
    uint64_t number;
    if (!f->choices)
        return db_put_value(o, f->encoding, s->bytes, s->length);
    return db_choices_find(f->choices, s->bytes, s->length, &number) < 0
               ? NULL
               : db_put_digits(o, number, 0);
}

static char *put_value(char *o, const struct slot *s, const struct db_binary_field *f)
{
    if (s->null)
        return db_put_value(o, f->encoding, NULL, 0);
    if (s->kind == KIND_BYTES)
        return put_bytes(o, s, f);
    bool quoted = f->encoding == DB_BYTES;
    if (quoted)
        *o++ = '\'';
    if (s->kind == KIND_INT)
        o = put_int(o, s);
    else if (s->kind == KIND_FLOAT || s->kind == KIND_DOUBLE)
        o = put_real(o, s);
    else
        o = put_time(o, s);
    if (quoted)
        *o++ = '\'';
    return o;
}

/* A value that was longer than its buffer is fetched again into a larger one. */
static int refetch(struct db_binary *b, size_t i, struct err *e)
{
    struct slot *s = &b->slots[i];
    MYSQL_BIND *bind = &b->binds[i];
    bind->buffer_length = s->length + s->length / 4;
    bind->buffer = s->bytes = xrealloc(s->bytes, bind->buffer_length);
    return mysql_stmt_fetch_column(b->stmt, bind, (unsigned)i, 0)
               ? failed(b, "reading a long value", e)
               : 0;
}

/* All values of the row whole; *room: bytes that its tuple may take. */
static int complete(struct db_binary *b, size_t *room, struct err *e)
{
    bool grown = false;
    *room = 3;
    for (size_t i = 0; i < b->count; i++) {
        const struct slot *s = &b->slots[i];
        bool bytes = s->kind == KIND_BYTES && !s->null;
        if (bytes && s->length > b->binds[i].buffer_length) {
            grown = true;
            if (refetch(b, i, e) < 0)
                return -1;
        }
        *room += VALUE_ROOM + s->pad + (bytes ? 2 * s->length : 0);
    }
    /* Only now: it makes the library forget where in the row the values lie. */
    return grown && mysql_stmt_bind_result(b->stmt, b->binds) ? failed(b, "cannot take rows", e)
                                                              : 0;
}

static int make_tuple(struct db_binary *b, struct buf *out, struct err *e)
{
    size_t room;
    if (complete(b, &room, e) < 0)
        return -1;
    buf_clear(out);
    buf_reserve(out, room);
    char *o = out->p, before = '(';
    for (size_t i = 0; i < b->count; i++) {
        if (b->fields[i].skip)
            continue;
        *o++ = before;
        before = ',';
        o = put_value(o, &b->slots[i], &b->fields[i]);
        if (!o)
            return err_set(e, ERR_QUERY, 0, "'%.*s' is no member of column %s",
                           (int)b->slots[i].length, b->slots[i].bytes, b->fields[i].name);
    }
    *o++ = ')';
    *o = '\0';
    out->len = (size_t)(o - out->p);
    return 1;
}

int db_binary_next(struct db_binary *b, struct buf *out, struct err *e)
{
    /* When a read began matters only for one that takes seconds. */
    if (b->rows++ % 64 == 0)
        b->began = clock_mono();
    int rc = mysql_stmt_fetch(b->stmt);
    if (rc == 0 || rc == MYSQL_DATA_TRUNCATED)
        return make_tuple(b, out, e);
    if (rc == MYSQL_NO_DATA && !mysql_errno(b->db->my))
        return 0;
    return failed(b, "reading rows", e);
}

void db_binary_close(struct db_binary *b)
{
    if (!b)
        return;
    if (b->stmt)
        mysql_stmt_close(b->stmt); /* reads and drops what is left */
    for (size_t i = 0; b->slots && i < b->count; i++)
        free(b->slots[i].bytes);
    free(b->slots);
    free(b->binds);
    free(b);
}
