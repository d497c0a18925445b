/* Creates the code of a dump (code.h) after its tables exist. If the server refuses something, that
 * is reported and does not make the restore fail. */
#ifndef WK_RESTORE_CODE_MAKE_H
#define WK_RESTORE_CODE_MAKE_H

#include "mysql/conn.h"

struct job;
struct restore;

/* Decides what is done with the dump's code (r->code_case). Called before anything is loaded,
 * because it depends on what exists. */
int code_judge(struct restore *r, struct err *e);
/* Creates it after the swap, or reports why not. A dry run with --with-code lists what would be
 * created. Returns -1 if this machine lost the lease of the world meanwhile: code_recover() creates
 * the rest. */
int code_restore(struct restore *r, struct err *e);
/* Returns true if there is code to create. That is then recorded before the swap, so that
 * code_recover() can create it after a crash. */
bool code_due(const struct restore *r);
/* Creates the code of the dump `dump` after an interrupted restore. Returns -1 if it may not have
 * been created. */
int code_recover(struct db *db, const struct job *job, const char *dump, struct err *e);

#endif
