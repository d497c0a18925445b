/* What worldkeeper-setup does to the machine and the server. Each thing is noted (made.h), then done, then said; a thing that
 * is there already is left as it is. A dry run says what would be done, with every statement, file and command. */
#ifndef WK_SETUP_EFFECT_H
#define WK_SETUP_EFFECT_H

#include <sys/types.h>

#include "mysql/conn.h"
#include "setup/made.h"

struct effects {
    struct made made;
    struct db *db; /* an administrator's session */
    bool dry;
    uid_t uid; /* of the service */
    gid_t gid;
    const char *user;
    int program; /* the daemon's, opened: the service's user may be unable to reach its path; -1: not found */
};

/* A directory and its missing parents; `ours`: it belongs to the service's user. */
int effect_dir(struct effects *x, const char *path, mode_t mode, bool ours, struct err *e);
/* A file, by file_commit(). `secret`: its text is not shown. One of another text stays as it is, which is said. */
int effect_file(struct effects *x, const char *path, const char *text, mode_t mode, bool ours,
                bool secret, struct err *e);
/* Carries a statement out. `shown` in its place, if it has a secret; `undo` takes it back, NULL: nothing has to. */
int effect_sql(struct effects *x, const char *sql, const char *shown, const char *undo,
               struct err *e);
/* Carries out SET @@GLOBAL.x=…; or SET PERSIST x=…; and notes what the server had. */
int effect_setting(struct effects *x, const char *sql, struct err *e);
/* The value of GLOBAL.x or PERSIST.x; malloc; NULL: it has none, or the server cannot be asked. */
char *effect_setting_value(struct db *db, const char *setting);
/* Runs a program of the system and waits: its exit status, or -1. argv[0] is looked for in PATH. */
int effect_run(struct effects *x, const char *const *argv, struct err *e);
/* Notes a file that another program made for us, as if we had. */
int effect_adopt(struct effects *x, const char *path, struct err *e);
/* Runs a program and reads what it says, up to `limit` bytes; its exit status, or -1. It changes nothing, and is run in a dry
 * run, too. */
int effect_read(const char *const *argv, size_t limit, struct buf *out, struct err *e);
/* Runs worldkeeper as the service's user and waits: its exit status, or -1. */
int effect_keeper(struct effects *x, const char *config, const char *const *options, struct err *e);

#endif
