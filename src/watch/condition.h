/* What is said of a condition: as of the guard's own state (guard.h), a change is news, what lasts is
 * repeated every `alert_repeat`, anything else is not said again. Pure. */
#ifndef WK_WATCH_CONDITION_H
#define WK_WATCH_CONDITION_H

#include "watch/guard.h"

struct condition {
    bool on;
    char key[64]; /* the same key again is not news, even if numbers in the text differ */
    char text[640], hint[640];
    wall_t since;
    mono_t notified; /* last alert or reminder */
};

/* Has it been so for `limit` ms? *since is when it began, ms 0: it is not so. */
bool condition_lasts(mono_t *since, bool is, int64_t limit, mono_t now);

/* The condition is found to be `on`, because of `key`. `open`: its last alert is of a beginning, perhaps by
 * an earlier supervisor, whose conditions are not known any more: then its end is news as well. */
enum guard_alert_kind condition_alert(const struct condition *c, bool on, const char *key,
                                      bool open, int64_t repeat, mono_t now);

#endif
