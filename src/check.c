#include "check.h"

#include <errno.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "act.h"
#include "core/file.h"
#include "core/js.h"
#include "db/sql.h"
#include "store/seal.h"
#include "typed.h"

/* Findings */

void check_add(struct check *c, enum check_level level, const char *name, const char *fmt, ...)
{
    static const char *const words[] = {"ok", "note", "warn", "fail"};
    struct buf b = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    json_array_append_new(c->list, json_pack("{s:s, s:s, s:o, s:s}", "name", name, "level",
                                             words[level], "text", js_clean(b.p), "hint", ""));
    c->failed += level == CHECK_FAIL;
    buf_free(&b);
}

void check_hint(struct check *c, const char *fmt, ...)
{
    struct buf b = {0}, whole = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&b, fmt, ap);
    va_end(ap);
    typed_hint(c->cfg, b.p, &whole);
    js_set_clean(json_array_get(c->list, json_array_size(c->list) - 1), "hint", whole.p);
    buf_free(&b);
    buf_free(&whole);
}

void check_hint_file(struct check *c, const char *command, const char *path)
{
    struct buf word = {0};
    buf_shell(&word, path);
    check_hint(c, "%s %s", command, word.p);
    buf_free(&word);
}

void check_hint_user(struct check *c, const char *command, const char *path)
{
    char *user = typed_user(c->cfg);
    char *whole = xasprintf("%s %s", command, user);
    check_hint_file(c, whole, path);
    free(whole);
    free(user);
}

void check_error(struct check *c, enum check_level level, const char *name, const struct err *e)
{
    check_add(c, level, name, "%s", e->text);
    if (strstr(e->hint, "--check")) /* that is what runs */
        check_hint(c, "see what is said of rights");
    else if (e->hint[0])
        check_hint(c, "%s", e->hint);
}

void check_names(struct buf *b, const struct db_names *n, size_t max)
{
    for (size_t i = 0; i < n->count && i < max; i++) {
        buf_adds(b, i ? ", " : "");
        sql_ident(b, n->list[i]);
    }
    if (n->count > max)
        buf_printf(b, " and %zu more", n->count - max);
}

/* Config and secrets */

static void user_name(uid_t uid, char out[64])
{
    const struct passwd *p = getpwuid(uid);
    if (p)
        snprintf(out, 64, "%s", p->pw_name);
    else
        snprintf(out, 64, "uid %u", (unsigned)uid);
}

static void check_config(struct check *c)
{
    struct stat st;
    char owner[64];
    if (stat(c->cfg->path, &st) < 0) {
        check_add(c, CHECK_WARN, "config", "%s: %s", c->cfg->path, strerror(errno));
        return;
    }
    user_name(st.st_uid, owner);
    bool secret = c->cfg->webhook.url || c->cfg->heartbeat_url;
    check_add(c, secret && (st.st_mode & 04) ? CHECK_WARN : CHECK_OK, "config",
              "%s (mode %04o, owner %s)%s", c->cfg->path, (unsigned)st.st_mode & 07777, owner,
              secret && (st.st_mode & 04)
                  ? ": everybody can read the URL in it, which may be a secret"
                  : "");
    if (secret && (st.st_mode & 04))
        check_hint_file(c, "put the URL into a file of its own (url_file), or: chmod o-r",
                        c->cfg->path);
    if (geteuid() != 0)
        return;
    check_add(c, CHECK_NOTE, "user",
              "root looks at this: what the service's own user may read and write is not proven");
    check_hint(c, "as the service's user: worldkeeper --check");
}

/* Root reads everything; the service's user, to whom the dumps belong, may not. */
static bool service_can_read(const struct check *c, const char *path)
{
    struct stat st, dumps;
    if (geteuid() != 0 || text_starts(path, "credential:") || stat(path, &st) < 0 ||
        stat(c->cfg->dump_dir, &dumps) < 0)
        return true;
    return dumps.st_uid == 0 || st.st_uid == dumps.st_uid;
}

/* Of one that could be read. */
static void tell_secret(struct check *c, const char *key, const char *path, bool empty)
{
    struct stat st;
    if (empty)
        check_add(c, CHECK_WARN, "secrets", "%s: the first line of %s is empty", key, path);
    else if (!service_can_read(c, path)) {
        check_add(c, CHECK_WARN, "secrets", "%s: %s belongs to another user than the dumps", key,
                  path);
        check_hint_user(c, "chown", path);
    } else if (text_starts(path, "credential:") || stat(path, &st) < 0)
        check_add(c, CHECK_OK, "secrets", "%s: %s", key, path);
    else
        check_add(c, CHECK_OK, "secrets", "%s: %s (mode %04o)", key, path,
                  (unsigned)st.st_mode & 07777);
}

/* 0: readable; what is in it goes to `out`. */
static int check_secret(struct check *c, const char *key, const char *path, struct buf *out)
{
    struct err e = {0};
    if (!path)
        return 0;
    if (file_read_secret(path, out, &e) < 0) {
        err_step(&e, "%s", key);
        check_error(c, CHECK_FAIL, "secrets", &e);
        return -1;
    }
    tell_secret(c, key, path, out->len == 0);
    return 0;
}

static void check_keys(struct check *c)
{
    struct err e = {0};
    if (seal_open(c->cfg, &e) < 0) {
        check_error(c, CHECK_FAIL, "secrets", &e);
        return;
    }
    if (c->cfg->hmac_key_file)
        tell_secret(c, "[dump] hmac_key_file", c->cfg->hmac_key_file, false);
    if (c->cfg->hmac_old_key_file)
        tell_secret(c, "[dump] hmac_old_key_file", c->cfg->hmac_old_key_file, false);
}

static void forget(struct buf *secret)
{
    if (secret->p)
        explicit_bzero(secret->p, secret->cap);
    buf_free(secret);
}

/* -1 when the one for the server, which goes to `password`, cannot be read. */
static int check_secrets(struct check *c, struct buf *password)
{
    struct buf other = {0};
    const struct {
        const char *key, *path;
    } others[] = {{"[alert.smtp] password_file", c->cfg->smtp.password_file},
                  {"[alert.webhook] url_file", c->cfg->webhook.url_file},
                  {"[heartbeat] url_file", c->cfg->heartbeat_url_file}};
    int rc = check_secret(c, "[mysql] password_file", c->cfg->mysql.password_file, password);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        check_secret(c, others[i].key, others[i].path, &other);
        forget(&other);
    }
    check_keys(c);
    return rc;
}

static void ask_server(struct check *c)
{
    check_load_world(c);
    check_rights(c);
    check_world(c);
    check_server(c);
}

int check_run(struct act *a, json_t **result, struct err *e)
{
    struct check c = {.cfg = a->cfg, .list = json_array(), .dirfd = -1};
    struct buf password = {0};
    struct progress *p = a->job.progress;
    check_config(&c);
    int secrets = check_secrets(&c, &password);
    check_dump_dir(&c);
    if (secrets == 0) {
        progress_phase(p, "connecting", 0, 0);
        check_connect(&c, password.p);
    }
    forget(&password);
    if (c.db)
        ask_server(&c);
    else
        check_add(
            &c, CHECK_NOTE, "not looked at",
            "rights, tables and settings of the server: that needs a connection as [mysql] user");
    check_dumps(&c);
    check_journal_dir(&c);
    check_status_dir(&c);
    progress_phase(p, "trying alert channels", 0, 0);
    check_alerts(&c);
    *result = json_pack("{s:o}", "checks", c.list);
    int rc = 0;
    if (c.failed) {
        rc =
            err_set(e, ERR_SYSTEM, 0, "%u %s failed", c.failed, c.failed == 1 ? "check" : "checks");
        err_hint(e, "each failed one says above what to do");
    }
    db_close(c.db);
    grants_free(&c.grants);
    db_tables_free(&c.tables);
    db_triggers_free(&c.triggers);
    catalog_free(&c.catalog);
    if (c.dirfd >= 0)
        close(c.dirfd);
    return rc;
}
