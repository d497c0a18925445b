#include "mysql/schema.h"

#include <string.h>

#include "sql/table.h"

/* A key with a generated column does not count, since tuples lack that column. */
static void read_key(struct db_table *t, const struct sql_key *k)
{
    t->key = xcalloc(k->part_count, sizeof *t->key);
    for (size_t i = 0; i < k->part_count; i++) {
        int place = k->parts[i].name ? db_tuple_place(t, k->parts[i].name) : -1;
        if (place < 0) {
            t->key_count = 0;
            return;
        }
        t->key[t->key_count++] = (unsigned)place;
    }
}

int db_create_table_read(const char *create, size_t len, bool mariadb, struct db_table *out)
{
    SCOPED(sql_table_free) struct sql_table t = {0};
    *out = (struct db_table){0};
    if (sql_table_read(create, len, false, &t, NULL) < 0)
        return -1;
    out->name = xstrdup(t.name);
    out->engine = xstrdup("");
    out->columns = xcalloc(t.column_count, sizeof *out->columns);
    for (size_t i = 0; i < t.column_count; i++) {
        struct db_column *c = &out->columns[out->column_count++];
        /* In information_schema MariaDB's compression is a part of the type. */
        *c = (struct db_column){
            .name = xstrdup(t.columns[i].name),
            .type = xasprintf("%s%s", t.columns[i].type,
                              t.columns[i].compressed ? " /*M!100301 COMPRESSED*/" : ""),
            .generated = t.columns[i].generated || t.columns[i].row_end,
            .counter = t.columns[i].counter,
        };
        c->encoding = db_encoding_of(c->type, mariadb);
        out->counts |= c->counter;
    }
    for (size_t i = 0; i < t.key_count; i++)
        if (strcmp(t.keys[i].kind, "PRIMARY KEY") == 0)
            read_key(out, &t.keys[i]);
    return 0;
}
