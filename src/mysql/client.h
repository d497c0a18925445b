/* The client library, MariaDB's Connector/C or Oracle's libmysqlclient (make's MYSQL_PC), and all
 * their differences: everything else is the same for both. */
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
#define CLIENT_ARRAYS 1 /* it binds arrays of rows; whether the server does is another question */
#else
typedef bool client_bool;
#define CLIENT_ARRAYS 0
#endif

#define CLIENT_TLS_FAILED 2026  /* CR_SSL_CONNECTION_ERROR of both libraries */
#define CLIENT_NOT_ALLOWED 5010 /* CR_PLUGIN_NOT_ALLOWED of Connector/C */

/* Called before connecting: no reconnects, names in UTF-8 for any server. */
void client_prepare(MYSQL *my);
/* Called before connecting with the TLS level `tls`, as in struct db_params: sets the options and fills `peer`. NULL, or
 * why this library cannot be used so; free() it. */
char *client_tls(MYSQL *my, const struct db_params *p, int tls, struct peer *peer);
/* The TLS level to try first when `tls` is configured, and the one to try after `failed` failed for lack of TLS or of a
 * valid certificate (-1: none). Connector/C sends passwords in clear where TLS was requested but not offered; therefore
 * each of its attempts either insists on TLS or does without. */
int client_tls_first(int tls, bool socket);
int client_tls_next(MYSQL *my, int tls, int failed);
/* Connects, to be called once; on failure the connection has the error. */
bool client_connect(MYSQL *my, const struct db_params *p, struct peer *peer);
/* After a connection with tls = verify: was the server proven before it was told anything? */
bool client_proven(const struct peer *peer);
/* Did the server's greeting offer TLS? */
bool client_offers_tls(const MYSQL *my);
/* A hint for an error that is specific to this library; NULL: none. */
const char *client_hint(unsigned num);

/* The descriptor of an open connection. */
int client_socket(MYSQL *my);

/* Both libraries can send a statement before they have read the last one's answer, but have one count of
 * packets, which starts again with each statement, and Oracle's refuses an answer that does not go on from it.
 * The count after a statement was sent; and, before its answer is read, back to that. */
unsigned client_count(const MYSQL *my);
void client_count_from(MYSQL *my, unsigned count);

/* The rows of an executed prepared statement with columns, packet by packet: the library's own
 * decoder trusts the lengths in a row.
 * 1: a row from its NULL bitmap on, valid until the next call, empty if the packet is not a row; 0:
 * no more rows; -1: the connection has the error. */
int client_row_next(MYSQL_STMT *stmt, const uint8_t **row, size_t *len);

/* The server's binary log, packet by packet. `file` must live as long as `log`. */
struct client_log {
    MYSQL *my;
#ifndef LIBMARIADB
    MYSQL_RPL rpl;
#endif
};
/* 0; -1: the connection has the error. */
int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags);
/* 1: a packet, valid until the next call; 0: the end; -1: the connection has the error. */
int client_log_next(struct client_log *log, const char **packet, size_t *len);
void client_log_close(struct client_log *log);

#endif
