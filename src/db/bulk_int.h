/* The two ways behind bulk.h, and their parts that need no server. */
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

struct bulk_array;
struct db_bulk {
    struct db *db;
    enum db_bulk_way way;
    char *table;
    size_t count;
    uint64_t taken, warnings;
    struct buf sql, text; /* local: the statement, and the lines of one */
    struct bulk_array *array;
};

/* "`a`,`b`" or with an expression around a value that bytes would not reach unchanged; `%s` in the
 * expressions is what stands for the value. */
void bulk_expression(struct buf *b, enum db_encoding enc, const char *value);
int bulk_damaged(const struct db_bulk *b, struct err *e);

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
    struct buf scratch; /* strings without their quotes and escapes */
};
void bulk_block_init(struct bulk_block *k, const struct bulk_column *columns, size_t count);
/* Fills it anew with rows of "(…),\n(…)", as many as `packet` bytes take, but one at least. The
 * place of the next one, `end` behind the last; NULL: no plain values for such columns. */
const char *bulk_block_read(struct bulk_block *k, const char *s, const char *end, size_t packet);
void bulk_block_free(struct bulk_block *k);

/* Arrays: false where library or server have none. */
bool bulk_array_there(struct db *db);
struct bulk_array *bulk_array_open(struct db_bulk *b, const struct bulk_column *columns,
                                   size_t count, struct err *e);
int bulk_array_rows(struct db_bulk *b, const char *tuples, size_t len, struct err *e);
void bulk_array_close(struct bulk_array *a);

/* Lines for LOAD DATA: adds those of "(…),\n(…)" to `out`; -1: no plain values. */
int bulk_lines(struct buf *out, const char *tuples, size_t len);

#endif
