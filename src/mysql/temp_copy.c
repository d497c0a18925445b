#include "mysql/temp_copy.h"

#include <inttypes.h>
#include <string.h>

#include "base/number.h"
#include "mysql/only_table.h"
#include "sql/enum_members.h"
#include "sql/literal.h"

/* The server allocates the memory of a table in blocks of an eighth of its size limit, up to 2
 * GiB, but uses only what it fills. A tight limit leads to small blocks. If one row does not
 * fit, a second attempt uses a limit LIMIT_GROWS times as large. */
#define LIMIT_MIN (UINT64_C(1) << 20)
#define LIMIT_MAX (UINT64_C(1) << 50)
#define LIMIT_GROWS 16u

/* ---- the session ---- */

static bool temp_copy_lost(const struct err *why, struct err *e)
{
    return db_unanswered(why) && err_pass(e, why) < 0;
}

int db_copier_begin(struct db_copier *out, struct db *db, struct err *e)
{
    struct err why = {0};
    *out = (struct db_copier){.db = db};
    /* A copy that is written to the binary log is also made by each replica, where it may not
     * fit. With the format ROW it is not logged, with MIXED only if it has a LIMIT. */
    SCOPED(xfree) char *format =
        db_one(db, "SELECT @@session.binlog_format FROM DUAL WHERE @@log_bin", &why);
    bool quiet = !format || strcmp(format, "ROW") == 0;
    if (!quiet && db_exec(db, "SET SESSION binlog_format=ROW", &why) < 0)
        out->logged = strcmp(format, "STATEMENT") == 0;
    if (temp_copy_lost(&why, e))
        return -1;
    /* MariaDB 10.5 copies the CHECK of a column with the column; 10.11 does not. The table may hold
     * rows that were written while constraints were not checked. */
    const char *checks = db_word(db, WORD_CHECKS);
    if (checks && db_exec_with(db, "SET SESSION $=0", DB_ARGS(checks), e) < 0)
        return -1;
    const char *setting = db_word(db, WORD_REQUIRE_KEY);
    if (!setting)
        return 0;
    /* A key makes a copy take two or three times as long. If our account has the privilege, its
     * sessions do not require a key (conn.c). */
    SCOPED(xfree) char *wanted = db_one_with(db, "SELECT @@session.$", DB_ARGS(setting), &why);
    out->keyed = wanted && strcmp(wanted, "1") == 0;
    return temp_copy_lost(&why, e) ? -1 : 0;
}

/* ---- the statement ---- */

/* Returns whether a copy would lose a member. The server converts a SET from one table to
 * another through text, which loses a member that is an empty string. */
static bool loses_members(const struct db_column *column)
{
    SCOPED(enum_members_free) struct enum_members choices = {0};
    if (column->encoding != DB_INDEX)
        return false;
    bool loses = enum_members_parse(column->type, &choices) < 0;
    for (size_t i = 0; choices.set && i < choices.count; i++)
        loses |= choices.lengths[i] == 0;
    return loses;
}

/* `key`: the definition of a key in parentheses, or "". */
static void copy_sql(struct buf *sql, const struct db_copy *copy, const char *key)
{
    const struct db_table *t = copy->t;
    const char *comma = "";
    buf_printf(sql, "CREATE TEMPORARY TABLE %s %s ENGINE=%s SELECT %s", copy->name, key,
               t->memory ? "MEMORY" : "MyISAM", copy->passes_by ? "HIGH_PRIORITY " : "");
    for (size_t i = 0; i < t->column_count; i++) {
        const struct db_column *column = &t->columns[i];
        if (column->generated)
            continue;
        buf_adds(sql, comma);
        comma = ",";
        /* The alias is the column's own name: a number is read like the SET that it represents. */
        bool number = loses_members(column);
        buf_adds(sql, number ? "CAST(" : "");
        sql_ident(sql, column->name);
        buf_adds(sql, number ? " AS UNSIGNED) AS " : "");
        if (number)
            sql_ident(sql, column->name);
    }
    buf_adds(sql, " FROM ");
    sql_ident(sql, t->name);
    buf_adds(sql, " " DB_ONLY_TABLE);
    buf_adds(sql, copy->rest);
}

/* Reads the table's primary key: "(PRIMARY KEY (`a`,`b`(10)))", or nothing if it has none. */
static int read_own_key(struct db_copier *c, const struct db_copy *copy, struct buf *out,
                        struct err *e)
{
    struct db_rows *r = db_select_with(
        c->db, "nU",
        "SELECT COLUMN_NAME, SUB_PART FROM information_schema.STATISTICS WHERE "
        "TABLE_SCHEMA=DATABASE() AND TABLE_NAME=? AND INDEX_NAME='PRIMARY' ORDER BY SEQ_IN_INDEX",
        DB_ARGS(copy->t->name), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        buf_adds(out, out->len ? "," : "(PRIMARY KEY (");
        sql_ident(out, db_text(r, 0));
        if (db_uint(r, 1))
            buf_printf(out, "(%" PRIu64 ")", db_uint(r, 1));
    }
    db_rows_end(r);
    buf_adds(out, out->len ? "))" : "");
    return got;
}

static int copy_with_key(struct db_copier *c, const struct db_copy *copy, const char *key,
                         struct err *e)
{
    /* Only few sizes are used, because setting one costs a round trip. */
    uint64_t limit = number_doubled(LIMIT_MIN, number_sum(copy->bytes, copy->bytes / 4), LIMIT_MAX);
    SCOPED(buf_free) struct buf sql = {0};
    int rc;
    copy_sql(&sql, copy, key);
    do {
        rc = 0;
        if (copy->t->memory && c->limit != limit)
            rc = db_execf(c->db, e, "SET SESSION max_heap_table_size=%" PRIu64, limit);
        if (rc == 0 && copy->t->memory)
            c->limit = limit;
        rc = rc < 0 ? rc : db_exec_len(c->db, sql.p, sql.len, e);
        limit = number_product(limit, LIMIT_GROWS);
    } while (rc < 0 && e->num == DB_TABLE_FULL && copy->t->memory && limit <= LIMIT_MAX);
    return rc;
}

int db_copy_make(struct db_copier *c, const struct db_copy *copy, struct err *e)
{
    SCOPED(buf_free) struct buf own = {0};
    struct err why = {0};
    if (!c->keyed)
        return copy_with_key(c, copy, "", e);
    int rc = copy_with_key(c, copy, "(`" DB_OWN_PREFIX "key` SERIAL PRIMARY KEY)", &why);
    if (rc == 0)
        return 0;
    if (why.num != DB_ROW_TOO_LONG && why.num != DB_MANY_COLUMNS)
        return err_pass(e, &why);
    /* The table has no room for a further column, so the copy has the table's own key. */
    if (read_own_key(c, copy, &own, e) < 0)
        return -1;
    return own.len ? copy_with_key(c, copy, own.p, e) : err_pass(e, &why);
}
