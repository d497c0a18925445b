#include "restore/code.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/token.h"

/* ---- what the dump holds ---- */

static bool consists_of(const char *s, const char *others)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(others, *s))
            return false;
    return true;
}

/* Returns whether the text is a list of mode names, "A,B" or "". */
static bool mode_list(const char *s)
{
    bool first = true;
    for (; *s; s++) {
        if (first ? !isupper((unsigned char)*s)
                  : !isupper((unsigned char)*s) && !isdigit((unsigned char)*s) && !strchr("_,", *s))
            return false;
        first = *s == ',';
    }
    return true;
}

/* Returns whether one of these modes is in the list. */
static bool has_mode(const char *list, const char *modes)
{
    for (const char *s = list; *s;) {
        size_t n = strcspn(s, ",");
        if (n && sql_find_word(modes, s, n))
            return true;
        s += n + (s[n] == ',');
    }
    return false;
}

/* Notes the settings of a SET if they are those that a dump makes for its definitions. SET NAMES
 * begins the settings of the next object. */
static bool note_set(struct code_settings *s, struct sql_text *x)
{
    struct {
        const char *name;
        char *out;
        size_t room;
    } known[] = {{"character_set_client", s->client, sizeof s->client},
                 {"collation_connection", s->collation, sizeof s->collation},
                 {"time_zone", s->zone, sizeof s->zone},
                 {"sql_mode", s->mode, sizeof s->mode}};
    struct sql_token name, sign, value;
    do {
        if (sql_next(x, &name) != SQL_WORD)
            return false;
        if (sql_is(&name, "NAMES")) {
            *s = (struct code_settings){0};
            return sql_next(x, &value) == SQL_WORD;
        }
        sql_next(x, &sign);
        sql_next(x, &value);
        struct buf text = {0};
        bool good = sql_is_punct(&sign, "=") &&
                    (sql_token_name(&value, &text) || sql_token_bytes(&value, false, &text));
        for (size_t i = 0; i < sizeof known / sizeof *known && good; i++)
            if (sql_is(&name, known[i].name))
                good = snprintf(known[i].out, known[i].room, "%s", text.p ? text.p : "") <
                       (int)known[i].room;
        buf_free(&text);
        if (!good)
            return false;
        sql_next(x, &sign);
    } while (sql_is_punct(&sign, ","));
    return sign.kind == SQL_END;
}

static bool code_ascii(const char *s, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] >= 0x80)
            return false;
    return true;
}

/* Returns whether the character set has one byte per character and is compatible with ASCII. */
static bool single_byte(const char *charset)
{
    return sql_find_word(
        "ascii latin1 latin2 latin5 latin7 cp1250 cp1251 cp1256 cp1257 cp850 cp852 cp866 "
        "greek hebrew koi8r koi8u tis620 armscii8 geostd8 macce macroman keybcs2 dec8 hp8",
        charset, strlen(charset));
}

const char *code_client(const struct code_item *it)
{
    static const char *const utf8[] = {"", "utf8", "utf8mb3", "utf8mb4", NULL};
    const char *own = it->settings.client, *end = it->sql + strlen(it->sql);
    size_t head = it->d.body ? (size_t)(it->d.body - it->sql) : 0;
    if (text_among(own, utf8))
        return !text_utf8_valid(it->sql, (size_t)(end - it->sql)) ? NULL : own[0] ? own : "utf8mb4";
    bool safe = single_byte(own), body = code_ascii(it->sql + head, strlen(it->sql + head));
    if (body && text_utf8_valid(it->sql, head))
        return safe && code_ascii(it->sql, head) ? own : "utf8mb4";
    return safe && code_ascii(it->sql, head) ? own : NULL;
}

/* Reads the definition. It is refused unless it was understood, because under some modes the same
 * text means something else. */
static void code_read_item(struct code_item *it)
{
    static const char ansi[] = "ANSI_QUOTES ANSI ORACLE MSSQL DB2 MAXDB POSTGRESQL";
    struct code_settings *s = &it->settings;
    struct definition_modes modes = {.ansi_quotes = has_mode(s->mode, ansi),
                                     .plain_strings = has_mode(s->mode, "NO_BACKSLASH_ESCAPES"),
                                     .oracle = has_mode(s->mode, "ORACLE"),
                                     .bytes = single_byte(s->client)};
    if (!definition_read(it->sql, strlen(it->sql), &modes, &it->d, &it->refused))
        return;
    it->refused = NULL;
    if (!consists_of(s->client, "_") || !consists_of(s->collation, "_") || !mode_list(s->mode) ||
        !consists_of(s->zone, "_/+-:"))
        it->refused = "its settings differ from those that worldkeeper writes";
    else if (!code_client(it))
        it->refused = "its text cannot be read safely in its character set";
}

static void free_item(struct code_item *it)
{
    definition_free(&it->d);
    free(it->sql);
}

/* Adds an item and removes one of the same kind and name: the stand-ins of views, which are for
 * loading a dump manually, come before the views. */
static void code_add_item(struct code *c, const struct code_item *it)
{
    for (size_t i = 0; i < c->count && it->d.body; i++) {
        const struct definition *d = &c->list[i].d;
        if (!d->body || d->kind != it->d.kind || strcmp(d->name.p, it->d.name.p) != 0)
            continue;
        free_item(&c->list[i]);
        memmove(&c->list[i], &c->list[i + 1], (c->count - i - 1) * sizeof *c->list);
        c->count--;
        break;
    }
    c->list = xrealloc(c->list, (c->count + 1) * sizeof *c->list);
    c->list[c->count++] = *it;
}

/* Returns whether the statement is a DROP VIEW or similar, which a dump has before each object. It
 * is ignored, because existing objects are never dropped. */
static bool code_drops(const struct sql_token *first, struct sql_text *x)
{
    static const char kinds[] = "VIEW TRIGGER FUNCTION PROCEDURE EVENT LIBRARY PACKAGE";
    struct sql_token kind;
    return sql_is(first, "DROP") && sql_next(x, &kind) == SQL_WORD &&
           sql_find_word(kinds, kind.s, kind.len);
}

void code_note(struct code *c, const char *sql, size_t len)
{
    struct sql_text x = {.s = sql, .end = sql + len};
    struct sql_token first;
    if (sql_next(&x, &first) == SQL_END || code_drops(&first, &x) ||
        (sql_is(&first, "SET") && note_set(&c->now, &x)))
        return;
    struct code_item it = {.sql = xstrndup(sql, len), .settings = c->now};
    if (strlen(it.sql) != len || !sql_is(&first, "CREATE"))
        it.refused = "not a definition that worldkeeper writes";
    else
        code_read_item(&it);
    code_add_item(c, &it);
}

int code_see(void *code, const struct format_item *item, struct err *e)
{
    (void)e;
    if (item->type == FORMAT_DEFINITION)
        code_note(code, item->sql, item->sql_len);
    return 0;
}

static bool code_holds(const char *s, const char *end, const char *what)
{
    return memmem(s, (size_t)(end - s), what, strlen(what)) != NULL;
}

/* mysqldump writes views, triggers and events as three conditional comments, with CREATE, the
 * definer and the rest. The first one was opened by the caller, so there is an end without a
 * beginning. */
static void code_unwrap(struct buf *b, const char *sql, size_t len)
{
    const char *end = sql + len, *close;
    bool wrapped = !code_holds(sql, end, "/*");
    while ((close = memmem(sql, (size_t)(end - sql), "*/", 2)) && !code_holds(sql, close, "/*")) {
        const char *open = close + 2;
        while (open < end && strchr(" \t\r\n", *open))
            open++;
        if (end - open < 9 || strncmp(open, "/*!5", 4) != 0)
            break;
        buf_add(b, sql, (size_t)(close - sql));
        buf_addc(b, ' ');
        for (sql = open + 3; sql < end && isdigit((unsigned char)*sql);)
            sql++;
        wrapped = true;
    }
    while (end > sql && strchr(" \t\r\n", end[-1]))
        end--;
    if (wrapped && end - sql > 1 && memcmp(end - 2, "*/", 2) == 0)
        end -= 2;
    buf_add(b, sql, (size_t)(end - sql));
}

void code_note_foreign(struct code *c, const char *sql, size_t len)
{
    SCOPED(buf_free) struct buf b = {0};
    struct sql_token first, kind;
    code_unwrap(&b, sql, len);
    struct sql_text x = {.s = b.p, .end = b.p + b.len};
    sql_next(&x, &first);
    if (sql_is(&first, "SET")) {
        note_set(&c->now, &x);
    } else if (sql_is(&first, "CREATE")) {
        sql_next(&x, &kind);
        if (kind.kind != SQL_WORD ||
            !sql_find_word("TABLE DATABASE SCHEMA SEQUENCE", kind.s, kind.len))
            code_note(c, b.p, b.len);
    }
}

void code_free(struct code *c)
{
    for (size_t i = 0; i < c->count; i++)
        free_item(&c->list[i]);
    free(c->list);
    *c = (struct code){0};
}

/* ---- whether it may run ---- */

enum code_use code_use(const struct code_case *c)
{
    if (c->with_code)
        return CODE_MAKE;
    if (c->into)
        return CODE_LEAVE;
    if (c->empty || c->elsewhere)
        return c->trust == CODE_UNKNOWN ? CODE_LEAVE : CODE_MAKE;
    return c->known ? CODE_TRIGGERS : CODE_LEAVE;
}

const char *code_why(const struct code_case *c)
{
    if (c->into)
        return "--with-code was not given";
    if (!c->empty && !c->elsewhere)
        return "the schema is not empty";
    return "its HMAC does not prove that worldkeeper wrote it";
}
