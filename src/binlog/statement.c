#include "binlog/statement_definition.h"
#include "binlog/statement_int.h"
#include "binlog/statement_words.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "mysql/sentinel.h"
#include "sql/literal.h"

#define MARK_OPENS "/* worldkeeper restored "
#define MARK_CLOSES " */"

static bool holds_other_letters(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80)
            return true;
    return false;
}

/* Returns whether a name is in another character set. The log contains a statement in the
 * character set of its session, but our names are UTF-8. */
static bool other_set(const char *name)
{
    return !text_utf8_valid(name, strlen(name));
}

/* Reads a letter and sets *out to its lower case, as servers with lower_case_table_names fold
 * it. Sets *out to -1 for letters that they may fold in another way. Returns the position after
 * the letter. */
static const char *fold_letter(const char *s, int *out)
{
    unsigned char c = (unsigned char)*s;
    *out = c < 0x80 ? tolower(c) : -1;
    if (c < 0xc3 || c > 0xd3 || ((unsigned char)s[1] & 0xc0) != 0x80)
        return s + 1;
    int u = (c & 0x1f) << 6 | ((unsigned char)s[1] & 0x3f);
    bool upper_latin = u >= 0xc0 && u <= 0xde && u != 0xd7;
    bool latin = (u >= 0x100 && u <= 0x12f) || (u >= 0x14a && u <= 0x177);
    bool odd_latin = (u >= 0x139 && u <= 0x148) || (u >= 0x179 && u <= 0x17e);
    if (upper_latin || (u >= 0x391 && u <= 0x3ab && u != 0x3a2) || (u >= 0x410 && u <= 0x42f))
        u += 32;
    else if (u >= 0x400 && u <= 0x40f)
        u += 80;
    else if (latin)
        u |= 1;
    else if (odd_latin)
        u += u & 1;
    else if (u < 0xdf || (u > 0xff && u < 0x3b1) || u > 0x45f)
        return s + 1;
    *out = u;
    return s + 2;
}

bool statement_same_name(const char *a, const char *b)
{
    while (*a && *b) {
        int x, y;
        const char *next_a = fold_letter(a, &x), *next_b = fold_letter(b, &y);
        if (x != y || (x < 0 && *a != *b))
            return false;
        a = next_a;
        b = next_b;
    }
    return *a == *b;
}

/* Returns true if this is certainly the world's schema. */
static bool is_schema(const struct statement_world *world, const char *schema)
{
    return strcmp(schema, world->schema) == 0 ||
           (world->tables->any_case && statement_same_name(schema, world->schema));
}

/* Returns true if a schema named in a statement may be the world's. */
static bool may_be_ours(const struct statement_world *world, const char *schema)
{
    return is_schema(world, schema) || strcasecmp(schema, world->schema) == 0 ||
           (other_set(schema) && holds_other_letters(world->schema, strlen(world->schema)));
}

bool statement_read_name(const struct statement_world *world, struct words *w, const char *from,
                         const struct db_table **table, bool *ours)
{
    char schema[sizeof w->word], name[sizeof w->word];
    *table = NULL;
    *ours = false;
    if (!words_next(w) || !words_name(w))
        return false;
    snprintf(name, sizeof name, "%s", w->word);
    if (words_dot(w)) {
        if (!words_next(w) || !words_name(w))
            return false;
        memcpy(schema, name, sizeof schema);
        snprintf(name, sizeof name, "%s", w->word);
        from = schema;
    }
    if (!w->through && words_at_version(w)) /* it may continue the name */
        return false;
    if (!is_schema(world, from))
        return from == schema ? !may_be_ours(world, schema) : strcasecmp(from, world->schema) != 0;
    *ours = true;
    *table = db_table_find(world->tables, name);
    bool fold = world->tables->any_case && !other_set(name);
    for (size_t i = 0; fold && i < world->tables->count && !*table; i++)
        if (statement_same_name(world->tables->list[i].name, name))
            *table = &world->tables->list[i];
    if (!*table && holds_other_letters(name, strlen(name)))
        return false;
    for (size_t i = 0; i < world->tables->count && !*table; i++)
        if (strcasecmp(world->tables->list[i].name, name) == 0)
            return false;
    return true;
}

bool statement_read_table(const struct statement_world *world, struct words *w, const char *from,
                          const struct db_table **table)
{
    bool ours;
    return statement_read_name(world, w, from, table, &ours);
}

/* Returns whether a name may end before or after this character. */
static bool statement_parts(char c, bool utf8)
{
    return !words_char(c) || (!utf8 && (c & 0x80));
}

/* Returns whether a name may begin at sql[at]. */
static bool name_may_begin(const char *sql, size_t at, bool utf8)
{
    return at == 0 || statement_parts(sql[at - 1], utf8) || words_after_version(sql, at);
}

/* Returns whether the text contains the name as a whole word: `s1` is not found in `s10`. A byte
 * from 0x80 may be a blank if the text is not UTF-8. */
static bool statement_holds(const char *sql, size_t len, bool utf8, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; n && i + n <= len; i++)
        if (strncasecmp(sql + i, name, n) == 0 && name_may_begin(sql, i, utf8) &&
            (i + n == len || statement_parts(sql[i + n], utf8)))
            return true;
    return false;
}

/* Returns whether the text contains the name, or the name with its backticks doubled. */
static bool holds_name(const char *sql, size_t len, bool utf8, const char *name)
{
    SCOPED(buf_free) struct buf b = {0};
    if (statement_holds(sql, len, utf8, name))
        return true;
    if (!strchr(name, '`'))
        return false;
    sql_ident(&b, name);
    return statement_holds(sql, len, utf8, b.p);
}

/* Returns whether the text names the schema in a different spelling (letter case), or names
 * anything in a schema whose name is unreadable. In ordinary texts no letter follows a dot. */
static bool names_in_other_letters(const struct statement_world *world, const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    bool name = false;
    while (words_next(&w)) {
        bool follows = w.s < w.end && (words_char(*w.s) || *w.s == '`' || *w.s == '"');
        if (is_schema(world, w.word) || (name && follows && words_is(&w, ".")))
            return true;
        if (!words_is(&w, "\""))
            name = other_set(w.word);
    }
    return false;
}

static bool names_the_schema(const struct statement_world *w, const char *sql, size_t len)
{
    return holds_name(sql, len, text_utf8_valid(sql, len), w->schema) ||
           (holds_other_letters(w->schema, strlen(w->schema)) &&
            names_in_other_letters(w, sql, len));
}

/* Returns whether the text names a table of the world. A name with non-ASCII letters may be in
 * the character set of the session. */
static bool names_a_table(const struct statement_world *w, const char *sql, size_t len)
{
    bool strange = holds_other_letters(sql, len), utf8 = text_utf8_valid(sql, len);
    for (size_t i = 0; i < w->tables->count; i++) {
        const char *name = w->tables->list[i].name;
        if (strange && holds_other_letters(name, strlen(name)))
            return true;
        if (!db_sentinel_own(w->sentinel, name) && holds_name(sql, len, utf8, name))
            return true;
    }
    return false;
}

/* Returns whether CREATE, ALTER or DROP defines tables; for other objects they do not change
 * rows. The kind of object is among the first words, after OR REPLACE, DEFINER=…, ALGORITHM=… */
static bool defines_tables(struct words *w)
{
    for (int i = 0; i < 24 && words_next(w); i++) {
        if (words_any(w, "TABLE DATABASE SCHEMA INDEX") || (!w->quoted && other_set(w->word)))
            return true;
        if (words_any(w, "VIEW TRIGGER PROCEDURE FUNCTION EVENT USER ROLE SERVER PACKAGE SEQUENCE "
                         "TEMPORARY TABLESPACE LOGFILE INSTANCE LIBRARY RESOURCE REFERENCE"))
            return false;
    }
    return true;
}

/* Returns whether the name is ours. `w` is at a table's name or at its schema's. */
static bool own_name(const struct statement_world *world, struct words *w)
{
    if (words_dot(w) && !words_next(w))
        return false;
    return w->quoted && (strncmp(w->word, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) == 0 ||
                         db_sentinel_own(world->sentinel, w->word));
}

/* Returns true if the statement is a CREATE, ALTER or DROP TABLE that names only our shadow tables,
 * the sentinel and its lease table. A client may give a table such a name, and rename it later. */
static bool about_our_own(const struct statement_world *world, const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len};
    if (!words_next_any(&w, "CREATE ALTER DROP"))
        return false;
    bool drops = words_is(&w, "DROP");
    if (!words_next_any(&w, "TABLE") || !words_skip(&w, "IF NOT EXISTS"))
        return false;
    bool own = own_name(world, &w);
    w.through = !drops;
    while (own && words_next(&w))
        own = drops ? words_is(&w, ",") && words_next(&w) && own_name(world, &w)
                    : !words_any(&w, "RENAME EXCHANGE");
    return own;
}

/* Returns true for CREATE or ALTER TABLE of a table that is clearly in another schema, as a
 * drill issues them. Whatever such a statement names in the world (a sequence in a DEFAULT, the
 * table in LIKE) is not changed. This holds for any client. Exceptions: a query may call
 * something that writes, and RENAME and EXCHANGE may move a table in or out. */
static bool defines_elsewhere(const struct statement_world *world, const char *from,
                              const char *names, size_t len)
{
    struct words w = {.s = names, .end = names + len};
    char schema[sizeof w.word];
    if (!words_next_any(&w, "CREATE ALTER") || !words_next_any(&w, "TABLE") ||
        !words_skip(&w, "IF NOT EXISTS") || !words_name(&w))
        return false;
    struct words ahead = w;
    snprintf(schema, sizeof schema, "%s", words_dot(&ahead) ? w.word : from);
    if (!schema[0] || may_be_ours(world, schema) || words_at_version(&w))
        return false;
    w.through = true;
    while (words_next(&w))
        if (words_any(&w, "SELECT VALUES TABLE WITH RENAME EXCHANGE UNION"))
            return false;
    return true;
}

/* Returns true for DROP DATABASE [IF EXISTS] of the world's schema, or of one that may be the
 * same. CREATE OR REPLACE drops it as well and creates it again, and MariaDB logs only this
 * statement. */
static bool statement_drops_schema(const struct statement_world *world, const char *sql, size_t len,
                                   bool clear)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    bool drops = words_next(&w) &&
                 (words_is(&w, "DROP") || (words_is(&w, "CREATE") && words_next_any(&w, "OR") &&
                                           words_next_any(&w, "REPLACE")));
    return drops && words_next_any(&w, "DATABASE SCHEMA") &&
           (!words_skip(&w, "IF EXISTS") || !words_name(&w) || may_be_ours(world, w.word) ||
            (!clear && holds_other_letters(world->schema, strlen(world->schema))));
}

/* Returns true for CREATE TABLE with a query, which may call something that writes. Where a session
 * logs row changes, servers log such a statement without its query. */
static bool creates_by_query(struct words w)
{
    if (!words_is(&w, "CREATE") || !words_skip(&w, "OR REPLACE TEMPORARY") ||
        !words_is(&w, "TABLE"))
        return false;
    while (words_next(&w)) {
        const char *after = words_is(&w, "\"") ? words_skip_text(w.s - 1, w.end) : NULL;
        struct words ahead = w;
        if (after) /* a name or a text, not a word of the statement */
            w.s = after;
        else if (words_is(&w, "SELECT") ||
                 (words_is(&w, "VALUES") && words_next(&ahead) && words_is(&ahead, "(")))
            return true;
    }
    return false;
}

/* Returns true if the statement changes rows of only one table, which is in the schema `mysql` and
 * can have no trigger. Amazon RDS logs its heartbeats in this way where sessions log row changes
 * (INSERT INTO mysql.rds_heartbeat2). */
static bool changes_system_table(const char *from, struct words w)
{
    bool updates = words_is(&w, "UPDATE");
    w.through = false; /* not every server executes the contents of a version comment */
    if (!updates && !words_any(&w, "INSERT REPLACE DELETE"))
        return false;
    if (!words_skip(&w, "LOW_PRIORITY DELAYED HIGH_PRIORITY QUICK IGNORE INTO FROM") ||
        !words_name(&w))
        return false;
    struct words next = w;
    bool dot = words_dot(&next);
    if (strcasecmp(dot ? w.word : from, "mysql") != 0 || (dot && !words_next(&next)))
        return false;
    bool single = !updates || (words_next(&next) && words_is(&next, "SET"));
    while (single && words_next(&next))
        single = !words_any(&next, "SELECT TABLE USING JOIN");
    return single;
}

/* Returns whether a statement may affect the world. A definition names its table, which is
 * qualified by its schema, or unqualified if that is the default schema. Any other statement is
 * logged only where a session does not log row changes. It may change the world without naming it:
 * through a view, a trigger or a routine of another schema. */
static bool statement_concerns(const struct statement_world *world, const char *from,
                               const char *sql, size_t len, bool clear)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    bool drops = statement_drops_schema(world, sql, len, clear);
    if (!words_next(&w) || (!drops && statement_changes_nothing(sql, len)))
        return false;
    struct words set = w; /* SET STATEMENT … FOR contains another statement */
    if (words_is(&set, "SET") && words_next(&set) && !words_is(&set, "STATEMENT"))
        return false;
    if (changes_system_table(from, w))
        return false;
    bool defines = words_any(&w, "CREATE ALTER DROP");
    if ((!defines && !words_any(&w, "RENAME TRUNCATE")) || creates_by_query(w))
        return true;
    if (strcasecmp(from, world->schema) != 0 && !drops && !names_the_schema(world, sql, len))
        return false;
    if (defines && !defines_tables(&w))
        return false;
    return drops || names_a_table(world, sql, len);
}

/* Returns the table of an ALTER TABLE if it is listed, else NULL. */
static const struct db_table *alters_listed(const struct statement_world *world, const char *from,
                                            const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len, .through = true}, name;
    const struct db_table *t;
    if (!words_next(&w) || !words_is(&w, "ALTER"))
        return NULL;
    do
        name = w;
    while (words_next_any(&w, "ONLINE TABLE IF EXISTS"));
    return statement_read_table(world, &name, from, &t) ? t : NULL;
}

/* Returns whether a statement may add tables to the world. RENAME and ALTER TABLE move tables
 * from other schemas and other engines. A table that was created is in no dump, even while it is
 * empty. */
static bool brings_tables(const struct statement_world *world, const char *from, const char *sql,
                          size_t len)
{
    struct words w = {.s = sql, .end = sql + len, .through = true};
    if (strcasecmp(from, world->schema) != 0 && !names_the_schema(world, sql, len))
        return false;
    if (statement_changes_nothing(sql, len) &&
        (!words_next(&w) || !words_is(&w, "ALTER") || alters_listed(world, from, sql, len)))
        return false;
    w.s = sql;
    return words_next_any(&w, "RENAME ALTER CREATE") && defines_tables(&w);
}

static bool statement_read_mark(const char *sql, size_t len, struct statement_mark *m)
{
    const char *at = memmem(sql, len, MARK_OPENS, sizeof MARK_OPENS - 1);
    char text[STATEMENT_MARK_MAX];
    *m = (struct statement_mark){0};
    if (!at)
        return false;
    at += sizeof MARK_OPENS - 1;
    const char *close = memmem(at, (size_t)(sql + len - at), MARK_CLOSES, sizeof MARK_CLOSES - 1);
    if (!close || (size_t)(close - at) >= sizeof text)
        return false;
    snprintf(text, sizeof text, "%.*s", (int)(close - at), at);
    int n = 0;
    if (sscanf(text, "%128s as %32s%n", m->dump, m->nonce, &n) != 2)
        return false;
    if (text[n] == '\0')
        return true;
    return sscanf(text + n, " upto %255s %" SCNu64 "%n", m->upto.file, &m->upto.pos, &n) == 2;
}

/* Returns whether a comment can contain the name without being ended by it. */
static bool statement_speakable(const char *name)
{
    return name[0] && !strpbrk(name, "*/ \t\r\n");
}

void statement_mark(const struct statement_mark *m, char out[STATEMENT_MARK_MAX])
{
    int n = snprintf(out, STATEMENT_MARK_MAX, MARK_OPENS "%s as %s",
                     statement_speakable(m->dump) ? m->dump : "(file)", m->nonce);
    if (statement_speakable(m->upto.file))
        n += snprintf(out + n, STATEMENT_MARK_MAX - (size_t)n, " upto %s %" PRIu64, m->upto.file,
                      m->upto.pos);
    snprintf(out + n, STATEMENT_MARK_MAX - (size_t)n, MARK_CLOSES);
}

/* Returns a hash of the rest of the text, regardless of the case of ASCII letters. Returns 0 if it
 * has other letters, whose case servers ignore as well. */
static uint64_t statement_hash_rest(const struct words *w)
{
    uint64_t hash = TEXT_HASH;
    for (const char *s = w->s; s < w->end; s++) {
        char c = (char)tolower((unsigned char)*s);
        if (c & 0x80)
            return 0;
        hash = text_hash(hash, &c, 1);
    }
    return hash | 1;
}

/* Judges a statement of an XA transaction. `w` is at XA. */
static enum statement_edge statement_judge_xa(struct words *w)
{
    if (!words_next(w))
        return STATEMENT_NO_EDGE;
    return words_is(w, "END")        ? STATEMENT_XA_END
           : words_is(w, "COMMIT")   ? STATEMENT_XA_COMMIT
           : words_is(w, "ROLLBACK") ? STATEMENT_XA_ROLLBACK
                                     : STATEMENT_NO_EDGE;
}

static bool judge_edge(const char *sql, size_t len, struct statement *out)
{
    struct words w = {.s = sql, .end = sql + len};
    if (!words_next(&w))
        return true;
    if (words_any(&w, "BEGIN START")) {
        out->kind = STATEMENT_BEGIN;
        return true;
    }
    if (words_any(&w, "COMMIT ROLLBACK")) {
        bool back = words_is(&w, "ROLLBACK");
        bool to = words_next(&w) && words_is(&w, "TO"); /* TO names a savepoint */
        out->kind = to ? STATEMENT_NONE : STATEMENT_END;
        out->edge = to ? STATEMENT_ROLLBACK_TO : back ? STATEMENT_ROLLBACK : STATEMENT_NO_EDGE;
    } else if (words_is(&w, "SAVEPOINT")) {
        out->edge = STATEMENT_SAVEPOINT;
    } else if (words_is(&w, "XA")) {
        out->edge = statement_judge_xa(&w);
    } else {
        return words_is(&w, "RELEASE");
    }
    out->name = statement_hash_rest(&w);
    return true;
}

/* Returns true if nothing but a comment follows the name at `w`, as in a statement by a server. */
static bool only_a_name(struct words w)
{
    return words_next(&w) && words_name(&w) && words_dot(&w) && words_next(&w) && words_name(&w) &&
           !words_next(&w);
}

/* Judges TRUNCATE [TABLE] name, and the statement that the server itself logs after a restart,
 * which is a DELETE in older versions. The server's DELETE names a table; a client's may name a
 * view. */
static bool judge_emptied(const struct statement_world *world, const char *from, bool by_server,
                          const char *sql, size_t len, struct statement *out)
{
    static const char comment[] = "/* generated by server";
    by_server |= memmem(sql, len, comment, sizeof comment - 1) != NULL;
    struct words w = {.s = sql, .end = sql + len};
    if (!words_next(&w) || (!words_is(&w, "TRUNCATE") && !(by_server && words_is(&w, "DELETE"))))
        return false;
    struct words name = w;
    out->truncates = words_is(&w, "TRUNCATE");
    if (words_next_any(&w, "TABLE FROM"))
        name = w;
    struct words whole = name;
    if (!statement_read_table(world, &name, from, &out->table))
        return false;
    if (out->table)
        out->kind = by_server ? STATEMENT_EMPTIED : STATEMENT_TRUNCATE;
    return out->table || out->truncates || only_a_name(whole);
}

/* Judges a restore's mark: a RENAME that swapped a world in, or a DROP of no table, which
 * represents a swap that was not logged. */
static bool judge_swap(const struct statement_world *world, const char *from, const char *sql,
                       size_t len, struct statement *out)
{
    struct words w = {.s = sql, .end = sql + len};
    if (strcasecmp(from, world->schema) != 0 || !words_next_any(&w, "RENAME DROP") ||
        !statement_read_mark(sql, len, &out->mark))
        return false;
    out->kind = STATEMENT_SWAP;
    return true;
}

/* Judges CREATE TABLE IF NOT EXISTS of a listed table. What follows SELECT is only the source of
 * its rows. */
static bool judge_existing(const struct statement_world *world, const char *from, const char *sql,
                           size_t len, struct statement *out)
{
    static const char *const front[] = {"CREATE", "TABLE", "IF", "NOT", "EXISTS", NULL};
    struct words w = {.s = sql, .end = sql + len};
    for (size_t i = 0; front[i]; i++)
        if (!words_next(&w) || !words_is(&w, front[i]))
            return false;
    if (!statement_read_table(world, &w, from, &out->table) || !out->table)
        return false;
    w.through = true;
    while (words_next(&w))
        if (words_any(&w, "SELECT WITH VALUES TABLE"))
            return false;
    out->kind = STATEMENT_EXISTS;
    return true;
}

/* Judges the masked text. The names of a text that is not UTF-8 are not certain (`clear`). */
static void judge_names(const struct statement_world *world, const char *from, const char *sql,
                        size_t len, bool clear, struct statement *out)
{
    *out = (struct statement){.kind = STATEMENT_NONE};
    if (clear && (about_our_own(world, sql, len) || judge_existing(world, from, sql, len, out)))
        return;
    bool elsewhere = clear && defines_elsewhere(world, from, sql, len);
    if (!elsewhere && statement_concerns(world, from, sql, len, clear))
        out->kind = STATEMENT_CHANGE;
    else if (!elsewhere && brings_tables(world, from, sql, len))
        out->kind = STATEMENT_ARRIVAL;
    else if (!elsewhere && statement_sets_engine(sql, len))
        out->table = alters_listed(world, from, sql, len);
}

/* Judges another reading of the text. If the two readings differ, the statement is a change. */
static void judge_again(const struct statement_world *world, const char *from,
                        const struct buf *names, bool clear, struct statement *out)
{
    struct statement other;
    judge_names(world, from, names->p, names->len, clear, &other);
    if (other.kind != out->kind || other.table != out->table)
        out->kind = STATEMENT_CHANGE;
}

void statement_judge(const struct statement_world *world, const char *from, bool by_server,
                     const char *sql, size_t len, struct statement *out)
{
    SCOPED(buf_free) struct buf names = {0}, mysql = {0};
    *out = (struct statement){.kind = STATEMENT_NONE};
    if (judge_edge(sql, len, out) || judge_swap(world, from, sql, len, out) ||
        judge_emptied(world, from, by_server, sql, len, out))
        return;
    /* masked, because a column's comment may contain RENAME */
    bool certain = words_mask(sql, len, false, &names);
    bool clear = text_utf8_valid(names.p, names.len);
    judge_names(world, from, names.p, names.len, clear, out);
    if (words_for_mariadb(sql, len)) {
        /* Another quote or comment before it, or in it, would move where such a comment ends. */
        certain = words_mask(sql, len, true, &mysql) && certain;
        if (!certain)
            out->kind = STATEMENT_CHANGE;
        judge_again(world, from, &mysql, clear, out);
    }
    if (clear)
        return;
    words_blank_letters(&names);
    judge_again(world, from, &names, false, out);
}
