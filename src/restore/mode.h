/* The kinds of restore, and the properties of each: one row per mode in mode.c. Code asks for a
 * property of the mode (restore_is(r)->swaps); only the steps that exist for a single mode name
 * it. */
#ifndef WK_RESTORE_MODE_H
#define WK_RESTORE_MODE_H

#include <stdbool.h>

enum restore_mode {
    RESTORE_WORLD, /* into the world, at an operator's command */
    RESTORE_LOSS,  /* into the world, by the supervisor after a proven loss */
    /* on a standby: the world of another machine replaces what is in the schema */
    RESTORE_PROMOTION,
    /* a standby's copy (warm.h): the newest dump with the journal, as in a promotion */
    RESTORE_COPY,
    RESTORE_SCRATCH, /* --into: into another schema */
    RESTORE_DRILL,   /* into a scratch schema that is compared and dropped */
    /* the swap of a drill: its scratch schema takes the place of the world's (rehearsal.h) */
    RESTORE_REHEARSAL,
    RESTORE_WORLD_DRY,   /* --dry-run of the first */
    RESTORE_SCRATCH_DRY, /* --dry-run of --into */
    RESTORE_MODES
};

struct restore_traits {
    bool world;  /* tables are loaded beside those of the schema, which they replace */
    bool writes; /* it loads rows: false for --dry-run */
    bool swaps;  /* it takes the world's lease and replaces tables of the world */
    bool asks;   /* a living world refuses it, unless --force is given */
    /* No operator waits for it: it waits for other worlds, and tries older dumps more readily. */
    bool unattended;
    bool elsewhere;  /* the world of another machine, from dump and segments alone */
    bool journal;    /* it applies the changes since the dump */
    bool to_end;     /* up to the end of the journal, without looking for a loss */
    bool partial;    /* also if only part of the tables, or of the changes, can be applied */
    bool dump_alone; /* also without the changes, if they do not fit the dump */
    bool locks; /* each of its connections holds a lock that keeps a later restore from loading */
    bool logs;  /* [restore] binlog applies, because replicas are concerned */
    bool code;  /* it creates, or with --dry-run names, the dump's code: views, triggers, … */
    bool proof; /* its outcome is recorded as a proof of the dump (store/proof.h) */
    bool compares; /* all content of all tables is compared with what was loaded */
    /* Its schema is dropped right afterwards: nothing is cleaned up or recovered in it, no fence is
     * checked, and no other session is reported or ended. */
    bool passing;
    const char *privileges; /* hint for a denied statement; NULL: the statement's own */
};

extern const struct restore_traits restore_traits[RESTORE_MODES];

#endif
