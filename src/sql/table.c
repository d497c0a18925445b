/* Reads and writes CREATE TABLE. Options and partitions are read in table_options.c. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/expression.h"
#include "sql/literal.h"
#include "sql/table_options.h"

/* Returns whether an item of the list ends here. A rejection also ends it. */
static bool at_end(const struct reader *r)
{
    return r->t.kind == SQL_CLOSE || r->t.kind == SQL_END || r->t.kind == SQL_BAD ||
           sql_is_punct(&r->t, ",");
}

/* Columns */

/* Reads a type: "varchar(20)", "enum('a','b')", "int(10) unsigned zerofill". */
static void read_type(struct reader *r, struct buf *out)
{
    static const struct {
        const char *names;
        size_t most; /* maximum number of parameters */
    } types[] = {
        {"bool boolean date tinyblob mediumblob longblob tinytext mediumtext longtext json uuid "
         "inet4 inet6 geometry point linestring polygon multipoint multilinestring multipolygon "
         "geometrycollection geomcollection",
         0},
        {"tinyint smallint mediumint int integer bigint bit datetime timestamp time year char "
         "varchar binary varbinary blob text vector",
         1},
        {"float double real decimal numeric", 2},
        {"enum set", SIZE_MAX}};
    size_t i = 0, n = 0;
    while (i < 3 && !sql_find_word(types[i].names, r->t.s, r->t.len))
        i++;
    /* the members of an ENUM are data of the table, so their number is not limited */
    bool members = types[i].most == SIZE_MAX;
    reader_one_of(r, types[i].names, "the type", out);
    if (members || r->t.kind == SQL_OPEN) {
        reader_expect(r, SQL_OPEN, out);
        do {
            buf_adds(out, n ? "," : "");
            if (n++ == types[i].most || r->t.kind != (members ? SQL_STRING : SQL_NUMBER))
                reader_refuse(r, "the type's parameter");
            (members ? reader_string : reader_number)(r, out);
        } while (reader_punct(r, ","));
        reader_expect(r, SQL_CLOSE, out);
    }
    if (reader_word(r, "unsigned"))
        buf_adds(out, " unsigned");
    if (reader_word(r, "zerofill"))
        buf_adds(out, " zerofill");
}

/* Reads MariaDB's GENERATED ALWAYS AS ROW START, or END. */
static void read_row_end(struct reader *r, struct buf *out)
{
    reader_one_of(r, "START END", "the row's", out);
}

static void table_read_format(struct reader *r, struct buf *out)
{
    reader_one_of(r, "FIXED DYNAMIC DEFAULT", "the format", out);
}

/* The clauses after a column's type in the order in which they are written, each with its field
 * of struct sql_column. */
static const struct attribute {
    const char *words;
    read_fn *value; /* NULL if the clause is a flag */
    size_t field;
    enum sql_brand brand;
    bool equal; /* a "=" may precede the value */
} attributes[] = {
#define AT(member) .field = offsetof(struct sql_column, member)
    {"COMPRESSED", NULL, AT(compressed), SQL_MARIADB},
    {"CHARACTER SET", reader_letters, AT(charset)},
    {"COLLATE", reader_letters, AT(collation)},
    {"GENERATED ALWAYS AS ROW", read_row_end, AT(row_end)},
    {"GENERATED ALWAYS AS", expression_read, AT(generated)},
    {"NOT NULL", NULL, AT(not_null)},
    {"NULL", NULL, AT(null)},
    {"SRID", reader_number, AT(srid), SQL_MYSQL}, /* the same clause as the next one */
    {"REF_SYSTEM_ID", reader_number, AT(srid), SQL_MARIADB, true},
    {"INVISIBLE", NULL, AT(hidden)},
    {"WITHOUT SYSTEM VERSIONING", NULL, AT(unversioned), SQL_MARIADB},
    {"DEFAULT", expression_default, AT(fallback)},
    {"ON UPDATE", expression_now, AT(on_update)},
    {"AUTO_INCREMENT", NULL, AT(counter)},
    {"COMMENT", reader_string, AT(comment)},
    {"CHECK", expression_read, AT(check)},
    {"COLUMN_FORMAT", table_read_format, AT(format), SQL_MYSQL},
    {"STORAGE", options_storage, AT(storage), SQL_MYSQL},
    {"ENGINE_ATTRIBUTE", reader_string, AT(attribute), SQL_MYSQL, true},
    {"SECONDARY_ENGINE_ATTRIBUTE", reader_string, AT(attribute2), SQL_MYSQL, true},
    {"NOT SECONDARY", NULL, AT(not_secondary), SQL_MYSQL},
#undef AT
};
#define ATTRIBUTES (sizeof attributes / sizeof *attributes)

static void read_attribute(struct reader *r, struct sql_column *c)
{
    const struct attribute *a = attributes, *end = a + ATTRIBUTES;
    while (a < end && !reader_word(r, a->words))
        a++;
    if (a == end) {
        reader_refuse(r, "of a column");
        return;
    }
    void *field = (char *)c + a->field; /* type bool or char *, depending on a->value */
    if (!a->value) {
        *(bool *)field = true;
        return;
    }
    if (a->equal)
        reader_punct(r, "=");
    reader_text(r, a->value, field);
    if (a->value == expression_read && field == &c->generated) {
        c->stored = reader_word(r, "STORED") || reader_word(r, "PERSISTENT");
        if (!c->stored)
            reader_word(r, "VIRTUAL");
    }
}

static void read_column(struct reader *r, struct sql_table *t)
{
    t->columns = xgrow(t->columns, t->column_count, sizeof *t->columns);
    struct sql_column *c = &t->columns[t->column_count++];
    *c = (struct sql_column){0};
    reader_text(r, reader_name, &c->name);
    reader_text(r, read_type, &c->type);
    while (!at_end(r))
        read_attribute(r, c);
}

/* Keys */

/* Reads "`a`(10) DESC", or an expression in parentheses. */
static void read_key_part(struct reader *r, struct sql_key *k)
{
    k->parts = xgrow(k->parts, k->part_count, sizeof *k->parts);
    struct sql_key_part *p = &k->parts[k->part_count++];
    *p = (struct sql_key_part){0};
    if (r->t.kind == SQL_OPEN) {
        reader_text(r, expression_read, &p->expression);
    } else {
        reader_text(r, reader_name, &p->name);
        if (reader_token(r, SQL_OPEN)) {
            reader_text(r, reader_number, &p->length);
            reader_expect(r, SQL_CLOSE, NULL);
        }
    }
    p->no_overlaps = reader_word(r, "WITHOUT OVERLAPS");
    p->descending = reader_word(r, "DESC");
    if (!p->descending)
        reader_word(r, "ASC");
}

/* Reads the method of an index. It must not change, because a HASH index of a MEMORY table
 * cannot find ranges. */
static void read_method(struct reader *r, struct buf *out)
{
    reader_one_of(r, "BTREE HASH RTREE", "the method", out);
}

/* Reads one clause after the parts of a key. */
static void read_key_option(struct reader *r, struct sql_key *k, struct buf *options)
{
    if (reader_word(r, "USING")) {
        reader_text(r, read_method, &k->method);
    } else if (reader_word(r, "COMMENT")) {
        reader_text(r, reader_string, &k->comment);
    } else if (reader_word(r, "WITH PARSER")) {
        reader_text(r, reader_name, &k->parser);
    } else if (reader_word(r, "INVISIBLE") || reader_word(r, "IGNORED")) {
        k->hidden = true;
    } else if (reader_word(r, "SECONDARY_ENGINE_ATTRIBUTE")) {
        reader_punct(r, "=");
        reader_text(r, reader_string, &k->attribute2);
    } else if (reader_word(r, "KEY_BLOCK_SIZE")) {
        reader_punct(r, "=");
        buf_adds(options, " KEY_BLOCK_SIZE=");
        reader_number(r, options);
    } else { /* MariaDB's options of vector keys, which it quotes, and options of RocksDB */
        buf_addc(options, ' ');
        reader_named_one_of(r, "M DISTANCE CLUSTERING", "of a key", options);
        if (!reader_punct(r, "="))
            reader_refuse(r, NULL);
        buf_addc(options, '=');
        options_engine_value(r, "euclidean cosine YES NO", options);
    }
}

/* Reads "`name` USING … (parts) options". */
static void table_read_key(struct reader *r, struct sql_table *t, const char *kind)
{
    struct buf options = {0};
    t->keys = xgrow(t->keys, t->key_count, sizeof *t->keys);
    struct sql_key *k = &t->keys[t->key_count++];
    *k = (struct sql_key){.kind = kind};
    if (strcmp(kind, "PRIMARY KEY") != 0 && r->t.kind != SQL_OPEN && !reader_at(r, "USING"))
        reader_text(r, reader_name, &k->name);
    if (reader_word(r, "USING"))
        reader_text(r, read_method, &k->method);
    reader_expect(r, SQL_OPEN, NULL);
    do
        read_key_part(r, k);
    while (reader_punct(r, ","));
    reader_expect(r, SQL_CLOSE, NULL);
    while (!at_end(r))
        read_key_option(r, k, &options);
    k->options = reader_own(r, options.p ? options.p : xstrdup(""));
}

/* Constraints */

/* Reads a foreign key. A reference to another schema is rejected, because that schema is not
 * part of the world. */
static void read_foreign(struct reader *r, struct buf *out)
{
    static const char *const reactions[] = {"SET NULL", "SET DEFAULT", "NO ACTION",
                                            "CASCADE",  "RESTRICT",    NULL};
    buf_adds(out, "FOREIGN KEY ");
    if (r->t.kind != SQL_OPEN)
        reader_identifier(r, out);
    reader_identifiers(r, out);
    reader_need(r, "REFERENCES");
    buf_adds(out, " REFERENCES ");
    reader_identifier(r, out);
    if (sql_is_punct(&r->t, "."))
        reader_refuse_text(r, "a foreign key to", "another schema", 14);
    buf_addc(out, ' ');
    reader_identifiers(r, out);
    while (reader_word(r, "ON")) {
        bool deleted = reader_word(r, "DELETE");
        if (!deleted)
            reader_need(r, "UPDATE");
        const char *const *reaction = reactions;
        while (*reaction && !reader_word(r, *reaction))
            reaction++;
        if (!*reaction)
            reader_refuse(r, NULL);
        else
            buf_printf(out, " ON %s %s", deleted ? "DELETE" : "UPDATE", *reaction);
    }
}

/* Reads a period, whose name is SYSTEM_TIME or chosen by the application. */
static void read_period(struct reader *r, struct buf *out)
{
    buf_adds(out, "PERIOD FOR ");
    if (reader_word(r, "SYSTEM_TIME"))
        buf_adds(out, "SYSTEM_TIME");
    else
        reader_identifier(r, out);
    buf_addc(out, ' ');
    reader_identifiers(r, out);
}

/* Reads "CONSTRAINT `name` FOREIGN KEY …", "… CHECK (…)", or MariaDB's "PERIOD FOR …". */
static void read_constraint(struct reader *r, struct sql_table *t)
{
    t->constraints = xgrow(t->constraints, t->constraint_count, sizeof *t->constraints);
    struct sql_constraint *c = &t->constraints[t->constraint_count++];
    *c = (struct sql_constraint){0};
    if (reader_word(r, "PERIOD FOR")) {
        reader_text(r, read_period, &c->period);
        return;
    }
    if (reader_word(r, "CONSTRAINT"))
        reader_text(r, reader_name, &c->name);
    if (reader_word(r, "FOREIGN KEY")) {
        reader_text(r, read_foreign, &c->foreign);
    } else if (reader_word(r, "CHECK")) {
        reader_text(r, expression_read, &c->check);
        c->not_enforced = reader_word(r, "NOT ENFORCED");
    } else {
        reader_refuse(r, "the constraint");
    }
}

/* Reads an item of the list. The words are reserved, so a column with such a name would be
 * quoted. PERIOD and VECTOR are not reserved. */
static void table_read_item(struct reader *r, struct sql_table *t)
{
    static const char *const keys[][2] = {
        {"PRIMARY", "PRIMARY KEY"},
        {"UNIQUE", "UNIQUE KEY"},
        {"FULLTEXT", "FULLTEXT KEY"},
        {"SPATIAL", "SPATIAL KEY"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (reader_word(r, keys[i][0])) {
            if (!reader_word(r, "KEY"))
                reader_need(r, "INDEX");
            table_read_key(r, t, keys[i][1]);
            return;
        }
    /* PERIOD alone may be a column's name; PERIOD FOR is the clause */
    if (reader_word(r, "VECTOR KEY"))
        table_read_key(r, t, "VECTOR KEY");
    else if (reader_word(r, "KEY") || reader_word(r, "INDEX"))
        table_read_key(r, t, "KEY");
    else if (reader_at(r, "CONSTRAINT") || reader_at(r, "CHECK") || reader_at(r, "FOREIGN") ||
             reader_at(r, "PERIOD FOR"))
        read_constraint(r, t);
    else
        read_column(r, t);
}

static struct sql_text table_text_of(const char *s, size_t len, unsigned modes)
{
    return (struct sql_text){.s = s,
                             .end = s + len,
                             .ansi_quotes = modes & SQL_ANSI_QUOTES,
                             .plain_strings = modes & SQL_PLAIN_STRINGS};
}

static void table_begin(struct reader *r, struct sql_table *out)
{
    *out = (struct sql_table){0};
    out->engine = reader_own(r, xstrdup(""));
    reader_next(r);
}

static void read_table_name(struct reader *r, unsigned modes, struct sql_table *out)
{
    reader_text(r, reader_name, &out->name);
    if ((modes & SQL_QUALIFIED) && reader_punct(r, "."))
        reader_text(r, reader_name, &out->name);
}

int sql_table_read(const char *create, size_t len, unsigned modes, struct sql_table *out,
                   struct err *e)
{
    struct reader r = {.text = table_text_of(create, len, modes), .of = out, .e = e};
    table_begin(&r, out);
    reader_need(&r, "CREATE TABLE");
    if (reader_at(&r, "IF"))
        reader_need(&r, "IF NOT EXISTS");
    read_table_name(&r, modes, out);
    reader_expect(&r, SQL_OPEN, NULL);
    do
        table_read_item(&r, out);
    while (reader_punct(&r, ","));
    reader_expect(&r, SQL_CLOSE, NULL);
    if (out->column_count == 0)
        reader_refuse(&r, "a table without columns:");
    options_read(&r, out);
    /* if anything was rejected, nothing of the table is returned */
    if (!r.refused)
        return 0;
    sql_table_free(out);
    return -1;
}

/* Reads a clause of ALTER TABLE. Returns true if it is an option, which the next one may follow
 * without a comma. Adding a column is rejected, because the server would choose its values in
 * existing rows. */
static bool read_clause(struct reader *r, struct sql_table *t)
{
    static const char *const added[] = {"PRIMARY", "UNIQUE",     "FULLTEXT", "SPATIAL", "KEY",
                                        "INDEX",   "CONSTRAINT", "CHECK",    "FOREIGN", NULL};
    if (reader_word(r, "ADD")) {
        const char *const *a = added;
        while (*a && !reader_at(r, *a))
            a++;
        if (*a || reader_at(r, "VECTOR KEY"))
            table_read_item(r, t);
        else
            reader_refuse(r, "ADD");
    } else if (reader_word(r, "MODIFY")) {
        reader_word(r, "COLUMN");
        read_column(r, t);
    } else {
        options_one(r, t);
        return true;
    }
    return false;
}

int sql_alter_read(const char *alter, size_t len, unsigned modes, struct sql_table *out,
                   struct err *e)
{
    struct reader r = {.text = table_text_of(alter, len, modes), .of = out, .e = e};
    table_begin(&r, out);
    reader_need(&r, "ALTER TABLE");
    read_table_name(&r, modes, out);
    do {
        bool option = read_clause(&r, out);
        if (!reader_punct(&r, ",") && r.t.kind != SQL_END && !option)
            reader_refuse(&r, NULL);
    } while (!r.refused && r.t.kind != SQL_END);
    if (!r.refused)
        return 0;
    sql_table_free(out);
    return -1;
}

/* Returns the table's engine. MySQL 4 wrote TYPE instead of ENGINE. */
char *sql_table_engine(const char *create, size_t len, unsigned modes)
{
    struct sql_text text = table_text_of(create, len, modes);
    struct sql_token t;
    struct buf engine = {0};
    unsigned named = 0, depth = 0;
    do {
        sql_next(&text, &t);
        /* a column may be named ENGINE, and partitions repeat the engine */
        depth += t.kind == SQL_OPEN;
        depth -= t.kind == SQL_CLOSE && depth;
        if (depth || (!sql_is(&t, "ENGINE") && !sql_is(&t, "TYPE")))
            continue;
        if (sql_next(&text, &t) == SQL_PUNCT)
            sql_next(&text, &t);
        named += sql_token_name(&t, &engine);
    } while (t.kind != SQL_END && t.kind != SQL_BAD && t.kind != SQL_VERSION);
    if (t.kind == SQL_END && named == 1)
        return engine.p;
    buf_free(&engine);
    return NULL;
}

const struct sql_column *sql_table_column(const struct sql_table *t, const char *name)
{
    for (size_t i = 0; i < t->column_count; i++)
        if (strcasecmp(t->columns[i].name, name) == 0)
            return &t->columns[i];
    return NULL;
}

bool sql_table_has_foreign(const struct sql_table *t)
{
    for (size_t i = 0; i < t->constraint_count; i++)
        if (t->constraints[i].foreign)
            return true;
    return false;
}

void sql_table_free(struct sql_table *t)
{
    for (size_t i = 0; i < t->key_count; i++)
        free(t->keys[i].parts);
    for (size_t i = 0; i < t->text_count; i++)
        free(t->texts[i]);
    free(t->columns);
    free(t->keys);
    free(t->constraints);
    free(t->options);
    free(t->texts);
    *t = (struct sql_table){0};
}

/* Writing */

/* Appends " word text" if there is a text. */
static void table_add(struct buf *out, const char *word, const char *text)
{
    if (text)
        buf_printf(out, " %s", word), buf_adds(out, text);
}

/* Appends a clause, preceded by a blank, if `is` is true. */
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
    for (const struct attribute *a = attributes; a < attributes + ATTRIBUTES; a++) {
        const void *field = (const char *)c + a->field;
        const char *text = a->value ? *(char *const *)field : NULL;
        if (a->brand == (mariadb ? SQL_MYSQL : SQL_MARIADB) ||
            !(a->value ? text != NULL : *(const bool *)field))
            continue;
        add_if(out, true, a->words);
        if (text) {
            buf_addc(out, a->equal ? '=' : ' ');
            buf_adds(out, text);
        }
        if (text && text == c->generated)
            buf_adds(out, c->stored ? " STORED" : " VIRTUAL");
    }
}

/* Writes a key. A primary key has no name, and its kind identifies it. */
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
    table_add(out, "USING ", k->method);
    buf_adds(out, k->options);
    if (k->parser) {
        buf_adds(out, " WITH PARSER ");
        sql_ident(out, k->parser);
    }
    table_add(out, "COMMENT ", k->comment);
    add_if(out, k->hidden, mariadb ? "IGNORED" : "INVISIBLE");
    table_add(out, "SECONDARY_ENGINE_ATTRIBUTE=", mariadb ? NULL : k->attribute2);
}

/* Writes a constraint. On MySQL the name of a CHECK is unique in its schema, and while a shadow
 * table exists, the live table has the name. */
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

static bool table_knows(const struct sql_option *o, const struct sql_table_how *how)
{
    return o->brand != (how->mariadb ? SQL_MYSQL : SQL_MARIADB);
}

static void write_option(struct buf *out, const struct sql_option *o)
{
    add_if(out, strcmp(o->name, "CHARSET") == 0, "DEFAULT"); /* as in SHOW CREATE TABLE */
    buf_printf(out, " %s%s", o->name, o->value ? "=" : "");
    buf_adds(out, o->value ? o->value : "");
}

void sql_alter_write(struct buf *out, const struct sql_table *t, const struct sql_table_how *how)
{
    size_t n = 0;
    for (size_t i = 0; i < t->column_count; i++) {
        buf_adds(out, n++ ? ", MODIFY " : " MODIFY ");
        write_column(out, &t->columns[i], how->mariadb);
    }
    for (size_t i = 0; i < t->key_count; i++) {
        buf_adds(out, n++ ? ", ADD " : " ADD ");
        write_key(out, &t->keys[i], how->mariadb);
    }
    for (size_t i = 0; i < t->constraint_count; i++) {
        buf_adds(out, n++ ? ", ADD " : " ADD ");
        write_constraint(out, &t->constraints[i], how);
    }
    for (size_t i = 0; i < t->option_count; i++)
        if (table_knows(&t->options[i], how)) {
            buf_adds(out, n++ ? "," : "");
            write_option(out, &t->options[i]);
        }
}

void sql_table_write(struct buf *out, const struct sql_table *t, const struct sql_table_how *how)
{
    /* the first column opens the parenthesis; there is always at least one */
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
    for (size_t i = 0; i < t->option_count; i++)
        if (table_knows(&t->options[i], how))
            write_option(out, &t->options[i]);
    if (t->partitions) {
        buf_addc(out, '\n');
        buf_adds(out, t->partitions);
    }
}
