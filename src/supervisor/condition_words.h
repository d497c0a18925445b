/* Conditions: something wrong that lasts, other than the world's own state. What each is called, and what a loss of the
 * world would cost. Pure. */
#ifndef WK_SUPERVISOR_CONDITION_WORDS_H
#define WK_SUPERVISOR_CONDITION_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* Something wrong that lasts, other than the world's own state. */
enum condition_id {
    CONDITION_DAMAGED, /* a stored dump is */
    CONDITION_DUMP,    /* dumps fail */
    CONDITION_SHRUNK,  /* the newest dump has far fewer rows than the one before it */
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
    CONDITION_LEASE,          /* no machine could take the lease, though it is renewed */
    CONDITION_LEFT,           /* a standby's server still has the tables of a world */
    CONDITION_PAUSE,          /* one without an end lasts too long */
    CONDITION_BLOCKED,        /* a restore waits for sessions of others */
    CONDITIONS
};

/* Of each condition: its name (incidents on the disk, metrics), the event of its alerts, and the
 * subject of its mails after the world's name, where no better one names the object. */
struct condition_words {
    const char *name;
    unsigned event;
    const char *headline;
};
extern const struct condition_words condition_words[CONDITIONS];

/* What the loss of the world in this moment would cost, as far as it is known. */
struct exposure {
    bool dump;        /* there is one that was read back */
    bool damaged;     /* … but it was found damaged since */
    int64_t dump_age; /* ms; -1: not known */
    int64_t
        unproven; /* ms at the end that are not proven to be in the journal; -1: it is not known to
                       * cover the time since the dump */
    bool journal; /* one is wanted */
    bool up;      /* the world is */
};
/* One sentence without "A loss now", which is its label: "at most 16m 00s of play: …". */
void exposure_words(const struct exposure *e, struct buf *out);

#endif
