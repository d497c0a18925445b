#include "sql/table_options.h"

#include <stdlib.h>
#include <string.h>

#include "sql/expression.h"

/* Reads an engine. The list contains engines that store their own rows in the server's own
 * directories. HEAP is another name of MEMORY. */
static void read_engine(struct reader *r, struct buf *out)
{
    SCOPED(buf_free) struct buf name = {0};
    reader_named_one_of(r, "MEMORY HEAP InnoDB MyISAM Aria CSV ARCHIVE BLACKHOLE ROCKSDB", "engine",
                        &name);
    if (name.p)
        buf_adds(out, strcmp(name.p, "HEAP") == 0 ? "MEMORY" : name.p);
}

void options_storage(struct reader *r, struct buf *out)
{
    reader_one_of(r, "DISK MEMORY DEFAULT", "the storage", out);
}

static void row_format(struct reader *r, struct buf *out)
{
    reader_one_of(r, "DEFAULT DYNAMIC FIXED COMPRESSED REDUNDANT COMPACT PAGE TOKUDB_ZLIB",
                  "the row format", out);
}

/* Reads a number or DEFAULT. Servers write both. */
static void number_or_default(struct reader *r, struct buf *out)
{
    if (reader_word(r, "DEFAULT"))
        buf_adds(out, "DEFAULT");
    else
        reader_number(r, out);
}

/* Reads a size such as "16777216" or "4M". */
static void table_options_read_size(struct reader *r, struct buf *out)
{
    size_t digits = 0;
    while (digits < r->t.len && r->t.s[digits] >= '0' && r->t.s[digits] <= '9')
        digits++;
    bool unit = digits + 1 == r->t.len && strchr("KMGkmg", r->t.s[digits]);
    if (digits && (unit || digits == r->t.len))
        reader_expect(r, r->t.kind, out);
    else
        reader_refuse(r, "the size");
}

static bool is_digits(const char *s, size_t len)
{
    size_t n = 0;
    while (n < len && s[n] >= '0' && s[n] <= '9')
        n++;
    return len && n == len;
}

void options_engine_value(struct reader *r, const char *words, struct buf *out)
{
    const char *inside = r->t.s + 1;
    if (r->t.kind == SQL_NUMBER)
        reader_number(r, out);
    else if (r->t.kind == SQL_STRING &&
             (is_digits(inside, r->t.len - 2) || sql_find_word(words, inside, r->t.len - 2)))
        reader_string(r, out);
    else
        reader_one_of(r, words, "the value", out);
}

static void engine_switch(struct reader *r, struct buf *out)
{
    options_engine_value(r, "YES NO ON OFF DEFAULT", out);
}

static void engine_number(struct reader *r, struct buf *out)
{
    options_engine_value(r, "DEFAULT", out);
}

/* The accepted options. UNION, SECONDARY_ENGINE and directories are missing deliberately.
 * CONNECTION has no effect in the listed engines. */
static const struct known_option {
    const char *name;
    read_fn *value;
    enum sql_brand brand;
} known_options[] = {
    {"AUTO_INCREMENT", reader_number, SQL_BOTH},
    {"AUTOEXTEND_SIZE", table_options_read_size, SQL_MYSQL},
    {"AVG_ROW_LENGTH", reader_number, SQL_BOTH},
    {"CHARSET", reader_letters, SQL_BOTH},
    {"CHECKSUM", reader_number, SQL_BOTH},
    {"CONNECTION", reader_string, SQL_BOTH},
    {"COLLATE", reader_letters, SQL_BOTH},
    {"COMMENT", reader_string, SQL_BOTH},
    {"COMPRESSION", reader_string, SQL_MYSQL},
    {"DELAY_KEY_WRITE", reader_number, SQL_BOTH},
    {"ENCRYPTED", engine_switch, SQL_MARIADB},
    {"ENCRYPTION", reader_string, SQL_MYSQL},
    {"ENCRYPTION_KEY_ID", engine_number, SQL_MARIADB},
    {"ENGINE_ATTRIBUTE", reader_string, SQL_MYSQL},
    {"IETF_QUOTES", engine_switch, SQL_MARIADB},
    {"KEY_BLOCK_SIZE", reader_number, SQL_BOTH},
    {"MAX_ROWS", reader_number, SQL_BOTH},
    {"MIN_ROWS", reader_number, SQL_BOTH},
    {"PACK_KEYS", number_or_default, SQL_BOTH},
    {"PAGE_CHECKSUM", reader_number, SQL_MARIADB},
    {"PAGE_COMPRESSED", engine_switch, SQL_MARIADB},
    {"PAGE_COMPRESSION_LEVEL", engine_number, SQL_MARIADB},
    {"ROW_FORMAT", row_format, SQL_BOTH},
    {"SECONDARY_ENGINE_ATTRIBUTE", reader_string, SQL_MYSQL},
    {"STATS_AUTO_RECALC", number_or_default, SQL_BOTH},
    {"STATS_PERSISTENT", number_or_default, SQL_BOTH},
    {"STATS_SAMPLE_PAGES", number_or_default, SQL_BOTH},
    {"STORAGE", options_storage, SQL_MYSQL},
    {"TABLESPACE", reader_identifier, SQL_MYSQL},
    {"TABLE_CHECKSUM", reader_number, SQL_MARIADB},
    {"TRANSACTIONAL", reader_number, SQL_MARIADB},
};

/* Appends an option. The writer keeps the order in which options were read. */
static struct sql_option *add_option(struct sql_table *t, const char *name)
{
    t->options = xgrow(t->options, t->option_count, sizeof *t->options);
    struct sql_option *o = &t->options[t->option_count++];
    *o = (struct sql_option){.name = name};
    return o;
}

/* Reads "NAME = value", where "=" may be missing. */
void options_one(struct reader *r, struct sql_table *t)
{
    size_t n = sizeof known_options / sizeof *known_options;
    const struct known_option *k = known_options;
    reader_punct(r, ",");
    reader_word(r, "DEFAULT");
    if (reader_word(r, "ENGINE")) {
        reader_punct(r, "=");
        if (t->engine[0]) /* ambiguous, because it is unclear which one the server would use */
            reader_refuse(r, "a second engine");
        reader_text(r, read_engine, &t->engine);
        add_option(t, "ENGINE")->value = t->engine;
    } else if (reader_word(r, "CHARACTER SET")) {
        reader_punct(r, "=");
        reader_text(r, reader_letters, &add_option(t, "CHARSET")->value);
    } else if (reader_word(r, "WITH SYSTEM VERSIONING")) {
        add_option(t, "WITH SYSTEM VERSIONING")->brand = SQL_MARIADB;
    } else {
        while (k < known_options + n && !reader_names(r, k->name))
            k++;
        if (k == known_options + n) {
            reader_refuse(r, "option");
            return;
        }
        reader_next(r);
        reader_punct(r, "=");
        struct sql_option *o = add_option(t, k->name);
        o->brand = k->brand;
        reader_text(r, k->value, &o->value);
        if (strcmp(k->name, "AUTO_INCREMENT") == 0)
            t->auto_increment = strtoull(o->value, NULL, 10);
    }
}

/* Partitions */

/* Reads "KEY ALGORITHM = 2 (columns)". Without columns it partitions by the whole primary key. */
static void read_key_way(struct reader *r, struct buf *out)
{
    buf_adds(out, "KEY ");
    if (reader_word(r, "ALGORITHM")) {
        buf_adds(out, "ALGORITHM = ");
        if (!reader_punct(r, "="))
            reader_refuse(r, NULL);
        reader_number(r, out);
        buf_addc(out, ' ');
    }
    if (r->t.kind != SQL_OPEN || reader_peek(r).kind != SQL_CLOSE) {
        reader_identifiers(r, out);
    } else {
        reader_expect(r, SQL_OPEN, out);
        reader_expect(r, SQL_CLOSE, out);
    }
}

/* Reads MariaDB's "SYSTEM_TIME INTERVAL 1 DAY STARTS TIMESTAMP'…' AUTO" or "SYSTEM_TIME LIMIT
 * 1000". */
static void read_system_time(struct reader *r, struct buf *out)
{
    buf_adds(out, "SYSTEM_TIME");
    if (reader_word(r, "INTERVAL")) {
        buf_adds(out, " INTERVAL ");
        reader_number(r, out);
        buf_addc(out, ' ');
        reader_one_of(r, "MICROSECOND SECOND MINUTE HOUR DAY WEEK MONTH QUARTER YEAR", "the unit",
                      out);
        if (reader_word(r, "STARTS")) {
            buf_adds(out, " STARTS TIMESTAMP");
            reader_word(r, "TIMESTAMP");
            expression_literal(r, out);
        }
    } else if (reader_word(r, "LIMIT")) {
        buf_adds(out, " LIMIT ");
        reader_number(r, out);
    }
    if (reader_word(r, "AUTO"))
        buf_adds(out, " AUTO");
}

/* Reads "LINEAR HASH (expression)", "RANGE COLUMNS (`a`)" and so on. */
static void read_way(struct reader *r, struct buf *out)
{
    if (reader_word(r, "SYSTEM_TIME")) {
        read_system_time(r, out);
        return;
    }
    if (reader_word(r, "LINEAR"))
        buf_adds(out, "LINEAR ");
    if (reader_word(r, "KEY")) {
        read_key_way(r, out);
        return;
    }
    reader_one_of(r, "HASH RANGE LIST", "the partitioning", out);
    if (reader_word(r, "COLUMNS")) {
        buf_adds(out, " COLUMNS ");
        reader_identifiers(r, out);
    } else {
        buf_addc(out, ' ');
        expression_read(r, out);
    }
}

/* Reads the options after a partition's name and values. Directories are not accepted. */
static void read_partition_options(struct reader *r, struct buf *out)
{
    static const struct {
        const char *name;
        read_fn *value;
    } options[] = {{"ENGINE", read_engine},           {"COMMENT", reader_string},
                   {"TABLESPACE", reader_identifier}, {"MAX_ROWS", reader_number},
                   {"MIN_ROWS", reader_number},       {"NODEGROUP", reader_number}};
    size_t n = sizeof options / sizeof *options, i;
    do {
        /* "STORAGE ENGINE" means the same as ENGINE */
        reader_word(r, "STORAGE");
        for (i = 0; i < n && !reader_word(r, options[i].name);)
            i++;
        if (i < n) {
            reader_punct(r, "=");
            buf_printf(out, " %s = ", options[i].name);
            options[i].value(r, out);
        }
    } while (i < n);
}

/* Reads a list of partitions or subpartitions, which have the same form. */
static void read_list(struct reader *r, struct buf *out, read_fn *item)
{
    buf_adds(out, "\n ");
    reader_expect(r, SQL_OPEN, out);
    item(r, out);
    while (reader_punct(r, ",")) {
        buf_adds(out, ",\n ");
        item(r, out);
    }
    reader_expect(r, SQL_CLOSE, out);
}

static void read_subpartition(struct reader *r, struct buf *out)
{
    reader_need(r, "SUBPARTITION");
    buf_adds(out, "SUBPARTITION ");
    reader_identifier(r, out);
    read_partition_options(r, out);
}

/* Reads "PARTITION `p` VALUES … options (subpartitions)". DEFAULT, HISTORY and CURRENT exist
 * only in MariaDB. */
static void read_partition(struct reader *r, struct buf *out)
{
    reader_need(r, "PARTITION");
    buf_adds(out, "PARTITION ");
    reader_identifier(r, out);
    if (reader_word(r, "VALUES LESS THAN")) {
        buf_adds(out, " VALUES LESS THAN ");
        if (reader_word(r, "MAXVALUE"))
            buf_adds(out, "MAXVALUE");
        else
            expression_read(r, out);
    } else if (reader_word(r, "VALUES")) {
        reader_need(r, "IN");
        buf_adds(out, " VALUES IN ");
        expression_read(r, out);
    } else if (reader_at(r, "DEFAULT") || reader_at(r, "HISTORY") || reader_at(r, "CURRENT")) {
        buf_addc(out, ' ');
        reader_one_of(r, "DEFAULT HISTORY CURRENT", NULL, out);
    }
    read_partition_options(r, out);
    if (r->t.kind == SQL_OPEN)
        read_list(r, out, read_subpartition);
}

/* Reads the number of partitions. If it is missing, the list of partitions determines it. */
static void read_count(struct reader *r, struct buf *out, const char *word)
{
    if (!reader_word(r, word))
        return;
    buf_printf(out, "\n%s ", word);
    reader_number(r, out);
}

/* Reads "PARTITION BY …" to the end of the definition. */
static void read_partitions(struct reader *r, struct buf *out)
{
    reader_need(r, "PARTITION BY");
    buf_adds(out, "PARTITION BY ");
    read_way(r, out);
    read_count(r, out, "PARTITIONS");
    if (reader_word(r, "SUBPARTITION BY")) {
        buf_adds(out, "\nSUBPARTITION BY ");
        read_way(r, out);
        read_count(r, out, "SUBPARTITIONS");
    }
    if (r->t.kind == SQL_OPEN)
        read_list(r, out, read_partition);
    /* partitions are the last clause, so nothing may follow them */
    if (r->t.kind != SQL_END)
        reader_refuse(r, "option");
}

void options_read(struct reader *r, struct sql_table *t)
{
    while (r->t.kind != SQL_END && !r->refused) {
        if (reader_at(r, "PARTITION"))
            reader_text(r, read_partitions, &t->partitions);
        else
            options_one(r, t);
    }
    /* Without ENGINE the server uses its default engine, in which CONNECTION may have an effect. */
    for (size_t i = 0; i < t->option_count; i++)
        if (!t->engine[0] && strcmp(t->options[i].name, "CONNECTION") == 0)
            reader_refuse_text(r, "without an engine, option", "CONNECTION", 10);
}
