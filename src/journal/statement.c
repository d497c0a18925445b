#include "journal/statement.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "db/sentinel.h"
#include "db/sql.h"

#define MARK_OPENS "/* worldkeeper restored "
#define MARK_CLOSES " */"
#define WORD_MAX 80u /* a name has 64 characters; longer words are nobody's keyword */

struct words {
    const char *s, *end;
    char word[4 * WORD_MAX]; /* the last one, without its quotes */
    bool quoted;
};

static const char *skip_comment(const char *s, const char *end)
{
    const char *close = memmem(s + 2, (size_t)(end - s - 2), "*/", 2);
    return close ? close + 2 : end;
}

static const char *skip_line(const char *s, const char *end)
{
    const char *lf = memchr(s, '\n', (size_t)(end - s));
    return lf ? lf + 1 : end;
}

static const char *skip_blank(const char *s, const char *end)
{
    while (s < end) {
        if (isspace((unsigned char)*s))
            s++;
        else if (end - s > 3 && s[0] == '/' && s[1] == '*' && s[2] != '!' && s[2] != 'M')
            s = skip_comment(s, end);
        else if (*s == '#')
            s = skip_line(s, end);
        else
            break;
    }
    return s;
}

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (c & 0x80);
}

/* The next word, name in backticks, or single character; false at the end. */
static bool next_word(struct words *w)
{
    size_t n = 0;
    w->s = skip_blank(w->s, w->end);
    w->quoted = w->s < w->end && *w->s == '`';
    if (w->s == w->end)
        return false;
    if (w->quoted) {
        struct buf name = {0};
        const char *behind = sql_read_ident(w->s, w->end, &name);
        snprintf(w->word, sizeof w->word, "%s", behind ? name.p : "");
        buf_free(&name);
        w->s = behind ? behind : w->end;
        return true;
    }
    do {
        if (n < sizeof w->word - 1)
            w->word[n++] = *w->s;
        w->s++;
    } while (w->s < w->end && word_char(w->s[-1]) && word_char(*w->s));
    w->word[n] = '\0';
    return true;
}

static bool is_word(const struct words *w, const char *word)
{
    return !w->quoted && strcasecmp(w->word, word) == 0;
}

static bool is_any(const struct words *w, const char *const *list)
{
    for (; *list; list++)
        if (is_word(w, *list))
            return true;
    return false;
}

static bool holds_other_letters(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80)
            return true;
    return false;
}

static bool is_name(const struct words *w)
{
    return w->quoted || word_char(w->word[0]);
}

/* The log has a statement in the character set of who sent it, and names are in UTF-8. */
static bool other_set(const char *name)
{
    return !text_utf8_valid(name, strlen(name));
}

/* May a schema that a statement names be the world's? */
static bool may_be_ours(const struct statement_world *world, const char *schema)
{
    return strcasecmp(schema, world->schema) == 0 ||
           (other_set(schema) && holds_other_letters(world->schema, strlen(world->schema)));
}

/* A table's name at `w`, perhaps behind its schema's. False where it is not clear which table that
 * is: quoted in another way, or the same but for the case of its letters, which may not matter
 * here. */
static bool read_table(const struct statement_world *world, struct words *w, const char *from,
                       const struct db_table **table)
{
    char schema[sizeof w->word], name[sizeof w->word];
    *table = NULL;
    if (!next_word(w) || !is_name(w))
        return false;
    snprintf(name, sizeof name, "%s", w->word);
    const char *behind = skip_blank(w->s, w->end);
    if (behind < w->end && *behind == '.') {
        next_word(w); /* the point */
        if (!next_word(w) || !is_name(w))
            return false;
        memcpy(schema, name, sizeof schema);
        snprintf(name, sizeof name, "%s", w->word);
        from = schema;
    }
    if (strcmp(from, world->schema) != 0)
        return from == schema ? !may_be_ours(world, schema) : strcasecmp(from, world->schema) != 0;
    *table = db_table_find(world->tables, name);
    if (!*table && holds_other_letters(name, strlen(name)))
        return false;
    for (size_t i = 0; i < world->tables->count && !*table; i++)
        if (strcasecmp(world->tables->list[i].name, name) == 0)
            return false;
    return true;
}

/* As a word, or words: `s1` is not in `s10`. */
static bool holds(const char *sql, size_t len, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; n && i + n <= len; i++)
        if (strncasecmp(sql + i, name, n) == 0 && (i == 0 || !word_char(sql[i - 1])) &&
            (i + n == len || !word_char(sql[i + n])))
            return true;
    return false;
}

/* With its backticks doubled. */
static bool holds_quoted(const char *sql, size_t len, const char *name)
{
    struct buf b = {0};
    if (!strchr(name, '`'))
        return false;
    sql_ident(&b, name);
    bool there = holds(sql, len, b.p);
    buf_free(&b);
    return there;
}

/* Does it name anything in a schema whose name cannot be read? In texts no letter follows a full
 * stop. */
static bool names_in_other_set(const char *sql, size_t len)
{
    struct words w = {.s = sql, .end = sql + len};
    bool name = false;
    while (next_word(&w)) {
        bool follows = w.s < w.end && (word_char(*w.s) || *w.s == '`' || *w.s == '"');
        if (name && follows && is_word(&w, "."))
            return true;
        if (!is_word(&w, "\""))
            name = other_set(w.word);
    }
    return false;
}

static bool names_the_schema(const struct statement_world *w, const char *sql, size_t len)
{
    return holds(sql, len, w->schema) || holds_quoted(sql, len, w->schema) ||
           (holds_other_letters(w->schema, strlen(w->schema)) && names_in_other_set(sql, len));
}

/* One with other letters may stand there in the character set of who sent it. */
static bool names_a_table(const struct statement_world *w, const char *sql, size_t len)
{
    bool strange = holds_other_letters(sql, len);
    for (size_t i = 0; i < w->tables->count; i++) {
        const char *name = w->tables->list[i].name;
        if (strange && holds_other_letters(name, strlen(name)))
            return true;
        if (!db_sentinel_own(w->sentinel, name) &&
            (holds(sql, len, name) || holds_quoted(sql, len, name)))
            return true;
    }
    return false;
}

/* CREATE, ALTER and DROP of something else: rows stay what they are. The kind of thing is among the
 * first words, behind OR REPLACE, DEFINER=…, ALGORITHM=… */
static bool defines_tables(struct words *w)
{
    static const char *const others[] = {"VIEW",    "TRIGGER",  "PROCEDURE", "FUNCTION",
                                         "EVENT",   "USER",     "ROLE",      "SERVER",
                                         "PACKAGE", "SEQUENCE", "TEMPORARY", NULL};
    static const char *const tables[] = {"TABLE", "DATABASE", "SCHEMA", "INDEX", NULL};
    for (int i = 0; i < 24 && next_word(w); i++) {
        if (is_any(w, tables))
            return true;
        if (is_any(w, others))
            return false;
    }
    return true;
}

/* `w` is at a table's name, or at its schema's. */
static bool own_name(const struct statement_world *world, struct words *w)
{
    const char *behind = skip_blank(w->s, w->end);
    if (behind < w->end && *behind == '.' && !(next_word(w) && next_word(w)))
        return false;
    return w->quoted && (strncmp(w->word, DB_OWN_PREFIX, strlen(DB_OWN_PREFIX)) == 0 ||
                         db_sentinel_own(world->sentinel, w->word));
}

/* CREATE, ALTER or DROP TABLE of shadows of ours, the sentinel and its lease, and of nothing else.
 */
static bool about_our_own(const struct statement_world *world, const char *sql, size_t len)
{
    static const char *const verbs[] = {"CREATE", "ALTER", "DROP", NULL};
    static const char *const fill[] = {"IF", "NOT", "EXISTS", NULL};
    struct words w = {.s = sql, .end = sql + len};
    if (!next_word(&w) || !is_any(&w, verbs))
        return false;
    bool drops = is_word(&w, "DROP");
    if (!next_word(&w) || !is_word(&w, "TABLE"))
        return false;
    bool more;
    do
        more = next_word(&w);
    while (more && is_any(&w, fill));
    bool own = more && own_name(world, &w);
    while (own && drops && next_word(&w))
        own = strcmp(w.word, ",") == 0 && !w.quoted && next_word(&w) && own_name(world, &w);
    return own;
}

/* DROP DATABASE [IF EXISTS] of the world's, or of one that is not clearly another. */
static bool drops_schema(const struct statement_world *world, const char *sql, size_t len)
{
    static const char *const fill[] = {"IF", "EXISTS", NULL};
    struct words w = {.s = sql, .end = sql + len};
    if (!next_word(&w) || !is_word(&w, "DROP") || !next_word(&w) ||
        (!is_word(&w, "DATABASE") && !is_word(&w, "SCHEMA")))
        return false;
    bool more;
    do
        more = next_word(&w);
    while (more && is_any(&w, fill));
    return !more || !is_name(&w) || may_be_ours(world, w.word);
}

/* SET STATEMENT … FOR hides another one. */
static bool only_sets(const struct words *verb)
{
    struct words w = *verb;
    return is_word(verb, "SET") && next_word(&w) && !is_word(&w, "STATEMENT");
}

/* ANALYZE in front of another statement runs that one. */
static bool only_analyzes(const struct words *verb)
{
    static const char *const tables[] = {"TABLE", "TABLES", NULL};
    struct words w = *verb;
    return is_word(verb, "ANALYZE") && next_word(&w) && is_any(&w, tables);
}

/* What a statement reaches is named by its schema, or by none where that is the default one. A
 * definition names its table as well; rows may be changed through a view that hides it. */
static bool concerns(const struct statement_world *world, const char *from, const char *sql,
                     size_t len)
{
    static const char *const verbs[] = {"CREATE", "ALTER", "DROP", NULL};
    static const char *const named[] = {"RENAME", "TRUNCATE", "OPTIMIZE", "REPAIR", NULL};
    static const char *const harmless[] = {"GRANT", "REVOKE", "FLUSH", NULL};
    struct words w = {.s = sql, .end = sql + len};
    bool drops = drops_schema(world, sql, len);
    if (strcasecmp(from, world->schema) != 0 && !drops && !names_the_schema(world, sql, len))
        return false;
    if (!next_word(&w) || is_any(&w, harmless) || only_analyzes(&w) || only_sets(&w))
        return false;
    bool defines = is_any(&w, verbs);
    if (!defines && !is_any(&w, named))
        return true;
    if (defines && !defines_tables(&w))
        return false;
    return drops || names_a_table(world, sql, len);
}

/* RENAME and ALTER TABLE take tables from other schemas and other engines. One that was made is in
 * no dump, also while it is empty. */
static bool brings_tables(const struct statement_world *world, const char *from, const char *sql,
                          size_t len)
{
    static const char *const verbs[] = {"RENAME", "ALTER", "CREATE", NULL};
    struct words w = {.s = sql, .end = sql + len};
    if (strcasecmp(from, world->schema) != 0 && !names_the_schema(world, sql, len))
        return false;
    return next_word(&w) && is_any(&w, verbs) && defines_tables(&w);
}

static bool read_mark(const char *sql, size_t len, struct statement_mark *m)
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

/* What cannot stand in a comment, or would end it. */
static bool speakable(const char *name)
{
    return name[0] && !strpbrk(name, "*/ \t\r\n");
}

void statement_mark(const struct statement_mark *m, char out[STATEMENT_MARK_MAX])
{
    int n = snprintf(out, STATEMENT_MARK_MAX, MARK_OPENS "%s as %s",
                     speakable(m->dump) ? m->dump : "(file)", m->nonce);
    if (speakable(m->upto.file))
        n += snprintf(out + n, STATEMENT_MARK_MAX - (size_t)n, " upto %s %" PRIu64, m->upto.file,
                      m->upto.pos);
    snprintf(out + n, STATEMENT_MARK_MAX - (size_t)n, MARK_CLOSES);
}

static bool judge_edge(const char *sql, size_t len, struct statement *out)
{
    static const char *const begins[] = {"BEGIN", "START", NULL};
    static const char *const ends[] = {"COMMIT", "ROLLBACK", NULL};
    static const char *const between[] = {"SAVEPOINT", "XA", "RELEASE", NULL};
    struct words w = {.s = sql, .end = sql + len};
    if (!next_word(&w))
        return true;
    if (is_any(&w, begins)) {
        out->kind = STATEMENT_BEGIN;
        return true;
    }
    if (is_any(&w, ends)) {
        bool to = next_word(&w) && is_word(&w, "TO"); /* a savepoint */
        out->kind = to ? STATEMENT_NONE : STATEMENT_END;
        return true;
    }
    return is_any(&w, between);
}

/* TRUNCATE [TABLE] name, and the server's own word after a restart, which older ones say as DELETE.
 */
static bool judge_emptied(const struct statement_world *world, const char *from, const char *sql,
                          size_t len, struct statement *out)
{
    static const char comment[] = "/* generated by server";
    bool by_server = memmem(sql, len, comment, sizeof comment - 1) != NULL;
    struct words w = {.s = sql, .end = sql + len};
    if (!next_word(&w) || (!is_word(&w, "TRUNCATE") && !(by_server && is_word(&w, "DELETE"))))
        return false;
    struct words name = w;
    if (next_word(&w) && (is_word(&w, "TABLE") || is_word(&w, "FROM")))
        name = w;
    if (!read_table(world, &name, from, &out->table))
        return false;
    if (out->table)
        out->kind = by_server ? STATEMENT_EMPTIED : STATEMENT_TRUNCATE;
    return true;
}

/* A RENAME that swapped a world in, or the DROP of nothing that stands in the log for one that was
 * not logged. */
static bool judge_swap(const struct statement_world *world, const char *from, const char *sql,
                       size_t len, struct statement *out)
{
    static const char *const verbs[] = {"RENAME", "DROP", NULL};
    struct words w = {.s = sql, .end = sql + len};
    if (strcasecmp(from, world->schema) != 0 || !next_word(&w) || !is_any(&w, verbs) ||
        !read_mark(sql, len, &out->mark))
        return false;
    out->kind = STATEMENT_SWAP;
    return true;
}

void statement_judge(const struct statement_world *world, const char *from, const char *sql,
                     size_t len, struct statement *out)
{
    *out = (struct statement){.kind = STATEMENT_NONE};
    if (judge_edge(sql, len, out) || judge_swap(world, from, sql, len, out) ||
        judge_emptied(world, from, sql, len, out) || about_our_own(world, sql, len))
        return;
    if (concerns(world, from, sql, len))
        out->kind = STATEMENT_CHANGE;
    else if (brings_tables(world, from, sql, len))
        out->kind = STATEMENT_ARRIVAL;
}

void statement_brief(const char *sql, size_t len, char *out, size_t room)
{
    size_t n = 0;
    bool cut = len >= room;
    for (size_t i = 0; i < len && n + 1 < room; i++) {
        unsigned char c = (unsigned char)sql[i];
        out[n++] = c < ' ' ? ' ' : (char)c;
    }
    out[n] = '\0';
    if (cut && room > 4)
        memcpy(out + room - 4, "...", 4);
}
