/* Decides which alert a condition needs. As for the guard's own state, a change is alerted, a
 * lasting condition is repeated every `alert_repeat`, and nothing else is sent. Pure. */
#ifndef WK_WATCH_CONDITION_H
#define WK_WATCH_CONDITION_H

#include "base/line.h"
#include "watch/guard.h"

#define CONDITION_KEY 64
/* Bytes of a hint. The longest has two sentences and two commands: one restores
 * STATEMENT_DEED_TABLES tables, whose names have 64 characters, each of 4 bytes once it is quoted
 * for the shell; the other loads a dump with a name of DUMP_NAME_MAX bytes (test_longest_undo). */
#define CONDITION_HINT 2944

struct condition {
    bool on;
    /* the same key is not alerted again, even if numbers in the text differ */
    char key[CONDITION_KEY];
    char text[LINE], hint[CONDITION_HINT];
    bool with_world; /* the alert about the world's own state reported it */
    wall_t since;
    mono_t notified; /* last alert or reminder */
};

/* Writes the key of a failure: its class and number. A refusal of our own has no number, so its
 * words without digits are added; otherwise another refusal after it would never be shown. Returns
 * `out`. */
const char *condition_key(char out[CONDITION_KEY], const struct err *e);

/* Returns true if `is` has been true for `limit` ms. *since is when that began, ms 0: it is
 * false. */
bool condition_lasts(mono_t *since, bool is, int64_t limit, mono_t now);

/* Decides the alert for a condition that is `on` or not, because of `key`. `open`: its last alert
 * reported a beginning, perhaps by an earlier supervisor, whose conditions are no longer known. Its
 * end is then alerted as well. */
enum guard_alert_kind condition_alert(const struct condition *c, bool on, const char *key,
                                      bool open, int64_t repeat, mono_t now);

#endif
