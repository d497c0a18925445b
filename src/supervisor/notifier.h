/* Alerts and conditions. */
#ifndef WK_SUPERVISOR_NOTIFIER_H
#define WK_SUPERVISOR_NOTIFIER_H

#include <jansson.h>

#include "base/log.h"
#include "base/worker.h"
#include "supervisor/condition_words.h"
#include "supervisor/disk_writer.h"
#include "supervisor/words.h"

struct part;
struct world;

extern const struct part notifier_part;

/* Loads the incidents from the disk and reports the start; `last_sign`: when a supervisor that did
 * not exit cleanly was last known to run, or ms 0. */
void notify_started(struct world *w, wall_t last_sign);
/* Sends an alert about something that happened and does not last, with a thread of its own. It is
 * also logged and recorded in the history. */
void notify_event(struct world *w, const char *name, unsigned event, const char *headline,
                  const char *what, const char *doing, const char *todo);
/* Call it after each step of the guard. */
void notify_guard(struct world *w, const struct words_facts *facts);
/* Reports a problem, in the text of the format, with the condition's own subject (condition_words).
 * May be called each time it is found: only changes are logged and mailed, and reminders sent.
 * `key`: the cause, if a condition may have several; NULL: there is only one. */
void notify_open(struct world *w, enum condition_id id, const char *key, const char *doing,
                 const char *todo, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* Like notify_open(), with a subject that names the object, or NULL: "table planet altered". */
void notify_open_as(struct world *w, enum condition_id id, const char *key, const char *headline,
                    const char *doing, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* Opens CONDITION_JOURNAL_GAP for dropped tables, or for a dropped `database`. Its alert is merged
 * with the guard's alert that the tables are missing, because both are one event. */
void notify_dropped(struct world *w, const char *key, bool database, const char *headline,
                    const char *doing, const char *todo, const char *fmt, ...)
    __attribute__((format(printf, 7, 8)));
/* Reports that the problem is over, or never existed: nothing is being done, and nothing is left to
 * do. */
void notify_over(struct world *w, enum condition_id id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs an error, with the commands in its hint made pasteable (hint_command.h). */
void world_log_err(struct world *w, enum log_level level, const char *what, const struct err *e);

void notify_heartbeat_now(void);

/* Handles an answer of the disk writer about the alert queue. */
void notify_disk_answer(struct world *w, const struct packet *m);
/* Handles that it could not store an alert (DISK_ALERT), or not read the queue (DISK_LOAD). */
void notify_disk_failed(enum disk_request request);
/* Handles the death of the disk writer: its pending requests will not be answered. */
void notify_disk_gone(void);
/* Tells that the alert queue moved to another directory. */
void notify_dir_moved(void);
/* Returns the number up to which each channel has delivered, for the disk writer. */
struct disk_marks notify_marks(void);

/* Returns the conditions for the status. */
json_t *notify_conditions_json(const struct world *w);
/* Return figures for the metrics: each condition, open or not, and each channel that is on. */
json_t *notify_condition_figures(const struct world *w);
json_t *notify_channel_figures(const struct world *w);

#endif
