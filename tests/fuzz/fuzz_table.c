/* Fuzzing of definitions of tables: what is taken is written without any comment and without what
 * could read another table, for either brand, and reads as the same again. */
#include <stdlib.h>
#include <string.h>

#include "scratch.h"
#include "sql/table.h"
#include "sql/token.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void judge_tokens(const char *s, size_t len, bool sequences)
{
    static const char *const never[] = {"select", "union", "directory", "load_file", "into", NULL};
    struct sql_text text = {.s = s, .end = s + len};
    struct sql_token t;
    int depth = 0;
    do {
        sql_next(&text, &t);
        demand(t.kind != SQL_BAD && t.kind != SQL_COMMENT && t.kind != SQL_VERSION);
        demand(t.kind != SQL_ENTER && t.kind != SQL_LEAVE);
        demand(!sql_is_punct(&t, ";") && !sql_is_punct(&t, "@"));
        demand(sequences || !sql_is_punct(&t, "."));
        for (const char *const *w = never; *w; w++)
            demand(!sql_is(&t, *w));
        depth += t.kind == SQL_OPEN;
        depth -= t.kind == SQL_CLOSE;
        demand(depth >= 0);
    } while (t.kind != SQL_END);
    demand(depth == 0);
}

static void write_as(struct buf *out, const struct sql_table *t, bool mariadb, bool unnamed)
{
    struct sql_table_how how = {.name = "t", .mariadb = mariadb, .unnamed_checks = unnamed};
    buf_clear(out);
    sql_table_write(out, t, &how);
    demand(strncmp(out->p, "CREATE TABLE `t` (\n  `", 22) == 0 && strlen(out->p) == out->len);
    judge_tokens(out->p, out->len, t->sequences);
}

static void judge(const struct sql_table *t, bool mariadb)
{
    struct sql_table again;
    struct buf first = {0}, second = {0};
    struct err e = {0};
    demand(t->name[0] && t->column_count > 0);
    write_as(&first, t, mariadb, false);
    demand(sql_table_read(first.p, first.len, 0, &again, &e) == 0);
    demand(again.column_count == t->column_count && again.key_count == t->key_count);
    demand(again.constraint_count == t->constraint_count);
    demand(again.auto_increment == t->auto_increment && strcmp(again.engine, t->engine) == 0);
    for (size_t i = 0; i < t->column_count; i++)
        demand(strcmp(again.columns[i].name, t->columns[i].name) == 0 &&
               strcmp(again.columns[i].type, t->columns[i].type) == 0);
    write_as(&second, &again, mariadb, false);
    demand(strcmp(first.p, second.p) == 0);
    write_as(&second, &again, mariadb, true);
    sql_table_free(&again);
    buf_free(&first);
    buf_free(&second);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct sql_table t;
    struct err e = {0};
    if (size == 0)
        return 0;
    bool plain = data[0] & 1;
    char *text = scratch_copy((const char *)data + 1, size - 1);
    if (sql_table_read(text, size - 1, plain, &t, &e) == 0) {
        judge(&t, true);
        judge(&t, false);
        sql_table_free(&t);
    } else {
        demand(e.cls == ERR_REFUSED && e.text[0] && e.hint[0]);
    }
    free(sql_table_engine(text, size - 1, plain));
    free(text);
    return 0;
}
