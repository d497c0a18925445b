#include "dump/definitions.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "mysql/objects.h"
#include "mysql/sentinel.h"
#include "sql/literal.h"

#define DELIMITER_RANDOM 13 /* characters: 67 bits */
/* the standard clients accept at most 15 characters */
#define DELIMITER_ROOM (DELIMITER_RANDOM + 3)

struct writing {
    struct db *db;
    const char *schema;
    char delimiter[DELIMITER_ROOM];
    struct buf stand_ins, all;
    uint64_t hash; /* of what was added, without the delimiter, which differs each time */
};

/* Picks a delimiter that occurs in none of the texts. It must not be predictable. Otherwise the
 * author of a routine could end it with the delimiter and add statements to our dump. */
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

/* Adds the settings under which the object was defined. A restore defines it under the same
 * settings. */
static void add_settings(struct buf *b, const struct db_definition *d, const char *delimiter)
{
    /* If the client character set were "binary", the body would be a byte string, not text. */
    const char *cs = strcmp(d->charset, "binary") == 0 ? "utf8mb4" : d->charset;
    sql_fill(b, "SET NAMES utf8mb4$\nSET character_set_client=$, collation_connection=$$\n",
             DB_ARGS(delimiter, cs,
                     strcmp(d->collation, "binary") == 0 ? "utf8mb4_general_ci" : d->collation,
                     delimiter));
    if (d->zone)
        sql_fill(b, "SET time_zone=?$\n", DB_ARGS(d->zone, delimiter));
    sql_fill(b, "SET sql_mode=?$\n", DB_ARGS(d->sql_mode, delimiter));
}

/* Adds a stand-in with the same columns for a view. Views may depend on each other in any order,
 * so all stand-ins are created first. */
static int view_stand_in(struct writing *w, const char *name, struct err *e)
{
    struct buf *b = &w->stand_ins;
    struct db_rows *r = db_select_with(w->db, "n",
                                       "SELECT COLUMN_NAME FROM information_schema.COLUMNS WHERE "
                                       "TABLE_SCHEMA=? AND TABLE_NAME=? ORDER BY ORDINAL_POSITION",
                                       DB_ARGS(w->schema, name), e);
    size_t start = b->len;
    /* OR REPLACE cannot be used: MySQL replaces a JSON duality view only by another one. */
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
    if (columns == 0) /* the view's tables are gone, so its columns are unknown */
        b->len = start, b->p[start] = '\0';
    return got;
}

/* Adds a definition. The delimiter is on its own line because a body may end with a comment. */
static void definitions_add(struct writing *w, enum definition_kind kind, const char *name,
                            const struct db_definition *d)
{
    const char *const parts[] = {
        definition_kind_words(kind), name, d->sql, d->sql_mode, d->charset, d->collation,
        d->zone ? d->zone : ""};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        w->hash = text_hash(w->hash, parts[i], strlen(parts[i]) + 1);
    add_settings(&w->all, d, w->delimiter);
    sql_fill(&w->all, "DROP $ IF EXISTS ??$\n$\n$\n",
             DB_ARGS(definition_kind_words(kind), name, w->delimiter, d->sql, w->delimiter));
}

/* Adds all objects of one kind. SHOW CREATE runs for each object, because a listed object may be
 * unreadable or already dropped. */
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
            /* A view whose table is gone, or a missing privilege, does not make the rest of the
             * dump useless. */
            if (db_in_vain(&why))
                rc = err_pass(e, &why);
            continue;
        }
        if (def.sql && kind == DEFINITION_VIEW)
            rc = view_stand_in(w, names.list[i], e);
        if (def.sql)
            definitions_add(w, kind, names.list[i], &def);
    }
    return rc;
}

/* Adds a trigger, assembled from its parts. SHOW CREATE repeats a trigger as it was typed, with the
 * name of its schema, so such a dump could not be restored to another schema. */
static void add_trigger(struct writing *w, const struct db_trigger *t)
{
    SCOPED(buf_free) struct buf sql = {0};
    db_trigger_sql(&sql, t, t->table);
    SCOPED(xfree) char *charset = xstrdup(db_trigger_charset(t, sql.p));
    definitions_add(
        w, DEFINITION_TRIGGER, t->name,
        &(struct db_definition){
            .sql = sql.p, .sql_mode = t->sql_mode, .charset = charset, .collation = t->collation});
}

/* Adds the triggers in an order that does not depend on how they were listed. */
static void add_triggers(struct writing *w, const struct db_tables *tables,
                         const struct db_triggers *triggers)
{
    for (size_t i = 0; i < tables->count; i++)
        for (size_t k = 0; k < triggers->count; k++)
            if (strcmp(triggers->list[k].table, tables->list[i].name) == 0 &&
                triggers->list[k].body[0]) /* else the account lacks the privilege to read it */
                add_trigger(w, &triggers->list[k]);
}

int definitions_write(struct db *db, const char *schema, const struct db_tables *tables,
                      const struct db_triggers *triggers, struct buf *b, char hash[17],
                      struct err *e)
{
    /* A package comes before its body, because dropping the package also drops the body. */
    static const enum definition_kind order[] = {
        DEFINITION_LIBRARY,      DEFINITION_FUNCTION, DEFINITION_PROCEDURE, DEFINITION_PACKAGE,
        DEFINITION_PACKAGE_BODY, DEFINITION_VIEW,     DEFINITION_TRIGGER,   DEFINITION_EVENT};
    struct writing w = {.db = db, .schema = schema, .hash = TEXT_HASH};
    int rc = pick_delimiter(w.delimiter, e);
    for (size_t i = 0; i < sizeof order / sizeof *order && rc == 0; i++)
        if (order[i] == DEFINITION_TRIGGER)
            add_triggers(&w, tables, triggers);
        else
            rc = add_kind(&w, order[i], e);
    snprintf(hash, 17, "%016" PRIx64, w.hash);
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
