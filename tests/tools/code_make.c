/* code_make: creates definitions with src/restore/code.h on a real server, for the system tests.
 *
 *   code_make SOCKET USER SCHEMA <cases
 *
 * A case is a line of statements in hexadecimal digits, separated by blanks. An answer is a line:
 * "refused" (nothing was sent), "failed" (the server did not accept it), or "made KIND"; and "WRONG
 * …" if the schema then has anything else than the one object of that kind and name. What was made
 * is dropped again. Tables stay. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql/objects.h"
#include "mysql/schema.h"
#include "restore/code.h"
#include "restore/code_make.h"
#include "restore/result.h"
#include "restore/running.h"
#include "sql/literal.h"

static struct db *db;
static const char *schema;

static void note_line(struct code *c, char *line)
{
    for (char *word = strtok(line, " \n"); word; word = strtok(NULL, " \n")) {
        struct buf b = {0};
        unsigned byte;
        buf_adds(&b, "");
        for (; sscanf(word, "%2x", &byte) == 1 && word[1]; word += 2)
            buf_addc(&b, (char)byte);
        code_note(c, b.p, b.len);
        buf_free(&b);
    }
}

/* Drops everything in the schema except tables. Returns how many objects there were. *want: `d` was
 * one of them. */
static size_t sweep(const struct definition *d, bool *want)
{
    static const enum definition_kind kinds[] = {
        DEFINITION_TRIGGER, DEFINITION_VIEW,    DEFINITION_FUNCTION,     DEFINITION_PROCEDURE,
        DEFINITION_EVENT,   DEFINITION_LIBRARY, DEFINITION_PACKAGE_BODY, DEFINITION_PACKAGE};
    size_t found = 0;
    struct err e;
    *want = false;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        struct names names;
        if (db_names(db, schema, kinds[i], &names, &e) < 0) {
            fprintf(stderr, "%s\n", e.text);
            exit(1);
        }
        for (size_t n = 0; n < names.count; n++) {
            struct buf b = {0};
            found++;
            *want |= d && kinds[i] == d->kind && strcmp(names.list[n], d->name.p) == 0;
            buf_printf(&b, "DROP %s ", definition_kind_words(kinds[i]));
            sql_ident(&b, names.list[n]);
            /* MariaDB 10.11 knows the word PACKAGE in this mode only. */
            if ((kinds[i] == DEFINITION_PACKAGE || kinds[i] == DEFINITION_PACKAGE_BODY) &&
                db_exec(db, "SET sql_mode='ORACLE'", &e) < 0)
                printf("WRONG %s; ", e.text);
            if (db_exec_len(db, b.p, b.len, &e) < 0 || db_reset_session(db, &e) < 0)
                printf("WRONG %s: %s; ", b.p, e.text);
            buf_free(&b);
        }
        names_free(&names);
    }
    return found;
}

static void one_case(char *line)
{
    static const struct restore_options opt;
    struct restore_result out = {0};
    struct restore r = {
        .db = db, .schema = schema, .opt = &opt, .out = &out, .code_case = {.with_code = true}};
    struct code *c = &r.code;
    note_line(c, line);
    bool sent = false, want = true;
    for (size_t i = 0; i < c->count; i++)
        sent |= !c->list[i].refused;
    if (!sent) {
        puts("refused");
    } else {
        struct err e;
        if (code_restore(&r, &e) < 0)
            printf("WRONG %s; ", e.text);
        const struct definition *d = out.code.made ? &c->list[c->count - 1].d : NULL;
        size_t found = sweep(d, &want);
        if (found != out.code.made || (d && !want))
            printf("WRONG: %zu made, %zu found, last %s\n", out.code.made, found,
                   d ? d->name.p : "none");
        else
            printf(d ? "made %s\n" : "failed\n", d ? definition_kind_name(d->kind) : "");
    }
    restore_result_free(&out);
    code_free(c);
}

int main(int argc, char **argv)
{
    struct err e;
    char *line = NULL;
    size_t room = 0;
    if (argc != 4)
        return 2;
    schema = argv[3];
    struct db_params p = {.socket = argv[1], .user = argv[2], .schema = schema};
    if (!(db = db_open(&p, &e))) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    }
    while (getline(&line, &room, stdin) > 0)
        one_case(line);
    free(line);
    db_close(db);
    return 0;
}
