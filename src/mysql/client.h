/* The client library, MariaDB's Connector/C or Oracle's libmysqlclient (make's MYSQL_PC), and all
 * their differences. All other code is the same for both. */
#ifndef WK_MYSQL_CLIENT_H
#define WK_MYSQL_CLIENT_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "mysql/conn.h"
#include "mysql/peer.h"

#ifdef LIBMARIADB
typedef my_bool client_bool; /* the library's type for truth values */
#define CLIENT_ARRAYS 1 /* the library can bind arrays of rows; the server must support it too */
#else
typedef bool client_bool;
#define CLIENT_ARRAYS 0
#endif

#define CLIENT_TLS_FAILED 2026  /* CR_SSL_CONNECTION_ERROR of both libraries */
#define CLIENT_NOT_ALLOWED 5010 /* CR_PLUGIN_NOT_ALLOWED of Connector/C */

/* Sets options before connecting: no reconnects, names in UTF-8 for any server. */
void client_prepare(MYSQL *my);
/* Sets the options for TLS level `tls` (struct db_params) before connecting, and fills `peer`.
 * Returns NULL, or the reason why this library cannot be used that way; the caller frees it. */
char *client_tls(MYSQL *my, const struct db_params *p, int tls, struct peer *peer);
/* Return the TLS level to try first for the configured `tls`, and the level to try after `failed`
 * failed for lack of TLS or of a valid certificate (-1: none). Connector/C sends passwords in clear
 * text if TLS was requested but not offered. Therefore each of its attempts either requires TLS or
 * does without. */
int client_tls_first(int tls, bool socket);
int client_tls_next(MYSQL *my, int tls, int failed);
/* Connects. Call it once; on failure the connection has the error. */
bool client_connect(MYSQL *my, const struct db_params *p, struct peer *peer);
/* Returns true if the server was verified before anything was sent, after a connection with tls =
 * verify. */
bool client_proven(const struct peer *peer);
/* Returns true if the server's greeting offered TLS. */
bool client_offers_tls(const MYSQL *my);
/* Returns a hint for an error that is specific to this library; NULL: none. */
const char *client_hint(unsigned num);

/* Returns the descriptor of an open connection. */
int client_socket(MYSQL *my);

/* Both libraries can send a statement before they have read the previous answer. But they have a
 * single packet counter, which restarts with each statement, and Oracle's library refuses an answer
 * with another count. client_count() returns the counter after a statement was sent; the other
 * function restores it before that statement's answer is read. */
unsigned client_count(const MYSQL *my);
void client_count_from(MYSQL *my, unsigned count);

/* Returns the rows of an executed prepared statement packet by packet, because the library's own
 * decoder trusts the lengths in a row. Returns 1 with a row from its NULL bitmap on, valid until
 * the next call, empty if the packet is not a row; 0 after the last row; -1: the connection has the
 * error. */
int client_row_next(MYSQL_STMT *stmt, const uint8_t **row, size_t *len);

/* The server's binary log, packet by packet. `file` must live as long as `log`. */
struct client_log {
    MYSQL *my;
#ifndef LIBMARIADB
    MYSQL_RPL rpl;
#endif
};
/* Returns 0, or -1: the connection has the error. */
int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags);
/* Returns 1 with a packet, valid until the next call; 0 at the end; -1: the connection has the
 * error. */
int client_log_next(struct client_log *log, const char **packet, size_t *len);
void client_log_close(struct client_log *log);

#endif
