/* Loads rows into shadow tables (or, for --into, into the tables of another schema) and proves that
 * what arrived is what was sent. One connection; the caller owns it and its default schema. */
#ifndef WK_RESTORE_LOAD_H
#define WK_RESTORE_LOAD_H

#include "core/text.h"
#include "restore/plan.h"

struct loader {
    struct db *db;
    const struct job *job;
    const char *schema;
    struct plan *plan;
    struct target *target; /* being loaded; NULL: rows are passed over */
    struct buf insert;     /* "INSERT INTO `shadow` (…) VALUES\n" */
    struct buf statement;
    uint64_t packet_max;
    int64_t heap_default;
    uint64_t rows;
};

int loader_begin(struct loader *l, struct db *db, const struct job *job, const char *schema,
                 struct plan *plan, struct err *e);
void loader_end(struct loader *l);
/* The table's place; `create` (create_len bytes) is the dump's CREATE TABLE for it, used where the
 * server has no such table. */
int loader_table(struct loader *l, const char *table, const char *create, size_t create_len,
                 struct err *e);
/* `columns` = "(`a`,`b`)"; `rows_sql` = "(…),\n(…)": already proven to be plain values. */
int loader_rows(struct loader *l, const char *columns, const char *rows_sql, size_t len,
                uint64_t rows, uint64_t hash, struct err *e);
/* One INSERT whose values were not looked at: everything behind the table's name. */
int loader_insert_raw(struct loader *l, const char *behind_name, size_t len, struct err *e);
/* Row counts of all shadows; content too where a warning came, where columns were mapped, or
 * always. */
int loader_check(struct loader *l, bool content, struct err *e);
const char *loader_place(const struct loader *l, const struct target *t);

#endif
