/* Conditions: lasting problems other than the world's own state; their names, and what a loss of
 * the world would cost. Pure. */
#ifndef WK_SUPERVISOR_CONDITION_WORDS_H
#define WK_SUPERVISOR_CONDITION_WORDS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/text.h"

/* A lasting problem other than the world's own state. */
enum condition_id {
    CONDITION_DAMAGED, /* a stored dump is damaged */
    CONDITION_DUMP,    /* dumps fail */
    CONDITION_SHRUNK,  /* the newest dump has far fewer rows than the one before it */
    CONDITION_STALE,   /* no intact dump for too long */
    CONDITION_DISK_LOW,
    CONDITION_STATUS,      /* the status cannot be written */
    CONDITION_STATE,       /* the state cannot be written */
    CONDITION_DISK_WRITER, /* no disk writer answers */
    CONDITION_DIR_MOVED,   /* [dump] dir names another directory than the one in use, or none */
    CONDITION_REFUSED,     /* a reload of the config was refused */
    CONDITION_JOURNAL_GAP,
    CONDITION_JOURNAL, /* the binary log is not followed */
    CONDITION_JOURNAL_LAG,
    CONDITION_CHECK,          /* a rule of --check fails */
    CONDITION_LEDGER,         /* rollups of a ledger fail */
    CONDITION_LEDGER_SLOW,    /* rollups take longer than their interval */
    CONDITION_LEDGER_LATE,    /* more late rows than allowed */
    CONDITION_LEDGER_IGNORED, /* rows that are in no total */
    CONDITION_QUEUE,          /* the alert queue holds files that are not ours */
    CONDITION_STOLEN,         /* progress that may no longer be sent */
    CONDITION_CENTRAL,        /* the central store of progress is away, or refuses us */
    CONDITION_DRILL,          /* the last drill failed, or none begins */
    CONDITION_VERIFY,         /* the same for verifies */
    CONDITION_OFFSITE,        /* copies on the other machine fail */
    CONDITION_OFFSITE_LATE,   /* copies are made, but too slowly */
    CONDITION_STANDBY,        /* the standby lags, or cannot fetch what the store has */
    CONDITION_COLD,           /* the standby does not keep the world loaded */
    CONDITION_LEASE,          /* no machine could take the lease, though it is renewed */
    CONDITION_LEFT,           /* a standby's server still has the tables of a world */
    CONDITION_PAUSE,          /* a pause without an end lasts too long */
    CONDITION_BLOCKED,        /* a restore waits for other sessions */
    CONDITIONS
};

/* Text of each condition: its name (incidents on the disk, metrics), the event of its alerts, and
 * the subject of its mails after the world's name, if no better one names the object. `over`: the
 * subject of the mail about its end; NULL: "over: " followed by the headline. */
struct condition_words {
    const char *name;
    unsigned event;
    const char *headline, *over;
};
extern const struct condition_words condition_words[CONDITIONS];

/* What a loss of the world now would cost, as far as it is known. */
struct exposure {
    bool dump;        /* there is a dump that was read back */
    bool damaged;     /* a newer dump was found damaged */
    int64_t dump_age; /* of the newest intact dump in ms; -1: not known */
    int64_t
        /* ms at the end that are not proven to be in the journal; -1: the journal may not cover the
         * time since the dump */
        unproven;
    bool journal; /* a journal is configured */
    bool up;      /* the world is up */
};
/* Appends one sentence without its label "A loss now": "at most 16m 00s of play: …". */
void exposure_words(const struct exposure *e, struct buf *out);

#endif
