#include "db/copy.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "db/choices.h"
#include "db/sql.h"

/* The server takes memory for a table in blocks of an eighth of its size limit, up to 2 GiB, of
 * which it touches what it fills. A tight limit makes small blocks; a row too many costs a second
 * try with a limit so much larger. */
#define LIMIT_MIN (UINT64_C(1) << 20)
#define LIMIT_MAX (UINT64_C(1) << 50)
#define LIMIT_GROWS 16u

/* ---- the session ---- */

static bool lost(const struct err *why, struct err *e)
{
    if (!db_unanswered(why))
        return false;
    if (e)
        *e = *why;
    return true;
}

/* A copy that is written to the binary log is made by each replica too, and may not fit there. In
 * the formats ROW and MIXED it is not, the latter as long as it has a LIMIT. */
static int keep_from_log(struct db_copier *c, struct err *e)
{
    struct err why = {0};
    char *format = db_one(c->db, "SELECT @@session.binlog_format FROM DUAL WHERE @@log_bin", &why);
    bool quiet = !format || strcmp(format, "ROW") == 0;
    if (!quiet && db_exec(c->db, "SET SESSION binlog_format=ROW", &why) < 0)
        c->logged = strcmp(format, "STATEMENT") == 0;
    free(format);
    return lost(&why, e) ? -1 : 0;
}

/* A key makes a copy take two or three times as long; where the account may, its sessions need none
 * (conn.c). */
static int ask_for_key(struct db_copier *c, struct err *e)
{
    struct err why = {0};
    if (db_is_mariadb(c->db))
        return 0;
    char *wanted = db_one(c->db, "SELECT @@session.sql_require_primary_key", &why);
    c->keyed = wanted && strcmp(wanted, "1") == 0;
    free(wanted);
    return lost(&why, e) ? -1 : 0;
}

int db_copier_begin(struct db_copier *out, struct db *db, struct err *e)
{
    *out = (struct db_copier){.db = db};
    return keep_from_log(out, e) < 0 || ask_for_key(out, e) < 0 ? -1 : 0;
}

static int set_limit(struct db_copier *c, uint64_t limit, struct err *e)
{
    if (c->limit == limit)
        return 0;
    if (db_execf(c->db, e, "SET SESSION max_heap_table_size=%" PRIu64, limit) < 0)
        return -1;
    c->limit = limit;
    return 0;
}

/* ---- the statement ---- */

/* The server moves a SET from one table to another as text, in which a member without letters is
 * lost. */
static bool loses_members(const struct db_column *column)
{
    struct db_choices choices;
    if (column->encoding != DB_INDEX)
        return false;
    bool loses = db_choices_parse(column->type, &choices) < 0;
    for (size_t i = 0; choices.set && i < choices.count; i++)
        loses |= choices.lengths[i] == 0;
    db_choices_free(&choices);
    return loses;
}

/* Under their names: a number is read like the SET that it stands for. */
static void add_columns(struct buf *sql, const struct db_table *t)
{
    const char *comma = "";
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *column = &t->columns[i];
        bool number = loses_members(column);
        if (column->generated)
            continue;
        buf_adds(sql, comma);
        comma = ",";
        buf_adds(sql, number ? "CAST(" : "");
        sql_ident(sql, column->name);
        buf_adds(sql, number ? " AS UNSIGNED) AS " : "");
        if (number)
            sql_ident(sql, column->name);
    }
}

static void copy_sql(struct buf *sql, const struct db_copier *c, const struct db_copy *copy)
{
    buf_printf(sql, "CREATE TEMPORARY TABLE %s %sENGINE=%s SELECT %s", copy->name,
               c->keyed ? "(`" DB_OWN_PREFIX "key` SERIAL PRIMARY KEY) " : "",
               copy->t->memory ? "MEMORY" : "MyISAM", copy->passes_by ? "HIGH_PRIORITY " : "");
    add_columns(sql, copy->t);
    buf_adds(sql, " FROM ");
    sql_ident(sql, copy->t->name);
    buf_adds(sql, copy->rest);
}

int db_copy_make(struct db_copier *c, const struct db_copy *copy, struct err *e)
{
    uint64_t need = copy->bytes + copy->bytes / 4, limit = LIMIT_MIN;
    struct buf sql = {0};
    int rc;
    while (limit < need)
        limit *= 2; /* few sizes: setting one takes a round trip */
    copy_sql(&sql, c, copy);
    do {
        rc = copy->t->memory ? set_limit(c, limit, e) : 0;
        rc = rc < 0 ? rc : db_exec_len(c->db, sql.p, sql.len, e);
        limit *= LIMIT_GROWS;
    } while (rc < 0 && e->num == DB_TABLE_FULL && copy->t->memory && limit <= LIMIT_MAX);
    buf_free(&sql);
    return rc;
}
