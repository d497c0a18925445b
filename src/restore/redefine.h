/* The views, routines, triggers and events of a dump, made anew on a server that has lost them with
 * its tables, or never had them. The world is in already then: what the server refuses is told, by
 * name, and nothing else comes of it. */
#ifndef WK_RESTORE_REDEFINE_H
#define WK_RESTORE_REDEFINE_H

#include "db/conn.h"

struct redefine {
    char **list; /* the statements of the dump, in their order */
    size_t count;
};
/* `sql` is copied. */
void redefine_note(struct redefine *r, const char *sql, size_t len);
/* Leaves the triggers of those tables for which `of` is true, without what would drop one of the
 * same name. */
void redefine_triggers(struct redefine *r, bool (*of)(const void *arg, const char *table),
                       const void *arg);
/* `db` has the world's schema as its default, and has its usual settings again afterwards. What was
 * not made, or not as it was, is in `told`; "" when there is nothing to tell. */
void redefine_run(struct db *db, const struct redefine *r, char *told, size_t room);
void redefine_free(struct redefine *r);

/* "SET sql_mode='…'" without the mode that changes no definition, and that newer servers do not
 * know any more. Pure; freed by the caller. */
char *redefine_mode(const char *sql);

#endif
