/* The shadow table for the rows of a table: created like the one that it will replace, or from the
 * dump's definition. For --into it is the table itself, in another schema. */
#ifndef WK_RESTORE_SHADOW_TABLE_H
#define WK_RESTORE_SHADOW_TABLE_H

#include "restore/plan.h"
#include "sql/table.h"

/* A connection that creates and fills shadow tables. The caller owns all of it; several sessions
 * may share a plan, each working on different targets. */
struct shadow_session {
    struct db *db; /* its default schema is the plan's */
    struct plan *plan;
    uint64_t heap_default; /* max_heap_table_size */
};
/* Sets the session up, after the other members were set. */
int shadow_session_begin(struct shadow_session *s, struct err *e);

/* `create` (len bytes) is the dump's CREATE TABLE, used if the server has no such table. */
int shadow_create(const struct shadow_session *s, struct target *t, const char *create, size_t len,
                  struct err *e);
/* Returns the hash of a CREATE TABLE without its AUTO_INCREMENT. */
uint64_t shadow_definition_hash(const char *create, size_t len);
/* Reads the current table of the server; ERR_CHANGED if it no longer exists. */
int shadow_read(const struct shadow_session *s, const struct target *t, struct db_tables *out,
                struct err *e);
/* Sets AUTO_INCREMENT to the dump's value if loading the rows did not. */
int shadow_counter(const struct shadow_session *s, const struct target *t, struct err *e);
/* FLOAT(M,D) and DOUBLE(M,D) columns have no (M,D) while their rows are loaded
 * (mysql/float_scale.h): called before and after them. `create` (len bytes) is the definition in
 * the dump; `scale` keeps what shadow_scale_on() restores. */
int shadow_scale_off(const struct shadow_session *s, const struct target *t, const char *create,
                     size_t len, struct buf *scale, struct err *e);
int shadow_scale_on(const struct shadow_session *s, struct target *t, struct buf *scale,
                    struct err *e);

/* Applies what a file of another tool alters after it has created the table. A shadow table like
 * the living one keeps that definition, except AUTO_INCREMENT; `scale` is kept as by
 * shadow_scale_off(). */
int shadow_alter(const struct shadow_session *s, struct target *t, const struct sql_table *change,
                 struct buf *scale, struct err *e);

/* Parses the dump's definition of a table; the caller frees `out`. ERR_DAMAGED: it is another
 * table's; ERR_REFUSED: it contains something that is not accepted from a dump. */
int shadow_definition(const struct target *t, const char *create, size_t len, struct sql_table *out,
                      struct err *e);
/* Checks that a table of this definition can be restored at all. ERR_REFUSED with its name. */
int shadow_accepts(const struct shadow_session *s, const struct sql_table *table, struct err *e);
/* Why a durable table is skipped if its definition is refused. */
#define SHADOW_NOT_ACCEPTED                                                                        \
    "left as it is: its definition holds more than columns and options of a table (such as a "     \
    "directory of the server's)"
/* Checks that the server accepts this definition of a MEMORY table. Leaves no table. */
int shadow_prove(const struct shadow_session *s, const struct target *t, const char *create,
                 size_t len, struct err *e);

#endif
