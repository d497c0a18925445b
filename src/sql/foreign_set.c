#include "sql/foreign_set.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sql/foreign_text.h"

#define SAVED_MAX 1000u /* user variables of a file; tools set a dozen */

/* Session variables that do not affect how the rows of a file are stored, grouped by the tools
 * that set them. */
static const char *const harmless[] = {
    "foreign_key_checks", "unique_checks", "sql_notes", "note_verbosity", "sql_warnings",
    "sql_log_bin", "sql_log_off", "log_slow_query", "autocommit", "character_set_results",
    "character_set_connection", "collation_connection", "character_set_database",
    "collation_database", "collation_server", "character_set_server", "sql_quote_show_create",
    "sql_safe_updates", "sql_auto_is_null", "sql_big_selects", "net_read_timeout",
    "net_write_timeout", "wait_timeout", "interactive_timeout", "lock_wait_timeout",
    "innodb_lock_wait_timeout", "max_statement_time", "max_execution_time", "max_allowed_packet",
    "net_buffer_length", "group_concat_max_len",
    /* for our own dumps, and for tables of other engines than MEMORY */
    "max_heap_table_size", "tmp_table_size", "explicit_defaults_for_timestamp",
    "sql_require_primary_key", "sql_generate_invisible_primary_key", "default_table_encryption",
    "innodb_strict_mode", "rocksdb_bulk_load", "tokudb_bulk_load",
    "system_versioning_insert_history", "tx_isolation", "transaction_isolation",
    "session_track_gtids", "profiling", NULL};
/* Global variables that concern only replication. */
static const char *const replication[] = {"gtid_purged", "gtid_slave_pos", NULL};

static bool foreign_set_among(const char *name, const char *const *list)
{
    while (*list && strcasecmp(*list, name) != 0)
        list++;
    return *list != NULL;
}

static int setting_of(const char *name)
{
    static const char *const names[FOREIGN_SETTINGS] = {
        [FOREIGN_NAMES] = "character_set_client",
        [FOREIGN_MODE] = "sql_mode",
        [FOREIGN_ZONE] = "time_zone",
        [FOREIGN_CHECKS] = "check_constraint_checks",
    };
    for (int i = 0; i < FOREIGN_SETTINGS; i++)
        if (strcasecmp(names[i], name) == 0)
            return i;
    return -1;
}

/* A variable that is assigned to, or from which a value is read. */
struct variable {
    char name[80];
    bool user;   /* "@name" */
    bool global; /* "GLOBAL name" or "@@GLOBAL.name" */
};

static bool foreign_set_copy_name(const struct sql_token *t, char out[80])
{
    SCOPED(buf_free) struct buf b = {0};
    if (!sql_token_name(t, &b) && !(t->kind == SQL_STRING && sql_token_bytes(t, false, &b)))
        return false;
    return snprintf(out, 80, "%s", b.p) < 80;
}

static bool foreign_set_scope(struct foreign_text *x, struct variable *v)
{
    v->global = sql_is(&x->t, "GLOBAL") || sql_is(&x->t, "PERSIST");
    bool is = v->global || sql_is(&x->t, "SESSION") || sql_is(&x->t, "LOCAL");
    if (is)
        foreign_text_next(x);
    return is;
}

static bool read_variable(struct foreign_text *x, struct variable *v)
{
    *v = (struct variable){.user = sql_is_punct(&x->t, "@")};
    if (v->user) {
        foreign_text_next(x);
        v->user = !foreign_text_punct(x, "@");
        if (!v->user && foreign_set_scope(x, v) && !foreign_text_punct(x, "."))
            return false;
    } else {
        foreign_set_scope(x, v);
    }
    bool is = foreign_set_copy_name(&x->t, v->name);
    if (is)
        foreign_text_next(x);
    return is;
}

static struct foreign_saved *foreign_set_saved(const struct foreign_session *s, const char *name)
{
    for (size_t i = 0; i < s->saved_count; i++)
        if (strcasecmp(s->saved[i].variable, name) == 0)
            return &s->saved[i];
    return NULL;
}

/* Returns false if the file has set too many. */
static bool foreign_set_save(struct foreign_session *s, const char *name, int setting)
{
    struct foreign_saved *v = foreign_set_saved(s, name);
    if (!v && s->saved_count == SAVED_MAX)
        return false;
    if (!v) {
        s->saved = xgrow(s->saved, s->saved_count, sizeof *s->saved);
        v = &s->saved[s->saved_count++];
        *v = (struct foreign_saved){.variable = xstrdup(name)};
    }
    v->setting = setting;
    snprintf(v->value, sizeof v->value, "%s", setting < 0 ? "" : s->now[setting]);
    return true;
}

/* A value that can be evaluated here: a literal, a word, a number, a variable, or
 * IFNULL(@variable, literal). */
struct value {
    char text[512];
    struct variable from; /* `name` is "" if the value is a literal */
    bool simple;          /* the value has one of these forms, and nothing else was read */
    bool either;          /* IFNULL: `text` is used if the variable was never set */
};

/* Skips the assigned value, because values matter only for the settings that are tracked. */
static void skip_value(struct foreign_text *x)
{
    for (int depth = 0; x->t.kind != SQL_END && x->t.kind != SQL_BAD; foreign_text_next(x)) {
        depth += x->t.kind == SQL_OPEN;
        depth -= x->t.kind == SQL_CLOSE;
        if (depth == 0 && sql_is_punct(&x->t, ","))
            return;
    }
}

static bool foreign_set_literal(struct foreign_text *x, struct value *v)
{
    SCOPED(buf_free) struct buf b = {0};
    bool is = sql_token_bytes(&x->t, x->text.plain_strings, &b) || sql_token_name(&x->t, &b);
    if (x->t.kind == SQL_NUMBER) {
        buf_add(&b, x->t.s, x->t.len);
        is = true;
    }
    if (!is || (b.len && memchr(b.p, '\0', b.len)) || b.len >= sizeof v->text)
        return false;
    snprintf(v->text, sizeof v->text, "%s", b.p ? b.p : "");
    foreign_text_next(x);
    return true;
}

static void read_value(struct foreign_text *x, struct value *v)
{
    *v = (struct value){.simple = true};
    bool either = v->either = foreign_text_word(x, "IFNULL") && x->t.kind == SQL_OPEN;
    if (either)
        foreign_text_next(x);
    if (sql_is_punct(&x->t, "@"))
        v->simple = read_variable(x, &v->from);
    else
        v->simple = !either && foreign_set_literal(x, v);
    if (either) {
        v->simple = v->simple && foreign_text_punct(x, ",") && foreign_set_literal(x, v);
        v->simple = v->simple && x->t.kind == SQL_CLOSE;
        foreign_text_next(x);
    }
    bool ends = x->t.kind == SQL_END || sql_is_punct(&x->t, ",");
    v->simple = v->simple && ends;
    skip_value(x);
}

/* Converts to upper case and removes blanks. */
static void fold_modes(char *s)
{
    char *to = s;
    for (; *s; s++)
        if (*s != ' ')
            *to++ = (char)toupper((unsigned char)*s);
    *to = '\0';
}

static bool foreign_set_letters(const char *s, const char *others)
{
    for (; *s; s++)
        if (!isalnum((unsigned char)*s) && !strchr(others, *s))
            return false;
    return true;
}

static bool foreign_set_take(struct foreign_session *s, int setting, const char *text)
{
    static const char *const others[FOREIGN_SETTINGS] = {"_", "_, ", "_/+-:", ""};
    if (!foreign_set_letters(text, others[setting]))
        return false;
    snprintf(s->now[setting], sizeof s->now[setting], "%s", text);
    if (setting == FOREIGN_MODE)
        fold_modes(s->now[setting]);
    if (setting == FOREIGN_CHECKS && strcasecmp(text, "OFF") != 0 && strcmp(text, "0") != 0)
        snprintf(s->now[setting], sizeof s->now[setting], "1");
    else if (setting == FOREIGN_CHECKS)
        snprintf(s->now[setting], sizeof s->now[setting], "0");
    return true;
}

/* Returns whether the head of a file saves a setting in this variable and its end restores it.
 * MariaDB's tool saves autocommit around the rows of each table, so OLD_AUTOCOMMIT does not
 * count. */
static bool is_of_head(const char *user_variable)
{
    return strncasecmp(user_variable, "OLD_", 4) == 0 &&
           strcasecmp(user_variable, "OLD_AUTOCOMMIT") != 0;
}

static bool foreign_set_assign(struct foreign_session *s, int setting, const struct value *v,
                               struct foreign_set *out)
{
    if (!v->simple)
        return false;
    if (!v->from.name[0])
        return foreign_set_take(s, setting,
                                strcasecmp(v->text, "DEFAULT") == 0 ? s->start[setting] : v->text);
    if (!v->from.user) /* sql_mode=@@sql_mode; a new session has the global value */
        return setting_of(v->from.name) == setting &&
               (!v->from.global || foreign_set_take(s, setting, s->start[setting]));
    const struct foreign_saved *was = foreign_set_saved(s, v->from.name);
    if (!was && v->either)
        return foreign_set_take(s, setting, v->text);
    if (!was || was->setting != setting)
        return false;
    out->restores |= is_of_head(v->from.name);
    return foreign_set_take(s, setting, was->value);
}

/* Reads "NAMES utf8mb4 COLLATE …". */
static bool foreign_set_names(struct foreign_session *s, struct foreign_text *x)
{
    struct value v = {0};
    if (!foreign_set_literal(x, &v))
        return false;
    if (foreign_text_word(x, "COLLATE"))
        foreign_text_next(x);
    s->any = true;
    return foreign_set_take(s, FOREIGN_NAMES,
                            strcasecmp(v.text, "DEFAULT") == 0 ? s->start[FOREIGN_NAMES] : v.text);
}

static bool foreign_set_one(struct foreign_session *s, struct foreign_text *x,
                            struct foreign_set *out)
{
    struct variable to;
    struct value v;
    if (foreign_text_word(x, "NAMES")) {
        snprintf(out->what, sizeof out->what, "NAMES");
        return foreign_set_names(s, x);
    }
    bool is = read_variable(x, &to);
    snprintf(out->what, sizeof out->what, "%s", to.name);
    if (!is || !(foreign_text_punct(x, "=") || foreign_text_punct(x, ":=")))
        return false;
    read_value(x, &v);
    int setting = setting_of(to.name);
    if (to.user) {
        bool session = v.from.name[0] && !v.from.user && !v.from.global;
        if (!foreign_set_save(s, to.name, session ? setting_of(v.from.name) : -1))
            return false;
        bool old = is_of_head(to.name);
        out->saves |= old && session;
        s->any |= old;
        return true;
    }
    if (to.global)
        return foreign_set_among(to.name, replication);
    /* A variable that was never set is NULL, which the server rejects. */
    if (v.from.user && !v.either && !foreign_set_saved(s, v.from.name))
        return false;
    if (setting >= 0) {
        /* mysqldump sets it around each definition, even in files without a header */
        s->any |= setting != FOREIGN_NAMES;
        return foreign_set_assign(s, setting, &v, out);
    }
    out->restores |= v.from.user && is_of_head(v.from.name) && foreign_set_saved(s, v.from.name);
    s->any |= strcasecmp(to.name, "foreign_key_checks") == 0;
    return foreign_set_among(to.name, harmless);
}

void foreign_session_begin(struct foreign_session *s, const char *names, const char *mode,
                           const char *zone)
{
    const char *const start[FOREIGN_SETTINGS] = {names, mode, zone, "1"};
    *s = (struct foreign_session){0};
    for (int i = 0; i < FOREIGN_SETTINGS; i++) {
        snprintf(s->start[i], sizeof s->start[i], "%s", start[i]);
        snprintf(s->now[i], sizeof s->now[i], "%s", start[i]);
    }
}

bool foreign_set(struct foreign_session *session, const char *sql, size_t len,
                 const struct foreign_reading *how, struct foreign_set *out)
{
    struct foreign_text x;
    *out = (struct foreign_set){0};
    foreign_text_begin(&x, sql, len, how);
    foreign_text_word(&x, "SET");
    struct foreign_text ahead = x;
    struct variable v;
    foreign_set_scope(&ahead, &v);
    if (sql_is(&ahead.t, "TRANSACTION"))
        return true;
    do
        if (!foreign_set_one(session, &x, out))
            return false;
    while (foreign_text_punct(&x, ","));
    return foreign_text_end(&x);
}

void foreign_session_free(struct foreign_session *s)
{
    for (size_t i = 0; i < s->saved_count; i++)
        free(s->saved[i].variable);
    free(s->saved);
    *s = (struct foreign_session){0};
}

/* ---- sql_mode ---- */

bool foreign_has_mode(const char *modes, const char *mode)
{
    for (const char *s = modes; *s;) {
        size_t n = strcspn(s, ",");
        if (n == strlen(mode) && strncasecmp(s, mode, n) == 0)
            return true;
        s += n + (s[n] == ',');
    }
    return false;
}

bool foreign_modes(const char *modes, struct buf *out)
{
    /* These modes mean another server's language. ANSI stands for several modes. */
    static const char *const languages[] = {"ORACLE", "MSSQL", "DB2", "MAXDB", "POSTGRESQL", NULL};
    static const char ansi[] = "REAL_AS_FLOAT,PIPES_AS_CONCAT,IGNORE_SPACE";
    static const char *const ours[] = {"ANSI_QUOTES", "NO_BACKSLASH_ESCAPES",
                                       /* for SHOW CREATE TABLE only, or no longer supported by
                                        * any server */
                                       "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS",
                                       "MYSQL323", "MYSQL40", NULL};
    buf_adds(out, "");
    for (const char *s = modes; *s;) {
        size_t n = strcspn(s, ",");
        SCOPED(xfree) char *mode = xstrndup(s, n);
        s += n + (s[n] == ',');
        if (text_among(mode, languages))
            return false;
        if (!mode[0] || text_among(mode, ours))
            continue;
        buf_adds(out, out->len ? "," : "");
        buf_adds(out, strcmp(mode, "ANSI") == 0 ? ansi : mode);
    }
    return true;
}
