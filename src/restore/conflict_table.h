/* Merges the replaced rows of one table back into the world (conflict_merge.h). */
#ifndef WK_RESTORE_CONFLICT_TABLE_H
#define WK_RESTORE_CONFLICT_TABLE_H

#include <jansson.h>

#include "base/line.h"
#include "mysql/temp_copy.h"
#include "restore/conflict_files.h"
#include "restore/conflict_merge.h"

struct job;

enum merge_deed { MERGE_COMPARE, MERGE_DRY, MERGE_APPLY };
struct merge {
    const struct job *job;
    struct db *db;
    struct db_copier copier;
    struct db_tables live;
    enum merge_deed deed;
    bool renumber;
    bool emptied; /* the file's rows were written into an emptied world (conflict.h) */
    const char *file;
    char nonce[33]; /* of the world */
    struct merge_numbers numbers;
    uint64_t packet;
};

struct merge_table {
    const char *name;
    const struct db_table *live; /* in m->live, or in `hidden` */
    struct db_tables hidden;     /* the table, if ALTER TABLE had hidden it when m->live was read */
    struct db_table picked;      /* `live` with the file's columns only, in the file's order */
    char **columns;
    size_t column_count, counter; /* index of the AUTO_INCREMENT column; column_count: none */
    struct merge_set world;       /* the table's current rows */
    struct merge_set done;        /* numbers in the file whose rows were inserted and still exist */
    /* The numbers that rows got in other worlds, by old number. The world may have such a row, if a
     * dump had it, or another row of that number. */
    const struct merge_number **elsewhere;
    size_t elsewhere_count;
    /* Numbers in the file whose rows were inserted into another world of this ledger, under ids
     * that are in totals of this one: these have either such a row, or another one of its id. */
    struct merge_set unproven;
    uint64_t unproven_rows; /* which may be in totals */
    bool staged;            /* the temporary table exists */
    struct buf insert;      /* pending INSERT into it */
    uint64_t rows, equal, stage_rows, stage_hash;
    const struct config_ledger *ledger; /* the ledger whose table it is; NULL: none */
    uint64_t rolled_up; /* ledger: ids up to this are in totals, or were passed; 0: none */
    const char
        *request; /* ledger: column of request ids, if rolled-up ones are recorded; else NULL */
    /* Rows whose key is taken; among these, rows with a taken key that a new number does not
     * change; among these, rows whose request is in a total. */
    uint64_t taken, stuck, repeated;
    uint64_t inserted, renumbered;
    bool unsure;    /* `inserted` is not known, because the connection broke */
    json_t *pairs;  /* the first [old, new] */
    char why[LINE]; /* why it is skipped or not renumbered */
    bool refused;   /* none of its rows can be inserted */
};

/* Prepares the session for all tables. */
int merge_begin(struct merge *m, struct err *e);
/* `first`: the first rows of the table, with its columns and their definition. */
int merge_table_begin(struct merge *m, const char *name, const struct format_item *first,
                      struct merge_table *t, struct err *e);
int merge_table_rows(struct merge *m, struct merge_table *t, const struct format_item *item,
                     struct err *e);
int merge_table_end(struct merge *m, struct merge_table *t, struct err *e);
void merge_table_free(struct merge *m, struct merge_table *t);

#endif
