#include "sql/foreign.h"

#include <string.h>
#include <strings.h>

#include "sql/foreign_text.h"

/* ---- tokens ---- */

/* Returns whether the server executes a version comment. MariaDB skips the numbers that MySQL
 * assigned to its own features from 5.7 on. No server has the highest number, which marks
 * MariaDB's sandbox. */
static bool foreign_executes(struct server_version v, const struct sql_token *t, size_t *head)
{
    bool only_mariadb = t->s[2] == 'M';
    size_t at = only_mariadb ? 4 : 3, from = at;
    unsigned number = 0;
    while (at < t->len && at - from < 6 && text_is_digit(t->s[at]))
        number = 10 * number + (unsigned)(t->s[at++] - '0');
    *head = at;
    if (at == from)
        return !only_mariadb || v.mariadb;
    if (number >= 999999 || number > v.number || (only_mariadb && !v.mariadb))
        return false;
    return only_mariadb || !v.mariadb || number < 50700 || number > 99999;
}

/* Enters or skips a version comment. The tokenizer has already entered listed ones; any other
 * one is a token. */
static void open_or_skip(struct foreign_text *x)
{
    struct sql_token *t = &x->t;
    const char *close = memmem(t->s, (size_t)(x->text.end - t->s), "*/", 2);
    struct sql_token whole = {.s = t->s, .len = (size_t)((close ? close : x->text.end) - t->s)};
    size_t head;
    bool runs = foreign_executes(x->server, &whole, &head);
    x->text.s = runs || !close ? t->s + head : close + 2;
    x->text.entered = runs;
}

void foreign_text_next(struct foreign_text *x)
{
    for (;;) {
        sql_next(&x->text, &x->t);
        if (x->t.kind == SQL_VERSION || x->t.kind == SQL_ENTER)
            open_or_skip(x);
        else if (x->t.kind != SQL_COMMENT && x->t.kind != SQL_LEAVE)
            return;
    }
}

void foreign_text_begin(struct foreign_text *x, const char *sql, size_t len,
                        const struct foreign_reading *how)
{
    *x = (struct foreign_text){.text = {.s = sql,
                                        .end = sql + len,
                                        .ansi_quotes = how->ansi_quotes,
                                        .plain_strings = how->plain_strings},
                               .server = how->server};
    foreign_text_next(x);
}

bool foreign_text_word(struct foreign_text *x, const char *word)
{
    bool is = sql_is(&x->t, word);
    if (is)
        foreign_text_next(x);
    return is;
}

bool foreign_text_punct(struct foreign_text *x, const char *sign)
{
    bool is = sql_is_punct(&x->t, sign);
    if (is)
        foreign_text_next(x);
    return is;
}

bool foreign_text_end(const struct foreign_text *x)
{
    return x->t.kind == SQL_END;
}

/* Reads one of the words of a list such as "A B". */
static bool foreign_one_of(struct foreign_text *x, const char *list)
{
    bool is = x->t.kind == SQL_WORD && sql_find_word(list, x->t.s, x->t.len);
    if (is)
        foreign_text_next(x);
    return is;
}

static void if_exists(struct foreign_text *x)
{
    if (foreign_text_word(x, "IF")) {
        foreign_text_word(x, "NOT");
        foreign_text_word(x, "EXISTS");
    }
}

/* Reads a name without moving past it, so that what follows remains unchanged. */
static bool last_of_name(struct foreign_text *x, struct buf *name)
{
    buf_clear(name);
    return sql_token_name(&x->t, name);
}

/* Reads "`t`" or "`schema`.`t`". */
static bool foreign_read_name(struct foreign_text *x, struct foreign *f)
{
    if (!last_of_name(x, &f->name))
        return false;
    struct sql_token after = sql_peek(&x->text);
    if (!sql_is_punct(&after, "."))
        return true;
    buf_clear(&f->schema);
    buf_add(&f->schema, f->name.p, f->name.len);
    foreign_text_next(x);
    foreign_text_next(x);
    return last_of_name(x, &f->name);
}

static bool name_and_end(struct foreign_text *x, struct foreign *f)
{
    bool is = foreign_read_name(x, f);
    if (is)
        foreign_text_next(x);
    return is && foreign_text_end(x);
}

/* ---- statements ---- */

/* Skips the words between CREATE and the kind of object. sql/definition.h reads a definer. */
static void before_kind(struct foreign_text *x)
{
    static const char kinds[] =
        "VIEW TRIGGER FUNCTION PROCEDURE EVENT PACKAGE LIBRARY TABLE DATABASE SCHEMA SEQUENCE";
    static const char fronts[] = "OR ALGORITHM DEFINER SQL AGGREGATE";
    if (x->t.kind != SQL_WORD || !sql_find_word(fronts, x->t.s, x->t.len))
        return;
    while (x->t.kind != SQL_END && x->t.kind != SQL_BAD &&
           !(x->t.kind == SQL_WORD && sql_find_word(kinds, x->t.s, x->t.len)))
        foreign_text_next(x);
}

/* Reads the table of "`name` BEFORE INSERT ON `table`". */
static bool trigger_table(struct foreign_text *x, struct foreign *f)
{
    while (!foreign_text_end(x) && x->t.kind != SQL_BAD)
        if (foreign_text_word(x, "ON"))
            return foreign_read_name(x, f);
        else
            foreign_text_next(x);
    return false;
}

static enum foreign_kind foreign_create(struct foreign_text *x, struct foreign *f)
{
    bool replaces = sql_is(&x->t, "OR");
    before_kind(x);
    if (foreign_text_word(x, "TABLE")) {
        if_exists(x);
        return foreign_read_name(x, f) && !replaces ? FOREIGN_TABLE : FOREIGN_REFUSED;
    }
    if (foreign_one_of(x, "DATABASE SCHEMA")) {
        if_exists(x);
        return foreign_read_name(x, f) ? FOREIGN_MAKE_SCHEMA : FOREIGN_REFUSED;
    }
    if (foreign_text_word(x, "SEQUENCE")) {
        if_exists(x);
        return foreign_read_name(x, f) ? FOREIGN_SEQUENCE : FOREIGN_REFUSED;
    }
    if (foreign_text_word(x, "VIEW")) {
        if_exists(x);
        f->view = foreign_read_name(x, f);
        return f->view ? FOREIGN_CODE : FOREIGN_REFUSED;
    }
    if (foreign_text_word(x, "TRIGGER")) {
        f->trigger = trigger_table(x, f);
        return f->trigger ? FOREIGN_CODE : FOREIGN_REFUSED;
    }
    return foreign_one_of(x, "FUNCTION PROCEDURE EVENT PACKAGE LIBRARY") ? FOREIGN_CODE
                                                                         : FOREIGN_REFUSED;
}

/* Finds the end of the rows. If the whole statement is in a comment, the comment ends after its
 * rows. */
static bool end_of_rows(struct foreign_text *x, struct foreign *f)
{
    f->rest = x->text.s;
    f->end = x->text.end;
    if (!x->text.entered)
        return true;
    while (f->end > f->rest && strchr(" \t\r\n", f->end[-1]))
        f->end--;
    bool closed = f->end - f->rest >= 2 && memcmp(f->end - 2, "*/", 2) == 0;
    f->end -= closed ? 2 : 0;
    return closed;
}

static enum foreign_kind foreign_rows(struct foreign_text *x, struct foreign *f)
{
    while (foreign_one_of(x, "LOW_PRIORITY HIGH_PRIORITY DELAYED"))
        continue;
    f->ignore = !f->replace && foreign_text_word(x, "IGNORE");
    foreign_text_word(x, "INTO");
    return foreign_read_name(x, f) && end_of_rows(x, f) ? FOREIGN_ROWS : FOREIGN_REFUSED;
}

static enum foreign_kind foreign_insert(struct foreign_text *x, struct foreign *f)
{
    return foreign_rows(x, f);
}

static enum foreign_kind foreign_replace(struct foreign_text *x, struct foreign *f)
{
    f->replace = true;
    return foreign_rows(x, f);
}

static enum foreign_kind truncate_table(struct foreign_text *x, struct foreign *f)
{
    f->truncate = true;
    foreign_text_word(x, "TABLE");
    return name_and_end(x, f) ? FOREIGN_EMPTY : FOREIGN_REFUSED;
}

static enum foreign_kind foreign_delete_rows(struct foreign_text *x, struct foreign *f)
{
    return foreign_text_word(x, "FROM") && name_and_end(x, f) ? FOREIGN_EMPTY : FOREIGN_REFUSED;
}

/* Reads ALTER. DISABLE KEYS and ENABLE KEYS are neutral, because they affect only how keys are
 * built while rows are loaded. */
static enum foreign_kind foreign_alter(struct foreign_text *x, struct foreign *f)
{
    if (foreign_one_of(
            x, "DATABASE SCHEMA")) /* mysqldump writes it around code to set the character set */
        return FOREIGN_NEUTRAL;
    if (!foreign_text_word(x, "TABLE") || !foreign_read_name(x, f))
        return FOREIGN_REFUSED;
    struct foreign_text ahead = *x;
    foreign_text_next(&ahead);
    bool keys = foreign_one_of(&ahead, "DISABLE ENABLE") && foreign_text_word(&ahead, "KEYS") &&
                foreign_text_end(&ahead);
    return keys ? FOREIGN_NEUTRAL : FOREIGN_ALTER;
}

/* Reads a list of tables. All must have the same schema, or none. */
static bool drop_tables(struct foreign_text *x, struct foreign *f)
{
    SCOPED(buf_free) struct buf first = {0};
    if_exists(x);
    do {
        if (!foreign_read_name(x, f))
            return false;
        if (!f->names.count)
            buf_adds(&first, f->schema.p ? f->schema.p : "");
        if (strcmp(first.p, f->schema.p ? f->schema.p : "") != 0)
            return false;
        names_add(&f->names, f->name.p);
        foreign_text_next(x);
    } while (foreign_text_punct(x, ","));
    foreign_one_of(x, "RESTRICT CASCADE");
    return foreign_text_end(x);
}

static enum foreign_kind foreign_drop(struct foreign_text *x, struct foreign *f)
{
    if (foreign_text_word(x, "TABLE"))
        return drop_tables(x, f) ? FOREIGN_DROP : FOREIGN_REFUSED;
    if (foreign_one_of(x, "DATABASE SCHEMA")) {
        if_exists(x);
        return name_and_end(x, f) ? FOREIGN_DROP_SCHEMA : FOREIGN_REFUSED;
    }
    /* The object is dropped before it is created again. Existing objects are never dropped
     * (code.h). */
    return foreign_one_of(x, "VIEW TRIGGER FUNCTION PROCEDURE EVENT PACKAGE LIBRARY SEQUENCE")
               ? FOREIGN_NEUTRAL
               : FOREIGN_REFUSED;
}

static enum foreign_kind foreign_use(struct foreign_text *x, struct foreign *f)
{
    return name_and_end(x, f) && !f->schema.len ? FOREIGN_USE : FOREIGN_REFUSED;
}

static enum foreign_kind sql_foreign_set(struct foreign_text *x, struct foreign *f)
{
    (void)x, (void)f;
    return FOREIGN_SET;
}

static enum foreign_kind foreign_neutral(struct foreign_text *x, struct foreign *f)
{
    (void)x, (void)f;
    return FOREIGN_NEUTRAL;
}

static enum foreign_kind foreign_start(struct foreign_text *x, struct foreign *f)
{
    (void)f;
    return foreign_one_of(x, "TRANSACTION SLAVE REPLICA ALL") ? FOREIGN_NEUTRAL : FOREIGN_REFUSED;
}

static enum foreign_kind foreign_change(struct foreign_text *x, struct foreign *f)
{
    (void)f;
    return foreign_one_of(x, "MASTER REPLICATION") ? FOREIGN_NEUTRAL : FOREIGN_REFUSED;
}

/* Reads DO SETVAL of MariaDB's mysqldump. It is ignored, because the sequence is not restored
 * either. */
static enum foreign_kind foreign_run(struct foreign_text *x, struct foreign *f)
{
    (void)f;
    return foreign_one_of(x, "SETVAL") ? FOREIGN_NEUTRAL : FOREIGN_REFUSED;
}

/* Reads a statement of our own dumps that sets a session variable (dump/format.c). */
static enum foreign_kind foreign_own(struct foreign_text *x, struct foreign *f)
{
    (void)f;
    foreign_text_word(x, "PREPARE");
    return foreign_text_word(x, "worldkeeper") ? FOREIGN_NEUTRAL : FOREIGN_REFUSED;
}

static const struct statement {
    const char *word;
    enum foreign_kind (*read)(struct foreign_text *x, struct foreign *f);
} statements[] = {
    {"INSERT", foreign_insert}, {"REPLACE", foreign_replace}, {"CREATE", foreign_create},
    {"SET", sql_foreign_set},   {"ALTER", foreign_alter},     {"DROP", foreign_drop},
    {"USE", foreign_use},       {"LOCK", foreign_neutral},    {"UNLOCK", foreign_neutral},
    {"BEGIN", foreign_neutral}, {"COMMIT", foreign_neutral},  {"FLUSH", foreign_neutral},
    {"START", foreign_start},   {"STOP", foreign_start},      {"CHANGE", foreign_change},
    {"DO", foreign_run},        {"TRUNCATE", truncate_table}, {"DELETE", foreign_delete_rows},
    {"PREPARE", foreign_own},   {"EXECUTE", foreign_own},     {"DEALLOCATE", foreign_own},
};

void foreign_read(const char *sql, size_t len, const struct foreign_reading *how,
                  struct foreign *out)
{
    struct foreign_text x;
    *out = (struct foreign){.end = sql + len};
    buf_adds(&out->schema, "");
    buf_adds(&out->name, "");
    foreign_text_begin(&x, sql, len, how);
    if (foreign_text_end(&x))
        out->kind = FOREIGN_NEUTRAL;
    for (size_t i = 0; i < sizeof statements / sizeof *statements; i++)
        if (sql_is(&x.t, statements[i].word)) {
            foreign_text_next(&x);
            out->kind = statements[i].read(&x, out);
            return;
        }
}

void foreign_free(struct foreign *f)
{
    buf_free(&f->schema);
    buf_free(&f->name);
    names_free(&f->names);
}
