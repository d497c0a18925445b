/* What is said of a condition: as of the guard's own state (guard.h), a change is news, what lasts is
 * repeated every `alert_repeat`, anything else is not said again. Pure. */
#ifndef WK_WATCH_CONDITION_H
#define WK_WATCH_CONDITION_H

#include "watch/guard.h"

#define CONDITION_KEY 64

struct condition {
    bool on;
    /* the same key again is not news, even if numbers in the text differ */
    char key[CONDITION_KEY];
    char text[640], hint[640];
    wall_t since;
    mono_t notified; /* last alert or reminder */
};

/* The key of a failure: its class and number; of a refusal of our own, which has no number, its words without digits
 * as well, or another one that follows it would never be shown. Returns `out`. */
const char *condition_key(char out[CONDITION_KEY], const struct err *e);

/* Has it been so for `limit` ms? *since is when it began, ms 0: it is not so. */
bool condition_lasts(mono_t *since, bool is, int64_t limit, mono_t now);

/* The condition is found to be `on`, because of `key`. `open`: its last alert is of a beginning, perhaps by
 * an earlier supervisor, whose conditions are not known any more: then its end is news as well. */
enum guard_alert_kind condition_alert(const struct condition *c, bool on, const char *key,
                                      bool open, int64_t repeat, mono_t now);

#endif
