#include "mysql/client.h"

#include <stdlib.h>
#include <string.h>

#include "base/text.h"

/* first byte of the packet after the last row; the packet of a row begins with 0 */
#define END_OF_ROWS 0xFE

/* Marks the connection as free for the next statement in the library. */
static int no_more_rows(MYSQL_STMT *stmt, int rc)
{
    stmt->mysql->status = MYSQL_STATUS_READY;
    return rc;
}

static int client_row_of(const uint8_t *packet, size_t n, const uint8_t **row, size_t *len)
{
    bool good = n > 0 && packet[0] == 0;
    *row = packet + good;
    *len = good ? n - 1 : 0;
    return 1;
}

unsigned client_count(const MYSQL *my)
{
    return my->net.pkt_nr;
}

void client_count_from(MYSQL *my, unsigned count)
{
    my->net.pkt_nr = my->net.compress_pkt_nr = count;
}

static bool connect_to(MYSQL *my, const struct db_params *p, struct peer *peer)
{
    peer_begin(peer);
    const MYSQL *done =
        mysql_real_connect(my, p->socket ? NULL : p->host, p->user, p->password, p->schema, p->port,
                           p->socket, p->several ? CLIENT_MULTI_STATEMENTS : 0);
    peer_end();
    return done != NULL;
}

bool client_offers_tls(const MYSQL *my)
{
    return my->server_capabilities & CLIENT_SSL;
}

/* Fills `peer` with the requirements that `tls` has for a server. */
static char *client_demand(struct peer *peer, const struct db_params *p, int tls)
{
    *peer = (struct peer){.name = p->socket ? "localhost" : p->host, .anybody = tls != 3};
    return tls == 3 ? peer_authorities(peer, p->tls_ca) : NULL;
}

#ifdef LIBMARIADB
#define U32_LE(n) (uint8_t)(n), (uint8_t)((n) >> 8), (uint8_t)((n) >> 16), (uint8_t)((n) >> 24)

void client_prepare(MYSQL *my)
{
    my_bool off = 0;
    mysql_options(my, MYSQL_OPT_RECONNECT, &off);
}

/* Authentication plugins. HASHED do not send the password itself to a server, or only if
 * `required` and `off` allow it (worldkeeper(8)). CLEAR send the password. */
#define HASHED                                                                                     \
    "mysql_native_password,client_ed25519,parsec,caching_sha2_password,sha256_password,"           \
    "auth_gssapi_client"
#define CLEAR "mysql_clear_password,dialog"

static void allow_clear(void *my)
{
    mysql_optionsv(my, MARIADB_OPT_RESTRICTED_AUTH, HASHED "," CLEAR);
}

/* From this version on, the library completes the handshake with a server that it could not
 * verify and asks a callback whether to continue. Our headers may be older. */
#define GOES_ON 30400
#define ASK_CALLBACK ((enum mysql_option)(MARIADB_OPT_SERVER_PLUGINS + 2))
#if MARIADB_PACKAGE_VERSION_ID >= 30402
_Static_assert(ASK_CALLBACK == MARIADB_OPT_TLS_VERIFICATION_CALLBACK, "a number of the ABI");
#endif

static int any_server(void)
{
    return 0;
}

/* Returns whether the library uses the OpenSSL that we are linked with. Only this one calls our
 * verification (peer.h). */
static bool asks_us(const char *openssl)
{
    return openssl && strncmp(openssl, peer_openssl(), strlen(openssl)) == 0;
}

/* Requires TLS. Otherwise the library continues unencrypted if the server offers no TLS. The
 * library requires TLS only if it has something to verify. In older versions this is a
 * fingerprint; even an empty one, which is compared with nothing, suffices. In newer versions it
 * is the whole certificate, which a callback then accepts. */
static bool client_insist(MYSQL *my)
{
    my_bool on = 1;
    if (mysql_get_client_version() < GOES_ON)
        return mysql_optionsv(my, MARIADB_OPT_TLS_PEER_FP, "") == 0;
    mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
    return mysql_optionsv(my, ASK_CALLBACK, any_server) == 0;
}

char *client_tls(MYSQL *my, const struct db_params *p, int tls, struct peer *peer)
{
    my_bool on = 1, verify = tls == 3;
    bool usable = true;
    const char *openssl = NULL;
    char *why = client_demand(peer, p, tls);
    if (why)
        return why;
    mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &verify);
    if (tls >= 2) {
        mariadb_get_infov(NULL, MARIADB_TLS_LIBRARY, &openssl);
        usable = mysql_get_client_version() < GOES_ON || asks_us(openssl);
        mysql_ssl_set(my, NULL, NULL, peer->file, peer->dir, NULL);
        mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &on);
    }
    if (tls == 2)
        usable = client_insist(my) && usable;
    if (!p->socket) {
        /* the plugin that a server's first packet requests is used before TLS begins */
        mysql_optionsv(my, MARIADB_OPT_RESTRICTED_AUTH, HASHED);
        peer->proven = verify ? allow_clear : NULL;
        peer->of = my;
    }
    return usable ? NULL
                  : xasprintf("this libmariadb (%s, %s) may log in to servers that it has not "
                              "verified; one that is built with %s does not",
                              mysql_get_client_info(), openssl ? openssl : "without TLS",
                              peer_openssl());
}

bool client_proven(const struct peer *peer)
{
    return peer->accepted || (!peer->asked && mysql_get_client_version() < GOES_ON);
}

/* Connects with a version string of our own. The library reads the server's version when an
 * error packet numbered 65535, which may be a progress report, arrives instead of the greeting
 * that sets it. Without our string it would read NULL. On failure it frees the current string,
 * ours or the greeting's. It sets the port together with the greeting's string, so a changed
 * port means that ours must still be freed. */
bool client_connect(MYSQL *my, const struct db_params *p, struct peer *peer)
{
    const unsigned no_port = 1u << 16;
    char *none = xstrdup("");
    my->server_version = none;
    my->port = no_port;
    bool done = connect_to(my, p, peer);
    if (my->port != no_port)
        free(none);
    return done;
}

/* Returns the TLS level to try first. A socket cannot be tapped, so there TLS is used only if it
 * is required. Otherwise the certificate is verified if that is possible. */
int client_tls_first(int tls, bool socket)
{
    struct peer system = {0};
    if (socket || tls == 0 || tls == 3)
        return socket && tls == 1 ? 0 : tls;
    SCOPED(xfree) char *none = peer_authorities(&system, NULL);
    return none ? 2 : 3;
}

int client_tls_next(MYSQL *my, int tls, int failed)
{
    if (tls == 3 || mysql_errno(my) != CLIENT_TLS_FAILED)
        return -1;
    /* the server has a certificate that cannot be verified */
    if (failed == 3 && client_offers_tls(my))
        return 2;
    return tls == 1 && failed != 0 && !client_offers_tls(my) ? 0 : -1;
}

const char *client_hint(unsigned num)
{
    (void)num;
    return NULL;
}

int client_socket(MYSQL *my)
{
    return (int)mysql_get_socket(my);
}

int client_row_next(MYSQL_STMT *stmt, const uint8_t **row, size_t *len)
{
    MYSQL *my = stmt->mysql;
    /* so that closing reads and drops the remaining rows */
    stmt->state = MYSQL_STMT_USE_OR_STORE_CALLED;
    unsigned long n = mysql_net_read_packet(my);
    bool last = n != packet_error && n > 0 && my->net.read_pos[0] == END_OF_ROWS;
    if (n != packet_error && !last)
        return client_row_of(my->net.read_pos, n, row, len);
    stmt->state = MYSQL_STMT_FETCH_DONE;
    return no_more_rows(stmt, last ? 0 : -1);
}

/* Requests the log. The library's own mariadb_rpl_open() first queries two settings and crashes
 * if the server answers with NULL or without a row (3.3.20). The command alone is sufficient:
 * only packets follow. */
int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags)
{
    SCOPED(buf_free) struct buf command = {0};
    uint8_t head[] = {U32_LE(pos), (uint8_t)flags, (uint8_t)(flags >> 8), U32_LE(id)};
    *log = (struct client_log){.my = my};
    buf_add(&command, head, sizeof head);
    buf_adds(&command, file);
    int rc = my->methods->db_command(my, COM_BINLOG_DUMP, command.p, command.len, true, NULL);
    return rc ? -1 : 0;
}

int client_log_next(struct client_log *log, const char **packet, size_t *len)
{
    unsigned long n = mysql_net_read_packet(log->my);
    if (n == packet_error)
        return -1;
    *packet = (const char *)log->my->net.read_pos;
    *len = n;
    return n < 9 && (unsigned char)**packet == 0xFE ? 0 : 1;
}

void client_log_close(struct client_log *log)
{
    (void)log;
}

#else
#include <errmsg.h>

/* This library never reconnects unless asked to; setting the option is deprecated and prints a
 * warning to stderr. Its default collation is utf8mb4_0900_ai_ci, which MariaDB does not know and
 * treats as latin1. Names contain no characters outside of utf8mb3. */
void client_prepare(MYSQL *my)
{
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb3");
#ifdef WK_PLUGIN_DIR /* main.c removed the environment variable for it */
    mysql_options(my, MYSQL_PLUGIN_DIR, WK_PLUGIN_DIR);
#endif
}

char *client_tls(MYSQL *my, const struct db_params *p, int tls, struct peer *peer)
{
    static const unsigned modes[] = {SSL_MODE_DISABLED, SSL_MODE_PREFERRED, SSL_MODE_REQUIRED,
                                     SSL_MODE_VERIFY_IDENTITY};
    unsigned mode = tls == 1 && p->socket ? SSL_MODE_DISABLED : modes[tls];
    bool key = tls <= 1;
    mysql_options(my, MYSQL_OPT_SSL_MODE, &mode);
    /* Only with tls off or preferred, as with the other library. Encrypting the password with
     * the server's key protects it from eavesdroppers but not from a man in the middle. */
    mysql_options(my, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &key);
    char *why = client_demand(peer, p, tls);
    if (tls == 3) { /* without authorities this library fails instead of using the system's */
        mysql_options(my, MYSQL_OPT_SSL_CA, peer->file);
        mysql_options(my, MYSQL_OPT_SSL_CAPATH, peer->dir);
    }
    return why;
}

/* This library's own verification ends the handshake, even if it uses another OpenSSL than ours. */
bool client_proven(const struct peer *peer)
{
    return peer->accepted || !peer->asked;
}

bool client_connect(MYSQL *my, const struct db_params *p, struct peer *peer)
{
    return connect_to(my, p, peer);
}

/* This library never logs in without TLS if TLS is required. It never sends passwords in clear
 * without TLS. */
int client_tls_first(int tls, bool socket)
{
    (void)socket;
    return tls;
}

int client_tls_next(MYSQL *my, int tls, int failed)
{
    (void)my;
    (void)tls;
    (void)failed;
    return -1;
}

const char *client_hint(unsigned num)
{
    switch (num) {
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
        return "Oracle's client library, with which this worldkeeper is built, lacks the account's "
               "authentication plugin. For mysql_native_password install its plugin (Debian: "
               "mysql-client-core; make PLUGIN_DIR=DIR if it is in another directory). MariaDB's "
               "accounts can also log in by unix_socket, or build with libmariadb: make "
               "MYSQL_PC=libmariadb";
    default:
        return NULL;
    }
}

int client_socket(MYSQL *my)
{
    return my->net.fd;
}

/* mysql_binlog_fetch() is the library's only public function that reads a raw packet. */
int client_row_next(MYSQL_STMT *stmt, const uint8_t **row, size_t *len)
{
    MYSQL_RPL packet = {0};
    if (mysql_binlog_fetch(stmt->mysql, &packet) != 0)
        return no_more_rows(stmt, -1);
    if (packet.size == 0)
        return no_more_rows(stmt, 0);
    return client_row_of(packet.buffer, packet.size, row, len);
}

int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags)
{
    *log = (struct client_log){.my = my};
    log->rpl = (MYSQL_RPL){
        .file_name = file,
        .file_name_length = strlen(file),
        .start_position = pos,
        .server_id = id,
        .flags = flags,
    };
    return mysql_binlog_open(my, &log->rpl) ? -1 : 0;
}

int client_log_next(struct client_log *log, const char **packet, size_t *len)
{
    if (mysql_binlog_fetch(log->my, &log->rpl) != 0)
        return -1;
    *packet = (const char *)log->rpl.buffer;
    *len = log->rpl.size;
    return log->rpl.size ? 1 : 0;
}

void client_log_close(struct client_log *log)
{
    mysql_binlog_close(log->my, &log->rpl);
}
#endif
