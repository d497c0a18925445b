/* worldkeeper-setup: sets up a watched world from nothing.
 *
 * It asks first, then does: account and privileges, directories, config, drop-ins, a test message;
 * then, if systemd runs, sentinel, first dump, drill, check and the service. Each step is recorded
 * (made.h) before it is done, keeps what exists, and can be repeated: after a failure a second run
 * continues. The service is started last. */
#ifndef WK_SETUP_SETUP_H
#define WK_SETUP_SETUP_H

#include "base/err.h"
#include "mysql/conn.h"
#include "setup/draft.h"
#include "setup/effect.h"
#include "setup/survey.h"

#define SERVICE_USER "worldkeeper" /* the user that the unit names */

/* Prefix of the names of our option files for the server; the world's name and ".cnf" follow. */
#define SERVER_FILE "/90-worldkeeper-"

struct setup {
    struct names typed; /* the options as typed, quoted for a shell */
    /* Options; NULL: not given. */
    const char *root; /* everything is made below it; "": the machine itself */
    const char *socket, *host, *tls_ca, *admin, *admin_password_file;
    unsigned port; /* 0: not given */
    const char *schema, *name, *undo, *from_cron;
    const char *status_dir, *mail, *smtp, *webhook_file, *webhook_format;
    const char *service_user;
    bool yes, dry, own_schema_only, no_server_file, page;
    bool restart_server; /* at the end, for its binary log; also an answer */

    struct buf mails;               /* of several --mail, with commas */
    struct names schemas;           /* of each --schema */
    const struct names *taken_over; /* the schemas of --from-cron */
    char *asked_admin;              /* malloc; NULL: not asked for */
    struct buf password;            /* the administrator's: asked for or read, never written */
    struct db_params params;
    struct db *db;
    unsigned own_port; /* of the session's server, as it says itself, if it is on this machine */
    char *own_socket;  /* malloc; NULL: the server is on another machine, or in a container */
    bool any_case;     /* lower_case_table_names: A to Z and a to z are equal in schema names */
    struct survey survey;
    struct effects x;
    bool systemd;

    bool restart_known;    /* it was asked, or answered by option, and can be done */
    bool writes_refused;   /* by read_only, which was off, until the server's restart */
    bool journal_declined; /* the privileges that a journal needs */
    struct world **worlds; /* whose steps are done, but for what setup_finish() does */
    size_t world_count;
};

#endif
