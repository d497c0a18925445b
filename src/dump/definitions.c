#include "dump/definitions.h"

#include <string.h>

#include "mysql/objects.h"
#include "mysql/sentinel.h"
#include "sql/literal.h"

#define DELIMITER_RANDOM 13                   /* characters: 67 bits */
#define DELIMITER_ROOM (DELIMITER_RANDOM + 3) /* the stock clients take 15 characters, no more */

struct writing {
    struct db *db;
    const char *schema;
    char delimiter[DELIMITER_ROOM];
    struct buf stand_ins, all;
};

/* The query was interrupted or ran out of memory: that says nothing about the object. */
static bool in_vain(const struct err *e)
{
    static const int nums[] = {1037 /* out of memory */, 1038, 1041, DB_INTERRUPTED, 0};
    return err_among(e, nums) || db_unanswered(e) || db_lock_busy(e);
}

/* A delimiter that occurs in none of the texts. It must not be predictable: the author of a routine
 * could end it with the delimiter and add statements to our dump. */
static int pick_delimiter(char out[DELIMITER_ROOM], struct err *e)
{
    static const char signs[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char nonce[33];
    unsigned char bytes[16];
    if (db_nonce(nonce, e) < 0)
        return -1;
    text_unhex(nonce, bytes, sizeof bytes);
    out[0] = out[DELIMITER_RANDOM + 1] = '$';
    out[DELIMITER_RANDOM + 2] = '\0';
    for (unsigned i = 0; i < DELIMITER_RANDOM; i++)
        out[i + 1] = signs[bytes[i] % (sizeof signs - 1)];
    return 0;
}

/* Those under which the definition was made; it is made again under them. */
static void add_settings(struct buf *b, const struct db_definition *d, const char *delimiter)
{
    /* With "binary" as client character set the body would be a byte string, not text. */
    const char *cs = strcmp(d->charset, "binary") == 0 ? "utf8mb4" : d->charset;
    sql_fill(b, "SET NAMES utf8mb4$\nSET character_set_client=$, collation_connection=$$\n",
             DB_ARGS(delimiter, cs,
                     strcmp(d->collation, "binary") == 0 ? "utf8mb4_general_ci" : d->collation,
                     delimiter));
    if (d->zone)
        sql_fill(b, "SET time_zone=?$\n", DB_ARGS(d->zone, delimiter));
    sql_fill(b, "SET sql_mode=?$\n", DB_ARGS(d->sql_mode, delimiter));
}

/* Views may depend on each other in any order: first each gets a stand-in with the same columns. */
static int view_stand_in(struct writing *w, const char *name, struct err *e)
{
    struct buf *b = &w->stand_ins;
    struct db_rows *r = db_select_with(w->db, "n",
                                       "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE "
                                       "TABLE_SCHEMA=? AND TABLE_NAME=? ORDER BY ORDINAL_POSITION",
                                       DB_ARGS(w->schema, name), e);
    size_t start = b->len;
    /* Not OR REPLACE: MySQL replaces a JSON duality view only by another one. */
    sql_fill(b, "DROP VIEW IF EXISTS ??$\nCREATE VIEW ??", DB_ARGS(name, w->delimiter, name));
    const char *comma = " AS SELECT ";
    int got;
    unsigned columns = 0;
    while ((got = db_next(r, e)) == 1) {
        columns++;
        sql_fill(b, "$1 AS ??", DB_ARGS(comma, db_value(r, 0)));
        comma = ", ";
    }
    db_rows_end(r);
    buf_printf(b, "%s\n", w->delimiter);
    if (columns == 0) /* its tables are gone: it has no columns to declare */
        b->len = start, b->p[start] = '\0';
    return got;
}

/* The delimiter goes on a line of its own: a body may end with a comment. */
static void add(struct writing *w, enum definition_kind kind, const char *name,
                const struct db_definition *d)
{
    add_settings(&w->all, d, w->delimiter);
    sql_fill(&w->all, "DROP $ IF EXISTS ??$\n$\n$\n",
             DB_ARGS(definition_kind_words(kind), name, w->delimiter, d->sql, w->delimiter));
}

/* SHOW CREATE one by one: what the server lists may be unreadable, or gone by then. */
static int add_kind(struct writing *w, enum definition_kind kind, struct err *e)
{
    SCOPED(names_free) struct names names = {0};
    if (db_names(w->db, w->schema, kind, &names, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        SCOPED(db_definition_free) struct db_definition def = {0};
        struct err why;
        if (db_definition(w->db, w->schema, kind, names.list[i], &def, &why) < 0) {
            /* A view whose table is gone, or a missing privilege: the rest of the dump is still
             * good. */
            if (in_vain(&why))
                rc = err_pass(e, &why);
            continue;
        }
        if (def.sql && kind == DEFINITION_VIEW)
            rc = view_stand_in(w, names.list[i], e);
        if (def.sql)
            add(w, kind, names.list[i], &def);
    }
    return rc;
}

/* Triggers are assembled from their parts: SHOW CREATE repeats them as they were typed, with the
 * name of their schema, and such a dump could not be restored to another one. Triggers of tables
 * that are not in the dump are left out. */
static int add_triggers(struct writing *w, const struct db_tables *tables, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    if (db_triggers(w->db, w->schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        const struct db_trigger *t = &triggers.list[i];
        SCOPED(buf_free) struct buf sql = {0};
        if (!db_table_find(tables, t->table) || !t->body[0]) /* no privilege to read it */
            continue;
        db_trigger_sql(&sql, t, t->table);
        SCOPED(xfree) char *charset = xstrdup(db_trigger_charset(t, sql.p));
        add(w, DEFINITION_TRIGGER, t->name,
            &(struct db_definition){.sql = sql.p,
                                    .sql_mode = t->sql_mode,
                                    .charset = charset,
                                    .collation = t->collation});
    }
    return 0;
}

int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      struct buf *b, struct err *e)
{
    /* A package before its body: dropping it drops the body as well. */
    static const enum definition_kind order[] = {
        DEFINITION_LIBRARY,      DEFINITION_FUNCTION, DEFINITION_PROCEDURE, DEFINITION_PACKAGE,
        DEFINITION_PACKAGE_BODY, DEFINITION_VIEW,     DEFINITION_TRIGGER,   DEFINITION_EVENT};
    struct writing w = {.db = db, .schema = schema};
    int rc = pick_delimiter(w.delimiter, e);
    for (size_t i = 0; i < sizeof order / sizeof *order && rc == 0; i++)
        rc = order[i] == DEFINITION_TRIGGER ? add_triggers(&w, tables, e)
                                            : add_kind(&w, order[i], e);
    if (rc == 0 && w.all.len) {
        buf_printf(b, "DELIMITER %s\n", w.delimiter);
        buf_add(b, w.stand_ins.p, w.stand_ins.len);
        buf_add(b, w.all.p, w.all.len);
        buf_adds(b, "DELIMITER ;\nSET NAMES binary;\n"
                    "SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', "
                    "time_zone='+00:00';\n");
    }
    buf_free(&w.stand_ins);
    buf_free(&w.all);
    return rc;
}
