/* Fetches files of rolled-up rows from the store into the dump directory, where all other code
 * finds them. */
#ifndef WK_OFFSITE_FETCH_LEDGERS_H
#define WK_OFFSITE_FETCH_LEDGERS_H

#include <jansson.h>

#include "offsite/fetch.h"
#include "offsite/ledger_copies.h"

/* Fetches the files of a ledger with these numbers that are in the store and not here. A file here
 * that another machine has undone meanwhile is set aside. `unknown` receives a sentence for each
 * file that cannot be fetched. Returns the number of fetched files, or -1. */
int fetch_ledgers(struct fetch *f, const struct config_ledger *l, uint64_t from, uint64_t to,
                  json_t *unknown, struct err *e);
/* Returns the number of valid files here that are not in the store; `name` is the first one. -1 on
 * error. */
int fetch_ledgers_unsent(struct fetch *f, char name[LEDGER_FILE_NAME], struct err *e);
/* Sets the files aside that are not in the store. For a machine whose world another one has taken
 * over: the other one does not know these files. */
int fetch_ledgers_set_aside(struct fetch *f, struct err *e);

#endif
