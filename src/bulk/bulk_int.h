/* Internals of bulk.h, and their parts that need no server: blocks, lines. */
#ifndef WK_BULK_BULK_INT_H
#define WK_BULK_BULK_INT_H

#include "bulk/bulk.h"
#include "mysql/conn_int.h"

/* `kind` is how a value is sent: integers of an exact width and doubles in binary, which saves the
 * server from parsing; everything else as bytes, including decimals, whose text is exact. */
struct bulk_column {
    const char *name;
    enum db_encoding encoding;
    enum bulk_kind { BULK_BYTES, BULK_DOUBLE, BULK_INT8, BULK_INT16, BULK_INT32, BULK_INT64 } kind;
    bool is_unsigned;
    bool counter; /* AUTO_INCREMENT */
};

/* Rows as whole columns, for binding as an array; parsing is pure. */
#define BULK_BLOCK_ROWS 65536u
enum { BULK_GIVEN = 0, BULK_NULL = 1 };
struct bulk_cells {
    enum bulk_kind kind;
    bool is_unsigned;
    unsigned width;         /* bytes of each number; 0: BULK_BYTES */
    char *null;             /* BULK_GIVEN or BULK_NULL of each row */
    void *numbers;          /* numbers of that width */
    char **bytes;           /* BULK_BYTES: pointers into `scratch` */
    unsigned long *lengths; /* their lengths */
};
struct bulk_block {
    struct bulk_cells *columns;
    size_t count, room; /* number of columns; rows that fit */
    unsigned rows;
    size_t bytes;       /* their bytes in a packet */
    struct buf scratch; /* strings without their quotes and escapes */
};

/* The rows of one statement, prepared while the server processes the previous one. */
struct bulk_unit {
    struct bulk_block block; /* for array and rows */
    struct buf text;         /* for local: the lines */
};

/* A prepared INSERT. */
struct bulk_prepared {
    struct buf head, row; /* SQL before the rows, and SQL of each row */
    size_t columns;
    unsigned most; /* maximum rows of a statement */
    /* For 1 row (or arrays), for `most` rows, and for the rest at a unit's end. */
    struct bulk_statement {
        MYSQL_STMT *stmt;
        unsigned rows;
    } one, full, rest;
    MYSQL_BIND *binds; /* for `most` rows */
};

struct db_bulk {
    struct db *db;
    enum db_bulk_way way;
    char *table;
    uint64_t packet_max;           /* the largest packet */
    size_t packet;                 /* maximum packet of a unit of several rows */
    uint64_t taken, warnings;      /* written by the sender */
    struct buf sql;                /* local: the statement */
    struct bulk_prepared prepared; /* array, rows */
    /* From the second unit on a thread sends one unit while the other is filled: the server's work
     * on a table and ours are about 4 to 1, and would add up for the largest table. */
    struct bulk_unit units[2];
    struct double_buffer *turns;
};

#endif
