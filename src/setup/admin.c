#include "setup/admin.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "actions/claim.h"
#include "base/file.h"
#include "mysql/account.h"
#include "mysql/client.h"
#include "mysql/server.h"
#include "setup/talk.h"

#define TIMEOUT_CONNECT 10000 /* ms */
#define TIMEOUT_READ 300000   /* ms: a survey of many tables */
#define TRIES 3
#define PORT 3306

char *setup_path(const struct setup *s, const char *path)
{
    return xasprintf("%s%s", s->root, path);
}

char *setup_config_path(const struct setup *s, const char *name, const char *end)
{
    return xasprintf("%s/etc/worldkeeper/%s%s", s->root, name, end);
}

/* Returns the server's socket. Tries the paths on Debian first, then the default of a server
 * without that option. */
static const char *find_socket(void)
{
    static const char *const usual[] = {"/run/mysqld/mysqld.sock", "/var/run/mysqld/mysqld.sock",
                                        "/tmp/mysql.sock"};
    for (size_t i = 0; i < sizeof usual / sizeof *usual; i++)
        if (access(usual[i], F_OK) == 0)
            return usual[i];
    return usual[0];
}

bool setup_same_server(const struct setup *s, const struct config_mysql *m)
{
    const struct config_mysql session =
        made_address(s->params.socket, s->params.host, s->params.port);
    const struct config_mysql own =
        made_address(m->socket ? s->own_socket : NULL, "localhost", s->own_port);
    return claims_same_server(&session, m) || (s->own_socket && claims_same_server(&own, m));
}

bool setup_same_schema(const struct setup *s, const char *a, const char *b)
{
    const struct grants names = {.any_case = s->any_case};
    return grants_same_name(&names, a, b);
}

bool setup_keeps(const struct setup *s, const struct config *cfg, const char *schema)
{
    return setup_same_schema(s, cfg->schema, schema) && setup_same_server(s, &cfg->mysql);
}

char *setup_server_name(const struct config_mysql *m)
{
    return m->socket ? xasprintf("socket %s", m->socket)
                     : xasprintf("host %s:%u", m->host, m->port);
}

int setup_choose_server(struct setup *s, const struct config_mysql *at, struct err *e)
{
    const char *host = s->host ? s->host : at->host;
    const struct config_mysql typed = made_address(s->socket ? s->socket
                                                   : s->host ? NULL
                                                             : at->socket,
                                                   host,
                                                   s->port   ? s->port
                                                   : s->host ? PORT
                                                             : at->port);
    if (!claims_same_server(&typed, at)) {
        SCOPED(xfree) char *other = setup_server_name(&typed);
        SCOPED(xfree) char *own = setup_server_name(at);
        return err_set(e, ERR_REFUSED, 0, "the world is on the server at %s, not at %s", own,
                       other);
    }
    s->socket = at->socket;
    s->host = at->socket ? NULL : at->host;
    s->port = at->port;
    return 0;
}

/* Reads the other address of a server on this machine. A server in a container, or at the other end
 * of a tunnel, has another host name. Its socket and port are not those of this machine. */
static void read_own_address(struct setup *s)
{
    char host[HOST_NAME_MAX + 1] = "";
    if (!s->params.socket && !config_is_here(s->params.host))
        return;
    SCOPED(xfree) char *its = db_variable(s->db, "hostname");
    if (gethostname(host, sizeof host - 1) < 0 || !its || strcmp(its, host) != 0)
        return;
    s->own_socket = db_variable(s->db, "socket");
    s->own_port = (unsigned)db_variable_number(s->db, "port");
}

static bool is_denied(const struct err *e)
{
    return e->cls == ERR_DENIED || e->num == 1698 || e->num == 1045;
}

static int ask_login(struct setup *s, struct err *e)
{
    char *user = NULL;
    if (s->params.password)
        talk_say("%s\n", e->text);
    else
        talk_say("The server does not let %s in without a password. An administrator's login is "
                 "needed; it is not stored.\n",
                 s->params.user);
    err_clear(e);
    if (talk_ask("Administrator of the server", s->params.user, &user, e) < 0)
        return -1;
    s->params.user = user;
    free(s->asked_admin);
    s->asked_admin = user;
    buf_free(&s->password);
    if (talk_secret("Password", "--admin-password-file FILE", &s->password, e) < 0)
        return -1;
    s->params.password = s->password.p;
    return 0;
}

/* Checks that the session's account is an administrator: it must have CREATE USER. */
static int judge_admin(struct setup *s, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    unsigned unknown = 0;
    if (db_grants(s->db, &g, &unknown, e) < 0)
        return -1;
    if (grants_have(&g, NULL, "CREATE USER"))
        return 0;
    err_set(e, ERR_DENIED, 0,
            "%s is not an administrator of this server: it cannot create "
            "accounts",
            s->params.user);
    return err_hint(e, "name an account that can: worldkeeper-setup --admin NAME");
}

/* Sets the hint of a failed connection. */
static void hint_connection(const struct setup *s, struct err *e)
{
    const char *hint = is_denied(e) ? "say how an administrator logs in: --admin NAME and "
                                      "--admin-password-file FILE"
                       : e->num == CLIENT_TLS_FAILED
                           ? "the server's certificate must be valid; if the system does not know "
                             "its authority: --tls-ca FILE"
                       : s->undo ? "start the server of this world, then repeat the command"
                                 : "say where the server is: --socket PATH or --host NAME";
    err_hint(e, "%s", hint);
}

int setup_connect(struct setup *s, struct err *e)
{
    if (s->admin_password_file && file_read_secret(s->admin_password_file, &s->password, e) < 0)
        return -1;
    bool here = !s->host || config_is_here(s->host);
    s->params = (struct db_params){.socket = s->host     ? NULL
                                             : s->socket ? s->socket
                                                         : find_socket(),
                                   .host = s->host,
                                   .port = s->port ? s->port : PORT,
                                   .user = s->admin ? s->admin : "root",
                                   .password = s->password.p,
                                   .tls_ca = s->tls_ca,
                                   .tls = here ? TLS_PREFERRED : TLS_VERIFY,
                                   .connect_timeout = TIMEOUT_CONNECT,
                                   .read_timeout = TIMEOUT_READ};
    for (unsigned i = 0; !(s->db = db_open(&s->params, e)); i++) {
        if (!is_denied(e) || !talk_asks() || i == TRIES) {
            hint_connection(s, e);
            return err_step(e, "no session with the server");
        }
        if (ask_login(s, e) < 0)
            return -1;
    }
    err_clear(e);
    s->x.db = s->db;
    s->any_case = db_variable_number(s->db, "lower_case_table_names") > 0;
    read_own_address(s);
    return judge_admin(s, e);
}

int setup_reconnect(struct setup *s, struct err *e)
{
    if (s->db && db_exec(s->db, "DO 0", NULL) == 0)
        return 0;
    db_close(s->db);
    s->x.db = s->db = db_open(&s->params, e);
    return s->db ? 0 : err_step(e, "no session with the server");
}
