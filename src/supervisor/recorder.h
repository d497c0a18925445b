/* The history. */
#ifndef WK_SUPERVISOR_RECORDER_H
#define WK_SUPERVISOR_RECORDER_H

#include <jansson.h>
#include <stdint.h>

#include "base/clock.h"
#include "store/history.h"

struct part;
struct world;

extern const struct part recorder_part;

/* A record of now. `fields`: taken; text from outside by js_clean(), null for what is not known. */
void history_add(struct world *w, enum history_kind kind, json_t *fields);
/* The state has changed, for the guard's reason. */
void history_state(struct world *w);
/* This process stood still for `late` ms, the wall clock jumped by `drift` ms; 0: it did not. */
void history_doubt(struct world *w, const char *reason, int64_t late, int64_t drift);

/* For the metrics, since the start: [{"action","result","count"}] and [{"action","kind","count"}]. */
json_t *recorder_runs(void);
json_t *recorder_failures(void);

/* The figures of now; -1: not known. The largest of some minutes become a record. */
void recorder_sample(struct world *w, mono_t now, int64_t probe_ms, int64_t journal_lag_ms);
/* The disk writer has stored the record that it was given, or could not. */
void recorder_stored(struct world *w);
void recorder_failed(void);
/* It is gone: what it was given may not be stored. */
void recorder_disk_gone(void);
/* The supervisor ends: what waits goes to the disk writer at once. */
void recorder_finish(struct world *w);

#endif
