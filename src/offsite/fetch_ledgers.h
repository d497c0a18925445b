/* Fetches files of rolled-up rows from the store into the dump directory, where all other code
 * finds them. */
#ifndef WK_OFFSITE_FETCH_LEDGERS_H
#define WK_OFFSITE_FETCH_LEDGERS_H

#include <jansson.h>

#include "ledger/files.h"
#include "offsite/fetch.h"
#include "offsite/ledger_copies.h"

struct fetch_ledgers {
    const struct config_ledger *of;
    uint64_t from;             /* the lowest number; the highest one is that of `marks` */
    struct ledger_filed marks; /* of this world */
    wall_t now;                /* out: by which files are too old to be fetched */
    json_t *unknown;           /* array that receives a sentence for each file not fetched */
    int fetched;
    char failed[LEDGER_FILE_NAME]; /* the first file that was not fetched; "": none */
};
/* Fetches the files of a ledger that are in the store and not here. A file here that this world
 * does not count is moved aside, and one that was moved aside and that it counts is moved back.
 * Only one process at a time does this. */
int fetch_ledgers(struct fetch *f, struct fetch_ledgers *l, struct err *e);
/* Returns the number of valid files here that are not in the store; `name` is the first one. -1 on
 * error. */
int fetch_ledgers_unsent(struct fetch *f, char name[LEDGER_FILE_NAME], struct err *e);
/* Moves the files aside that are not in the store. For a machine whose world another one has taken
 * over: which of these files the other one counts is known when this machine has the world again,
 * and ledger_files_settle() then moves those back. */
int fetch_ledgers_set_aside(struct fetch *f, struct err *e);

#endif
