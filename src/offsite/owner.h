/* Two machines that store one world in one place would each consider the other's dumps its own, and
 * delete the newer for the older. So nothing is stored or deleted if there is a dump that this
 * machine did not store and that is
 *
 *   - of this world's generation or a later one: the world lives elsewhere, or lived there;
 *   - new, and of the generation that this world had when no other machine's dump was there, or a
 *     later one: restores raise the generation here, too;
 *   - different from the dump of the same name here.
 *
 * A dump is this machine's if it was remembered as such, before it was sent, or if it is of the
 * world that has this sentinel. That the same dump is here counts only if nothing is remembered,
 * because it may have been fetched. A restore from the store, or a promotion, raises the generation
 * above everything there. Pure. */
#ifndef WK_OFFSITE_OWNER_H
#define WK_OFFSITE_OWNER_H

#include "offsite/copies.h"

struct owner {
    uint64_t generation; /* of this world; 0: it has none, and nothing may be stored */
    char nonce[NONCE_HEX];
    uint64_t before; /* the generation when no other machine's dump was there; 0: never looked */
};
/* Returns the lowest generation that matters: dumps of others may have it. */
uint64_t owner_from(const struct owner *f);
/* Judges a dump whose manifest was read; sets `ours`. */
bool owner_forbids(const struct owner *f, struct copy_dump *d);

#endif
