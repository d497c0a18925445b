/* A chain: a dump of a life of the world, and the journal that continues it without a gap. A
 * machine that has a chain has the whole world, so the other machine may give the world away.
 * tests/models/README.md: rule 6. */
#ifndef WK_JOURNAL_CHAIN_H
#define WK_JOURNAL_CHAIN_H

#include "journal/archive.h"
#include "mysql/schema.h"
#include "store/manifest.h"

struct chain {
    const struct manifest *m; /* the newest valid dump in the store; NULL: there is none */
    uint64_t generation;      /* of the world's current life */
    const char *nonce;
    const struct db_tables *tables; /* the world's current tables, without the sentinel */
    const char *code_hash;          /* of the schema's current code (dump/definitions.h) */
    bool restores_all;              /* [restore] scope = all */
    const struct archive *journal;
};
/* Checks that the dump, with all of the journal after it, contains everything. Returns 0, or -1
 * with ERR_REFUSED, what is missing, and a hint. Pure. */
int chain_judge(const struct chain *c, struct err *e);

#endif
