#include "mysql/objects.h"

#include <stdlib.h>
#include <string.h>

#include "mysql/account.h"
#include "mysql/only_table.h"
#include "mysql/schema.h"
#include "sql/literal.h"

#define EVENT_ZONE 2      /* column of SHOW CREATE EVENT */
#define NO_SUCH_LIST 1109 /* information_schema has no such table */
#define READINGS 5u       /* of one list, if it changes meanwhile */

/* Returns the text of a body. A zero byte is written as `\0`, which means one in a string and
 * nothing in a comment. This changes a string only under NO_BACKSLASH_ESCAPES. */
static char *dup_code(const struct db_rows *r, unsigned i)
{
    struct buf b = {0};
    const char *v = db_value(r, i);
    bool escaped = false;
    buf_adds(&b, "");
    for (size_t n = v ? db_length(r, i) : 0; n > 0; n--, v++) {
        if (*v)
            buf_addc(&b, *v);
        else
            buf_adds(&b, escaped ? "0" : "\\0");
        escaped = *v == '\\' && !escaped;
    }
    return b.p;
}

/* ---- by kind ---- */

#define ROUTINES(type)                                                                             \
    "SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA=? AND "             \
    "ROUTINE_TYPE='" type "' ORDER BY 1"
static const struct {
    const char *list;
    unsigned sql_column, mode_column, charset_column;
    const char *form; /* result columns of SHOW CREATE */
} kinds[] = {
    [DEFINITION_TRIGGER] =
        {"SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=? "
         "ORDER BY EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER",
         2, 1, 3, "ntCww*"},
    [DEFINITION_VIEW] =
        {"SELECT TABLE_NAME FROM information_schema.VIEWS WHERE TABLE_SCHEMA=? ORDER BY 1", 1, 0, 2,
         "nCww"},
    [DEFINITION_FUNCTION] = {ROUTINES("FUNCTION"), 2, 1, 3, "ntCww*"},
    [DEFINITION_PROCEDURE] = {ROUTINES("PROCEDURE"), 2, 1, 3, "ntCww*"},
    [DEFINITION_EVENT] =
        {"SELECT EVENT_NAME FROM information_schema.EVENTS WHERE EVENT_SCHEMA=? ORDER BY 1", 3, 1,
         4, "nttCww*"},
    /* exists since MySQL 9; its text has no character set of its own */
    [DEFINITION_LIBRARY] =
        {"SELECT LIBRARY_NAME FROM information_schema.LIBRARIES WHERE LIBRARY_SCHEMA=? "
         "ORDER BY 1",
         2, 1, 0, "ntC*"},
    /* exists only in MariaDB's SQL mode ORACLE */
    [DEFINITION_PACKAGE] = {ROUTINES("PACKAGE"), 2, 1, 3, "ntCww*"},
    [DEFINITION_PACKAGE_BODY] = {ROUTINES("PACKAGE BODY"), 2, 1, 3, "ntCww*"},
};

int db_names(struct db *db, const char *schema, enum definition_kind kind, struct names *out,
             struct err *e)
{
    struct err why = {0};
    if (db_names_select(db, kinds[kind].list, DB_ARGS(schema), out, &why) == 0)
        return 0;
    if (kind == DEFINITION_LIBRARY && why.num == NO_SUCH_LIST)
        return 0; /* the server does not support this kind */
    return err_pass(e, &why);
}

int db_names_select(struct db *db, const char *sql, const char *const *args, struct names *out,
                    struct err *e)
{
    *out = (struct names){0};
    struct db_rows *r = db_select_with(db, "n", sql, args, e);
    int got;
    while ((got = db_next(r, e)) == 1)
        names_add(out, db_text(r, 0));
    db_rows_end(r);
    if (got < 0)
        names_free(out);
    return got;
}

int db_roles(struct db *db, struct names *out, struct err *e)
{
    static const char mariadb[] = "SELECT CONCAT('`',REPLACE(ROLE_NAME,'`','``'),'`') FROM "
                                  "information_schema.APPLICABLE_ROLES",
                      mysql[] = "SELECT CONCAT('`',REPLACE(ROLE_NAME,'`','``'),'`@`',REPLACE("
                                "ROLE_HOST,'`','``'),'`') FROM information_schema.APPLICABLE_ROLES";
    return db_names_select(db, db_is_mariadb(db) ? mariadb : mysql, DB_ARGS(NULL), out, e);
}

int db_definition(struct db *db, const char *schema, enum definition_kind kind, const char *name,
                  struct db_definition *out, struct err *e)
{
    unsigned sql = kinds[kind].sql_column, mode = kinds[kind].mode_column;
    unsigned charset = kinds[kind].charset_column;
    *out = (struct db_definition){0};
    struct db_rows *r = db_select_with(db, kinds[kind].form, "SHOW CREATE $ ??.??",
                                       DB_ARGS(definition_kind_words(kind), schema, name), e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        /* NULL: the account lacks the privilege to read the body */
        if (out->sql || !db_value(r, sql))
            continue;
        *out = (struct db_definition){
            .sql = dup_code(r, sql),
            .sql_mode = mode ? db_dup(r, mode) : xstrdup(""),
            .charset = charset ? db_dup(r, charset) : xstrdup("utf8mb4"),
            .collation = charset ? db_dup(r, charset + 1) : xstrdup("utf8mb4_bin"),
            .zone = kind == DEFINITION_EVENT ? db_dup(r, EVENT_ZONE) : NULL,
        };
    }
    db_rows_end(r);
    if (got < 0)
        db_definition_free(out);
    return got;
}

/* Frees a struct whose members are all texts. */
static void free_texts(void *texts, size_t size)
{
    for (char **text = texts; size; size -= sizeof *text)
        free(*text++);
}

void db_definition_free(struct db_definition *d)
{
    free_texts(d, sizeof *d);
    *d = (struct db_definition){0};
}

/* ---- triggers ---- */

/* Uses the body of MySQL's original statement if its head is the expected one. Otherwise the body
 * remains. MySQL's information_schema garbles names with a backtick: `a``b` becomes `aa`bb`. */
static void original_body(struct db_trigger *t, const char *original)
{
    char nothing[] = "";
    struct db_trigger empty = *t;
    SCOPED(buf_free) struct buf head = {0};
    empty.body = nothing;
    db_trigger_sql(&head, &empty, t->table);
    if (strncmp(original, head.p, head.len) == 0) {
        free(t->body);
        t->body = xstrdup(original + head.len);
    }
}

/* Uses the events of MariaDB's original statement, because information_schema does not show the
 * columns of UPDATE OF. A trigger without them would fire at every UPDATE. */
static int original_events(struct db_trigger *t, const char *original, struct err *e)
{
    struct buf events = {0};
    if (!definition_trigger_events(original, strstr(t->sql_mode, "ANSI_QUOTES"), &events)) {
        buf_free(&events);
        return err_set(e, ERR_REFUSED, 0, "the events of trigger %s cannot be read from: %.200s",
                       t->name, original);
    }
    free(t->event);
    t->event = events.p;
    return 0;
}

static int read_original(struct db *db, const char *schema, struct db_trigger *t, struct err *e)
{
    int rc;
    struct db_rows *r =
        db_select_with(db, "ntC*", "SHOW CREATE TRIGGER ??.??", DB_ARGS(schema, t->name), e);
    while ((rc = db_next(r, e)) == 1) {
        SCOPED(xfree) char *original = dup_code(r, 2);
        if (!db_is_mariadb(db))
            original_body(t, original);
        else if (original_events(t, original, e) < 0) {
            rc = -1;
            break;
        }
    }
    db_rows_end(r);
    return rc;
}

/* Returns true if information_schema may lack a part of the trigger. MariaDB shows a trigger
 * without its body to an account that may not read it. */
static bool has_original(struct db *db, const struct db_trigger *t)
{
    if (!db_is_mariadb(db))
        return true;
    return t->body[0] && db_word(db, WORD_UPDATE_OF) && strcmp(t->event, "INSERT") != 0 &&
           strcmp(t->event, "DELETE") != 0;
}

/* Reads the original statements of triggers. */
static int read_originals(struct db *db, const char *schema, struct db_triggers *list,
                          struct err *e)
{
    size_t first = 0;
    while (first < list->count && !has_original(db, &list->list[first]))
        first++;
    if (first == list->count)
        return 0;
    int rc = db_exec(db, "SET SESSION character_set_results=utf8mb4", e);
    for (size_t i = first; i < list->count && rc == 0; i++)
        if (has_original(db, &list->list[i]))
            rc = read_original(db, schema, &list->list[i], e);
    if (db_exec(db, "SET SESSION character_set_results=binary", rc < 0 ? NULL : e) < 0)
        rc = -1;
    return rc;
}

static void triggers_cut(struct db_triggers *t, size_t count)
{
    if (t->count > count)
        free_texts(t->list + count, (t->count - count) * sizeof *t->list);
    t->count = count;
}

/* Moves all triggers of `from` to the end of `to`. */
static void triggers_take(struct db_triggers *to, struct db_triggers *from)
{
    for (size_t i = 0; i < from->count; i++) {
        to->list = xgrow(to->list, to->count, sizeof *to->list);
        to->list[to->count++] = from->list[i];
    }
    from->count = 0;
}

/* Adds the triggers of the schema that meet the condition " AND …", or none on error. */
static int triggers_list(struct db *db, const char *schema, const char *where,
                         struct db_triggers *out, struct err *e)
{
    size_t before = out->count;
    struct db_rows *r = db_select_with(
        db, "nnwwCTTWW",
        "SELECT TRIGGER_NAME, EVENT_OBJECT_TABLE, EVENT_MANIPULATION, ACTION_TIMING, "
        "ACTION_STATEMENT, DEFINER, SQL_MODE, CHARACTER_SET_CLIENT, COLLATION_CONNECTION "
        "FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA=?$ ORDER BY "
        "EVENT_OBJECT_TABLE, ACTION_TIMING, EVENT_MANIPULATION, ACTION_ORDER",
        DB_ARGS(schema, where), e);
    int rc;
    while ((rc = db_next(r, e)) == 1) {
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->list[out->count++] = (struct db_trigger){
            .name = db_dup(r, 0),
            .table = db_dup(r, 1),
            .event = db_dup(r, 2),
            .timing = db_dup(r, 3),
            .body = dup_code(r, 4),
            .definer = db_dup(r, 5),
            .sql_mode = db_dup(r, 6),
            .charset = db_dup(r, 7),
            .collation = db_dup(r, 8),
        };
    }
    db_rows_end(r);
    if (rc < 0)
        triggers_cut(out, before);
    return rc;
}

int db_triggers_read(struct db *db, const char *schema, struct db_triggers *t, struct err *e)
{
    int rc = read_originals(db, schema, t, e);
    if (rc < 0)
        db_triggers_free(t);
    return rc;
}

int db_triggers(struct db *db, const char *schema, struct db_triggers *out, struct err *e)
{
    *out = (struct db_triggers){0};
    int rc = triggers_list(db, schema, "", out, e);
    if (rc < 0)
        db_triggers_free(out);
    return rc;
}

static bool triggers_same(const struct db_triggers *a, const struct db_triggers *b)
{
    bool same = a->count == b->count;
    for (size_t i = 0; same && i < a->count; i++)
        same = strcmp(a->list[i].name, b->list[i].name) == 0;
    return same;
}

/* Lists the triggers of a table that a session has locked. A lock hides no trigger. SHOW CREATE
 * TABLE waits only while a session replaces the definition. The next replacement may begin right
 * after it, so two lists in succession must be equal. */
static int triggers_of_locked(struct db *db, const char *schema, const char *table,
                              const char *where, struct db_triggers *out, struct err *e)
{
    SCOPED(db_triggers_free) struct db_triggers last = {0};
    for (unsigned n = 0; n < READINGS; n++) {
        struct err why;
        struct db_triggers now = {0};
        free(db_create_table(db, schema, table, &why));
        if (db_in_vain(&why) ? err_pass(e, &why) : triggers_list(db, schema, where, &now, e))
            return -1;
        bool same = n > 0 && triggers_same(&last, &now);
        db_triggers_free(&last);
        last = now;
        if (same) {
            triggers_take(out, &last);
            return 0;
        }
    }
    return err_set(e, ERR_CHANGED, 0, "they change all the time");
}

/* Lists the triggers of a table by a statement that also opens the table: a server opens all tables
 * of a statement before it reads rows, and keeps their definitions until the end of the statement.
 * Sets *locked if that statement waited for a lock in vain; then no further table is opened. */
static int triggers_of_table(struct db *db, const char *schema, const char *table, bool *locked,
                             struct db_triggers *out, struct err *e)
{
    SCOPED(buf_free) struct buf of = {0}, settled = {0};
    /* MariaDB looks the table up only by the schema of the event. */
    sql_fill(&of, " AND EVENT_OBJECT_SCHEMA=? AND EVENT_OBJECT_TABLE=?", DB_ARGS(schema, table));
    sql_fill(&settled, "$ AND " DB_ONLY("??.??"), DB_ARGS(of.p, schema, table));
    if (!*locked) {
        int rc = triggers_list(db, schema, settled.p, out, e);
        if (rc == 0 || (db_in_vain(e) && !db_lock_busy(e)))
            return rc;
        *locked = db_lock_busy(e);
        err_clear(e);
    }
    /* A restore also replaces a table that cannot be opened. */
    return *locked ? triggers_of_locked(db, schema, table, of.p, out, e)
                   : triggers_list(db, schema, of.p, out, e);
}

int db_triggers_of(struct db *db, const char *schema, const struct names *tables,
                   struct progress *progress, struct db_triggers *out, struct err *e)
{
    static const char was[] = "wk_wait_triggers";
    *out = (struct db_triggers){0};
    bool locked = false;
    int rc = db_wait_briefly(db, was, e);
    for (size_t i = 0; i < tables->count && rc == 0; i++) {
        progress_table(progress, tables->list[i]);
        if ((rc = triggers_of_table(db, schema, tables->list[i], &locked, out, e)) < 0)
            err_step(e, "reading the triggers of table %s", tables->list[i]);
    }
    rc = db_wait_as_before(db, was, rc, e);
    if (rc == 0)
        return db_triggers_read(db, schema, out, e);
    db_triggers_free(out);
    return rc;
}

void db_triggers_free(struct db_triggers *t)
{
    triggers_cut(t, 0);
    free(t->list);
    *t = (struct db_triggers){0};
}

void db_trigger_sql(struct buf *b, const struct db_trigger *t, const char *table)
{
    buf_adds(b, "CREATE DEFINER=");
    db_account_quote(b, t->definer);
    buf_adds(b, " TRIGGER ");
    sql_ident(b, t->name);
    buf_printf(b, " %s ", t->timing);
    definition_events(t->event, b);
    buf_adds(b, " ON ");
    sql_ident(b, table);
    buf_printf(b, " FOR EACH ROW %s", t->body);
}

/* Returns the character set of a trigger's statement. information_schema returns the body in
 * UTF-8, regardless of the character set in which it was created. */
const char *db_trigger_charset(const struct db_trigger *t, const char *sql)
{
    bool same = strcmp(t->charset, "utf8mb3") == 0 || strcmp(t->charset, "utf8") == 0;
    for (; !same && *sql; sql++)
        if ((unsigned char)*sql >= 0x80)
            return "utf8mb4";
    return t->charset;
}

int db_trigger_create(struct db *db, const struct db_trigger *t, const char *table, struct err *e)
{
    SCOPED(buf_free) struct buf b = {0};
    db_trigger_sql(&b, t, table);
    int rc =
        db_exec_with(db, "SET SESSION sql_mode=?, character_set_client=$, collation_connection='$'",
                     DB_ARGS(t->sql_mode, db_trigger_charset(t, b.p), t->collation), e);
    if (rc == 0) {
        rc = db_exec_len(db, b.p, b.len, e);
        if (db_reset_session(db, rc < 0 ? NULL : e) < 0)
            rc = -1;
    }
    return rc;
}
