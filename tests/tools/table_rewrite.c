/* Parses definitions of tables and writes them again, by the program's own code: for the system
 * tests and for the campaign against real servers. In a loop, reads "LENGTH BRAND\n" and LENGTH
 * bytes of CREATE TABLE, and prints "RESULT LENGTH\n" and then the statement to send (RESULT 0) or
 * the reason why not (1). A statement is followed by a NUL, and by the names of the table and its
 * columns, each with a NUL. BRAND is mysql or mariadb, with "-plain" for texts of
 * NO_BACKSLASH_ESCAPES. What was written must parse to the same definition again. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/table.h"

static void write_for(struct buf *out, const struct sql_table *t, bool mariadb)
{
    struct sql_table_how how = {.name = t->name, .mariadb = mariadb};
    buf_clear(out);
    sql_table_write(out, t, &how);
}

static void add_names(struct buf *out, const struct sql_table *t)
{
    buf_addc(out, '\0');
    buf_add(out, t->name, strlen(t->name) + 1);
    for (size_t i = 0; i < t->column_count; i++)
        buf_add(out, t->columns[i].name, strlen(t->columns[i].name) + 1);
}

static int rewrite(const char *text, size_t len, bool mariadb, bool plain, struct buf *out)
{
    struct err e = {0};
    struct sql_table t;
    struct buf again = {0};
    if (sql_table_read(text, len, plain, &t, &e) < 0) {
        buf_adds(out, e.text);
        return 1;
    }
    write_for(out, &t, mariadb);
    sql_table_free(&t);
    if (sql_table_read(out->p, out->len, 0, &t, &e) < 0) {
        fprintf(stderr, "not read again: %s\n%s\n", e.text, out->p);
        abort();
    }
    write_for(&again, &t, mariadb);
    if (strcmp(again.p, out->p) != 0) {
        fprintf(stderr, "not the same again:\n%s\n%s\n", out->p, again.p);
        abort();
    }
    add_names(out, &t);
    sql_table_free(&t);
    buf_free(&again);
    return 0;
}

int main(void)
{
    size_t len;
    char brand[20];
    while (scanf("%zu %19s", &len, brand) == 2 && getchar() == '\n') {
        char *text = malloc(len + 1);
        struct buf out = {0};
        if (!text || fread(text, 1, len, stdin) != len)
            return 1;
        buf_adds(&out, "");
        int rc = rewrite(text, len, strncmp(brand, "mariadb", 7) == 0,
                         strstr(brand, "-plain") != NULL, &out);
        printf("%d %zu\n", rc, out.len);
        fwrite(out.p, 1, out.len, stdout);
        fflush(stdout);
        buf_free(&out);
        free(text);
    }
    return 0;
}
