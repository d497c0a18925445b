/* Records the history. */
#ifndef WK_SUPERVISOR_RECORDER_H
#define WK_SUPERVISOR_RECORDER_H

#include <jansson.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/history.h"

struct part;
struct world;

extern const struct part recorder_part;

/* Adds a record with the current time. `fields`: taken; text from outside by js_clean(), null for
 * unknown values. */
void history_add(struct world *w, enum history_kind kind, json_t *fields);
/* Records that the state has changed, with the guard's reason. */
void history_state(struct world *w);
/* Records that this process stood still for `late` ms, or that the wall clock jumped by `drift` ms;
 * 0: it did not. */
void history_doubt(struct world *w, const char *reason, int64_t late, int64_t drift);

/* Return counts since the start, for the metrics: [{"action","result","count"}] and
 * [{"action","kind","count"}]. */
json_t *recorder_runs(void);
json_t *recorder_failures(void);

/* Takes the current figures; -1: not known. The largest of some minutes become a record. */
void recorder_sample(struct world *w, mono_t now, int64_t probe_ms, int64_t journal_lag_ms);
/* Call these when the disk writer has stored the record that it was given, or could not. */
void recorder_stored(struct world *w);
void recorder_failed(void);
/* Call this when the disk writer has died: the record that it was given may not be stored. */
void recorder_disk_gone(void);
/* For the supervisor's end: passes pending records to the disk writer at once. */
void recorder_finish(struct world *w);

#endif
