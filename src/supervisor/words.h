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
    const char *hint;                  /* hint of the last failed restore's error, or "" */
    const json_t *restored;            /* last_restore of the status, or NULL */
    /* Of a recovery: until now the server refused worldkeeper; nothing else is known. */
    bool refused;
    bool same_world; /* same nonce and server process as at the previous ALIVE */
};
void words_for_guard(const struct words_facts *f, struct words *out);

/* Writes the alert of a supervisor's start. `last_sign`: when its predecessor was last known to
 * run, ms 0: there was none, or it exited cleanly. */
void words_for_start(const struct config *cfg, bool journal, wall_t last_sign, wall_t now,
                     struct words *out);

/* A statement that affected whole tables of the world:
 * "table planet, 10,000 rows in the last dump, was dropped at 2026-11-21T18:30:05Z" */
/* Appends what is done about a gap, and what a loss of the world would cost until then. `moment`:
 * the time up to which the journal is complete; `first`: no gap was found before it. Pure. */
void gap_words(const struct follow_gap *gap, wall_t moment, bool first, struct buf *out);
void statement_words(const struct follow_statement *s, struct buf *out);
/* Appends "worldkeeper --restore=… --at … --table planet": to the moment before, if the journal
 * covers it (`reached`), else to the newest dump. Nothing if no dump has any of the tables. If that
 * command leaves tables out, appends their number and the command that loads them elsewhere. */
void statement_undo(const struct follow_statement *s, bool reached, struct buf *out);
/* Writes the subject: "table planet altered", "tables planet and fleet dropped", "DATABASE
 * DROPPED". */
void statement_headline(const struct follow_statement *s, char *out, size_t size);
/* Writes a key for one table, independent of the figures, so that a statement is reported only
 * once. */
void statement_key(const struct follow_statement *s, char *out, size_t size);

#endif
