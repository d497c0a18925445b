/* Stands before the client library: a server that answers as the test scripted it, and fails
 * where the test says so. What is asked with prepared statements is refused.
 *
 *   script("SELECT @@global.log_bin", "1");          rows by \n, values by \t; in one, \N is
 *                                                  NULL and \n written out a new line
 *   script_error("SHOW GRANTS", 1227);
 *
 * The last one scripted whose words are in a statement answers it. Of the rest, a variable is not
 * there, a question has no rows, and a statement is done. A connection that was lost stays lost. */
#ifndef WK_TESTS_SCRIPTED_SERVER_H
#define WK_TESTS_SCRIPTED_SERVER_H

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "mysql/client.h"
#include "mysql/conn.h"

#define SCRIPT_MAX 128
#define SCRIPT_LOST 2013
#define SCRIPT_NO_VARIABLE 1193

struct scripted {
    const char *ask, *rows;
    unsigned num; /* of an error; 0: none */
};

static struct {
    struct scripted list[SCRIPT_MAX];
    size_t count;
    const char *version, *cipher;
    unsigned refused; /* the login's error */
    unsigned asked;   /* statements so far */
    unsigned fails;   /* the how manieth fails (0: none), with `fail_num` */
    unsigned fail_num;
    bool cut;     /* it fails with its rows on their way: behind the first */
    unsigned num; /* error of the last call */
    const struct scripted *answer;
    struct buf log;                /* statements, a line each */
    void (*done)(const char *sql); /* called for each that did not fail; may be NULL */
} scripted_server;

struct script_rows {
    char *text, *next; /* a copy, taken apart as it is read */
    char *row[32];
    unsigned long lengths[32];
    unsigned fields;
    bool cut;
};

static inline void script(const char *ask, const char *rows)
{
    if (scripted_server.count == SCRIPT_MAX)
        abort();
    scripted_server.list[scripted_server.count++] = (struct scripted){ask, rows, 0};
}

static inline void script_error(const char *ask, unsigned num)
{
    script(ask, NULL);
    scripted_server.list[scripted_server.count - 1].num = num;
}

static inline void script_reset(void)
{
    buf_free(&scripted_server.log);
    memset(&scripted_server, 0, sizeof scripted_server);
}

/* The n-th statement from now on fails; `cut`: while its rows are read, if it has any. */
static inline void script_fail(unsigned n, unsigned num, bool cut)
{
    scripted_server.asked = 0;
    scripted_server.fails = n;
    scripted_server.fail_num = num;
    scripted_server.cut = cut;
}

static inline struct db *script_open(void)
{
    struct err e = {0};
    struct db_params p = {.socket = "/none", .user = "keeper", .bulk = true};
    struct db *db = db_open(&p, &e);
    scripted_server.asked = 0;
    buf_clear(&scripted_server.log);
    return db;
}

static inline bool script_was_asked(const char *words)
{
    return scripted_server.log.len && strstr(scripted_server.log.p, words);
}

static inline const struct scripted *script_find(const char *sql)
{
    for (size_t i = scripted_server.count; i-- > 0;) {
        const char *at = strstr(sql, scripted_server.list[i].ask);
        unsigned char behind = at ? (unsigned char)at[strlen(scripted_server.list[i].ask)] : 0;
        if (at && !isalnum(behind) && behind != '_')
            return &scripted_server.list[i];
    }
    return NULL;
}

static inline bool script_is_question(const char *sql)
{
    return text_starts(sql, "SELECT") || text_starts(sql, "SHOW");
}

/* Another statement: is it the one that fails, or behind one that lost the connection? */
static inline bool script_fails_now(void)
{
    bool lost = scripted_server.fails && scripted_server.fail_num == SCRIPT_LOST &&
                scripted_server.asked >= scripted_server.fails;
    return (++scripted_server.asked == scripted_server.fails && !scripted_server.cut) || lost;
}

int mysql_real_query(MYSQL *my, const char *sql, unsigned long len)
{
    static struct scripted other;
    char *text = xstrndup(sql, len);
    (void)my;
    buf_printf(&scripted_server.log, "%s\n", text);
    scripted_server.answer = script_find(text);
    if (!scripted_server.answer) {
        bool variable = strstr(text, "SELECT @@") != NULL;
        other = (struct scripted){"", script_is_question(text) && !variable ? "" : NULL,
                                  variable ? SCRIPT_NO_VARIABLE : 0};
        scripted_server.answer = &other;
    }
    scripted_server.num = scripted_server.answer->num;
    if (script_fails_now())
        scripted_server.num = scripted_server.fail_num;
    else if (scripted_server.done && !scripted_server.num)
        scripted_server.done(text);
    free(text);
    return scripted_server.num != 0;
}

MYSQL_RES *mysql_use_result(MYSQL *my)
{
    (void)my;
    const char *rows = scripted_server.num ? NULL : scripted_server.answer->rows;
    if (!rows)
        return NULL;
    struct script_rows *r = xcalloc(1, sizeof *r);
    r->text = xstrdup(rows);
    r->next = *r->text ? r->text : NULL;
    r->fields = 1;
    for (const char *s = rows; *s && *s != '\n'; s++)
        r->fields += *s == '\t';
    r->cut = scripted_server.cut && scripted_server.asked == scripted_server.fails;
    return (MYSQL_RES *)r;
}

MYSQL_RES *mysql_store_result(MYSQL *my)
{
    return mysql_use_result(my);
}

void mysql_free_result(MYSQL_RES *res)
{
    struct script_rows *r = (struct script_rows *)res;
    free(r->text);
    free(r);
}

static inline void script_new_lines(char *value)
{
    char *at = value ? strstr(value, "\\n") : NULL;
    for (; at; at = strstr(at, "\\n")) {
        *at = '\n';
        memmove(at + 1, at + 2, strlen(at + 2) + 1);
    }
}

MYSQL_ROW mysql_fetch_row(MYSQL_RES *res)
{
    struct script_rows *r = (struct script_rows *)res;
    if (!r->next || (r->cut && r->next != r->text)) {
        scripted_server.num = r->cut ? scripted_server.fail_num : 0;
        return NULL;
    }
    char *line = r->next, *end = strchr(line, '\n');
    r->next = end ? end + 1 : NULL;
    if (end)
        *end = '\0';
    for (unsigned i = 0; i < r->fields; i++) {
        char *tab = line ? strchr(line, '\t') : NULL;
        if (tab)
            *tab = '\0';
        r->row[i] = line && strcmp(line, "\\N") != 0 ? line : NULL;
        script_new_lines(r->row[i]);
        r->lengths[i] = r->row[i] ? strlen(line) : 0;
        line = tab ? tab + 1 : NULL;
    }
    return r->row;
}

unsigned long *mysql_fetch_lengths(MYSQL_RES *res)
{
    return ((struct script_rows *)res)->lengths;
}

unsigned mysql_num_fields(MYSQL_RES *res)
{
    return ((struct script_rows *)res)->fields;
}

unsigned mysql_errno(MYSQL *my)
{
    (void)my;
    return scripted_server.num;
}

const char *mysql_error(MYSQL *my)
{
    (void)my;
    return scripted_server.num == SCRIPT_NO_VARIABLE ? "Unknown system variable 'sql_if_exists'"
           : scripted_server.num                     ? "as scripted"
                                                     : "";
}

unsigned mysql_warning_count(MYSQL *my)
{
    (void)my;
    return 0;
}

my_ulonglong mysql_affected_rows(MYSQL *my)
{
    (void)my;
    return 1;
}

unsigned long mysql_thread_id(MYSQL *my)
{
    (void)my;
    return 7;
}

const char *mysql_get_ssl_cipher(MYSQL *my)
{
    (void)my;
    return scripted_server.cipher;
}

#ifdef LIBMARIADB
char *mysql_get_server_info(MYSQL *my)
#else
const char *mysql_get_server_info(MYSQL *my)
#endif
{
    static char none[] = "";
    (void)my;
    return scripted_server.version ? (char *)(uintptr_t)scripted_server.version : none;
}

#ifdef MARIADB_BASE_VERSION
/* A library that verifies by itself: no handshake asks anybody here. */
unsigned long mysql_get_client_version(void)
{
    return 30300;
}
#endif

MYSQL *mysql_real_connect(MYSQL *my, const char *host, const char *user, const char *password,
                          const char *schema, unsigned port, const char *path, unsigned long flags)
{
    (void)host;
    (void)user;
    (void)password;
    (void)schema;
    (void)port;
    (void)path;
    (void)flags;
    scripted_server.num = scripted_server.refused;
#ifdef MARIADB_BASE_VERSION
    client_bool proven = 0; /* which no session without TLS can be */
    mysql_get_option(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &proven);
    if (proven && !scripted_server.cipher && !scripted_server.refused)
        scripted_server.num = 2026;
#endif
    return scripted_server.num ? NULL : my;
}

int mysql_stmt_prepare(MYSQL_STMT *stmt, const char *sql, unsigned long len)
{
    (void)stmt;
    buf_printf(&scripted_server.log, "%.*s\n", (int)len, sql);
    return 1;
}

unsigned mysql_stmt_errno(MYSQL_STMT *stmt)
{
    (void)stmt;
    return 1295;
}

const char *mysql_stmt_error(MYSQL_STMT *stmt)
{
    (void)stmt;
    return "as scripted";
}

#endif
