/* A chain: a dump of a life of the world, and the journal that leads on from it without a gap. Whoever has it has all that
 * the world is, so a machine may give the world away on the strength of it. tests/models/README.md: rule 6. */
#ifndef WK_JOURNAL_CHAIN_H
#define WK_JOURNAL_CHAIN_H

#include "journal/archive.h"
#include "mysql/schema.h"
#include "store/manifest.h"

struct chain {
    const struct manifest
        *m;              /* the newest dump in the store that counts there; NULL: there is none */
    uint64_t generation; /* of the world's present life */
    const char *nonce;
    const struct db_tables *tables; /* the game's MEMORY tables as they are now */
    bool restores_all;              /* [restore] scope = all */
    const struct archive *journal;
};
/* Does the dump, with all of the journal after it, have everything? 0; -1 with ERR_REFUSED, what is missing, and a hint.
 * Pure. */
int chain_judge(const struct chain *c, struct err *e);

#endif
