/* The text of alerts about the world's own state, in mails and webhooks: subject, what happened,
 * what is being done and what there is to do. Pure. People read it at night: no internal state
 * names that do not explain themselves, and commands that can be pasted once hint_command() has
 * completed them. */
#ifndef WK_SUPERVISOR_WORDS_H
#define WK_SUPERVISOR_WORDS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/text.h"
#include "config/config.h"
#include "journal/follow.h"
#include "watch/guard.h"

struct words {
    char headline[200]; /* the subject after the world's name */
    char what[1000], doing[400], todo[1000];
};

struct words_facts {
    const struct config *cfg;
    const struct guard *guard;         /* after the step */
    const struct guard_answer *answer; /* with an alert */
    const char *engine;                /* of a sentinel table that is not MEMORY, or "" */
    int error;                         /* the server's error number in the last probe, or 0 */
    const char *lost_reason;           /* why the world was found lost, or "" */
    const char *hint;                  /* of the error that the last restore failed with, or "" */
    const json_t *restored;            /* last_restore of the status, or NULL */
    bool same_world;                   /* same nonce and server process as at the ALIVE before */
};
void words_for_guard(const struct words_facts *f, struct words *out);

/* ---- condition_words.c ---- */

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

/* A supervisor starts. `last_sign`: when its predecessor was last known to run, ms 0: there was
 * none, or it exited cleanly. */
void words_for_start(const struct config *cfg, wall_t last_sign, wall_t now, struct words *out);

/* A statement that affected whole tables of the world:
 * "table planet, 10,000 rows in the last dump, was dropped at 2026-11-21T18:30:05Z" */
/* What is done about a gap, and what a loss of the world would cost until that is done. `moment`: up to which the
 * journal leads; `first`: none was found before it. Pure. */
void gap_words(const struct follow_gap *gap, wall_t moment, bool first, struct buf *out);
void statement_words(const struct follow_statement *s, struct buf *out);
/* "worldkeeper --restore=… --at … --table planet": to the moment before, if the journal covers it
 * (`reached`), else to the newest dump. Nothing if no dump has any of the tables. */
void statement_undo(const struct follow_statement *s, bool reached, struct buf *out);
/* The subject: "table planet altered", "tables planet and fleet dropped", "DATABASE DROPPED". */
void statement_headline(const struct follow_statement *s, char *out, size_t size);
/* A key for one table, independent of the figures, to report a statement only once. */
void statement_key(const struct follow_statement *s, char *out, size_t size);

#endif
