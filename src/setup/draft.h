/* Text from the answers: the config, drop-ins, statements. Pure. */
#ifndef WK_SETUP_DRAFT_H
#define WK_SETUP_DRAFT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"
#include "sql/versions.h"

/* Answers; NULL or "": none. Paths of secrets are those of files that setup writes. */
struct draft {
    char *name, *schema;
    char *socket, *host, *tls_ca;
    unsigned port;
    char *user, *password_file;
    char *dump_dir, *status_dir;
    bool page;
    char *mail_to, *mail_from, *mail_url, *mail_user, *mail_password_file;
    char *webhook_file, *webhook_format;
};
void draft_free(struct draft *p);

/* Returns a world's name derived from a schema's: 1 to 32 of a-z, 0-9, "_" and "-"; the caller
 * frees it. */
char *draft_name(const char *schema);
/* Returns the name of a world's own account, which has at most 32 characters, the limit of MySQL.
 * A hash takes the place of the end of a long name. The caller frees it. */
char *draft_account(const char *world);
/* Appends a password of random bytes with upper-case and lower-case letters, digits and a
 * punctuation mark, as servers that check passwords require. No character needs quoting. */
#define DRAFT_PASSWORD_BYTES 24
void draft_password(const unsigned char raw[DRAFT_PASSWORD_BYTES], struct buf *out);
/* Returns the service that a process belongs to, such as "mariadb", from the text of its
 * /proc/PID/cgroup; NULL: no systemd service. The caller frees it. */
char *draft_service(const char *cgroup);
/* Writes only keys that are required or differ from their defaults. */
void draft_config(const struct draft *p, struct buf *out);

/* Appends "ReadWritePaths=…" for a unit file, quoted as systemd.syntax(7) requires. */
void draft_unit_path(const char *path, struct buf *out);
/* Returns the setting of our unit that hides this path from the service; NULL: none does. */
const char *draft_hidden_by(const char *path);

/* Facts about the server. */
struct draft_server {
    struct server_version version;
    bool logs; /* log_bin */
    bool row_format, full_image;
    bool synced; /* sync_binlog is not 0 */
    int64_t
        held; /* how long the log is kept, in the unit of its variable; 0: forever; -1: unknown */
    bool trusts;      /* log_bin_trust_function_creators */
    bool makes_code;  /* the world has triggers or functions */
    bool slow_rows;   /* a restore can send rows only as INSERTs, because local_infile is off */
    uint64_t heap;    /* max_heap_table_size */
    uint64_t largest; /* bytes of the largest MEMORY table, with its indexes */
};
/* Lines for an option file of the server: `reason`, and `now`, the statement that sets it in the
 * running server; NULL if that needs a restart. */
struct draft_option {
    char *line;
    const char *reason;
    char *now;
    bool restart;
    bool costs;   /* the game pays for it: a question of its own, with no as the default */
    bool written; /* the option file of an earlier run has the line */
};
struct draft_options {
    struct draft_option list[8];
    size_t count;
};
void draft_server_options(const struct draft_server *s, struct draft_options *out);
/* Appends the option file: `before`, which an earlier run wrote ("": there is none), and the lines
 * that it lacks. Of two lines for one variable the server takes the last. */
void draft_server_file(const struct draft_options *o, const char *world, const char *before,
                       struct buf *out);
/* Removes one of them. */
void draft_options_drop(struct draft_options *o, size_t i);
void draft_options_free(struct draft_options *o);

#endif
