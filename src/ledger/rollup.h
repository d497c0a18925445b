/* Runs one rollup of a ledger. */
#ifndef WK_LEDGER_ROLLUP_H
#define WK_LEDGER_ROLLUP_H

#include "ledger/ledger.h"

struct ledger_options {
    bool dry_run;
    int64_t until; /* ms since 1970: roll up rows up to then, however young; -1: by rollup_after */
    bool (*stop)(void *arg); /* called between two pieces; true: stop. May be NULL */
    void *stop_arg;
    int dirfd;                /* the dump directory, for rows that are kept */
    const struct config *cfg; /* of the world */
};
struct ledger_result {
    uint64_t rolled_up; /* rows that this run added to totals */
    uint64_t late;      /* rows of this run that are older than the rows rolled up before */
    uint64_t ignored;   /* rows whose id had already been passed: no total has them */
    uint64_t kept;      /* rows that this run wrote to files */
    uint64_t pieces;
};
/* Sets the error for a ledger whose rollup does not exist. */
int ledger_not_made(const struct ledger *l, struct err *e);
/* Does one run, under ledger_lock(). */
int ledger_rollup(struct db *db, struct ledger *l, const struct ledger_options *opt,
                  struct ledger_result *out, struct err *e);

#endif
