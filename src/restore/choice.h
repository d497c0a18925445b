/* Chooses the dump that is loaded, and decides what a failed load means: the dump without its journal, an older dump, or
 * the end of the restore. */
#ifndef WK_RESTORE_CHOICE_H
#define WK_RESTORE_CHOICE_H

#include "base/err.h"

struct restore;

/* Finds what was asked for by name, so that a mistyped name is reported before anything else. */
int choice_find(struct restore *r, struct err *e);
/* Loads it into shadow tables. */
int choice_load(struct restore *r, struct err *e);

#endif
