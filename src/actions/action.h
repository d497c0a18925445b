/* The actions of the command line and their properties: one constant table, used by the command
 * line, by run.c and by the supervisor. Pure. */
#ifndef WK_ACTIONS_ACTION_H
#define WK_ACTIONS_ACTION_H

#include <stdbool.h>

enum action {
    ACTION_NONE,
    ACTION_RUN, /* supervise */
    ACTION_CHECK,
    ACTION_INIT,
    ACTION_NEW_ROUND,
    ACTION_DUMP,
    ACTION_LIST,
    ACTION_VERIFY,
    ACTION_DRILL,
    ACTION_RESTORE,
    ACTION_CONFLICTS,
    ACTION_ROLLUP,
    ACTION_HISTORY,
    ACTION_WRITE_BACK,
    ACTION_LOCKS,
    ACTION_RELEASE,
    ACTION_SEAL,
    ACTION_STATUS,
    ACTION_PAUSE,
    ACTION_RESUME,
    ACTION_TEST_ALERT,
    ACTION_PROMOTE,
    ACTION_DEMOTE,
    ACTION_SWITCH_OVER,
    ACTION_TIDY, /* for the supervisor: removes what a killed restore left */
    ACTIONS
};

enum action_trait {
    /* Writes into the dump directory, under the world's lock; see check_root() in main.c. */
    ACTION_WRITES = 1 << 0,
    ACTION_LOGS_IN = 1 << 1,     /* needs the server's password */
    ACTION_READS_DUMPS = 1 << 2, /* needs the signing keys */
    ACTION_NO_DIR = 1 << 3,      /* works without the dump directory */
    /* A running supervisor executes it as its job, one at a time. */
    ACTION_JOB = 1 << 4,
    ACTION_YIELDS = 1 << 5,       /* that job is ended if the world must be restored */
    ACTION_SUPERVISOR = 1 << 6,   /* only a running supervisor can */
    ACTION_AT_ONCE = 1 << 7,      /* a supervisor answers without a job */
    ACTION_SHOWN_FAILED = 1 << 8, /* has a result to show even on failure */
    ACTION_SHOWN_QUIET = 1 << 9,  /* its result is shown even with --quiet */
    /* Options that it accepts. */
    ACTION_INTO = 1 << 10,
    ACTION_TABLE = 1 << 11,
    ACTION_AT = 1 << 12,
    ACTION_ACCEPT_CUT = 1 << 13,
    ACTION_DRY_RUN = 1 << 14,
    ACTION_APPLY = 1 << 15,
    ACTION_FORCE = 1 << 16,
    ACTION_WITH_CODE = 1 << 17,
    ACTION_UNTIL = 1 << 18,
    ACTION_SINCE = 1 << 19,
    ACTION_UNLOCK = 1 << 20,
    ACTION_FROM = 1 << 21,
    ACTION_BY_HAND = 1 << 22,
    ACTION_GRANTS = 1 << 23,
    ACTION_CHARSET = 1 << 24,
};

/* Returns its name on the command line after "--", and in JSON; "" for ACTION_NONE. */
const char *action_name(enum action a);
/* Returns ACTION_NONE if there is no such action. */
enum action action_find(const char *name);
bool action_is(enum action a, enum action_trait trait);

#endif
