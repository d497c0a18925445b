/* Two machines that store one world in one place would each take the other's dumps for its own, and delete
 * the newer for the older. So nothing is stored or deleted where a dump lies that this machine did not
 * store and that is
 *
 *   - of a later generation than this world, or of the same: the world lives elsewhere, or lived there;
 *   - of the generation that this world had when nobody else's was there, or a later one, and new since
 *     then: restores raise the generation here, too;
 *   - another dump than the one of the same name here.
 *
 * It is this machine's if it was remembered as such, which is done before it is sent, or is of the world that
 * has this sentinel. That the same one is here says it only where nothing is remembered: it may have been
 * fetched. A restore from the store, or a promotion, raises the generation above all that is there. Pure. */
#ifndef WK_OFFSITE_OWNER_H
#define WK_OFFSITE_OWNER_H

#include "offsite/copies.h"

struct owner {
    uint64_t generation; /* of this world; 0: it has none, and nothing is to be stored */
    char nonce[NONCE_HEX];
    uint64_t before; /* the generation when nobody else's was there; 0: never looked */
};
/* The lowest generation that matters: dumps of others may be of it. */
uint64_t owner_from(const struct owner *f);
/* Of one that was read; sets `ours`. */
bool owner_forbids(const struct owner *f, struct copy_dump *d);

#endif
