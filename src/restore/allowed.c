#include "restore/allowed.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "core/text.h"

/* Tokens */

struct scan {
    const char *s, *end;
    unsigned depth; /* of parentheses */
};

enum token { END, BAD, WORD, QUOTED, STRING, OPEN, CLOSE, OTHER };

static bool word_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || (unsigned char)c >= 0x80;
}

/* The place behind a quoted text, or NULL where it does not end. */
static const char *behind_quotes(const char *s, const char *end)
{
    char quote = *s++;
    for (; s < end; s++) {
        if (*s == '\\' && quote != '`') {
            s++;
        } else if (*s == quote) {
            if (s + 1 == end || s[1] != quote)
                return s + 1;
            s++;
        }
    }
    return NULL;
}

static bool passes_over_quotes(const char *s, const char *end)
{
    while (s && s < end)
        s = *s && strchr("'\"`", *s) ? behind_quotes(s, end) : s + 1;
    return s != NULL;
}

/* Is the comment at s text for every server that we know? MySQL writes partitions into one of
 * 5.1 or 5.5; MariaDB passes over those from 5.7 on. */
static bool for_all(const char *s, const char *end)
{
    if (end - s < 9 || s[2] != '!' || s[3] != '5' || s[4] != '0' || s[5] > '6')
        return false;
    for (size_t i = 5; i < 8; i++)
        if (!isdigit((unsigned char)s[i]))
            return false;
    return isspace((unsigned char)s[8]);
}

/* Its end, as those find it who read what is in it: not in quotes. NULL: another one in it, or no
 * end. */
static const char *read_to_close(const char *s, const char *end)
{
    while (s && end - s > 1) {
        if (s[0] == '*' && s[1] == '/')
            return s;
        if (s[0] == '/' && s[1] == '*')
            return NULL;
        s = *s && strchr("'\"`", *s) ? behind_quotes(s, end) : s + 1;
    }
    return NULL;
}

/* A comment for some servers only is text for them: it is read as such, and what is quoted in it
 * has to end in it, so that it ends at the same place for those who pass over it. */
static bool enter_comment(struct scan *sc)
{
    if (for_all(sc->s, sc->end)) {
        sc->s += 8;
        return read_to_close(sc->s, sc->end) != NULL;
    }
    const char *close = memmem(sc->s + 2, (size_t)(sc->end - sc->s) - 2, "*/", 2);
    if (!close)
        return false;
    if (sc->s[2] != '!' && !(sc->s[2] == 'M' && sc->s[3] == '!')) {
        sc->s = close + 2;
        return true;
    }
    sc->s += sc->s[2] == 'M' ? 4 : 3;
    while (sc->s < close && isdigit((unsigned char)*sc->s))
        sc->s++;
    return passes_over_quotes(sc->s, close) && !memmem(sc->s, (size_t)(close - sc->s), "/*", 2);
}

static bool skip_blanks(struct scan *sc)
{
    while (sc->s < sc->end) {
        size_t left = (size_t)(sc->end - sc->s);
        if (isspace((unsigned char)*sc->s)) {
            sc->s++;
        } else if (left >= 2 && sc->s[0] == '/' && sc->s[1] == '*') {
            if (!enter_comment(sc))
                return false;
        } else if (left >= 2 && sc->s[0] == '*' && sc->s[1] == '/') {
            sc->s += 2; /* of one that was entered */
        } else {
            break;
        }
    }
    return true;
}

static bool line_comment(const char *s, const char *end)
{
    return end - s > 1 && s[0] == '-' && s[1] == '-' &&
           (end - s == 2 || isspace((unsigned char)s[2]) || iscntrl((unsigned char)s[2]));
}

/* Comments to the end of a line stand in no definition of a server's. */
static enum token next(struct scan *sc, const char **from, size_t *len)
{
    if (!skip_blanks(sc))
        return BAD;
    const char *s = sc->s;
    *from = s;
    *len = 1;
    if (s == sc->end)
        return END;
    if (*s == '\0' || *s == '#' || line_comment(s, sc->end))
        return BAD;
    if (strchr("'\"`", *s)) {
        const char *behind = behind_quotes(s, sc->end);
        if (!behind)
            return BAD;
        *len = (size_t)(behind - s);
        sc->s = behind;
        return *s == '`' ? QUOTED : STRING;
    }
    if (word_char(*s)) {
        while (sc->s < sc->end && word_char(*sc->s))
            sc->s++;
        *len = (size_t)(sc->s - s);
        return WORD;
    }
    sc->s++;
    if (*s == '(')
        sc->depth++;
    else if (*s == ')' && sc->depth-- == 0)
        return BAD;
    return *s == '(' ? OPEN : *s == ')' ? CLOSE : OTHER;
}

static bool one_of(const char *word, size_t len, const char *const *list)
{
    for (; *list; list++)
        if (strlen(*list) == len && strncasecmp(word, *list, len) == 0)
            return true;
    return false;
}

/* Tables */

/* What stands behind the columns, as far as it was read. */
struct options {
    const char *word; /* the last one; "" behind anything else */
    size_t len;
    bool engine; /* the next word or text is the name of one */
    bool near, other, connection;
};

static bool is_far(const char *engine, size_t len)
{
    static const char *const engines[] = {"CONNECT", "FEDERATED", "FEDERATEDX", "SPIDER",
                                          "SPHINX",  "S3",        NULL};
    return one_of(engine, len, engines);
}

/* Those that keep their rows themselves: CONNECTION is a mere text for them. */
static bool is_near(const char *engine, size_t len)
{
    static const char *const engines[] = {"MEMORY",  "InnoDB",    "MyISAM",  "Aria", "CSV",
                                          "ARCHIVE", "BLACKHOLE", "ROCKSDB", NULL};
    return one_of(engine, len, engines);
}

static bool take_engine(struct options *o, const char *name, size_t len)
{
    if (len > 1 && strchr("`'\"", *name))
        name++, len -= 2;
    bool near = is_near(name, len);
    o->near = o->near || near;
    o->other = o->other || !near;
    return !is_far(name, len);
}

/* No query, and no file of the server's disk. A comment within an option may hide a part of it from
 * the server, or from us. */
static bool take_option(struct options *o, enum token t, const char *from, size_t len, bool comment)
{
    static const char *const queries[] = {"SELECT", "TABLE", "LIKE", NULL};
    static const char *const watched[] = {"CONNECTION", "DIRECTORY", "ENGINE", NULL};
    static const char *const directory[] = {"DIRECTORY", NULL},
                             *const link[] = {"CONNECTION", NULL},
                             *const engine[] = {"ENGINE", NULL};
    bool value = t == STRING || (t == OTHER && *from == '=');
    if (t == WORD && one_of(from, len, queries))
        return false;
    if (comment && (o->engine || one_of(o->word, o->len, watched)))
        return false;
    if (value && one_of(o->word, o->len, directory))
        return false;
    o->connection = o->connection || (value && one_of(o->word, o->len, link));
    if (t != OTHER) {
        if (o->engine && !take_engine(o, from, len))
            return false;
        o->engine = t == WORD && one_of(from, len, engine);
    }
    o->word = t == WORD ? from : "";
    o->len = t == WORD ? len : 0;
    return true;
}

static bool options_allowed(struct scan *sc)
{
    struct options o = {.word = ""};
    for (;;) {
        const char *behind = sc->s, *from = "";
        size_t len = 0;
        enum token t = next(sc, &from, &len);
        if (t == END)
            return sc->depth == 0 && (!o.connection || (o.near && !o.other));
        if (t == BAD ||
            !take_option(&o, t, from, len, memchr(behind, '*', (size_t)(from - behind)) != NULL))
            return false;
    }
}

bool allowed_table(const char *s, size_t len)
{
    static const char *const queries[] = {"SELECT", "TABLE", "LIKE", "VALUES", "WITH", NULL};
    struct scan sc = {s, s + len, 0};
    const char *from = NULL;
    size_t n = 0;
    if (next(&sc, &from, &n) != OPEN)
        return false;
    enum token t = next(&sc, &from, &n);
    if (t != QUOTED && (t != WORD || one_of(from, n, queries)))
        return false;
    while (sc.depth > 0)
        if ((t = next(&sc, &from, &n)) == BAD || t == END)
            return false;
    return options_allowed(&sc);
}

/* Rows */

static const char *blanks(const char *s, const char *end)
{
    while (s < end && isspace((unsigned char)*s))
        s++;
    return s;
}

/* A number in any form, or 0x…, or NULL: none of them is the name of something. */
static const char *bare_literal(const char *s, const char *end)
{
    const char *from = s;
    if (s < end && (*s == '-' || *s == '+'))
        s++;
    const char *digits = s;
    while (s < end && (isalnum((unsigned char)*s) || *s == '.' ||
                       ((*s == '-' || *s == '+') && (s[-1] == 'e' || s[-1] == 'E'))))
        s++;
    if (s - from == 4 && strncasecmp(from, "NULL", 4) == 0)
        return s;
    if (s == digits || !(isdigit((unsigned char)*digits) || *digits == '.'))
        return NULL;
    bool hex = s - digits > 2 && digits[0] == '0' && (digits[1] == 'x' || digits[1] == 'b');
    for (const char *p = digits + (hex ? 2 : 0); p < s; p++)
        if (hex ? !isxdigit((unsigned char)*p) : !strchr("0123456789.eE+-", *p))
            return NULL;
    return s;
}

static const char *behind_literal(const char *s, const char *end)
{
    if (s < end && *s == '_') { /* _binary '…' */
        const char *name = ++s;
        while (s < end && (isalnum((unsigned char)*s) || *s == '_'))
            s++;
        if (!allowed_charset(name, (size_t)(s - name)))
            return NULL;
        s = blanks(s, end);
        return s < end && *s == '\'' ? behind_quotes(s, end) : bare_literal(s, end);
    }
    if (end - s > 1 && s[1] == '\'' && *s && strchr("xXbBnN", *s))
        s++;
    return s < end && *s == '\'' ? behind_quotes(s, end) : bare_literal(s, end);
}

/* "( item, item, … )", or none: a row of nothing but defaults. */
static const char *behind_list(const char *s, const char *end,
                               const char *(*item)(const char *, const char *))
{
    if (s == end || *s != '(')
        return NULL;
    const char *first = blanks(s + 1, end);
    if (first < end && *first == ')')
        return first + 1;
    do {
        s = item(blanks(s + 1, end), end);
        s = s ? blanks(s, end) : NULL;
    } while (s && s < end && *s == ',');
    return s && s < end && *s == ')' ? s + 1 : NULL;
}

static const char *behind_name(const char *s, const char *end)
{
    if (s < end && *s == '`')
        return behind_quotes(s, end);
    const char *from = s;
    while (s < end && word_char(*s))
        s++;
    return s > from ? s : NULL;
}

bool allowed_rows(const char *s, size_t len)
{
    const char *end = s + len;
    s = blanks(s, end);
    if (s < end && *s == '(')
        s = behind_list(s, end, behind_name);
    s = s ? blanks(s, end) : NULL;
    if (!s || end - s < 7 || strncasecmp(s, "VALUES", 6) != 0 || word_char(s[6]))
        return false;
    s += 5;
    do {
        s = behind_list(blanks(s + 1, end), end, behind_literal);
        s = s ? blanks(s, end) : NULL;
    } while (s && s < end && *s == ',');
    return s == end;
}

/* Definitions */

static bool words_only(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!isalnum((unsigned char)s[i]) && s[i] != '_')
            return false;
    return true;
}

/* `front` and a text of nothing but capitals or `letters`, digits and `others`, and its quote. */
static bool sets_text(const char *sql, const char *front, bool letters, const char *others)
{
    size_t n = strlen(sql), from = strlen(front);
    if (!text_starts(sql, front) || n <= from || sql[n - 1] != '\'')
        return false;
    for (const char *s = sql + from; s < sql + n - 1; s++)
        if (!isupper((unsigned char)*s) && !(letters && islower((unsigned char)*s)) &&
            !isdigit((unsigned char)*s) && !strchr(others, *s))
            return false;
    return true;
}

static bool setting(const char *sql)
{
    static const char *const fronts[] = {"SET NAMES ", "SET character_set_client=", NULL};
    for (const char *const *f = fronts; *f; f++)
        if (text_starts(sql, *f)) {
            const char *rest = sql + strlen(*f);
            const char *comma = strstr(rest, ", collation_connection=");
            const char *value = comma ? strchr(comma, '=') + 1 : "";
            size_t first = comma ? (size_t)(comma - rest) : strlen(rest);
            return first > 0 && words_only(rest, first) && words_only(value, strlen(value));
        }
    return sets_text(sql, "SET sql_mode='", false, "_,") ||
           sets_text(sql, "SET time_zone='", true, "_/+-:");
}

static const char *const kinds[] = {"VIEW",  "TRIGGER", "FUNCTION", "PROCEDURE",
                                    "EVENT", "LIBRARY", "PACKAGE",  NULL};

/* The token behind the word of a kind; that of a package's body is two words. */
static enum token behind_kind(struct scan *sc, const char **from, size_t *n)
{
    static const char *const packages[] = {"PACKAGE", NULL}, *const body[] = {"BODY", NULL};
    bool package = one_of(*from, *n, packages);
    enum token t = next(sc, from, n);
    return package && t == WORD && one_of(*from, *n, body) ? next(sc, from, n) : t;
}

/* Routines come quoted as their own sql_mode has it: "p" under ANSI_QUOTES. A backslash is the only
 * thing in it that the modes read in different ways, and nobody's name holds one. */
static bool whole_name(enum token t, const char *from, size_t n)
{
    return t == QUOTED || (t == STRING && !memchr(from, '\\', n));
}

static bool named(enum token t, const char *from, size_t n)
{
    return whole_name(t, from, n) && *from != '\'';
}

static bool dropping(const char *sql)
{
    static const char *const exists[] = {"IF", "EXISTS"};
    struct scan sc = {sql, sql + strlen(sql), 0};
    const char *from;
    size_t n;
    if (next(&sc, &from, &n) != WORD || next(&sc, &from, &n) != WORD || !one_of(from, n, kinds))
        return false;
    enum token t = behind_kind(&sc, &from, &n);
    for (size_t i = 0; i < 2; i++, t = next(&sc, &from, &n))
        if (t != WORD || n != strlen(exists[i]) || strncasecmp(from, exists[i], n) != 0)
            return false;
    return named(t, from, n) && next(&sc, &from, &n) == END;
}

/* A function of a library on the server's disk has no parentheses behind its name. */
static bool making(const char *sql)
{
    static const char *const fronts[] = {
        "ALGORITHM", "UNDEFINED", "MERGE", "TEMPTABLE",  "DEFINER", "SQL", "SECURITY",
        "INVOKER",   "AGGREGATE", "JSON",  "RELATIONAL", "DUALITY", NULL};
    struct scan sc = {sql, sql + strlen(sql), 0};
    const char *from;
    size_t n;
    bool whose = false; /* behind '=' or '@' stands somebody's name */
    next(&sc, &from, &n);
    for (;;) {
        enum token t = next(&sc, &from, &n);
        bool name = t == WORD || whole_name(t, from, n);
        if (t == WORD && !whose && one_of(from, n, kinds))
            break;
        if (!(t == OTHER && (*from == '=' || *from == '@')) && !(name && whose) &&
            !(t == WORD && one_of(from, n, fronts)))
            return false;
        whose = t == OTHER;
    }
    bool called = n == strlen("FUNCTION") && strncasecmp(from, "FUNCTION", n) == 0;
    enum token t = behind_kind(&sc, &from, &n);
    if (!named(t, from, n))
        return false;
    enum token behind = next(&sc, &from, &n);
    return called ? behind == OPEN : behind != BAD && behind != END && *from != '.';
}

bool allowed_definition(const char *sql)
{
    if (text_starts(sql, "SET "))
        return setting(sql);
    if (text_starts(sql, "DROP "))
        return dropping(sql);
    return text_starts(sql, "CREATE ") && making(sql);
}

bool allowed_charset(const char *name, size_t len)
{
    /* The second byte of a character may be a backslash or a letter in these; ucs2 and its like are
     * no client's. */
    static const char *const unsafe[] = {"big5",  "cp932", "gbk",     "sjis",    "ucs2",
                                         "utf16", "utf32", "utf16le", "gb18030", NULL};
    return len > 0 && words_only(name, len) && !one_of(name, len, unsafe);
}
