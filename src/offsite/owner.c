#include "offsite/owner.h"

#include <string.h>

uint64_t owner_from(const struct owner *f)
{
    return f->before && f->before < f->generation ? f->before : f->generation;
}

bool owner_forbids(const struct owner *f, struct copy_dump *d)
{
    if (!d->attempt || f->generation == 0)
        return false;
    d->ours |= f->nonce[0] && strcmp(d->nonce, f->nonce) == 0;
    return !d->ours && (d->generation >= f->generation ||
                        (f->before && d->generation >= f->before && !d->known));
}
