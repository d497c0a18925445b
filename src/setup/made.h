/* Record of what worldkeeper-setup has made for a world, in order: NAME.setup beside the config.
 * Everything is recorded before it is made, so that --undo knows it whenever setup is killed. */
#ifndef WK_SETUP_MADE_H
#define WK_SETUP_MADE_H

#include <jansson.h>

#include "base/err.h"
#include "base/text.h"
#include "config/config.h"

enum made_kind {
    MADE_DIR, /* name: path */
    /* name: path; sum: SHA-256 of its text; undo: that of the text which this one replaced */
    MADE_FILE,
    MADE_ACCOUNT,   /* name: user@host */
    MADE_STATEMENT, /* name: the statement; undo: the one that takes it back, "": nothing does */
    MADE_SENTINEL,  /* name: of the table in the world's schema, with its lease table */
    MADE_SERVICE,   /* name: of the unit */
    /* name: GLOBAL.x or PERSIST.x; sum: its value; undo: the statement that restores the previous
     * value */
    MADE_SETTING,
    MADE_KINDS
};

struct made {
    char *path; /* of the record */
    json_t *list;
    json_t *server; /* the address at which it was made; NULL: the record has none */
    /* directory of the cron scripts that the world was taken over from; NULL: of none */
    json_t *scripts;
    bool dry; /* nothing is written */
};

/* Reads the record, if there is one. Returns -1 if it cannot be read, or is of a newer version. */
int made_open(struct made *m, const char *path, bool dry, struct err *e);
/* Sets the server's address, which is written with the next thing. An address that is not UTF-8 is
 * not recorded. */
void made_set_server(struct made *m, const struct config_mysql *at);
/* Returns a server's address in the form of a config; the texts stay the caller's. */
struct config_mysql made_address(const char *socket, const char *host, unsigned port);
/* Returns the server's address, whose texts belong to the record. socket and host NULL: the record
 * does not say. */
struct config_mysql made_server(const struct made *m);
/* Sets the directory of the cron scripts, which is written with the next thing. The path is
 * UTF-8. */
void made_set_scripts(struct made *m, const char *dir);
/* Returns that directory, which belongs to the record; NULL: the record has none. */
const char *made_scripts(const struct made *m);
/* Records a thing unless it is already recorded. `sum` and `undo` replace earlier ones; either may
 * be NULL. */
int made_note(struct made *m, enum made_kind kind, const char *name, const char *sum,
              const char *undo, struct err *e);
/* Records a statement before the i-th thing, so that --undo reverts it later than that. */
int made_insert(struct made *m, size_t i, const char *sql, const char *undo, struct err *e);
/* Copies the i-th thing of one record to another one. */
int made_take(struct made *m, const struct made *from, size_t i, struct err *e);
bool made_has(const struct made *m, enum made_kind kind, const char *name);
/* Returns the recorded `sum`, until the record changes; "": none is recorded. */
const char *made_sum(const struct made *m, enum made_kind kind, const char *name);
/* Returns true if setup gave the file the text with this SHA-256: the recorded one, or the one that
 * it replaced, because setup may have been killed before it did. */
bool made_wrote(const struct made *m, const char *path, const char *sum);
/* Removes the i-th thing, which no longer exists. */
int made_forget(struct made *m, size_t i, struct err *e);
/* Removes a thing that could not be made, if it is recorded. */
void made_drop(struct made *m, enum made_kind kind, const char *name);
enum made_kind made_kind_of(const json_t *thing);
const char *made_kind_name(enum made_kind kind);
void made_free(struct made *m);

#endif
