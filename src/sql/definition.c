#include "sql/definition.h"

#include <string.h>

#include "sql/literal.h"
#include "sql/reader.h"

/* State of reading a head. */
struct head {
    struct reader r; /* r.text.why is the first error */
    const struct definition_modes *modes;
    struct definition *d;
    const char *copied; /* position after the last token that was copied */
    bool external;      /* LANGUAGE is not SQL */
    struct buf tokens;  /* the copied tokens with their kinds */
};

/* Names for messages, and words for SQL. */
static const struct {
    const char *name, *words;
} kinds[] = {[DEFINITION_VIEW] = {"view", "VIEW"},
             [DEFINITION_FUNCTION] = {"function", "FUNCTION"},
             [DEFINITION_PROCEDURE] = {"procedure", "PROCEDURE"},
             [DEFINITION_PACKAGE] = {"package", "PACKAGE"},
             [DEFINITION_PACKAGE_BODY] = {"package body", "PACKAGE BODY"},
             [DEFINITION_LIBRARY] = {"library", "LIBRARY"},
             [DEFINITION_TRIGGER] = {"trigger", "TRIGGER"},
             [DEFINITION_EVENT] = {"event", "EVENT"}};
#define KINDS (sizeof kinds / sizeof *kinds)

static const char not_written[] = "its beginning differs from what servers write";

const char *definition_kind_name(enum definition_kind kind)
{
    return kinds[kind].name;
}

const char *definition_kind_words(enum definition_kind kind)
{
    return kinds[kind].words;
}

/* Sets the reason, unless there is one already. Nothing matches afterwards, so callers need not
 * stop at once. */
static bool definition_wrong(struct head *h, const char *why)
{
    reader_stop(&h->r, why);
    return false;
}

static bool definition_eat(struct head *h, const char *words)
{
    return reader_word(&h->r, words);
}

/* Requires words that every statement of this kind contains. */
static bool definition_need(struct head *h, const char *words)
{
    return definition_eat(h, words) || definition_wrong(h, not_written);
}

/* Reads one of a list of words and returns it as spelled in the list. */
static const char *definition_one_of(struct head *h, const char *const *words)
{
    for (; *words; words++)
        if (definition_eat(h, *words))
            return *words;
    definition_wrong(h, not_written);
    return "";
}

/* Appends a token. No token contains a NUL byte. */
static void add_token(struct buf *out, const struct sql_token *t)
{
    buf_printf(out, "%d:", (int)t->kind);
    buf_add(out, t->s, t->len);
    buf_addc(out, '\0');
}

/* Copies a token, with the blanks before it, to the head that will be written. The blanks matter
 * because servers store the text of parameters and show it again. */
static void definition_copy(struct head *h, struct buf *out)
{
    const struct sql_token *t = &h->r.t;
    const char *blank = h->copied ? h->copied : t->s;
    size_t n = (size_t)(t->s - blank);
    bool only_blanks = strspn(blank, " \t\r\n") >= n;
    if (!h->copied || !only_blanks)
        buf_addc(out, ' ');
    else
        buf_add(out, blank, n);
    buf_add(out, t->s, t->len);
    add_token(&h->tokens, t);
    h->copied = t->s + t->len;
    reader_next(&h->r);
}

/* Copies all of the words or none, so that no incomplete clause is copied. */
static bool copy_words(struct head *h, struct buf *out, const char *words)
{
    if (!reader_at(&h->r, words))
        return false;
    for (; words; words = strchr(words + 1, ' '))
        definition_copy(h, out);
    return true;
}

static bool copy_need(struct head *h, struct buf *out, const char *words)
{
    return copy_words(h, out, words) || definition_wrong(h, not_written);
}

static bool copy_kind(struct head *h, struct buf *out, enum sql_kind kind)
{
    if (h->r.t.kind != kind)
        return false;
    definition_copy(h, out);
    return true;
}

/* Copies everything from "(" to its ")": names, words, literals and punctuation. */
static bool copy_list(struct head *h, struct buf *out)
{
    size_t depth = 0;
    do {
        enum sql_kind kind = h->r.t.kind;
        if (kind == SQL_END || kind == SQL_BAD || sql_is_punct(&h->r.t, ";"))
            return definition_wrong(h, "a list at its beginning is not terminated");
        depth += kind == SQL_OPEN;
        depth -= kind == SQL_CLOSE;
        definition_copy(h, out);
    } while (depth > 0);
    return true;
}

static bool definition_read_name(struct head *h, struct buf *out)
{
    buf_clear(out);
    if (!sql_token_name(&h->r.t, out))
        return definition_wrong(h, "a name is missing");
    reader_next(&h->r);
    return !sql_is_punct(&h->r.t, ".") || definition_wrong(h, "it names a schema");
}

/* Reads a part of an account. Servers quote it; people write it as a string or a bare word. */
static bool read_account_part(struct head *h, struct buf *out)
{
    const struct sql_token *t = &h->r.t;
    buf_clear(out);
    if (!sql_token_name(t, out) && !sql_token_bytes(t, h->modes->plain_strings, out))
        return definition_wrong(h, "its definer is not an account");
    /* Rejects other character sets. Queries to the server are UTF-8, in which these bytes would
     * be another name. */
    if (out->len == 0 || memchr(out->p, '\0', out->len) || !text_utf8_valid(out->p, out->len))
        return definition_wrong(h, "its definer is not an account");
    reader_next(&h->r);
    return true;
}

/* Reads "DEFINER = `user`@`host`", a role without a host, or CURRENT_USER, which is treated as
 * no definer. */
static bool read_definer(struct head *h)
{
    struct definition *d = h->d;
    if (!definition_eat(h, "DEFINER"))
        return true;
    if (!reader_punct(&h->r, "="))
        return definition_wrong(h, "its definer is not an account");
    if (definition_eat(h, "CURRENT_USER"))
        return !reader_token(&h->r, SQL_OPEN) || reader_token(&h->r, SQL_CLOSE) ||
               definition_wrong(h, "its definer is not an account");
    d->has_definer = true;
    return read_account_part(h, &d->user) &&
           (!reader_punct(&h->r, "@") || read_account_part(h, &d->host));
}

/* Reads "CREATE … FUNCTION". Each clause before the kind is allowed for one kind only. */
static bool read_front(struct head *h)
{
    static const char *const algorithms[] = {"UNDEFINED", "MERGE", "TEMPTABLE", NULL};
    static const char *const securities[] = {"DEFINER", "INVOKER", NULL};
    struct definition *d = h->d;
    definition_need(h, "CREATE");
    if (reader_at(&h->r, "OR"))
        definition_need(h, "OR REPLACE");
    if (definition_eat(h, "ALGORITHM")) {
        if (!reader_punct(&h->r, "="))
            return definition_wrong(h, not_written);
        d->algorithm = definition_one_of(h, algorithms);
    }
    if (!read_definer(h))
        return false;
    if (reader_at(&h->r, "SQL")) {
        definition_need(h, "SQL SECURITY");
        d->security = definition_one_of(h, securities);
    }
    d->aggregate = definition_eat(h, "AGGREGATE");
    if (definition_eat(h, "JSON")) {
        definition_eat(h, "RELATIONAL");
        d->duality = definition_need(h, "DUALITY");
    }
    int kind = KINDS - 1; /* backwards, because PACKAGE is also the beginning of PACKAGE BODY */
    while (kind >= 0 && !definition_eat(h, kinds[kind].words))
        kind--;
    if (kind < 0)
        return definition_wrong(h, "it does not create a view, routine, library, trigger or event");
    d->kind = (enum definition_kind)kind;
    /* Clauses before the kind were read for every kind. Now the kind is known, so they can be
     * checked. */
    bool view = d->kind == DEFINITION_VIEW;
    if ((!view && (d->duality || d->algorithm[0] || d->security[0])) ||
        (d->aggregate && d->kind != DEFINITION_FUNCTION))
        return definition_wrong(h, not_written);
    if (reader_at(&h->r, "IF"))
        definition_need(h, "IF NOT EXISTS");
    return definition_read_name(h, &d->name);
}

/* Reads "(columns) AS SELECT …". The query is not examined, because it runs only when the view
 * is read. */
static bool read_view(struct head *h)
{
    const struct sql_token *t = &h->r.t;
    if (t->kind == SQL_OPEN && !copy_list(h, &h->d->rest))
        return false;
    if (!copy_need(h, &h->d->rest, "AS"))
        return false;
    return t->kind == SQL_OPEN ||
           (t->kind == SQL_WORD && sql_find_word("SELECT WITH TABLE VALUES", t->s, t->len)) ||
           definition_wrong(h, "its body is not a query");
}

/* Copies a type such as VARCHAR(20) CHARSET utf8mb4, int(11) unsigned, or t.column%TYPE. */
static bool copy_type(struct head *h, struct buf *out)
{
    static const char single[] =
        "UNSIGNED SIGNED ZEROFILL BINARY VARYING PRECISION BYTE ASCII UNICODE";
    const struct sql_token *t = &h->r.t;
    bool part;
    do {
        if (!copy_kind(h, out, SQL_WORD) && !copy_kind(h, out, SQL_NAME))
            return definition_wrong(h, "its return type is missing");
        part = sql_is_punct(t, ".") || sql_is_punct(t, "%");
        if (part)
            definition_copy(h, out);
    } while (part);
    if (t->kind == SQL_OPEN && !copy_list(h, out))
        return false;
    while (t->kind == SQL_WORD) {
        if (sql_find_word(single, t->s, t->len))
            definition_copy(h, out);
        else if (!copy_words(h, out, "CHARSET") && !copy_words(h, out, "CHARACTER SET") &&
                 !copy_words(h, out, "COLLATE"))
            return true;
        else if (!copy_kind(h, out, SQL_WORD))
            return definition_wrong(h, "its return type is missing");
    }
    return true;
}

/* Copies the characteristics of a routine, package or library. The body follows; it begins with
 * a statement's first word, a label, or a parenthesis. */
static bool copy_characteristics(struct head *h, struct buf *out)
{
    static const char *const plain[] = {"DETERMINISTIC",
                                        "NOT DETERMINISTIC",
                                        "CONTAINS SQL",
                                        "NO SQL",
                                        "READS SQL DATA",
                                        "MODIFIES SQL DATA",
                                        "SQL SECURITY DEFINER",
                                        "SQL SECURITY INVOKER",
                                        NULL};
    const struct sql_token *t = &h->r.t;
    for (;;) {
        const char *const *words = plain;
        while (*words && !copy_words(h, out, *words))
            words++;
        if (*words)
            continue;
        if (copy_words(h, out, "LANGUAGE")) {
            h->external |= !reader_at(&h->r, "SQL");
            if (!copy_kind(h, out, SQL_WORD))
                return definition_wrong(h, "its language has no name");
        } else if (copy_words(h, out, "COMMENT")) {
            if (!copy_kind(h, out, SQL_STRING))
                return definition_wrong(h, "its comment is not a string");
        } else if (copy_words(h, out, "USING")) {
            if (t->kind != SQL_OPEN || !copy_list(h, out))
                return definition_wrong(h, "its libraries are not a list");
        } else {
            break;
        }
    }
    /* An incomplete characteristic, or an incomplete type before it, would become the beginning
     * of the body, which is not checked. */
    if (t->kind == SQL_WORD &&
        sql_find_word("NOT CONTAINS NO READS MODIFIES SQL CHARACTER", t->s, t->len))
        return definition_wrong(h, not_written);
    return true;
}

/* Returns whether a statement begins here: with its first word, a label, or a parenthesis. */
static bool begins_body(struct head *h)
{
    enum sql_kind kind = h->r.t.kind;
    bool begins = kind == SQL_WORD || kind == SQL_NAME || kind == SQL_OPEN;
    return (begins && !reader_at(&h->r, "SONAME")) || definition_wrong(h, "it has no body");
}

/* Reads "(parameters) RETURNS type characteristics". SQL mode ORACLE uses RETURN, and no
 * parentheses if there are no parameters. */
static bool read_routine(struct head *h)
{
    struct buf *rest = &h->d->rest;
    if (h->r.t.kind == SQL_OPEN ? !copy_list(h, rest) : !h->modes->oracle)
        return definition_wrong(h, "its list of parameters is missing");
    if (h->d->kind == DEFINITION_FUNCTION) {
        if (!(h->modes->oracle && copy_words(h, rest, "RETURN")))
            copy_need(h, rest, "RETURNS");
        copy_type(h, rest);
    }
    return copy_characteristics(h, rest) && begins_body(h);
}

/* Reads " OF `a`, b", the columns whose updates fire a trigger. */
static void read_update_of(struct head *h, struct buf *out)
{
    SCOPED(buf_free) struct buf column = {0};
    const char *before = " OF ";
    if (!definition_eat(h, "OF"))
        return;
    do {
        if (!definition_read_name(h, &column))
            return;
        buf_adds(out, before);
        sql_ident(out, column.p);
        before = ", ";
    } while (reader_punct(&h->r, ","));
}

/* Reads the events of a trigger and returns their bits. Older dumps of MariaDB 12 have a comma in
 * place of OR. */
static unsigned read_events(struct head *h, struct buf *out)
{
    static const char *const events[] = {"INSERT", "UPDATE", "DELETE", NULL};
    unsigned bits = 0;
    bool more;
    do {
        const char *event = definition_one_of(h, events);
        buf_adds(out, event);
        for (unsigned i = 0; events[i]; i++)
            bits |= event == events[i] ? 1u << i : 0;
        if (event == events[1])
            read_update_of(h, out);
        more = definition_eat(h, "OR") || reader_punct(&h->r, ",");
        buf_adds(out, more ? " OR " : "");
    } while (more);
    return h->r.text.why ? 0 : bits;
}

/* Reads "BEFORE INSERT ON `table` FOR EACH ROW FOLLOWS `other`". */
static bool read_trigger(struct head *h)
{
    static const char *const times[] = {"BEFORE", "AFTER", NULL};
    struct definition *d = h->d;
    SCOPED(buf_free) struct buf other = {0}, events = {0};
    /* Written from lists instead of copied, so that the head contains only bytes that were
     * understood. */
    const char *order, *time = definition_one_of(h, times);
    if (!read_events(h, &events) || !definition_need(h, "ON") ||
        !definition_read_name(h, &d->table) || !definition_need(h, "FOR EACH ROW"))
        return false;
    buf_printf(&d->rest, " %s %s ON ", time, events.p);
    sql_ident(&d->rest, d->table.p);
    buf_adds(&d->rest, " FOR EACH ROW");
    order = definition_eat(h, "FOLLOWS")    ? "FOLLOWS"
            : definition_eat(h, "PRECEDES") ? "PRECEDES"
                                            : NULL;
    if (order && definition_read_name(h, &other)) {
        buf_printf(&d->rest, " %s ", order);
        sql_ident(&d->rest, other.p);
    }
    return begins_body(h);
}

/* Copies a time. It must be a string: an expression would be evaluated when the event is
 * created. */
static bool copy_moment(struct head *h, struct buf *out)
{
    return copy_kind(h, out, SQL_STRING) ||
           definition_wrong(h, "its schedule differs from what servers write");
}

static bool copy_unit(struct head *h, struct buf *out)
{
    static const char units[] =
        "YEAR QUARTER MONTH WEEK DAY HOUR MINUTE SECOND YEAR_MONTH DAY_HOUR DAY_MINUTE "
        "DAY_SECOND HOUR_MINUTE HOUR_SECOND MINUTE_SECOND";
    const struct sql_token *t = &h->r.t;
    return t->kind == SQL_WORD && sql_find_word(units, t->s, t->len) && copy_kind(h, out, SQL_WORD);
}

static bool copy_schedule(struct head *h, struct buf *out)
{
    if (copy_words(h, out, "AT"))
        return copy_moment(h, out);
    if (!copy_need(h, out, "EVERY") || !(copy_kind(h, out, SQL_NUMBER) || copy_moment(h, out)) ||
        !copy_unit(h, out))
        return definition_wrong(h, "its schedule differs from what servers write");
    return (!copy_words(h, out, "STARTS") || copy_moment(h, out)) &&
           (!copy_words(h, out, "ENDS") || copy_moment(h, out));
}

/* Reads "ON SCHEDULE … ON COMPLETION … state COMMENT '…' DO". The state is not copied, because
 * the writer sets it. */
static bool definition_read_event(struct head *h)
{
    struct definition *d = h->d;
    if (!copy_need(h, &d->rest, "ON SCHEDULE") || !copy_schedule(h, &d->rest))
        return false;
    if (!copy_words(h, &d->rest, "ON COMPLETION NOT PRESERVE"))
        copy_words(h, &d->rest, "ON COMPLETION PRESERVE");
    d->enabled = !definition_eat(h, "DISABLE");
    if (d->enabled)
        definition_eat(h, "ENABLE");
    else if (!definition_eat(h, "ON SLAVE"))
        definition_eat(h, "ON REPLICA");
    /* the state was not copied, so the blanks after it are not copied either */
    h->copied = NULL;
    if (copy_words(h, &d->comment, "COMMENT") && !copy_kind(h, &d->comment, SQL_STRING))
        return definition_wrong(h, "its comment is not a string");
    return definition_need(h, "DO") && begins_body(h);
}

/* Reads from the name to the first word of the body. */
static bool read_rest(struct head *h)
{
    switch (h->d->kind) {
    case DEFINITION_VIEW:
        return read_view(h);
    case DEFINITION_FUNCTION:
    case DEFINITION_PROCEDURE:
        return read_routine(h);
    case DEFINITION_PACKAGE:
    case DEFINITION_PACKAGE_BODY:
        return copy_characteristics(h, &h->d->rest) && begins_body(h);
    case DEFINITION_LIBRARY:
        if (!copy_characteristics(h, &h->d->rest))
            return false;
        return h->external ? begins_body(h) : definition_wrong(h, "its language is missing");
    case DEFINITION_TRIGGER:
        return read_trigger(h);
    case DEFINITION_EVENT:
        return definition_read_event(h);
    }
    return false;
}

/* Checks the end of AS 'text' or AS $tag$text$tag$. The text is code in another language and is
 * not tokenized. */
static bool external_ends(struct head *h)
{
    if (!definition_eat(h, "AS"))
        return definition_wrong(h, "its body is not AS and a string");
    const char *s = h->r.t.s, *end = h->r.text.end;
    while (end > s && strchr(" \t\r\n", end[-1]))
        end--;
    if (s < end && *s == '$') {
        const char *tag_end = memchr(s + 1, '$', (size_t)(end - s - 1));
        size_t tag = tag_end ? (size_t)(tag_end + 1 - s) : 0, all = (size_t)(end - s);
        const char *close = tag ? memmem(s + tag, all - tag, s, tag) : NULL;
        return (close && close + tag == end) || definition_wrong(h, "its body is not terminated");
    }
    bool text = reader_token(&h->r, SQL_STRING);
    return (text && h->r.t.kind == SQL_END) ||
           definition_wrong(h, "its body is not AS and a string");
}

/* Checks that the body ends properly. Version comments in it are accepted as code, because they
 * do not affect the head. */
static bool body_ends(struct head *h)
{
    struct sql_token t = h->r.t;
    while (t.kind != SQL_END && t.kind != SQL_BAD)
        sql_next(&h->r.text, &t);
    return t.kind == SQL_END;
}

static void add_tokens(const struct head *h, const struct buf *written, struct buf *out)
{
    struct sql_text text = h->r.text;
    struct sql_token t;
    text.s = written->len ? written->p : "";
    text.end = text.s + written->len;
    text.why = NULL;
    for (sql_next(&text, &t); t.kind != SQL_END; sql_next(&text, &t)) {
        add_token(out, &t);
        if (t.kind == SQL_BAD)
            return;
    }
}

/* Checks that the written head has the tokens that were checked. It is sent without comments,
 * and the texts before and after a comment may together form something else. The head is
 * therefore read again as the server will read it. A trigger's head is written from lists, so it
 * needs no check. */
static bool reads_the_same(struct head *h)
{
    SCOPED(buf_free) struct buf again = {0};
    if (h->d->kind == DEFINITION_TRIGGER)
        return true;
    add_tokens(h, &h->d->rest, &again);
    add_tokens(h, &h->d->comment, &again);
    return (again.len == h->tokens.len &&
            (again.len == 0 || memcmp(again.p, h->tokens.p, again.len) == 0)) ||
           definition_wrong(h, "its beginning has another meaning without its comments");
}

bool definition_read(const char *sql, size_t len, const struct definition_modes *modes,
                     struct definition *out, const char **why)
{
    *out = (struct definition){.algorithm = "", .security = ""};
    struct head h = {.r = {.text = {.s = sql,
                                    .end = sql + len,
                                    .ansi_quotes = modes->ansi_quotes,
                                    .plain_strings = modes->plain_strings,
                                    .binary = modes->bytes},
                           .bare = true},
                     .modes = modes,
                     .d = out};
    /* the texts are never NULL, even if the head is rejected before its name */
    buf_adds(&out->name, "");
    buf_adds(&out->host, "");
    /* one reader would end there, another one would not */
    if (memchr(sql, '\0', len))
        h.r.text.why = "it contains a NUL byte";
    reader_next(&h.r);
    bool good = read_front(&h) && read_rest(&h);
    if (good) {
        out->body = h.r.t.s;
        out->body_len = (size_t)(sql + len - h.r.t.s);
        good = (h.external ? external_ends(&h) : body_ends(&h)) && reads_the_same(&h);
    }
    buf_free(&h.tokens);
    *why = h.r.text.why;
    return good;
}

/* Starts to read a text that is not a whole definition. */
static struct head definition_part(const char *text, bool ansi_quotes)
{
    struct head h = {.r = {.text = {.s = text,
                                    .end = text + strlen(text),
                                    .ansi_quotes = ansi_quotes,
                                    .binary = true},
                           .bare = true}};
    reader_next(&h.r);
    return h;
}

unsigned definition_events(const char *text, struct buf *out)
{
    struct head h = definition_part(text, false);
    unsigned bits = read_events(&h, out);
    return h.r.t.kind == SQL_END ? bits : 0;
}

unsigned definition_trigger_events(const char *sql, bool ansi_quotes, struct buf *out)
{
    /* All but AFTER are reserved words. A trigger may be called AFTER, but no event follows its
     * name. */
    static const char *const starts[] = {"BEFORE INSERT", "BEFORE UPDATE", "BEFORE DELETE",
                                         "AFTER INSERT",  "AFTER UPDATE",  "AFTER DELETE"};
    struct head h = definition_part(sql, ansi_quotes);
    for (; h.r.t.kind != SQL_END && h.r.t.kind != SQL_BAD; reader_next(&h.r))
        for (size_t i = 0; i < sizeof starts / sizeof *starts; i++)
            if (reader_at(&h.r, starts[i])) {
                reader_next(&h.r);
                unsigned bits = read_events(&h, out);
                return reader_at(&h.r, "ON") ? bits : 0;
            }
    return 0;
}

void definition_write(const struct definition *d, bool definer, struct buf *out)
{
    buf_adds(out, "CREATE ");
    if (d->algorithm[0])
        buf_printf(out, "ALGORITHM=%s ", d->algorithm);
    if (definer && d->has_definer) {
        buf_adds(out, "DEFINER=");
        sql_ident(out, d->user.p);
        buf_addc(out, '@');
        sql_ident(out, d->host.p);
        buf_addc(out, ' ');
    }
    if (d->security[0])
        buf_printf(out, "SQL SECURITY %s ", d->security);
    buf_adds(out, d->aggregate ? "AGGREGATE " : d->duality ? "JSON RELATIONAL DUALITY " : "");
    buf_printf(out, "%s ", kinds[d->kind].words);
    sql_ident(out, d->name.p);
    if (d->rest.len)
        buf_add(out, d->rest.p, d->rest.len);
    /* otherwise the event would run during the restore */
    if (d->kind == DEFINITION_EVENT) {
        buf_adds(out, " DISABLE");
        if (d->comment.len)
            buf_add(out, d->comment.p, d->comment.len);
        buf_adds(out, " DO");
    }
    buf_addc(out, ' ');
    buf_add(out, d->body, d->body_len);
}

/* Frees a definition. The body is not freed, because it is part of the text that was read. */
void definition_free(struct definition *d)
{
    buf_free(&d->name);
    buf_free(&d->table);
    buf_free(&d->user);
    buf_free(&d->host);
    buf_free(&d->rest);
    buf_free(&d->comment);
    *d = (struct definition){0};
}
