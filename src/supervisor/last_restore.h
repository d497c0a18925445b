/* What is known of the last restore. Decisions read the struct; its JSON is only shown: in the
 * status, in state.json for the next supervisor, and in alerts. */
#ifndef WK_SUPERVISOR_LAST_RESTORE_H
#define WK_SUPERVISOR_LAST_RESTORE_H

#include <jansson.h>
#include <stdbool.h>

#include "base/clock.h"

struct last_restore {
    wall_t at; /* when it ended; ms 0: no restore is known */
    /* The tables that were restored while the world stayed up, as given to --table; "" or NULL: all
     * were restored, or no restore is known. It points into `shown`. */
    const char *tables;
    json_t *shown; /* last_restore of the status; owned; NULL: no restore is known */
};

/* Steals the reference to `shown`, which is shortened as by last_restore_save() if the status would
 * not fit a packet with it. */
void last_restore_set(struct last_restore *l, json_t *shown);
/* Writes `shown` as text for state.json. If it does not fit, its list of tables is shortened ("a, b
 * and 57 more"), and then its longest texts are omitted, at last all but `at`, `ok` and `only`: the
 * next supervisor may know less of this restore, but takes no other one for the last. */
void last_restore_save(const json_t *shown, char *out, size_t size);
/* Returns the text in state.json as a new reference; NULL: it is "" or no JSON. */
json_t *last_restore_load(const char *text);
/* Steals the reference to `saved` (may be NULL). Returns true if that restore ended later than *l,
 * and has replaced it. */
bool last_restore_adopt(struct last_restore *l, json_t *saved);

#endif
