/* Writer of CREATE TABLE from the structure. */
#include <string.h>

#include "sql/literal.h"
#include "sql/table.h"

/* Appends " word text" if there is a text. */
static void add(struct buf *out, const char *word, const char *text)
{
    if (text)
        buf_printf(out, " %s", word), buf_adds(out, text);
}

/* Each clause begins with its blank. */
static void add_if(struct buf *out, bool is, const char *words)
{
    if (is)
        buf_printf(out, " %s", words);
}

static void write_column(struct buf *out, const struct sql_column *c, bool mariadb)
{
    sql_ident(out, c->name);
    buf_addc(out, ' ');
    buf_adds(out, c->type);
    add_if(out, c->compressed && mariadb, "COMPRESSED");
    add(out, "CHARACTER SET ", c->charset);
    add(out, "COLLATE ", c->collation);
    add(out, "GENERATED ALWAYS AS ROW ", c->row_end);
    add(out, "GENERATED ALWAYS AS ", c->generated);
    if (c->generated)
        buf_adds(out, c->stored ? " STORED" : " VIRTUAL");
    add_if(out, c->not_null, "NOT NULL");
    add_if(out, c->null, "NULL");
    /* the same thing by two names */
    if (!mariadb)
        add(out, "SRID ", c->srid);
    else
        add(out, "REF_SYSTEM_ID=", c->srid);
    add_if(out, c->hidden, "INVISIBLE");
    add_if(out, c->unversioned && mariadb, "WITHOUT SYSTEM VERSIONING");
    add(out, "DEFAULT ", c->fallback);
    add(out, "ON UPDATE ", c->on_update);
    add_if(out, c->counter, "AUTO_INCREMENT");
    add(out, "COMMENT ", c->comment);
    add(out, "CHECK ", c->check);
    if (mariadb)
        return;
    add(out, "COLUMN_FORMAT ", c->format);
    add(out, "STORAGE ", c->storage);
    add(out, "ENGINE_ATTRIBUTE ", c->attribute);
    add(out, "SECONDARY_ENGINE_ATTRIBUTE ", c->attribute2);
    add_if(out, c->not_secondary, "NOT SECONDARY");
}

/* A primary key has no name of its own, and its kind says so. */
static void write_key(struct buf *out, const struct sql_key *k, bool mariadb)
{
    buf_adds(out, k->kind);
    buf_addc(out, ' ');
    if (k->name)
        sql_ident(out, k->name);
    for (size_t i = 0; i < k->part_count; i++) {
        buf_adds(out, i ? "," : " (");
        if (k->parts[i].name)
            sql_ident(out, k->parts[i].name);
        else
            buf_adds(out, k->parts[i].expression);
        if (k->parts[i].length)
            buf_printf(out, "(%s)", k->parts[i].length);
        add_if(out, k->parts[i].no_overlaps, "WITHOUT OVERLAPS");
        add_if(out, k->parts[i].descending, "DESC");
    }
    buf_addc(out, ')');
    add(out, "USING ", k->method);
    buf_adds(out, k->options);
    if (k->parser) {
        buf_adds(out, " WITH PARSER ");
        sql_ident(out, k->parser);
    }
    add(out, "COMMENT ", k->comment);
    add_if(out, k->hidden, mariadb ? "IGNORED" : "INVISIBLE");
}

/* On MySQL the name of a CHECK is unique in its schema, and the live table beside a shadow table has it. */
static void write_constraint(struct buf *out, const struct sql_constraint *c,
                             const struct sql_table_how *how)
{
    if (c->period) {
        buf_adds(out, c->period);
        return;
    }
    if (c->name && !(c->check && how->unnamed_checks)) {
        buf_adds(out, "CONSTRAINT ");
        sql_ident(out, c->name);
        buf_addc(out, ' ');
    }
    buf_adds(out, c->check ? "CHECK " : "");
    buf_adds(out, c->check ? c->check : c->foreign);
    add_if(out, c->not_enforced && !how->mariadb, "NOT ENFORCED");
}

void sql_table_write(struct buf *out, const struct sql_table *t, const struct sql_table_how *how)
{
    /* the parenthesis opens with the first column, of which there is always one */
    size_t n = 0;
    buf_adds(out, how->temporary ? "CREATE TEMPORARY TABLE " : "CREATE TABLE ");
    sql_ident(out, how->name);
    for (size_t i = 0; i < t->column_count; i++) {
        buf_adds(out, n++ ? ",\n  " : " (\n  ");
        write_column(out, &t->columns[i], how->mariadb);
    }
    for (size_t i = 0; i < t->key_count; i++) {
        buf_adds(out, ",\n  ");
        write_key(out, &t->keys[i], how->mariadb);
    }
    for (size_t i = 0; i < t->constraint_count; i++) {
        buf_adds(out, ",\n  ");
        write_constraint(out, &t->constraints[i], how);
    }
    buf_adds(out, "\n)");
    /* What only the other brand knows is left out, as it would skip it in a version comment. */
    for (size_t i = 0; i < t->option_count; i++) {
        const struct sql_option *o = &t->options[i];
        if (how->mariadb ? o->mysql_only : o->mariadb_only)
            continue;
        add_if(out, strcmp(o->name, "CHARSET") == 0, "DEFAULT"); /* as SHOW CREATE TABLE has it */
        buf_printf(out, " %s%s", o->name, o->value ? "=" : "");
        buf_adds(out, o->value ? o->value : "");
    }
    if (t->partitions) {
        buf_addc(out, '\n');
        buf_adds(out, t->partitions);
    }
}
