/* Which server a connection leads to, and what it says about itself: identity, binlog position,
 * variables, sessions. Returned strings are malloc'ed. Errors as in conn.h. */
#ifndef WK_MYSQL_SERVER_H
#define WK_MYSQL_SERVER_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "mysql/conn.h"

/* Start: the server's own start time, seconds since 1970 by its clock. Constant for one process,
 * even if clocks are set later: UNIX_TIMESTAMP() minus Uptime in one statement, both counted from
 * the statement's own time. */
struct server_id {
    int64_t start;
    bool young; /* last seen within the second of its start */
    /* started no later than this, by the clock of this machine; ms 0: not asked here */
    wall_t started;
    int64_t ahead_ms; /* its clock minus that of this machine; for display, not for decisions */
    int64_t pid;      /* of the process that listens on this machine's socket; 0: unknown */
    /* id of the connection that was used; ids only grow within one process. 0: unknown */
    uint64_t connection;
    char uid[64]; /* @@server_uid / @@server_uuid, "" where the server has none */
    char hostname[256];
    char datadir[512];
    char version[128];
};

/* Returns true if `now`, from a later connection, is another process than `then`.
 *
 * Different start times prove it. Equal ones prove the opposite only if the process was seen to
 * outlive its first second: a server that is killed and restarted within one second has the same.
 * Within that second the process id decides, or a connection id that was used before. */
bool server_restarted(const struct server_id *now, const struct server_id *then);
/* Returns true if both are the same installation, in whichever process. If both have a UUID (MySQL
 * keeps one in its data directory), that decides. MariaDB's uid is a hash of a network card's
 * address and the port: it changes after a reboot with other cards, and is the same for a second
 * data directory on that port. Therefore MariaDB needs the same data directory, and the same host
 * name or uid. An unknown value matches nothing. */
bool server_same_place(const struct server_id *a, const struct server_id *b);
json_t *server_json(const struct server_id *s);
void server_from_json(const json_t *o, struct server_id *out);
int db_server_id(struct db *db, struct server_id *out, struct err *e);

/* A binlog position. file[0] == 0: there is none, or the account may not read it. */
struct db_binlog_pos {
    char file[256];
    uint64_t pos;
    char gtid[512]; /* GTIDs written before it */
    /* GTIDs written up to a moment after it; "": the same. The server reports position and GTIDs
     * separately, while others write */
    char gtid_after[512];
};
void db_binlog_pos(struct db *db, struct db_binlog_pos *out);
/* Reads only file and position, by one query instead of three; `out` is unchanged if there is
 * none. */
void db_binlog_place(struct db *db, struct db_binlog_pos *out);
/* Runs the statement that returns file, position and the log's filters. Its name differs between
 * servers. */
struct db_rows *db_log_status(struct db *db, struct err *e);
/* Returns true if the server writes no binary log. This is possible even with log_bin = ON, if a
 * disk error made it close the log. */
bool db_log_closed(struct db *db);
/* Compares two positions of one log, whose files are numbered. Returns -1, 0 or 1. */
int db_binlog_pos_compare(const struct db_binlog_pos *a, const struct db_binlog_pos *b);

/* Returns the schema's name in the server's spelling (malloc), which may differ from ours in case.
 * ERR_REFUSED: there is no such schema. */
char *db_schema_name(struct db *db, const char *schema, struct err *e);

/* Return a server variable as a number or as text; -1 or "" if it does not exist. */
int64_t db_variable_number(struct db *db, const char *name);
char *db_variable(struct db *db, const char *name);
int64_t db_variable_value(const char *text); /* converts a variable's text to a number */
/* Returns 1 if this session's changes are written to the binary log, else 0; or -1. */
int db_logs(struct db *db, struct err *e);

/* What the server shows about a session. An account always sees its own sessions. */
struct db_seen {
    char origin[256]; /* host and port */
    char command[32]; /* "Query": executing; "Sleep": idle, for `idle` seconds */
    char state[64];   /* state of its statement: "Waiting for table metadata lock" */
    int64_t idle;
};
/* Returns 1 if found; 0 if there is no such session or the account may not see it; or -1. */
int db_session_seen(struct db *db, unsigned long session, struct db_seen *out, struct err *e);

/* Ordinary replication. */
/* Returns 1 if it replicates from another server, as far as this account may see; 0, or -1. */
int replicas_fed(struct db *db, struct err *e);
/* Returns the number of replicas that are connected now; -1: this account cannot see them. */
int replicas_connected(struct db *db);

#endif
