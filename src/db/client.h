/* The client library, MariaDB's Connector/C or Oracle's libmysqlclient (make's MYSQL_PC), and all
 * in which they differ: the rest of src/db is the same with both. Only src/db includes it. */
#ifndef WK_DB_CLIENT_H
#define WK_DB_CLIENT_H

#include <mysql.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef LIBMARIADB
typedef my_bool client_bool; /* what the library writes truths to */
#define CLIENT_ARRAYS 1 /* it binds arrays of rows; whether the server does is another question */
#else
typedef bool client_bool;
#define CLIENT_ARRAYS 0
#endif

#define CLIENT_TLS_FAILED 2026 /* the libraries' number */

/* Before the connection is made: once lost it must stay lost; names are in UTF-8 for any server. */
void client_prepare(MYSQL *my);
/* The same. tls: as in struct db_params; ca: NULL for the system's authorities. */
void client_tls(MYSQL *my, int tls, bool socket, const char *ca);
/* What to do about an error of the library's own, beside what is true of any library; NULL: no
 * more. */
const char *client_hint(unsigned num);

/* The server's binary log, packet by packet. `file` must live as long as `log`. */
struct client_log {
    MYSQL *my;
#ifndef LIBMARIADB
    MYSQL_RPL rpl;
#endif
};
/* 0; -1: the connection says why. */
int client_log_open(struct client_log *log, MYSQL *my, const char *file, uint32_t pos, uint32_t id,
                    unsigned flags);
/* 1: a packet, until the next call; 0: the end; -1: the connection says why. */
int client_log_next(struct client_log *log, const char **packet, size_t *len);
void client_log_close(struct client_log *log);

#endif
