#include "setup/account.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "actions/worlds.h"
#include "base/file.h"
#include "mysql/account.h"
#include "setup/admin.h"
#include "setup/talk.h"
#include "sql/literal.h"

#define SECRET_FILE_MAX 4096
#define WEAK_PASSWORD 1819 /* the server's answer to a password that its rules reject */

void account_free(struct account *a)
{
    free(a->user);
    free(a->host);
    free(a->name);
    free(a->password_file);
    *a = (struct account){0};
}

/* ---- which ---- */

/* Returns the authentication plugin of an account; "" if the account does not exist, NULL on error.
 * The caller frees it. */
static char *plugin_of(struct setup *s, const char *user, const char *host, struct err *e)
{
    char *plugin = db_one_with(s->db, "SELECT plugin FROM mysql.user WHERE User=? AND Host=?",
                               DB_ARGS(user, host), e);
    return plugin || e->cls != ERR_NONE ? plugin : xstrdup("");
}

static bool is_socket_plugin(const char *plugin)
{
    return strcmp(plugin, "unix_socket") == 0 || strcmp(plugin, "auth_socket") == 0;
}

static bool has_socket_login(struct setup *s)
{
    SCOPED(xfree) char *there =
        !s->params.socket ? NULL
                          : db_one(s->db,
                                   "SELECT 1 FROM information_schema.PLUGINS WHERE PLUGIN_NAME IN "
                                   "('unix_socket','auth_socket') AND PLUGIN_STATUS='ACTIVE'",
                                   NULL);
    return there != NULL;
}

/* Returns the server's accounts of this user name as a list for people, without the one of this
 * host; "" if there is none, NULL on error. The caller frees it. MariaDB's roles have no host. */
static char *accounts_elsewhere(struct setup *s, const char *user, const char *host, struct err *e)
{
    return db_one_with(s->db,
                       "SELECT COALESCE(GROUP_CONCAT(CONCAT(User,'@',Host) ORDER BY Host SEPARATOR "
                       "', '),'') FROM mysql.user WHERE User=? AND Host NOT IN ('',?)",
                       DB_ARGS(user, host), e);
}

/* Returns the name of this machine as the server sees it. */
static char *account_host_of(struct setup *s, struct err *e)
{
    if (s->params.socket)
        return xstrdup("localhost");
    return db_one(s->db, "SELECT SUBSTRING_INDEX(USER(),'@',-1)", e);
}

struct users {
    const char *user;
    bool used;
};

static void account_see_world(void *arg, const char *path, const struct config *cfg,
                              const struct err *why)
{
    struct users *u = arg;
    (void)path;
    (void)why;
    u->used |= cfg && strcmp(cfg->mysql.user, u->user) == 0;
}

/* Returns true if another world uses this account. Each world has its own account, so that a stolen
 * one opens only one world. */
static bool used_by_another(struct setup *s, const char *user)
{
    struct users u = {.user = user};
    struct err ignored;
    SCOPED(xfree) char *dir = setup_path(s, "/etc/worldkeeper");
    worlds_each(dir, account_see_world, &u, &ignored);
    return u.used;
}

/* Reads the password of an existing password file. Returns 1, 0 if there is no file, or -1. A dry
 * run may be unable to read it. */
static int account_read_password(const struct setup *s, const struct account *a, struct buf *out,
                                 struct err *e)
{
    const char *name;
    struct err why = {0};
    out->secret = true;
    SCOPED(file_close) int place = file_open_place(a->password_file, &name, &why);
    if (place < 0)
        return why.num == ENOENT || s->dry ? 0 : err_pass(e, &why);
    SCOPED(file_close) int fd = effect_open(place, name);
    if (fd < 0)
        return errno == ENOENT || s->dry ? 0
                                         : err_sys(e, errno, "cannot open %s", a->password_file);
    return file_read_fd(fd, a->password_file, SECRET_FILE_MAX, out, e) < 0 ||
                   file_take_secret(a->password_file, out, e) < 0
               ? -1
               : 1;
}

/* Completes an account of which the name is known. A new one must not have the user name of others:
 * the server takes the session of a host for the account with the most specific host, so the new
 * account would get the sessions of the game's. */
static int finish_choice(struct setup *s, struct account *a, const char *plugin, struct err *e)
{
    a->there = plugin[0] != '\0';
    a->name = xasprintf("%s@%s", a->user, a->host);
    SCOPED(xfree) char *others =
        a->there ? xstrdup("") : accounts_elsewhere(s, a->user, a->host, e);
    if (!others)
        return -1;
    if (others[0]) {
        err_set(e, ERR_REFUSED, 0,
                "account %s is not created: the server has %s, and sessions of that user could "
                "become sessions of the new account",
                a->name, others);
        return err_hint(e, "worldkeeper-setup --name NAME makes a world with another account");
    }
    SCOPED(buf_free) struct buf password = {0};
    if (!a->by_socket && account_read_password(s, a, &password, e) < 0)
        return -1;
    if (a->there && !a->by_socket && access(a->password_file, F_OK) < 0) {
        err_set(e, ERR_REFUSED, 0, "account %s exists, but its password file %s does not", a->name,
                a->password_file);
        SCOPED(buf_free) struct buf user = {0}, file = {0};
        buf_shell(&user, s->x.user);
        buf_shell(&file, a->password_file);
        return err_hint(e, "put its password into that file: install -m 0400 -o %s /dev/stdin %s",
                        user.p, file.p);
    }
    return 0;
}

int account_choose(struct setup *s, const char *world, struct account *out, struct err *e)
{
    *out = (struct account){.host = account_host_of(s, e)};
    if (!out->host)
        return -1;
    SCOPED(xfree) char *plugin = plugin_of(s, s->x.user, out->host, e);
    SCOPED(xfree) char *others = plugin ? accounts_elsewhere(s, s->x.user, out->host, e) : NULL;
    if (!others)
        return -1;
    if (has_socket_login(s) && (plugin[0] ? is_socket_plugin(plugin) : !others[0]) &&
        !used_by_another(s, s->x.user)) {
        out->user = xstrdup(s->x.user);
        out->by_socket = true;
        return finish_choice(s, out, plugin, e);
    }
    out->user = draft_account(world);
    out->password_file = setup_config_path(s, world, ".password");
    SCOPED(xfree) char *own = plugin_of(s, out->user, out->host, e);
    return own ? finish_choice(s, out, own, e) : -1;
}

/* Logs in as the daemon does, and reads the account as which the server accepts it. Root takes on
 * the user of the service for that time: only that user can read the daemon's secrets, and a
 * server's socket shows it as the one who connects. */
static int account_log_in(struct setup *s, const struct config_mysql *m, struct db_account *out,
                          struct err *e)
{
    SCOPED(buf_free) struct buf password = {0};
    struct db_params p = db_params_of(m);
    struct db *db = NULL;
    const bool root = geteuid() == 0;
    const gid_t group = getegid();
    if (root && (setegid(s->x.gid) < 0 || seteuid(s->x.uid) < 0)) {
        err_sys(e, errno, "cannot act as user %s", s->x.user);
    } else if (!m->password_file || file_read_secret(m->password_file, &password, e) == 0) {
        p.password = password.p;
        db = db_open(&p, e);
    }
    if (root && (seteuid(0) < 0 || setegid(group) < 0))
        abort();
    int rc = db ? db_account(db, out, e) : -1;
    db_close(db);
    return rc;
}

/* Refuses to create an account for a user whose login failed, because the server has accounts of
 * that user. */
static int account_not_found(const struct config *cfg, const char *accounts, const struct err *why,
                             struct err *e)
{
    err_set(e, ERR_REFUSED, 0,
            "user %s of %s cannot log in (%s), and no other account of that user is created, "
            "because the server has %s",
            cfg->mysql.user, cfg->path, why->text, accounts);
    return err_hint(e,
                    "correct user and password_file under [mysql] in %s, then run "
                    "worldkeeper-setup again: it creates an account for a user that the server "
                    "does not have",
                    cfg->path);
}

/* Takes user@host as the name of an existing account if it is one of the config's user. */
static bool account_take(struct account *a, const char *name)
{
    const char *at = strrchr(name, '@'); /* only the user may contain an @ */
    size_t n = strlen(a->user);
    a->there = at == name + n && strncmp(name, a->user, n) == 0;
    if (a->there) {
        a->host = xstrdup(at + 1);
        a->name = xstrdup(name);
    }
    return a->there;
}

int account_of(struct setup *s, const struct config *cfg, struct account *out, struct err *e)
{
    struct db_account is = {0};
    struct err why = {0};
    *out = (struct account){
        .user = xstrdup(cfg->mysql.user),
        .by_socket = !cfg->mysql.password_file,
        .password_file = cfg->mysql.password_file ? xstrdup(cfg->mysql.password_file) : NULL};
    if (account_log_in(s, &cfg->mysql, &is, &why) == 0) {
        if (account_take(out, is.name))
            return 0;
        err_set(&why, ERR_DENIED, 0, "the server accepts the anonymous account in its place");
    }
    SCOPED(xfree) char *accounts = accounts_elsewhere(s, out->user, "", e);
    if (!accounts)
        return -1;
    if (accounts[0])
        return account_not_found(cfg, accounts, &why, e);
    out->host = account_host_of(s, e);
    return out->host ? finish_choice(s, out, "", e) : -1;
}

/* ---- privileges ---- */

bool account_is_wide(const char *sql)
{
    return strstr(sql, " ON *.* ") || strstr(sql, " ON performance_schema.") ||
           strstr(sql, " ON `mysql`.") || text_starts(sql, "SET ");
}

/* Returns true for a privilege that can be declined. */
static bool is_wide(const struct needed_grant *g)
{
    return g->lost && account_is_wide(g->sql);
}

static void account_drop(struct needed_grants *n, size_t i)
{
    free(n->list[i].sql);
    free(n->list[i].why);
    free(n->list[i].only_if);
    memmove(&n->list[i], &n->list[i + 1], (n->count - i - 1) * sizeof *n->list);
    n->count--;
}

/* Shows the statements from list[i] on that are lost together, and asks for all of them. */
static int ask_together(const struct needed_grants *n, size_t i, bool *grant, struct err *e)
{
    const char *lost = n->list[i].lost;
    bool set = text_starts(n->list[i].sql, "SET ");
    unsigned count = 0;
    for (; i < n->count; i++)
        if (is_wide(&n->list[i]) && strcmp(n->list[i].lost, lost) == 0) {
            talk_line("  %s\n", n->list[i].sql);
            count++;
        }
    SCOPED(xfree) char *question =
        xasprintf("%s %s?", set ? "Set" : "Grant", count > 1 ? "them" : "it");
    return talk_yes(question, true, grant, e);
}

/* Asks whether to grant the privileges. Privileges with the same reason are one question. */
int account_ask(struct setup *s, struct needed_grants *n, struct err *e)
{
    SCOPED(xfree) char *asked = NULL;
    bool grant = true;
    for (size_t i = 0; i < n->count;) {
        const struct needed_grant *g = &n->list[i];
        if (is_wide(g) && (!asked || strcmp(asked, g->lost) != 0)) {
            free(asked);
            asked = xstrdup(g->lost);
            talk_say("For the whole server. Reason: %.*s. Without: %s.\n",
                     (int)strcspn(g->why, "\n"), g->why, g->lost);
            grant = !s->own_schema_only;
            if (grant && ask_together(n, i, &grant, e) < 0)
                return -1;
        }
        if (is_wide(g) && !grant) {
            talk_line("  declined: %s\n", g->sql);
            s->journal_declined |= text_starts(g->lost, "no journal");
            account_drop(n, i);
            continue;
        }
        i++;
    }
    return 0;
}

char *account_reverse(const char *sql)
{
    static const char to[] = " TO `", grant[] = "GRANT ";
    const char *at = NULL;
    for (const char *p = sql; (p = strstr(p, to)); p++)
        at = p;
    if (!text_starts(sql, grant) || !at)
        return NULL;
    const char *rest = sql + strlen(grant);
    return xasprintf("REVOKE %.*s FROM `%s", (int)(at - rest), rest, at + strlen(to));
}

/* ---- the account itself ---- */

/* Creates the password once. A second run uses the existing one. */
static int account_password(struct setup *s, const struct account *a, struct buf *out,
                            struct err *e)
{
    unsigned char raw[DRAFT_PASSWORD_BYTES];
    int there = account_read_password(s, a, out, e);
    if (there != 0)
        return there < 0 ? -1 : 0;
    if (getrandom(raw, sizeof raw, 0) != (ssize_t)sizeof raw)
        return err_sys(e, errno, "no random bytes");
    draft_password(raw, out);
    explicit_bzero(raw, sizeof raw);
    SCOPED(xfree) char *line = xasprintf("%s\n", out->p);
    int rc = effect_file(&s->x, a->password_file, line, 0400, true, true, e);
    explicit_bzero(line, strlen(line));
    return rc;
}

static int account_create(struct setup *s, const struct account *a, struct err *e)
{
    SCOPED(buf_free) struct buf sql = {.secret = true}, shown = {0}, secret = {0};
    SCOPED(buf_free) struct buf quoted = {0};
    db_account_quote(&quoted, a->name);
    buf_printf(&shown, "CREATE USER %s IDENTIFIED ", quoted.p);
    if (!a->by_socket) {
        if (account_password(s, a, &secret, e) < 0)
            return -1;
        buf_reserve(&sql, shown.len + 2 * secret.len + 32);
        buf_printf(&sql, "%sBY ", shown.p);
        sql_string(&sql, secret.p, secret.len);
        buf_addc(&sql, ';');
        buf_adds(&shown, "BY '(in the password file)';");
    } else if (db_is_mariadb(s->db)) {
        buf_adds(&shown, "VIA unix_socket;");
    } else {
        buf_adds(&shown, "WITH auth_socket");
        if (strcmp(a->user, s->x.user) != 0) {
            buf_adds(&shown, " AS ");
            sql_string(&shown, s->x.user, strlen(s->x.user));
        }
        buf_addc(&shown, ';');
    }
    if (!s->dry && made_note(&s->x.made, MADE_ACCOUNT, a->name, NULL, NULL, e) < 0)
        return -1;
    if (effect_sql(&s->x, sql.len ? sql.p : shown.p, shown.p, NULL, e) == 0)
        return 0;
    return e->num == WEAK_PASSWORD
               ? err_hint(e,
                          "put a password that the server accepts into %s, then run "
                          "worldkeeper-setup again",
                          a->password_file)
               : -1;
}

int account_make(struct setup *s, const struct account *a, const struct needed_grants *n,
                 struct err *e)
{
    if (!a->there && account_create(s, a, e) < 0)
        return -1;
    bool ours = !a->there || made_has(&s->x.made, MADE_ACCOUNT, a->name);
    for (size_t i = 0; i < n->count; i++) {
        /* Dropping our own account removes its privileges, so they need no REVOKE. */
        SCOPED(xfree) char *back = ours ? NULL : account_reverse(n->list[i].sql);
        if (text_starts(n->list[i].sql, "SET ")
                ? effect_setting(&s->x, n->list[i].sql, e) < 0
                : effect_sql(&s->x, n->list[i].sql, NULL, back, e) < 0)
            return -1;
    }
    return 0;
}
