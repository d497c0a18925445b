/* Decides what becomes an alert, and delivers it: alerts about the world's own state and about
 * conditions, the incidents that they belong to, the deliveries and the heartbeat. */
#ifndef WK_SUPERVISOR_NOTIFIER_H
#define WK_SUPERVISOR_NOTIFIER_H

#include <jansson.h>

#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"
#include "supervisor/disk_writer.h"
#include "supervisor/words.h"
#include "watch/condition.h"

struct world;

/* Something wrong that lasts, other than the world's own state. */
enum condition_id {
    CONDITION_DAMAGED, /* a stored dump is */
    CONDITION_DUMP,    /* dumps fail */
    CONDITION_STALE,   /* no good dump for too long */
    CONDITION_DISK_LOW,
    CONDITION_STATUS,      /* the status cannot be written */
    CONDITION_STATE,       /* nor the state */
    CONDITION_DISK_WRITER, /* no disk writer answers */
    CONDITION_DIR_MOVED,   /* [dump] dir names another directory than the one in use, or none */
    CONDITION_REFUSED,     /* a reload of the config was */
    CONDITION_JOURNAL_GAP,
    CONDITION_JOURNAL, /* the binary log is not followed */
    CONDITION_JOURNAL_LAG,
    CONDITION_CHECK,          /* a rule of --check fails */
    CONDITION_LEDGER,         /* rollups of a ledger fail */
    CONDITION_LEDGER_SLOW,    /* … or take longer than until the next */
    CONDITION_LEDGER_LATE,    /* more late rows than allowed */
    CONDITION_LEDGER_IGNORED, /* rows that no total has */
    CONDITION_QUEUE,          /* the alert queue holds files that are not ours */
    CONDITION_STOLEN,         /* progress that may not be sent any more */
    CONDITION_CENTRAL,        /* the central store of progress is away, or refuses us */
    CONDITION_DRILL,          /* the last drill failed, or none begins */
    CONDITION_VERIFY,         /* the same of verifies */
    CONDITION_OFFSITE,        /* copies on the other machine fail */
    CONDITION_OFFSITE_LATE,   /* … or are made, but too slowly */
    CONDITION_STANDBY,        /* the standby lags, or cannot have what the store has */
    CONDITION_COLD,           /* … or does not keep the world loaded */
    CONDITION_LEFT,           /* a standby's server still has the tables of a world */
    CONDITION_PAUSE,          /* one without an end lasts too long */
    CONDITIONS
};

/* Loads the incidents from the disk and reports the start; `last_sign`: when a supervisor that did
 * not exit cleanly was last known to run, or ms 0. */
void notify_started(struct world *w, wall_t last_sign);
/* After each step of the guard. */
void notify_guard(struct world *w, const struct words_facts *facts);
/* Something is wrong, in the words of the format; said as often as it is found: alerts and logs only
 * changes, and sends reminders. `key`: what it is that is wrong, where a condition may have several causes;
 * NULL: there is only one. */
void notify_open(struct world *w, enum condition_id id, const char *key, const char *doing,
                 const char *todo, const char *fmt, ...) __attribute__((format(printf, 6, 7)));
/* It is not, or no more: nothing is being done about it, and nothing is left to do. */
void notify_over(struct world *w, enum condition_id id, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Logs an error, with the commands in its hint made pasteable (hint_command.h). */
void world_log_err(struct world *w, enum log_level level, const char *what, const struct err *e);

void notify_heartbeat_now(void);

/* An answer of the disk writer about the alert queue. */
void notify_disk_answer(struct world *w, const struct packet *m);
/* It could not store an alert (DISK_ALERT), or not read the queue (DISK_LOAD). */
void notify_disk_failed(enum disk_request request);
/* The disk writer is gone: what it was given will not be answered. */
void notify_disk_gone(void);
/* The alert queue moved to another directory. */
void notify_dir_moved(void);
/* The numbers up to which each channel has delivered, for the disk writer. */
struct disk_marks notify_marks(void);

/* What the status shows. */
json_t *notify_conditions_json(const struct world *w);
/* For the metrics: each condition, open or not, and each channel that is on. */
json_t *notify_condition_figures(const struct world *w);
json_t *notify_channel_figures(const struct world *w);

#endif
