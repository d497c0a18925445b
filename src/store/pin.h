/* A pin keeps a dump that retention would delete. It is stored beside the dump as NAME.pin and
 * signed like the other small files there (kept.h). A store gets the same file beside the dump's
 * copy, so that the pin outlives this machine. */
#ifndef WK_STORE_PIN_H
#define WK_STORE_PIN_H

#include <stdbool.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/text.h"
#include "config/config.h"

#define PIN_ENDING ".pin"
#define PIN_MAX 4096 /* bytes of the file */

enum pin_kind {
    PIN_NONE,
    /* the last dump before one that lost many rows: for [retention] keep_before_shrink */
    PIN_SHRINK,
    PIN_ROUND, /* the last dump of a round; kept until an operator removes the pin */
    PIN_KINDS
};

struct pin {
    enum pin_kind kind;
    wall_t since;
    bool unread;      /* it cannot be read or has no valid signature: `reason` says why */
    char reason[400]; /* what happened after the dump */
};

/* Creates or replaces the pin of dump `name`, durably. It never replaces a pin that ends later. */
int pin_set(int dirfd, const char *name, enum pin_kind kind, const char *reason, struct err *e);
/* Reads a pin; a missing file: kind PIN_NONE. A file that cannot be read, or has no valid
 * signature, holds like PIN_ROUND, and `reason` says what is wrong with it. */
void pin_read(int dirfd, const char *name, struct pin *out);
/* Like pin_read(), for the text of a pin that was fetched from a store. `why`: the error that
 * prevented the fetch, or ERR_NONE. */
void pin_take(const char *name, const struct buf *text, struct err *why, struct pin *out);
/* Returns true if pin `a` is of a stronger kind than `b`, or was set later. Pure. */
bool pin_outlasts(const struct pin *a, const struct pin *b);
/* Signs the pin, if there is one, by kept_sign(). */
int pin_sign(int dirfd, const char *name, bool changed, struct err *e);
/* Returns true if the pin keeps its dump at `now`. A pin from the future (the clock was set back)
 * does. Pure. */
bool pin_holds(const struct pin *p, const struct config_retention *rule, wall_t now);

#endif
