/* A pin keeps a dump that retention would delete. It lies beside the dump as NAME.pin, signed like the other small
 * files there (kept.h). It protects the dump's copy in a store as well, as long as the dump itself is here. */
#ifndef WK_STORE_PIN_H
#define WK_STORE_PIN_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "config/config.h"

#define PIN_ENDING ".pin"

enum pin_kind {
    PIN_NONE,
    PIN_SHRINK, /* the last dump before one that lost many rows: for [retention] keep_before_shrink */
    PIN_ROUND, /* the last dump of a round, until somebody removes the pin */
    PIN_KINDS
};

struct pin {
    enum pin_kind kind;
    wall_t since;
    char reason[400]; /* what happened after the dump */
};

/* Creates or replaces the pin of dump `name`, durably; not by one that ends earlier. */
int pin_set(int dirfd, const char *name, enum pin_kind kind, const char *reason, struct err *e);
/* A file that is missing, unreadable or not signed as it must be is no pin: kind PIN_NONE. */
void pin_read(int dirfd, const char *name, struct pin *out);
/* Does the pin keep its dump at `now`? Pure. A pin from the future (a clock that was set back) does. */
bool pin_holds(const struct pin *p, const struct config_retention *rule, wall_t now);

#endif
