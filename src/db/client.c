#include "db/client.h"

#include <string.h>

#ifdef LIBMARIADB
#include <mariadb_rpl.h>

void client_prepare(MYSQL *my)
{
    my_bool off = 0;
    mysql_options(my, MYSQL_OPT_RECONNECT, &off);
}

void client_tls(MYSQL *my, int tls, bool socket, const char *ca)
{
    my_bool on = 1;
    if (tls >= 1 && !socket) /* without this call the library never offers TLS */
        mysql_ssl_set(my, NULL, NULL, ca, NULL, NULL);
    if (tls >= 2)
        mysql_options(my, MYSQL_OPT_SSL_ENFORCE, &on);
    if (tls == 3)
        mysql_options(my, MYSQL_OPT_SSL_VERIFY_SERVER_CERT, &on);
    /* It comes with plugins that give the password as it is to a server that asks for it. Who is
     * neither behind a socket nor proven must not have it. */
    if (!socket && tls != 3)
        mysql_optionsv(my, MARIADB_OPT_RESTRICTED_AUTH,
                       "mysql_native_password,client_ed25519,parsec,caching_sha2_password,"
                       "sha256_password,auth_gssapi_client");
}

const char *client_hint(unsigned num)
{
    (void)num;
    return NULL;
}

int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags)
{
    *log = (struct client_log){.my = my};
    MARIADB_RPL *rpl = mariadb_rpl_init(my);
    if (!rpl)
        return -1;
    mariadb_rpl_optionsv(rpl, MARIADB_RPL_FILENAME, file, strlen(file));
    mariadb_rpl_optionsv(rpl, MARIADB_RPL_START, (unsigned long)pos);
    mariadb_rpl_optionsv(rpl, MARIADB_RPL_SERVER_ID, id);
    mariadb_rpl_optionsv(rpl, MARIADB_RPL_FLAGS, flags);
    int rc = mariadb_rpl_open(rpl);
    mariadb_rpl_close(rpl); /* what follows are packets, which the library can read without it */
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
#include <openssl/x509.h>
#include <unistd.h>

/* It never reconnects, unless it is asked to; to forbid it is deprecated, and it says so on stderr.
 * By itself it says to the server that names are in utf8mb4_0900_ai_ci, of which a MariaDB knows
 * nothing: it would read them as latin1. No name has characters that are not in utf8mb3. */
void client_prepare(MYSQL *my)
{
    mysql_options(my, MYSQL_SET_CHARSET_NAME, "utf8mb3");
}

/* Without authorities it does not look for the system's, as others do, but gives up. */
static void trust_the_systems(MYSQL *my)
{
    const char *file = X509_get_default_cert_file(), *dir = X509_get_default_cert_dir();
    if (access(file, R_OK) == 0)
        mysql_options(my, MYSQL_OPT_SSL_CA, file);
    if (access(dir, R_OK | X_OK) == 0)
        mysql_options(my, MYSQL_OPT_SSL_CAPATH, dir);
}

void client_tls(MYSQL *my, int tls, bool socket, const char *ca)
{
    static const unsigned modes[] = {SSL_MODE_DISABLED, SSL_MODE_PREFERRED, SSL_MODE_REQUIRED,
                                     SSL_MODE_VERIFY_IDENTITY};
    unsigned mode = tls == 1 && socket ? SSL_MODE_DISABLED : modes[tls];
    bool key = tls <= 1;
    mysql_options(my, MYSQL_OPT_SSL_MODE, &mode);
    /* Where nobody asked for more, as with the other library: who listens cannot read a password
     * that goes by the server's key; who stands between can. */
    mysql_options(my, MYSQL_OPT_GET_SERVER_PUBLIC_KEY, &key);
    if (ca)
        mysql_options(my, MYSQL_OPT_SSL_CA, ca);
    else if (tls == 3)
        trust_the_systems(my);
}

const char *client_hint(unsigned num)
{
    switch (num) {
    case CR_AUTH_PLUGIN_CANNOT_LOAD:
        return "the account's way to log in is not in Oracle's client library, which this "
               "worldkeeper is built with. mysql_native_password is a file of its own (Debian: in "
               "mysql-client-core, elsewhere LIBMYSQL_PLUGIN_DIR says where it lies). MariaDB's "
               "accounts can also log in by unix_socket, or build with libmariadb: "
               "make MYSQL_PC=libmariadb";
    default:
        return NULL;
    }
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
