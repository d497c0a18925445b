/* Reader of CREATE TABLE: types, columns, keys and constraints. The rest is in table_options.c. */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/table_int.h"

/* Where an item of the list ends; a refusal ends it, too. */
static bool at_end(const struct reader *r)
{
    return r->t.kind == SQL_CLOSE || sql_is_punct(&r->t, ",") || r->t.kind == SQL_BAD;
}

/* Columns */

/* "varchar(20)", "enum('a','b')", "int(10) unsigned zerofill". */
static void read_type(struct reader *r, struct buf *out)
{
    static const struct {
        const char *names;
        size_t most; /* parameters */
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
    /* the members of an ENUM are data of the table: as many as there are */
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

/* MariaDB: GENERATED ALWAYS AS ROW START, or END. */
static void read_row_end(struct reader *r, struct buf *out)
{
    reader_one_of(r, "START END", "the row's", out);
}

static void read_format(struct reader *r, struct buf *out)
{
    reader_one_of(r, "FIXED DYNAMIC DEFAULT", "the format", out);
}

/* The clauses after a column's type, each with its field of struct sql_column. */
static const struct attribute {
    const char *words;
    read_fn *value; /* NULL: a flag */
    size_t field;
    bool equal; /* a "=" may precede the value */
} attributes[] = {
#define AT(field) offsetof(struct sql_column, field)
    {"NOT NULL", NULL, AT(not_null), false},
    {"NOT SECONDARY", NULL, AT(not_secondary), false},
    {"NULL", NULL, AT(null), false},
    {"AUTO_INCREMENT", NULL, AT(counter), false},
    {"INVISIBLE", NULL, AT(hidden), false},
    {"COMPRESSED", NULL, AT(compressed), false},
    {"WITHOUT SYSTEM VERSIONING", NULL, AT(unversioned), false},
    {"CHARACTER SET", reader_letters, AT(charset), false},
    {"COLLATE", reader_letters, AT(collation), false},
    {"GENERATED ALWAYS AS ROW", read_row_end, AT(row_end), false},
    {"GENERATED ALWAYS AS", expression_read, AT(generated), false},
    {"DEFAULT", expression_default, AT(fallback), false},
    {"ON UPDATE", expression_now, AT(on_update), false},
    {"COMMENT", reader_string, AT(comment), false},
    {"CHECK", expression_read, AT(check), false},
    {"SRID", reader_number, AT(srid), false},
    {"REF_SYSTEM_ID", reader_number, AT(srid), true},
    {"COLUMN_FORMAT", read_format, AT(format), false},
    {"STORAGE", options_storage, AT(storage), false},
    {"ENGINE_ATTRIBUTE", reader_string, AT(attribute), true},
    {"SECONDARY_ENGINE_ATTRIBUTE", reader_string, AT(attribute2), true},
#undef AT
};

static void read_attribute(struct reader *r, struct sql_column *c)
{
    const struct attribute *a = attributes, *end = a + sizeof attributes / sizeof *attributes;
    while (a < end && !reader_word(r, a->words))
        a++;
    if (a == end) {
        reader_refuse(r, "of a column");
        return;
    }
    void *field = (char *)c + a->field; /* bool or char *, as a->value says */
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

/* "`a`(10) DESC", or an expression in parentheses. */
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

/* Of MEMORY, where a HASH key finds no ranges: it has to stay what it was. */
static void read_method(struct reader *r, struct buf *out)
{
    reader_one_of(r, "BTREE HASH RTREE", "the method", out);
}

/* One clause after the parts of a key. */
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
    } else if (reader_word(r, "KEY_BLOCK_SIZE")) {
        reader_punct(r, "=");
        buf_adds(options, " KEY_BLOCK_SIZE=");
        reader_number(r, options);
    } else { /* MariaDB's options of vector keys, which it quotes, and of RocksDB */
        buf_addc(options, ' ');
        reader_named_one_of(r, "M DISTANCE CLUSTERING", "of a key", options);
        if (!reader_punct(r, "="))
            reader_refuse(r, NULL);
        buf_addc(options, '=');
        if (r->t.kind == SQL_NUMBER)
            reader_number(r, options);
        else
            reader_one_of(r, "euclidean cosine YES NO", "the value", options);
    }
}

/* "`name` USING … (parts) options" */
static void read_key(struct reader *r, struct sql_table *t, const char *kind)
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

/* A table of another schema is refused: it is not part of the world. */
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

/* The period's name is SYSTEM_TIME or the application's own. */
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

/* "CONSTRAINT `name` FOREIGN KEY …" or "… CHECK (…)", or MariaDB's "PERIOD FOR …". */
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

/* These are reserved words, which would be quoted as a column's name; except for PERIOD and
 * VECTOR. */
static void read_item(struct reader *r, struct sql_table *t)
{
    static const char *const keys[][2] = {
        {"PRIMARY KEY", "PRIMARY KEY"},
        {"PRIMARY INDEX", "PRIMARY KEY"},
        {"UNIQUE KEY", "UNIQUE KEY"},
        {"UNIQUE INDEX", "UNIQUE KEY"},
        {"FULLTEXT KEY", "FULLTEXT KEY"},
        {"FULLTEXT INDEX", "FULLTEXT KEY"},
        {"SPATIAL KEY", "SPATIAL KEY"},
        {"SPATIAL INDEX", "SPATIAL KEY"},
        {"VECTOR KEY", "VECTOR KEY"},
        {"KEY", "KEY"},
        {"INDEX", "KEY"},
    };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (reader_word(r, keys[i][0])) {
            read_key(r, t, keys[i][1]);
            return;
        }
    /* PERIOD may be a column: only PERIOD FOR is the clause */
    if (reader_at(r, "CONSTRAINT") || reader_at(r, "CHECK") || reader_at(r, "FOREIGN") ||
        reader_at(r, "PERIOD FOR"))
        read_constraint(r, t);
    else
        read_column(r, t);
}

int sql_table_read(const char *create, size_t len, bool plain_strings, struct sql_table *out,
                   struct err *e)
{
    struct reader r = {.text = {.s = create, .end = create + len, .plain_strings = plain_strings},
                       .of = out,
                       .e = e};
    *out = (struct sql_table){0};
    out->engine = reader_own(&r, xstrdup(""));
    reader_next(&r);
    reader_need(&r, "CREATE TABLE");
    if (reader_at(&r, "IF"))
        reader_need(&r, "IF NOT EXISTS");
    reader_text(&r, reader_name, &out->name);
    reader_expect(&r, SQL_OPEN, NULL);
    do
        read_item(&r, out);
    while (reader_punct(&r, ","));
    reader_expect(&r, SQL_CLOSE, NULL);
    if (out->column_count == 0)
        reader_refuse(&r, "a table without columns:");
    options_read(&r, out);
    /* whatever was refused, nothing of the table is given out */
    if (!r.refused)
        return 0;
    sql_table_free(out);
    return -1;
}

char *sql_table_engine(const char *create, size_t len, bool plain_strings)
{
    struct sql_text text = {.s = create, .end = create + len, .plain_strings = plain_strings};
    struct sql_token t;
    struct buf engine = {0};
    unsigned named = 0, depth = 0;
    do {
        sql_next(&text, &t);
        /* a column may be called ENGINE, and partitions name theirs again */
        depth += t.kind == SQL_OPEN;
        depth -= t.kind == SQL_CLOSE && depth;
        if (depth || !sql_is(&t, "ENGINE"))
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
