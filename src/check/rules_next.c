#include "check/rules_next.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/file.h"
#include "check/option_file.h"
#include "check/rule.h"
#include "check/rules_privileges.h"

/* ---- needed variables ---- */

static bool rules_next_is_on(const char *v)
{
    return strcasecmp(v, "ON") == 0 || strcmp(v, "1") == 0 || strcasecmp(v, "TRUE") == 0;
}

static bool is_off(const char *v)
{
    return strcasecmp(v, "OFF") == 0 || strcmp(v, "0") == 0 || strcasecmp(v, "FALSE") == 0;
}

static bool is_row(const char *v)
{
    return strcasecmp(v, "ROW") == 0 || strcmp(v, "2") == 0;
}

static bool is_full(const char *v)
{
    return strncasecmp(v, "FULL", 4) == 0 || strcmp(v, "2") == 0;
}

static bool is_memory(const char *v)
{
    return !*v || strcasecmp(v, "NULL") == 0 || strcasecmp(v, "MEMORY") == 0;
}

static bool is_not_zero(const char *v)
{
    return strtoull(v, NULL, 10) != 0;
}

static const struct need {
    const char *name;
    const char *usual, *mariadb; /* defaults in MySQL and in MariaDB */
    bool (*good)(const char *value);
    const char *when;      /* needed if: a fact's word, possibly with "!" before it */
    bool journal;          /* needed by the journal rather than by the restore */
    const char *else_what; /* completes "after a restart …, and " */
} needs[] = {
    {"log_bin_trust_function_creators", "OFF", "OFF", rules_next_is_on, "trust_needed", false,
     "no restore can recreate this world's triggers or functions (1419)"},
    {"enforce_storage_engine", "", "", is_memory, "mariadb", false,
     "no MEMORY table can be created (1286)"},
    {"sql_require_primary_key", "OFF", "OFF", is_off, "key_refused", false,
     "no restore can create a table without a key (3750)"},
    {"read_only", "OFF", "OFF", is_off, "!may_write", false, "nothing can be restored (1290)"},
    {"super_read_only", "OFF", "OFF", is_off, "!mariadb", false, "nothing can be restored (1290)"},
    {"binlog_format", "ROW", "MIXED", is_row, "log_used", true,
     "changes after a restore are not logged as rows"},
    {"binlog_row_image", "FULL", "FULL", is_full, "log_used", true,
     "changes after a restore are not logged with all columns"},
    {"server_id", "1", "1", is_not_zero, "log_used", true,
     "no client can read the log of changes after a restore"},
};

/* ---- values after a server restart ---- */

/* Returns the option files that the running server took any setting from. If such a file is in an
 * include directory (*.d), the other files of that directory are searched as well. */
#define FILES_READ                                                                                 \
    "SELECT DISTINCT GLOBAL_VALUE_PATH FROM information_schema.SYSTEM_VARIABLES WHERE "            \
    "GLOBAL_VALUE_PATH LIKE '/%' ORDER BY 1"

static void search_files(struct check *c, struct option_search *s)
{
    static const char *const usual[] = {"/etc/my.cnf", "/etc/mysql/my.cnf", NULL};
    SCOPED(names_free) struct names told = {0};
    for (const char *const *f = usual; *f; f++)
        option_file(s, *f);
    if (!c->mariadb || db_names_select(c->db, FILES_READ, DB_ARGS(NULL), &told, NULL) < 0)
        return;
    for (size_t i = 0; i < told.count; i++) {
        char *slash = strrchr(told.list[i], '/');
        if (text_starts(told.list[i], "/etc/mysql/"))
            continue; /* a default file above includes it */
        option_file(s, told.list[i]);
        *slash = '\0';
        if (slash - told.list[i] > 2 && strcmp(slash - 2, ".d") == 0)
            option_dir(s, told.list[i]);
    }
}

/* Searches the arguments of the process at the other end of the socket, which override option
 * files. The process may be hidden from this account. */
static void search_arguments(struct check *c, struct option_search *s)
{
    SCOPED(buf_free) struct buf text = {0};
    char path[64];
    struct err ignored;
    int64_t pid = db_server_pid(c->db);
    snprintf(path, sizeof path, "/proc/%lld/cmdline", (long long)pid);
    int fd = pid ? file_open_path(path, &ignored) : -1;
    int rc = fd < 0 ? -1 : file_read_fd(fd, path, 1u << 20, &text, &ignored);
    file_close(&fd);
    if (rc < 0 || !text.p)
        return;
    s->looked_at++;
    for (const char *p = text.p; p < text.p + text.len; p += strlen(p) + 1)
        if (text_starts(p, "--defaults-file="))
            option_file(s, strchr(p, '=') + 1);
        else if (text_starts(p, "--"))
            option_line(s, p + 2, strlen(p) - 2);
}

/* Do the option files of this machine belong to the server? In a container, the server has its own
 * files and usually its own host name. */
static bool is_this_machine(struct check *c)
{
    char host[sizeof c->server.hostname] = "";
    gethostname(host, sizeof host - 1);
    return check_is(c, "local") && strcmp(host, c->server.hostname) == 0;
}

/* Was the variable set at run time, so that its value may change at the next server restart? Sets
 * `then` to the value after the restart, or to NULL if that cannot be known from here. */
static bool set_at_run_time(struct check *c, const struct need *n, char **then)
{
    SCOPED(xfree) char *source = db_one_with(
        c->db,
        c->mariadb ? "SELECT GLOBAL_VALUE_ORIGIN FROM information_schema.SYSTEM_VARIABLES WHERE "
                     "VARIABLE_NAME=?"
                   : "SELECT VARIABLE_SOURCE FROM performance_schema.variables_info WHERE "
                     "VARIABLE_NAME=?",
        DB_ARGS(n->name), NULL);
    *then = NULL;
    if (!source || strcasecmp(source, c->mariadb ? "SQL" : "DYNAMIC") != 0)
        return false;
    *then = c->mariadb ? NULL
                       : db_one_with(c->db,
                                     "SELECT VARIABLE_VALUE FROM "
                                     "performance_schema.persisted_variables WHERE VARIABLE_NAME=?",
                                     DB_ARGS(n->name), NULL);
    if (*then || !is_this_machine(c))
        return true;
    SCOPED(option_search_free) struct option_search s = {.name = n->name};
    search_files(c, &s);
    search_arguments(c, &s);
    if (s.value.p)
        *then = xstrdup(s.value.p);
    else if (s.looked_at)
        *then = xstrdup(c->mariadb ? n->mariadb : n->usual);
    return true;
}

/* ---- rules ---- */

#define LOST "{next_name} = {next_now} was set at run time: after a restart of the server "
#define BOTH                                                                                       \
    "SET GLOBAL {next_name}={next_now}; and {next_name} = {next_now} under [mysqld] in "           \
    "the server's my.cnf"

static const struct check_rule next[] = {
    {"next start", "next_unknown next_bad_usual", CHECK_WARN,
     LOST
     "it may be reset, and then {next_else}; worldkeeper cannot read the server's option files",
     BOTH},
    {"next start", "next_unknown", CHECK_OK, LOST "it may differ"},
    {"next start", "next_journal journal.mode=auto", CHECK_WARN,
     LOST "it is {next_then}, and {next_else}", BOTH},
    {"next start", "mariadb", CHECK_FAIL, LOST "it is {next_then}, and {next_else}", BOTH},
    {"next start", NULL, CHECK_FAIL, LOST "it is {next_then}, and {next_else}",
     "SET PERSIST {next_name}={next_now}; or {next_name} = {next_now} under [mysqld] in the "
     "server's my.cnf"},
};

static const struct check_rule kept = {
    "next start", NULL, CHECK_OK,
    "all server settings that a restore needs survive a restart of the server"};

/* Sets the facts that the rules of needs[] use. */
static void need_facts(struct check *c)
{
    SCOPED(names_free) struct names functions = {0};
    bool log = check_value(c, "@log_bin") != 0;
    bool any = c->triggers.count > 0 ||
               (db_names(c->db, c->cfg->schema, DEFINITION_FUNCTION, &functions, NULL) == 0 &&
                functions.count > 0);
    check_fact(c, "trust_needed", log && !check_may_server(c, MAY_SKIP_TRUST) && any);
    check_fact(c, "log_used", log && c->cfg->journal != JOURNAL_OFF);
    check_fact(c, "key_refused", check_is(c, "no_key") && !check_may_server(c, MAY_LEAVE_KEYS));
}

static bool rules_next_matters(struct check *c, const struct need *n)
{
    return *n->when == '!' ? !check_is(c, n->when + 1) : check_is(c, n->when);
}

void check_next_server(struct check *c)
{
    unsigned found = 0;
    need_facts(c);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        const struct need *n = &needs[i];
        SCOPED(xfree) char *question = xasprintf("SELECT @@GLOBAL.%s", n->name);
        char *then = NULL;
        if (!rules_next_matters(c, n))
            continue;
        /* A value that is wrong now has its own finding. */
        struct err ignored = {0};
        SCOPED(xfree) char *now = db_one(c->db, question, &ignored);
        bool usable = ignored.cls == ERR_NONE && n->good(now ? now : "");
        if (usable && set_at_run_time(c, n, &then) && (!then || !n->good(then))) {
            check_word(c, "next_name", "%s", n->name);
            check_word(c, "next_now", "%s", now ? now : "NULL");
            check_word(c, "next_then", "%s", then ? then : "");
            check_word(c, "next_else", "%s", n->else_what);
            check_fact(c, "next_unknown", !then);
            check_fact(c, "next_bad_usual", !n->good(c->mariadb ? n->mariadb : n->usual));
            check_fact(c, "next_journal", n->journal);
            CHECK_RULES(c, next);
            found++;
        }
        free(then);
    }
    if (!found)
        check_rules(c, &kept, 1);
}
