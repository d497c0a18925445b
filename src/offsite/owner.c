#include "offsite/owner.h"

#include <string.h>

/* Generations before this one are of worlds that are over, whoever had them: their dumps need not be read. */
uint64_t owner_from(const struct owner *f)
{
    return f->before && f->before < f->generation ? f->before : f->generation;
}

/* `before` and not only the present generation: a restore here raises that one, perhaps past a stranger's, whose dumps
 * are as new as they were. Those that were known when nobody else's was there are no stranger's. */
bool owner_forbids(const struct owner *f, struct copy_dump *d)
{
    if (!d->attempt || f->generation == 0)
        return false;
    d->ours |= f->nonce[0] && strcmp(d->nonce, f->nonce) == 0;
    return !d->ours && (d->generation >= f->generation ||
                        (f->before && d->generation >= f->before && !d->known));
}
