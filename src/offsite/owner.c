#include "offsite/owner.h"

#include <string.h>

/* Returns the oldest generation that matters. Older generations belong to worlds that have
 * ended, on any machine, so their dumps need not be read. */
uint64_t owner_from(const struct owner *f)
{
    return f->before && f->before < f->generation ? f->before : f->generation;
}

/* Compares with `before` as well as with the present generation: a restore here raises the
 * latter, perhaps above that of a stranger whose dumps are as new as before. A dump that was
 * known when no stranger's dump was in the store is not a stranger's. */
bool owner_forbids(const struct owner *f, struct copy_dump *d)
{
    if (!d->attempt || f->generation == 0)
        return false;
    d->ours |= f->nonce[0] && strcmp(d->nonce, f->nonce) == 0;
    return !d->ours && (d->generation >= f->generation ||
                        (f->before && d->generation >= f->before && !d->known));
}
