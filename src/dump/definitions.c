#include "dump/definitions.h"

#include <stdlib.h>
#include <string.h>

#include "mysql/objects.h"
#include "mysql/sentinel.h"
#include "sql/literal.h"

#define DELIMITER_RANDOM 13                   /* characters: 67 bits */
#define DELIMITER_ROOM (DELIMITER_RANDOM + 3) /* the stock clients take 15 characters, no more */

struct item {
    enum definition_kind kind;
    char *name;
    struct db_definition def;
};
struct items {
    struct item *list;
    size_t count;
};

/* The query was interrupted or ran out of memory: that says nothing about the object. */
static bool in_vain(const struct err *e)
{
    static const int nums[] = {1037 /* out of memory */, 1038, 1041, 1317 /* interrupted */, 0};
    return err_among(e, nums) || db_unanswered(e) || db_lock_busy(e);
}

/* SHOW CREATE one by one: what the server lists may be unreadable, or gone by then. */
static int collect(struct db *db, const char *schema, enum definition_kind kind, struct items *out,
                   struct err *e)
{
    SCOPED(db_names_free) struct db_names names = {0};
    if (db_names(db, schema, kind, &names, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        struct item it = {.kind = kind};
        struct err why;
        if (db_definition(db, schema, kind, names.list[i], &it.def, &why) < 0) {
            /* A view whose table is gone, or a missing privilege: the rest of the dump is still
             * good. */
            if (in_vain(&why))
                rc = err_pass(e, &why);
            continue;
        }
        if (!it.def.sql)
            continue;
        it.name = xstrdup(names.list[i]);
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = it;
    }
    return rc;
}

/* Triggers are assembled from their parts: SHOW CREATE repeats them as they were typed, with the
 * name of their schema, and such a dump could not be restored to another one. Triggers of tables
 * that are not in the dump are left out. */
static int collect_triggers(struct db *db, const char *schema, const struct db_tables *tables,
                            struct items *out, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers triggers = {0};
    if (db_triggers(db, schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        const struct db_trigger *t = &triggers.list[i];
        struct buf sql = {0};
        if (!db_table_find(tables, t->table) || !t->body[0]) /* no privilege to read it */
            continue;
        db_trigger_sql(&sql, t, t->table);
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] =
            (struct item){.kind = DEFINITION_TRIGGER,
                          .name = xstrdup(t->name),
                          .def = {.sql = sql.p,
                                  .sql_mode = xstrdup(t->sql_mode),
                                  .charset = xstrdup(db_trigger_charset(t, sql.p)),
                                  .collation = xstrdup(t->collation)}};
    }
    return 0;
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
static int view_stand_in(struct db *db, const char *schema, const char *name, const char *delimiter,
                         struct buf *b, struct err *e)
{
    struct db_rows *r = db_select_with(db, "n",
                                       "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE "
                                       "TABLE_SCHEMA=? AND TABLE_NAME=? ORDER BY ORDINAL_POSITION",
                                       DB_ARGS(schema, name), e);
    size_t start = b->len;
    /* Not OR REPLACE: MySQL replaces a JSON duality view only by another one. */
    sql_fill(b, "DROP VIEW IF EXISTS ??$\nCREATE VIEW ??", DB_ARGS(name, delimiter, name));
    const char *comma = " AS SELECT ";
    int got;
    unsigned columns = 0;
    while ((got = db_next(r, e)) == 1) {
        columns++;
        sql_fill(b, "$1 AS ??", DB_ARGS(comma, db_value(r, 0)));
        comma = ", ";
    }
    db_rows_end(r);
    buf_printf(b, "%s\n", delimiter);
    if (columns == 0) /* its tables are gone: it has no columns to declare */
        b->len = start, b->p[start] = '\0';
    return got;
}

static void items_free(struct items *all)
{
    for (size_t i = 0; i < all->count; i++) {
        free(all->list[i].name);
        db_definition_free(&all->list[i].def);
    }
    free(all->list);
}

int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      struct buf *b, struct err *e)
{
    /* A package before its body: dropping it drops the body as well. */
    static const enum definition_kind order[] = {
        DEFINITION_LIBRARY,      DEFINITION_FUNCTION, DEFINITION_PROCEDURE, DEFINITION_PACKAGE,
        DEFINITION_PACKAGE_BODY, DEFINITION_VIEW,     DEFINITION_TRIGGER,   DEFINITION_EVENT};
    SCOPED(items_free) struct items all = {0};
    int rc = 0;
    char delimiter[DELIMITER_ROOM];
    for (size_t i = 0; i < sizeof order / sizeof *order && rc == 0; i++)
        rc = order[i] == DEFINITION_TRIGGER ? collect_triggers(db, schema, tables, &all, e)
                                            : collect(db, schema, order[i], &all, e);
    if (rc < 0 || all.count == 0)
        return rc;
    if (pick_delimiter(delimiter, e) < 0)
        return -1;
    buf_printf(b, "DELIMITER %s\n", delimiter);
    for (size_t i = 0; i < all.count && rc == 0; i++)
        if (all.list[i].kind == DEFINITION_VIEW)
            rc = view_stand_in(db, schema, all.list[i].name, delimiter, b, e);
    for (size_t i = 0; i < all.count; i++) {
        const struct item *it = &all.list[i];
        add_settings(b, &it->def, delimiter);
        /* The delimiter goes on a line of its own: a body may end with a comment. */
        sql_fill(
            b, "DROP $ IF EXISTS ??$\n$\n$\n",
            DB_ARGS(definition_kind_words(it->kind), it->name, delimiter, it->def.sql, delimiter));
    }
    buf_printf(b, "DELIMITER ;\nSET NAMES binary;\n"
                  "SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', "
                  "time_zone='+00:00';\n");
    return rc;
}
