/* Inside of the doctor: what its parts share. Each part looks at one side of a set-up and adds
 * findings; a part that cannot look (no connection, no directory) is skipped by check.c, so that
 * one failed step does not hide what the others can still tell. */
#ifndef WK_CHECK_H
#define WK_CHECK_H

#include <jansson.h>

#include "config/config.h"
#include "db/doctor.h"
#include "store/catalog.h"
#include "store/state.h"

enum check_level { CHECK_OK, CHECK_NOTE, CHECK_WARN, CHECK_FAIL };

struct check {
    const struct config *cfg;
    json_t *list; /* of findings */
    unsigned failed;

    int dirfd; /* the dump directory, -1: not opened */
    struct state state;
    struct catalog catalog;
    bool running; /* somebody holds the world's lock */

    struct db *db; /* NULL: no connection */
    bool local;    /* the server is on this machine */
    struct server_id server;
    struct doctor_session session;
    struct grants grants;
    bool grants_known;
    bool schema_there;
    struct db_tables tables; /* all engines, without the sentinel, the lease and our shadows */
    bool tables_known;
    struct db_triggers triggers; /* on tables that a restore replaces */
    uint64_t memory_bytes;       /* data and indexes of the MEMORY tables */
    uint64_t memory_data;        /* data only */
};

/* Adds a finding; its text is cleaned. check_hint() then says what to do about it. */
void check_add(struct check *c, enum check_level level, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
void check_hint(struct check *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* A hint that is one command of the shell on one file or directory. */
void check_hint_file(struct check *c, const char *command, const char *path);
/* The same, with the user that worldkeeper runs as before it. */
void check_hint_user(struct check *c, const char *command, const char *path);
/* A finding out of an error, with the error's hint. */
void check_error(struct check *c, enum check_level level, const char *name, const struct err *e);
/* "`a`, `b` and 3 more": at most `max` of the names. */
void check_names(struct buf *b, const struct db_names *n, size_t max);

/* check_disk.c */
void check_dump_dir(struct check *c); /* opens it, with state and catalog */
void check_dumps(struct check *c);    /* packing, room, age, left-overs */
void check_status_dir(struct check *c);
void check_journal_dir(struct check *c); /* [journal] mode = follow */
/* check_server.c */
void check_connect(struct check *c, const char *password);
void check_server(struct check *c); /* clock, settings, size limits, memory */
/* check_version.c: how well this server's version is known, in words (malloc). Pure. */
char *check_version(bool mariadb, const char *version, enum check_level *level);
/* check_rights.c: what the account lacks, and what it has too much */
void check_rights(struct check *c);
/* The GRANT of all that is missing on the schema, in one piece; something must be. */
void check_schema_grant(const struct check *c, struct buf *b);
/* check_definitions.c: views, triggers, events, routines */
void check_definitions(struct check *c);
/* check_world.c */
void check_load_world(struct check *c); /* tables and triggers, which others judge too */
void check_world(struct check *c);      /* schema, sentinel, lease, tables, definitions */
/* check_alerts.c: channels and heartbeat */
void check_alerts(struct check *c);

#endif
