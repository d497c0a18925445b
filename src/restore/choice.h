/* Chooses the dump to load, and decides what a failed load means: use the dump without its journal,
 * use an older dump, or end the restore. */
#ifndef WK_RESTORE_CHOICE_H
#define WK_RESTORE_CHOICE_H

#include "base/err.h"

struct restore;

/* Finds the dump that was requested by name, so that a mistyped name is reported before anything
 * else. */
int choice_find(struct restore *r, struct err *e);
/* Loads it into shadow tables. */
int choice_load(struct restore *r, struct err *e);

#endif
