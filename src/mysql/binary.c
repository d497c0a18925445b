#include "mysql/binary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cursor.h"
#include "mysql/answer.h"
#include "mysql/conn_int.h"
#include "mysql/value.h"

/* Space that a value other than bytes needs in addition to its ZEROFILL. Bytes need
 * DB_VALUE_ROOM and twice their length. */
#define VALUE_ROOM 48u
#define STORED_MOST (UINT64_C(1) << 30)
#define PAD_MAX 255u /* in digits; no column displays more */

enum kind { KIND_INT, KIND_FLOAT, KIND_DOUBLE, KIND_DATE, KIND_DATETIME, KIND_TIME, KIND_BYTES };

/* How a field is encoded in a row. */
struct slot {
    enum kind kind;
    bool is_unsigned;
    unsigned width;         /* number of bytes of a number */
    unsigned pad, decimals; /* in digits: of ZEROFILL, and of the fraction of a second */
};

struct db_binary {
    struct db *db;
    MYSQL_STMT *stmt;
    const struct db_binary_field *fields;
    struct slot *slots;
    size_t count, room; /* `room` is the space for a tuple, without twice the bytes of its row */
    uint64_t number, rows;
    bool at_once;
    struct buf stored; /* with at_once: the rows, each preceded by its length */
    size_t next;       /* offset of the next row */
    mono_t began;
};

/* Sets the error of a failed call. The library stores some errors in the connection, others in
 * the statement. */
static int binary_failed(struct db_binary *b, const char *what, struct err *e)
{
    if (mysql_stmt_errno(b->stmt))
        return db_fail_stmt(b->db, b->stmt, b->began, what, e);
    return db_fail(b->db, b->began, what, e);
}

struct db_binary *db_binary_open(struct db *db, const char *sql, bool limited,
                                 const struct db_binary_field *fields, size_t count, struct err *e)
{
    struct db_binary *b = xcalloc(1, sizeof *b);
    b->db = db;
    b->fields = fields;
    b->count = count;
    b->slots = xcalloc(count, sizeof *b->slots);
    b->began = clock_mono();
    b->stmt = mysql_stmt_init(db->my);
    bool prepared = b->stmt && mysql_stmt_prepare(b->stmt, sql, strlen(sql)) == 0;
    if (prepared && db_check_places(db, b->stmt, limited, e) == 0)
        return b;
    if (b->stmt && !prepared)
        binary_failed(b, "statement refused", e);
    else if (!b->stmt)
        db_fail(db, b->began, "no statement", e);
    db_binary_close(b);
    return NULL;
}

/* Sets how the protocol encodes a field. Types that are not listed are bytes with their length. */
static void make_slot(struct slot *s, const MYSQL_FIELD *f)
{
    static const struct {
        int type;
        enum kind kind;
        unsigned width;
    } kinds[] = {
        {MYSQL_TYPE_TINY, KIND_INT, 1},           {MYSQL_TYPE_SHORT, KIND_INT, 2},
        {MYSQL_TYPE_YEAR, KIND_INT, 2},           {MYSQL_TYPE_INT24, KIND_INT, 4},
        {MYSQL_TYPE_LONG, KIND_INT, 4},           {MYSQL_TYPE_LONGLONG, KIND_INT, 8},
        {MYSQL_TYPE_FLOAT, KIND_FLOAT, 4},        {MYSQL_TYPE_DOUBLE, KIND_DOUBLE, 8},
        {MYSQL_TYPE_DATE, KIND_DATE, 0},          {MYSQL_TYPE_DATETIME, KIND_DATETIME, 0},
        {MYSQL_TYPE_TIMESTAMP, KIND_DATETIME, 0}, {MYSQL_TYPE_TIME, KIND_TIME, 0},
    };
    *s = (struct slot){.kind = KIND_BYTES, .is_unsigned = (f->flags & UNSIGNED_FLAG) != 0};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (kinds[i].type == (int)f->type) {
            s->kind = kinds[i].kind;
            s->width = kinds[i].width;
        }
    if (f->flags & ZEROFILL_FLAG)
        s->pad = f->length < PAD_MAX ? (unsigned)f->length : PAD_MAX;
    s->decimals = f->decimals > 6 ? 0 : f->decimals;
}

/* Returns whether a field encoded like this can belong to a column of that encoding. */
static bool binary_fits(const struct slot *s, const struct db_binary_field *f)
{
#define K(kind) (1u << KIND_##kind)
    static const unsigned kinds[] = {
        [DB_RAW] = K(INT) | K(BYTES),
        [DB_DOUBLE] = K(FLOAT) | K(DOUBLE),
        [DB_INDEX] = K(INT),
        [DB_BITS] = K(BYTES),
        [DB_LATIN1] = K(BYTES),
        [DB_UTF8] = K(BYTES),
        [DB_BYTES] = ~(K(FLOAT) | K(DOUBLE)), /* YEAR is an integer */
    };
#undef K
    bool text = f->encoding == DB_INDEX && f->choices; /* HANDLER returns members as text */
    return text ? s->kind == KIND_BYTES : kinds[f->encoding] >> s->kind & 1;
}

/* Takes over the field definitions. They are checked, because the table may have changed since
 * the statement was prepared. */
static int check_fields(struct db_binary *b, struct err *e)
{
    MYSQL_RES *res = mysql_stmt_result_metadata(b->stmt);
    if (!res && mysql_stmt_errno(b->stmt))
        return binary_failed(b, "the statement has no result", e);
    if (!res)
        return db_invalid(b->db, e, "the server sent no rows for a query");
    const MYSQL_FIELD *fields = mysql_fetch_fields(res);
    bool other = mysql_num_fields(res) != b->count, wrong = false;
    b->room = 2;
    for (size_t i = 0; i < b->count && !other && !wrong; i++) {
        const char *name = b->fields[i].name;
        other = name && (!fields[i].name || strcmp(name, fields[i].name) != 0);
        make_slot(&b->slots[i], &fields[i]);
        wrong = !other && !b->fields[i].skip && !binary_fits(&b->slots[i], &b->fields[i]);
        b->room += VALUE_ROOM + b->slots[i].pad;
    }
    mysql_free_result(res);
    if (!other && !wrong)
        return 0;
    /* the statement (HANDLER) does not name its columns, so they may have changed */
    if (b->fields[0].name)
        return err_set(e, ERR_CHANGED, 0, "the columns changed during the query");
    return db_invalid(b->db, e, "%s",
                      other ? "the result has unexpected columns"
                            : "a column of the result has an unexpected type");
}

int db_binary_run(struct db_binary *b, uint64_t number, bool at_once, struct err *e)
{
    MYSQL_BIND limit = {.buffer_type = MYSQL_TYPE_LONGLONG, .buffer = &b->number};
    const uint8_t *row;
    size_t len;
    int got = 0;
    limit.is_unsigned = 1;
    b->began = clock_mono();
    b->number = number;
    b->rows = 0;
    b->at_once = at_once;
    b->next = 0;
    buf_clear(&b->stored);
    mysql_stmt_free_result(b->stmt);
    if ((mysql_stmt_param_count(b->stmt) && mysql_stmt_bind_param(b->stmt, &limit)) ||
        mysql_stmt_execute(b->stmt))
        return binary_failed(b, "query refused", e);
    if (check_fields(b, e) < 0)
        return -1;
    while (at_once && (got = client_row_next(b->stmt, &row, &len)) == 1) {
        buf_add(&b->stored, &len, sizeof len);
        buf_add(&b->stored, row, len);
        if (++b->rows > number)
            return db_invalid(b->db, e, "the server sent more rows than requested");
        if (b->stored.len > STORED_MOST)
            return db_invalid(b->db, e, "more than 1 GiB in a chunk of rows");
    }
    b->rows = 0;
    return got < 0 ? binary_failed(b, "reading rows", e) : 0;
}

/* Appends a floating-point number. Returns NULL if no column can hold it. */
static char *binary_put_real(char *o, double v)
{
    return isfinite(v) ? db_put_double(o, v) : NULL;
}

/* Appends a date or time. Returns NULL if it is not valid for this kind. */
static char *binary_put_time(char *o, const struct slot *s, const uint8_t *v, size_t len)
{
    static const unsigned parts[] = {1000000, 100000, 10000, 1000, 100, 10, 1};
    struct answer_time t;
    enum answer_clock clock = s->kind == KIND_TIME   ? ANSWER_TIME
                              : s->kind == KIND_DATE ? ANSWER_DATE
                                                     : ANSWER_DATETIME;
    if (!answer_time(clock, v, len, &t))
        return NULL;
    if (t.negative)
        *o++ = '-';
    if (s->kind != KIND_TIME)
        o = db_put_three(o, t.year, t.month, t.day, 4, '-');
    if (s->kind == KIND_DATE)
        return o;
    if (s->kind == KIND_DATETIME)
        *o++ = ' ';
    o = db_put_three(o, t.hour, t.minute, t.second, 2, ':');
    if (s->decimals == 0)
        return o;
    *o++ = '.';
    return db_put_digits(o, t.micro / parts[s->decimals], s->decimals);
}

/* Writes the value at the cursor and advances the cursor. Returns NULL if the value is invalid
 * for this field or truncated. */
static char *binary_put_value(char *o, const struct slot *s, const struct db_binary_field *f,
                              struct cursor *c)
{
    uint64_t len = s->width ? s->width : cursor_packed(c), bits = 0;
    const uint8_t *v = s->width ? NULL : cursor_bytes(c, len);
    if (s->width)
        bits = cursor_number(c, s->width);
    if (c->broken || f->skip)
        return c->broken ? NULL : o;
    if (s->kind == KIND_BYTES && f->choices) {
        uint64_t number;
        bool member = enum_members_find(f->choices, (const char *)v, len, &number) == 0;
        return member ? db_put_digits(o, number, 0) : NULL;
    }
    if (s->kind == KIND_BYTES)
        return db_value_is(f->encoding, (const char *)v, len)
                   ? db_put_value(o, f->encoding, (const char *)v, len)
                   : NULL;
    bool quoted = f->encoding == DB_BYTES;
    if (quoted)
        *o++ = '\'';
    o = s->kind == KIND_INT ? db_put_int(o, bits, s->width, s->is_unsigned, s->pad)
        : s->width          ? binary_put_real(o, db_real(bits, s->kind == KIND_FLOAT))
                            : binary_put_time(o, s, v, len);
    if (o && quoted)
        *o++ = '\'';
    return o;
}

/* Converts one row to a tuple. The row begins with the NULL bitmap, in which the first two bits are
 * unused. */
static int make_tuple(struct db_binary *b, const uint8_t *row, size_t len, struct buf *out,
                      struct err *e)
{
    struct cursor c = {row, row + len, false};
    const uint8_t *nulls = cursor_bytes(&c, (b->count + 9) / 8);
    buf_clear(out);
    buf_reserve(out, b->room + 2 * len);
    char *o = out->p, before = '(';
    for (size_t i = 0; i < b->count; i++) {
        const struct db_binary_field *f = &b->fields[i];
        if (!f->skip)
            *o++ = before, before = ',';
        if (!nulls)
            o = NULL;
        else if (nulls[(i + 2) / 8] >> (i + 2) % 8 & 1)
            o = f->skip ? o : db_put_value(o, f->encoding, NULL, 0);
        else
            o = binary_put_value(o, &b->slots[i], f, &c);
        if (!o)
            return db_invalid(b->db, e, "column %zu of row %" PRIu64 " is not a value of its type",
                              i + 1, b->rows);
    }
    if (cursor_left(&c))
        return db_invalid(b->db, e, "row %" PRIu64 " is longer than its columns", b->rows);
    *o++ = ')';
    *o = '\0';
    out->len = (size_t)(o - out->p);
    return 1;
}

int db_binary_next(struct db_binary *b, struct buf *out, struct err *e)
{
    const uint8_t *row;
    size_t len;
    int got = 1;
    /* The start time of a read matters only if the read takes seconds, so it is taken every 64
     * rows. */
    if (b->rows++ % 64 == 0)
        b->began = clock_mono();
    if (!b->at_once) {
        got = client_row_next(b->stmt, &row, &len);
    } else if (b->next < b->stored.len) {
        memcpy(&len, b->stored.p + b->next, sizeof len);
        row = (const uint8_t *)b->stored.p + b->next + sizeof len;
        b->next += sizeof len + len;
    } else {
        got = 0;
    }
    return got == 1 ? make_tuple(b, row, len, out, e)
           : got    ? binary_failed(b, "reading rows", e)
                    : 0;
}

void db_binary_close(struct db_binary *b)
{
    if (!b)
        return;
    if (b->stmt)
        mysql_stmt_close(b->stmt); /* also reads and drops the remaining rows */
    buf_free(&b->stored);
    free(b->slots);
    free(b);
}
