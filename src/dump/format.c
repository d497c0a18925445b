#include "dump/format.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/gunzip.h"
#include "mysql/rows.h"
#include "sql/literal.h"
#include "sql/token.h"

#define READ_CHUNK 262144u
/* Upper bound of a statement that we write, because no row exceeds the largest possible
 * max_allowed_packet. */
#define STATEMENT_MAX ((1u << 30) + FORMAT_STATEMENT)
#define CREATE_TABLE "CREATE TABLE "
/* Comment lines with a definition: its first line, a further one, the rest of the line before. */
#define COMMENT_FIRST "-- "
#define COMMENT_LINE "-- | "
#define COMMENT_MORE "-- + "
#define COMMENT_WIDTH 4096u

void format_header(struct buf *b, uint64_t heap_limit)
{
    buf_adds(b, FORMAT_MAGIC);
    buf_adds(b, "-- by hand: gunzip -c THIS.sql.gz | mysql SCHEMA\n"
                "SET NAMES binary;\n"
                "SET SESSION time_zone='+00:00', "
                "sql_mode='NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES', foreign_key_checks=0, "
                "unique_checks=0;\n");
    /* In MySQL, GREATEST() of these values is a decimal, which the variable does not accept. */
    buf_printf(
        b,
        "SET SESSION max_heap_table_size=CAST(GREATEST(@@SESSION.max_heap_table_size,%" PRIu64
        ") AS UNSIGNED);\n",
        heap_limit);
    buf_adds(b, "/*M!100201 SET SESSION check_constraint_checks=0 */;\n");
}

/* Sets the variable only if its value differs, because setting it requires a privilege. MariaDB
 * skips conditional comments for these versions. */
static void set_to(struct buf *b, unsigned since, const char *variable, int value)
{
    buf_printf(b,
               "/*!%u SET @worldkeeper=IF(@@SESSION.%s=%d,'DO 0','SET SESSION %s=%d') */;\n"
               "/*!%u PREPARE worldkeeper FROM @worldkeeper */;\n"
               "/*!%u EXECUTE worldkeeper */;\n/*!%u DEALLOCATE PREPARE worldkeeper */;\n",
               since, variable, value, variable, value, since, since, since);
}

void format_timestamps(struct buf *b)
{
    buf_adds(b, "/*M!101002 SET SESSION explicit_defaults_for_timestamp=1 */;\n");
    set_to(b, 80000, "explicit_defaults_for_timestamp", 1);
}

void format_keyless(struct buf *b)
{
    set_to(b, 80013, "sql_require_primary_key", 0);
    set_to(b, 80030, "sql_generate_invisible_primary_key", 0);
}

void format_table(struct buf *b, const char *name, const char *create)
{
    sql_fill(b, "DROP TABLE IF EXISTS ??;\nSET NAMES utf8mb4;\n$;\nSET NAMES binary;\n",
             DB_ARGS(name, create));
}

void format_uncounted(struct buf *b, const char *create, size_t len)
{
    static const char counter[] = " AUTO_INCREMENT=";
    const char *s = create, *end = create + len, *at;
    while ((at = memmem(s, (size_t)(end - s), counter, sizeof counter - 1))) {
        buf_add(b, s, (size_t)(at - s));
        s = at + sizeof counter - 1;
        while (s < end && *s >= '0' && *s <= '9')
            s++;
    }
    buf_add(b, s, (size_t)(end - s));
}

void format_alter(struct buf *b, const char *name, const char *change)
{
    sql_fill(b, "SET NAMES utf8mb4;\nALTER TABLE ??$;\nSET NAMES binary;\n", DB_ARGS(name, change));
}

void format_insert(struct buf *b, const char *table, const struct db_table *columns)
{
    sql_fill(b, "INSERT INTO ?? (", DB_ARGS(table));
    db_column_list(b, columns);
    buf_adds(b, ") VALUES\n");
}

/* Appends a text as comment lines. Their length is limited, because format_read_line() limits
 * it. */
static void comment_text(struct buf *b, const char *text)
{
    const char *head = COMMENT_FIRST, *s = text;
    while (*s) {
        size_t len = strcspn(s, "\n"), n = len < COMMENT_WIDTH ? len : COMMENT_WIDTH;
        buf_adds(b, head);
        buf_add(b, s, n);
        buf_addc(b, '\n');
        head = n < len ? COMMENT_MORE : COMMENT_LINE;
        s += n + (s[n] == '\n');
    }
}

void format_columns_comment(struct buf *b, const char *table, const struct db_table *columns)
{
    SCOPED(buf_free) struct buf text = {0};
    const char *comma = "";
    sql_fill(&text, CREATE_TABLE "?? (", DB_ARGS(table));
    for (size_t i = 0; i < columns->column_count; i++) {
        const struct db_column *c = &columns->columns[i];
        if (c->generated)
            continue;
        buf_printf(&text, "%s\n  ", comma);
        comma = ",";
        sql_fill(&text, "?? $", DB_ARGS(c->name, c->type));
        if (c->charset[0])
            buf_printf(&text, " CHARACTER SET %s", c->charset);
    }
    buf_adds(&text, "\n)");
    comment_text(b, text.p);
}

void format_trailer(struct buf *b, size_t tables, uint64_t rows)
{
    buf_printf(b, FORMAT_TRAILER "%zu rows=%" PRIu64 "\n", tables, rows);
}

struct format_reader {
    struct gunzip *in; /* NULL if the whole input is in `text` */
    char *name;
    struct buf text; /* consumed up to `at` */
    size_t at;
    bool eof, begun, definitions;
    /* the definitions were read: rows of the table before them are no longer allowed */
    bool rowless;
    bool one_table; /* the input is the region of a single table, which ends without a trailer */
    bool rows_only; /* the input has no CREATE TABLE: each INSERT names its table */
    bool uncounted; /* the input may end without a trailer */
    struct buf delimiter, table, columns;
    struct buf definition; /* rows_only: the newest one in comment lines */
    unsigned column_count;
    size_t tables;
    uint64_t rows;
};

struct format_reader *format_open(struct gunzip *in, const char *name)
{
    struct format_reader *r = xcalloc(1, sizeof *r);
    r->in = in;
    r->name = xstrdup(name);
    buf_adds(&r->delimiter, ";");
    return r;
}

struct format_reader *format_open_table(struct gunzip *in, const char *name)
{
    struct format_reader *r = format_open(in, name);
    r->begun = r->one_table = r->uncounted = true;
    return r;
}

struct format_reader *format_open_rows(struct gunzip *in, const char *name, bool counted)
{
    struct format_reader *r = format_open(in, name);
    r->begun = r->rows_only = true;
    r->uncounted = !counted;
    return r;
}

struct format_reader *format_open_rest(struct buf *text, const char *name, size_t tables,
                                       uint64_t rows)
{
    struct format_reader *r = format_open(NULL, name);
    r->text = *text;
    r->eof = true;
    r->tables = tables;
    r->rows = rows;
    *text = (struct buf){0};
    return r;
}

void format_close(struct format_reader *r)
{
    if (!r)
        return;
    free(r->name);
    buf_free(&r->text);
    buf_free(&r->delimiter);
    buf_free(&r->table);
    buf_free(&r->columns);
    buf_free(&r->definition);
    free(r);
}

/* Sets an error with the position and the text found there. Both can be looked up with gunzip
 * and head. */
static int format_bad(const struct format_reader *r, struct err *e, const char *why)
{
    const char *from = r->text.p ? r->text.p + r->at : "";
    uint64_t read = r->in ? gunzip_plain_bytes(r->in) : r->text.len;
    SCOPED(buf_free) struct buf seen = {0};
    text_clean(&seen, from, 60);
    return err_set(e, ERR_DAMAGED, 0, "%s: %s at byte %" PRIu64 " of its text%s%s, before: %s",
                   r->name, why, read - (r->text.len - r->at),
                   r->one_table && r->table.p ? " of table " : "",
                   r->one_table && r->table.p ? r->table.p : "", seen.p);
}

int format_fill(struct gunzip *in, struct buf *text, size_t *at, bool *eof, struct err *e)
{
    if (*at) {
        text->len -= *at;
        memmove(text->p, text->p + *at, text->len);
        *at = 0;
    }
    buf_reserve(text, READ_CHUNK);
    int64_t n = gunzip_read(in, text->p + text->len, READ_CHUNK, e);
    if (n < 0)
        return -1;
    text->len += (size_t)n;
    text->p[text->len] = '\0';
    *eof = n == 0;
    return 0;
}

static int format_more(struct format_reader *r, struct err *e)
{
    if (r->text.len - r->at > STATEMENT_MAX)
        return format_bad(r, e, "an incomplete statement");
    return format_fill(r->in, &r->text, &r->at, &r->eof, e);
}

/* Makes at least `n` unread bytes available, unless the file ends earlier. */
static int format_ensure(struct format_reader *r, size_t n, struct err *e)
{
    while (r->text.len - r->at < n && !r->eof)
        if (format_more(r, e) < 0)
            return -1;
    return 0;
}

static bool format_here(const struct format_reader *r, const char *s)
{
    size_t n = strlen(s);
    return r->text.len - r->at >= n && memcmp(r->text.p + r->at, s, n) == 0;
}

/* Returns the rest of a line, without its line end. Returns NULL if the file ends first or the
 * line is too long. */
static const char *format_read_line(struct format_reader *r, size_t *len, struct err *e)
{
    for (size_t want = 256; want <= 65536; want *= 2) {
        if (format_ensure(r, want, e) < 0)
            return NULL;
        const char *from = r->text.p + r->at;
        const char *nl = memchr(from, '\n', r->text.len - r->at);
        if (nl) {
            *len = (size_t)(nl - from);
            r->at += *len + 1;
            return from;
        }
        if (r->eof)
            break;
    }
    format_bad(r, e, "an incomplete line");
    return NULL;
}

/* Returns one statement, without its delimiter and the line end after it. The delimiter of the
 * definitions occurs in no body (definitions.c ensures that). Quotes and comments, whose meaning
 * depends on the SQL mode, therefore need not be parsed there. */
static const char *read_statement(struct format_reader *r, size_t *len, struct err *e)
{
    struct sql_scan scan = {0};
    /* `hold`: the text may end in the middle of a delimiter */
    size_t done = 0, hold = r->delimiter.len - 1;
    for (;;) {
        size_t have = r->text.len - r->at, again = done > hold ? done - hold : 0;
        const char *from = r->text.p + r->at;
        const char *end = r->definitions
                              ? memmem(from + again, have - again, r->delimiter.p, r->delimiter.len)
                              : sql_find_end(from + done, from + have, r->delimiter.p, &scan);
        if (end) {
            *len = (size_t)(end - from);
            size_t used = *len + r->delimiter.len;
            if (format_ensure(r, used + 1, e) < 0) /* may move the text */
                return NULL;
            from = r->text.p + r->at;
            r->at += used;
            if (format_here(r, "\n"))
                r->at++;
            return from;
        }
        done = have;
        if (r->eof) {
            format_bad(r, e, "an incomplete statement");
            return NULL;
        }
        if (format_more(r, e) < 0)
            return NULL;
    }
}

/* Checks that the counts made while reading equal the counts made while writing. */
static int read_trailer(struct format_reader *r, struct format_item *item, struct err *e)
{
    size_t len;
    const char *line = format_read_line(r, &len, e);
    if (!line)
        return -1;
    SCOPED(buf_free) struct buf want = {0};
    format_trailer(&want, r->tables, r->rows);
    bool right = len + 1 == want.len && memcmp(line, want.p, len) == 0;
    if (!right)
        return format_bad(r, e,
                          "the trailer's counts of tables and rows differ from what was read");
    if (format_ensure(r, 1, e) < 0)
        return -1;
    if (r->at != r->text.len)
        return format_bad(r, e, "text after the trailer");
    item->type = FORMAT_END;
    return 0;
}

/* Reads a quoted name at *s and moves *s after it. */
static int set_name(struct buf *out, const char **s, const char *end)
{
    buf_clear(out);
    *s = sql_read_ident(*s, end, out);
    return *s && !memchr(out->p, '\0', out->len) ? 0 : -1;
}

/* Reads a column list "(`a`,`b`)" after the table's name and counts the columns. */
static const char *format_read_columns(struct format_reader *r, const char *s, const char *end)
{
    const char *from = s;
    SCOPED(buf_free) struct buf name = {0};
    r->column_count = 0;
    do {
        buf_clear(&name);
        s = s < end ? sql_read_ident(s + 1, end, &name) : NULL;
        if (s && memchr(name.p, '\0', name.len))
            s = NULL;
        r->column_count++;
    } while (s && s < end && *s == ',');
    if (!s || s >= end || *s != ')')
        return NULL;
    buf_clear(&r->columns);
    buf_add(&r->columns, from, (size_t)(s + 1 - from));
    return s + 1;
}

/* Accepts the table of an INSERT: it must be that of the last CREATE TABLE. With rows_only it
 * may be a new table. */
static bool format_take_table(struct format_reader *r, const struct buf *name)
{
    if (r->table.p && strcmp(name->p, r->table.p) == 0)
        return true;
    if (!r->rows_only)
        return false;
    buf_clear(&r->table);
    buf_add(&r->table, name->p, name->len);
    r->tables++;
    return true;
}

/* Parses "INSERT INTO `t` (`a`,…) VALUES\n"; returns the position after it. */
static const char *read_insert_head(struct format_reader *r, const char *sql, const char *end)
{
    static const char values[] = " VALUES\n";
    const char *s = sql + strlen("INSERT INTO ");
    SCOPED(buf_free) struct buf name = {0};
    bool ok = set_name(&name, &s, end) == 0 && end - s > 2 && s[0] == ' ' && s[1] == '(' &&
              format_take_table(r, &name);
    s = ok ? format_read_columns(r, s + 1, end) : NULL;
    if (!s || (size_t)(end - s) < sizeof values || memcmp(s, values, sizeof values - 1) != 0)
        return NULL;
    return s + sizeof values - 1;
}

/* Returns the length of the INSERT's beginning up to its first row, or 0 on failure. */
static size_t format_read_head(struct format_reader *r, struct err *e)
{
    /* enough for 4096 columns with names of 64 characters, all escaped */
    const size_t longest = 8u << 20;
    for (;;) {
        size_t have = r->text.len - r->at;
        const char *from = r->text.p + r->at, *rows = read_insert_head(r, from, from + have);
        if (rows)
            return (size_t)(rows - from);
        if (r->eof || have > longest) {
            format_bad(r, e, "INSERT that this program did not write");
            return 0;
        }
        if (format_more(r, e) < 0)
            return 0;
    }
}

/* Reads the tuple at offset `at` from the beginning of the statement. Returns 1 if another one
 * follows, 0 if it was the last. Moves `at` after the tuple and its separator. */
static int format_read_row(struct format_reader *r, size_t *at, struct format_item *item,
                           struct err *e)
{
    for (;;) {
        unsigned fields;
        const char *s = r->text.p + r->at + *at, *end = r->text.p + r->text.len;
        const char *next = sql_read_tuple(s, end, &fields);
        if (next && end - next >= 2 && next[1] == '\n' && (*next == ',' || *next == ';') &&
            fields == r->column_count) {
            item->rows++;
            item->rows_hash += sql_tuple_hash(s, (size_t)(next - s));
            *at += (size_t)(next - s) + 2;
            return *next == ',';
        }
        /* The row may be incomplete because the rest was not read yet. Values hold no raw line
         * end, so a complete line that is not a row is malformed. */
        size_t have = (size_t)(end - s);
        if (r->eof || memchr(s, '\n', have))
            return format_bad(r, e, "rows with values that are not literals");
        /* The text is doubled each time, so that a long value is not rescanned after each read. */
        if (format_more(r, e) < 0 || format_ensure(r, *at + 2 * have, e) < 0)
            return -1;
    }
}

/* Returns whether the definition in the comment lines before is the one of the current table. An
 * operator may have removed some lines with an editor. */
static bool defines_table(const struct format_reader *r)
{
    SCOPED(buf_free) struct buf head = {0};
    if (!r->definition.len)
        return false;
    sql_fill(&head, CREATE_TABLE "?? (", DB_ARGS(r->table.p));
    return text_starts(r->definition.p, head.p);
}

/* Reads a comment line, which may have a part of a definition. */
static int read_comment(struct format_reader *r, struct err *e)
{
    size_t len, head = strlen(COMMENT_FIRST);
    const char *line = format_read_line(r, &len, e);
    if (!line)
        return -1;
    bool first = text_starts(line, COMMENT_FIRST CREATE_TABLE);
    bool next = text_starts(line, COMMENT_LINE), more = text_starts(line, COMMENT_MORE);
    if (!r->rows_only || (!first && !next && !more))
        return 0;
    if (r->definition.len > STATEMENT_MAX)
        return format_bad(r, e, "an incomplete definition");
    if (first)
        buf_clear(&r->definition);
    else
        head = strlen(COMMENT_LINE);
    if (next)
        buf_addc(&r->definition, '\n');
    buf_add(&r->definition, line + head, len - head);
    return 0;
}

/* Reads an "INSERT INTO …;". Finds, checks and counts its rows in a single pass, because nearly
 * all of a dump consists of rows. */
static int read_insert(struct format_reader *r, struct format_item *item, struct err *e)
{
    size_t at;
    int more_rows;
    if (r->rowless)
        return format_bad(r, e, "rows after definitions");
    size_t head = format_read_head(r, e);
    if (!head)
        return -1;
    *item = (struct format_item){.type = FORMAT_ROWS,
                                 .table = r->table.p,
                                 .columns = r->columns.p,
                                 .definition = defines_table(r) ? r->definition.p : ""};
    at = head;
    do
        more_rows = format_read_row(r, &at, item, e);
    while (more_rows > 0);
    if (more_rows < 0)
        return -1;
    item->sql = r->text.p + r->at + head;
    item->sql_len = at - head - 2; /* without ";" and the line end */
    r->at += at;
    r->rows += item->rows;
    return 0;
}

/* Reads a DELIMITER line. Everything from the first one on is definitions; "DELIMITER ;" ends
 * them. */
static int read_delimiter(struct format_reader *r, struct err *e)
{
    size_t len;
    const char *line = format_read_line(r, &len, e);
    if (!line)
        return -1;
    buf_clear(&r->delimiter);
    buf_add(&r->delimiter, line + strlen("DELIMITER "), len - strlen("DELIMITER "));
    if (r->delimiter.len == 0 || memchr(r->delimiter.p, '\0', r->delimiter.len))
        return format_bad(r, e, "DELIMITER without a delimiter");
    r->definitions = strcmp(r->delimiter.p, ";") != 0;
    r->rowless = true;
    return 0;
}

/* Reads one statement. Returns 1 if it is an item for the caller, 0 if not. */
static int one_statement(struct format_reader *r, struct format_item *item, struct err *e)
{
    size_t len;
    if (!r->definitions && format_here(r, "INSERT INTO "))
        return read_insert(r, item, e) < 0 ? -1 : 1;
    const char *sql = read_statement(r, &len, e);
    if (!sql)
        return -1;
    if (r->definitions) {
        *item = (struct format_item){.type = FORMAT_DEFINITION, .sql = sql, .sql_len = len};
        return 1;
    }
    /* A CREATE TABLE follows the DROP TABLE of the same table. */
    static const char create[] = CREATE_TABLE;
    if (!r->rows_only && len > sizeof create && memcmp(sql, create, sizeof create - 1) == 0) {
        const char *s = sql + sizeof create - 1;
        if (set_name(&r->table, &s, sql + len) < 0)
            return format_bad(r, e, "CREATE TABLE without a quoted name");
        r->tables++;
        r->rowless = false;
        *item = (struct format_item){
            .type = FORMAT_CREATE, .table = r->table.p, .sql = sql, .sql_len = len};
        return 1;
    }
    static const char *const skipped[] = {"SET ",
                                          "DROP TABLE IF EXISTS ",
                                          "ALTER TABLE ",
                                          "/*M!100201 SET ",
                                          "/*M!101002 SET ",
                                          "/*!80000 ",
                                          "/*!80013 ",
                                          "/*!80030 "};
    for (size_t i = 0; i < sizeof skipped / sizeof *skipped; i++)
        if (len > strlen(skipped[i]) && memcmp(sql, skipped[i], strlen(skipped[i])) == 0)
            return 0;
    return format_bad(r, e, "a statement that this program did not write");
}

int format_next(struct format_reader *r, struct format_item *item, struct err *e)
{
    for (;;) {
        if (format_ensure(r, 64, e) < 0)
            return -1;
        if (!r->begun) {
            if (!format_here(r, FORMAT_MAGIC))
                return format_bad(r, e, "not a dump of this program");
            r->begun = true;
        }
        int rc = 0;
        if (r->at == r->text.len) {
            *item = (struct format_item){.type = FORMAT_END};
            return r->uncounted ? 0 : format_bad(r, e, "its trailer is missing");
        }
        if (format_here(r, FORMAT_TRAILER))
            return r->one_table ? format_bad(r, e, "a trailer before the last row")
                                : read_trailer(r, item, e);
        if (format_here(r, "-- ") || format_here(r, "\n"))
            rc = read_comment(r, e);
        else if (!r->rows_only && format_here(r, "DELIMITER "))
            rc = read_delimiter(r, e);
        else
            rc = one_statement(r, item, e);
        if (rc != 0)
            return rc < 0 ? -1 : 0;
    }
}
