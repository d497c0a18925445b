/* What a person is told to type, in such words that it works as it stands: the user that the
 * service runs as, the config that is meant, and what a shell would split or fill in in quotes. */
#ifndef WK_TYPED_H
#define WK_TYPED_H

#include "config/config.h"
#include "core/err.h"
#include "core/text.h"

/* The user that worldkeeper runs as on this world: who types, or in root's place the owner of the
 * dumps, else the user that the package makes, where there is one; else "USER". malloc. */
char *typed_user(const struct config *cfg);

/* Adds the hint, with each "worldkeeper --ACTION" in it made whole: with the world that is meant,
 * and as that user where root types. One that is whole stays as it is. */
void typed_hint(const struct config *cfg, const char *hint, struct buf *out);
/* The same for an error's own hint: errors name actions alone, and where one is told is said how
 * to type them. */
void typed_err(const struct config *cfg, struct err *e);

/* How a supervisor is started: by systemd, whose service reads the usual place of configs; of a
 * config elsewhere by hand. malloc. */
char *typed_start(const struct config *cfg);

#endif
