/* The effects of worldkeeper-setup on the machine and the server. Each is recorded (made.h), then
 * done, then reported; existing things are left unchanged. A dry run reports what would be done,
 * with every statement, file and command. */
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
    /* the daemon's executable, opened, because the service's user may be unable to reach its path;
     * -1: not found */
    int program;
};

/* Links on the way to a directory or file are followed only where no other user could have planted
 * them (file_open_place()). */

/* Prints what a record has, one thing a line. */
void effect_show_made(const struct made *m);
/* Creates a directory and its missing parents; `ours`: it belongs to the service's user. */
int effect_dir(struct effects *x, const char *path, mode_t mode, bool ours, struct err *e);
/* Writes a file beside its name and renames it. `secret`: its text is not shown. A file with
 * another text is replaced if setup gave it that text; otherwise it is left unchanged, and that is
 * reported. Returns 1 if the file was written, 0 if not, -1 on error. */
int effect_file(struct effects *x, const char *path, const char *text, mode_t mode, bool ours,
                bool secret, struct err *e);
/* Returns true if the file has the text that setup gave it, which is appended to `text`. */
bool effect_is_own(const struct effects *x, const char *path, struct buf *text);
/* Opens a regular file for reading. Returns the descriptor, or -1 with errno: ENOENT if it does not
 * exist, EINVAL if it is something else. */
int effect_open(int place, const char *name);
/* Executes a statement. `shown` is printed instead if it has a secret; `undo` reverts it, NULL: not
 * necessary. */
int effect_sql(struct effects *x, const char *sql, const char *shown, const char *undo,
               struct err *e);
/* Executes SET @@GLOBAL.x=…; or SET PERSIST x=…; and records the server's previous value. */
int effect_setting(struct effects *x, const char *sql, struct err *e);
/* Returns the value of GLOBAL.x or PERSIST.x (the caller frees it); NULL: it has none, or `e` says
 * why the server cannot be queried. */
char *effect_setting_value(struct db *db, const char *setting, struct err *e);
/* Runs a system program and waits. Returns its exit status, or -1. argv[0] is searched in PATH. */
int effect_run(struct effects *x, const char *const *argv, struct err *e);
/* The same for a program that a request to end neither prevents nor ends. After a request, `notice`
 * is printed once and the wait continues. */
int effect_run_whole(struct effects *x, const char *const *argv, const char *notice, struct err *e);
/* Records a file that another program made for us, as if setup had made it. */
int effect_adopt(struct effects *x, const char *path, struct err *e);
/* Removes a file that still has the text which setup gave it, as the record `m` says. Returns 1 if
 * the file was removed or does not exist; 0 if its text is another one: it is left unchanged, and
 * that is reported; -1 on error. */
int effect_remove(struct effects *x, const struct made *m, const char *path, struct err *e);
/* Runs a program and reads its output, up to `limit` bytes. Returns its exit status, or -1. It
 * changes nothing, and is also run in a dry run. */
int effect_read(const char *const *argv, size_t limit, struct buf *out, struct err *e);
/* Runs worldkeeper as the service's user and waits. Returns its exit status, or -1. */
int effect_keeper(struct effects *x, const char *config, const char *const *options, struct err *e);

#endif
