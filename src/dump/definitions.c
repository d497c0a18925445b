#include "dump/definitions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "db/sql.h"

struct item {
    enum db_kind kind;
    char *name;
    struct db_definition def;
};
struct items {
    struct item *list;
    size_t count;
};

/* The asking was ended, or found no memory: that says nothing of what was asked for. */
static bool in_vain(const struct err *e)
{
    static const int nums[] = {1037 /* out of memory */, 1038, 1041, 1317 /* interrupted */};
    for (size_t i = 0; i < sizeof nums / sizeof *nums; i++)
        if (e->num == nums[i])
            return true;
    return db_unanswered(e) || db_lock_busy(e);
}

static int collect(struct db *db, const char *schema, enum db_kind kind, struct items *out,
                   struct err *e)
{
    struct db_names names;
    if (db_names(db, schema, kind, &names, e) < 0)
        return -1;
    int rc = 0;
    for (size_t i = 0; i < names.count && rc == 0; i++) {
        struct item it = {.kind = kind};
        struct err why;
        if (db_definition(db, schema, kind, names.list[i], &it.def, &why) < 0) {
            /* A view whose table is gone, or no right to read it: the rest of the dump is still
             * good. */
            if (in_vain(&why)) {
                *e = why;
                rc = -1;
            }
            continue;
        }
        if (!it.def.sql)
            continue;
        it.name = xstrdup(names.list[i]);
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        out->list[out->count++] = it;
    }
    db_names_free(&names);
    return rc;
}

/* Triggers are put together from their parts: SHOW CREATE repeats them as they were typed, with the
 * name of their schema, and such a dump could not be restored anywhere else. One of a table that is
 * not in the dump stays with that table. */
static int collect_triggers(struct db *db, const char *schema, const struct db_tables *tables,
                            struct items *out, struct err *e)
{
    struct db_triggers triggers;
    if (db_triggers(db, schema, &triggers, e) < 0)
        return -1;
    for (size_t i = 0; i < triggers.count; i++) {
        const struct db_trigger *t = &triggers.list[i];
        struct buf sql = {0};
        if (!db_table_find(tables, t->table))
            continue;
        db_trigger_sql(&sql, t, t->table);
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        out->list[out->count++] = (struct item){.kind = DB_TRIGGER,
                                                .name = xstrdup(t->name),
                                                .def = {.sql = sql.p,
                                                        .sql_mode = xstrdup(t->sql_mode),
                                                        .charset = xstrdup("utf8mb4"),
                                                        .collation = xstrdup(t->collation)}};
    }
    db_triggers_free(&triggers);
    return 0;
}

/* A delimiter that stands in no body. */
static void pick_delimiter(const struct items *all, char out[16])
{
    snprintf(out, 16, ";;");
    for (unsigned n = 0; n < 10000; n++) {
        bool found = false;
        for (size_t i = 0; i < all->count && !found; i++)
            found =
                strstr(all->list[i].def.sql, out) != NULL || strstr(all->list[i].name, out) != NULL;
        if (!found)
            return;
        snprintf(out, 16, "$wk%u$", n);
    }
}

static void add_settings(struct buf *b, const struct db_definition *d, const char *delimiter)
{
    /* "binary" as client character set would make the body a byte string of no meaning. */
    const char *cs = strcmp(d->charset, "binary") == 0 ? "utf8mb4" : d->charset;
    buf_printf(b, "SET NAMES utf8mb4%s\nSET character_set_client=%s, collation_connection=%s%s\n",
               delimiter, cs,
               strcmp(d->collation, "binary") == 0 ? "utf8mb4_general_ci" : d->collation,
               delimiter);
    if (d->zone) {
        buf_adds(b, "SET time_zone=");
        sql_string(b, d->zone, strlen(d->zone));
        buf_printf(b, "%s\n", delimiter);
    }
    if (d->sql_mode[0]) {
        buf_adds(b, "SET sql_mode=");
        sql_string(b, d->sql_mode, strlen(d->sql_mode));
        buf_printf(b, "%s\n", delimiter);
    } else {
        buf_printf(b, "SET sql_mode=''%s\n", delimiter);
    }
}

/* Views may stand on each other in any order: first each gets a stand-in of the right columns. */
static int view_stand_in(struct db *db, const char *schema, const char *name, const char *delimiter,
                         struct buf *b, struct err *e)
{
    struct buf sql = {0};
    buf_adds(&sql, "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA=");
    sql_string(&sql, schema, strlen(schema));
    buf_adds(&sql, " AND TABLE_NAME=");
    sql_string(&sql, name, strlen(name));
    buf_adds(&sql, " ORDER BY ORDINAL_POSITION");
    struct db_rows *r = db_select(db, sql.p, e);
    buf_free(&sql);
    if (!r)
        return -1;
    size_t start = b->len;
    /* Not OR REPLACE: MySQL replaces a JSON duality view by one of its kind only. */
    buf_adds(b, "DROP VIEW IF EXISTS ");
    sql_ident(b, name);
    buf_printf(b, "%s\nCREATE VIEW ", delimiter);
    sql_ident(b, name);
    const char *comma = " AS SELECT ";
    int got;
    unsigned columns = 0;
    while ((got = db_next(r, e)) == 1) {
        columns++;
        buf_printf(b, "%s1 AS ", comma);
        sql_ident(b, db_value(r, 0));
        comma = ", ";
    }
    db_rows_end(r);
    buf_printf(b, "%s\n", delimiter);
    if (columns == 0) /* its tables are gone: there is nothing that it could show */
        b->len = start, b->p[start] = '\0';
    return got;
}

static void add_item(struct buf *b, const struct item *it, const char *delimiter)
{
    add_settings(b, &it->def, delimiter);
    buf_printf(b, "DROP %s IF EXISTS ", db_kind_name(it->kind));
    sql_ident(b, it->name);
    /* on a line of its own: a body may end with a comment */
    buf_printf(b, "%s\n%s\n%s\n", delimiter, it->def.sql, delimiter);
}

int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      struct buf *b, struct err *e)
{
    /* a package is dropped with its body */
    static const enum db_kind order[] = {DB_LIBRARY,      DB_FUNCTION, DB_PROCEDURE, DB_PACKAGE,
                                         DB_PACKAGE_BODY, DB_VIEW,     DB_TRIGGER,   DB_EVENT};
    struct items all = {0};
    int rc = 0;
    char delimiter[16];
    for (size_t i = 0; i < sizeof order / sizeof *order && rc == 0; i++)
        rc = order[i] == DB_TRIGGER ? collect_triggers(db, schema, tables, &all, e)
                                    : collect(db, schema, order[i], &all, e);
    if (rc < 0 || all.count == 0)
        goto out;
    pick_delimiter(&all, delimiter);
    buf_printf(b, "DELIMITER %s\n", delimiter);
    for (size_t i = 0; i < all.count && rc == 0; i++)
        if (all.list[i].kind == DB_VIEW)
            rc = view_stand_in(db, schema, all.list[i].name, delimiter, b, e);
    for (size_t i = 0; i < all.count; i++)
        add_item(b, &all.list[i], delimiter);
    buf_printf(b, "DELIMITER ;\nSET NAMES binary;\n"
                  "SET SESSION sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', "
                  "time_zone='+00:00';\n");
out:
    for (size_t i = 0; i < all.count; i++) {
        free(all.list[i].name);
        db_definition_free(&all.list[i].def);
    }
    free(all.list);
    return rc;
}
