/* The ways behind bulk.h, and their parts that need no server: literals, blocks, lines. */
#ifndef WK_DB_BULK_INT_H
#define WK_DB_BULK_INT_H

#include "db/bulk.h"
#include "db/conn_int.h"

struct bulk_column {
    const char *name;
    enum db_encoding encoding;
    enum bulk_kind { BULK_BYTES, BULK_DOUBLE, BULK_INT8, BULK_INT16, BULK_INT32, BULK_INT64 } kind;
    bool is_unsigned;
};

/* What a value is written as, by its first characters; `*s` moves to its inside. */
enum bulk_literal { BULK_IS_NULL, BULK_IS_STRING, BULK_IS_HEX, BULK_IS_NUMBER };
enum bulk_literal bulk_literal(const char **s, const char *end);
/* The byte that a letter behind a backslash stands for; -1: not what sql_string() writes there,
 * and the server may read it as something that does not stand there (\t, \%). */
int bulk_unescaped(char c);
/* The byte of two digits of a 0x… literal; BULK_HEX_END where no digit follows, BULK_HEX_HALF where
 * only one does. */
enum { BULK_HEX_END = -1, BULK_HEX_HALF = -2 };
int bulk_hex(const char *s, const char *end);

/* Rows as whole columns, as an array is bound; reading them is pure. */
#define BULK_BLOCK_ROWS 65536u
enum { BULK_GIVEN = 0, BULK_NULL = 1 };
struct bulk_cells {
    enum bulk_kind kind;
    bool is_unsigned;
    unsigned width;         /* bytes of a number; 0: BULK_BYTES */
    char *null;             /* BULK_GIVEN or BULK_NULL of each row */
    void *numbers;          /* of that width */
    char **bytes;           /* BULK_BYTES: into `scratch` */
    unsigned long *lengths; /* of them */
};
struct bulk_block {
    struct bulk_cells *columns;
    size_t count, room; /* columns; rows that fit in them */
    unsigned rows;
    size_t bytes;       /* that they take in a packet */
    struct buf scratch; /* strings without their quotes and escapes */
};
void bulk_block_init(struct bulk_block *k, const struct bulk_column *columns, size_t count);
/* Fills it anew with rows of "(…),\n(…)", as many as `packet` bytes take, but one at least. The
 * place of the next one, `end` behind the last; NULL: no plain values for such columns. */
const char *bulk_block_read(struct bulk_block *k, const char *s, const char *end, size_t packet);
void bulk_block_free(struct bulk_block *k);

/* Lines for LOAD DATA: adds those of "(…),\n(…)" to `out`; -1: no plain values. */
int bulk_lines(struct buf *out, const char *tuples, size_t len);

/* One statement's worth of rows, made ready while the one before is with the server. */
struct bulk_unit {
    struct bulk_block block; /* array, rows */
    struct buf text;         /* local: lines */
    bool full;
};

struct bulk_array;
struct bulk_rows;
struct bulk_pipe;
struct db_bulk {
    struct db *db;
    enum db_bulk_way way;
    char *table;
    uint64_t packet_max;      /* the largest packet */
    size_t packet;            /* the largest that a unit of several rows may take in it */
    uint64_t taken, warnings; /* of who sends */
    struct buf sql;           /* local: the statement */
    struct bulk_array *array;
    struct bulk_rows *rows;
    struct bulk_pipe *pipe;
};

/* The value, `?` or a variable, with an expression around it where the bytes alone would not reach
 * the column unchanged. */
void bulk_expression(struct buf *b, enum db_encoding enc, const char *value);
int bulk_damaged(const struct db_bulk *b, struct err *e);

/* A prepared INSERT: what stands before its rows, and one of them; the type as which a kind of
 * values is bound. `typed`: the server gives each place a type of its own. */
void bulk_insert(struct buf *head, struct buf *row, const char *table,
                 const struct bulk_column *columns, size_t count, bool typed);
enum enum_field_types bulk_field_type(enum bulk_kind kind);
/* The caller closes it; NULL on failure. */
MYSQL_STMT *bulk_prepare(const struct db_bulk *b, const struct buf *sql, struct err *e);
int bulk_refused(const struct db_bulk *b, MYSQL_STMT *stmt, mono_t began, struct err *e);

/* Arrays: false where library or server have none. */
bool bulk_array_there(struct db *db);
struct bulk_array *bulk_array_open(struct db_bulk *b, const struct bulk_column *columns,
                                   size_t count, struct err *e);
int bulk_array_send(struct db_bulk *b, struct bulk_block *k, struct err *e);
void bulk_array_close(struct bulk_array *a);

/* Fills b->rows, also where it fails. */
int bulk_rows_open(struct db_bulk *b, const struct bulk_column *columns, size_t count,
                   struct err *e);
int bulk_rows_send(struct db_bulk *b, struct bulk_block *k, struct err *e);
void bulk_rows_close(struct bulk_rows *r);

/* Two units and, from the second one on, a thread that sends one while the other is being filled:
 * the server's work on a table and ours are about as long as 4 to 1, and one after the other they
 * would add up for the largest table. */
/* Gives the server one unit and waits for its answer. */
typedef int bulk_send_fn(void *arg, struct bulk_unit *u, struct err *e);
struct bulk_pipe *bulk_pipe_open(const struct bulk_column *columns, size_t count,
                                 bulk_send_fn *send, void *arg);
/* To be filled by the caller, then pushed. */
struct bulk_unit *bulk_pipe_unit(struct bulk_pipe *p);
/* May fail with what befell an earlier unit. */
int bulk_pipe_push(struct bulk_pipe *p, struct err *e);
/* Waits until all is sent; ends the thread. */
int bulk_pipe_finish(struct bulk_pipe *p, struct err *e);
/* What is not sent by then never is. */
void bulk_pipe_close(struct bulk_pipe *p);

#endif
