#include "actions/action.h"

#include <string.h>

/* The traits of each action. An option without its trait is rejected before any change, because an
 * option that the action ignores could cost a world. */
static const struct {
    const char *name;
    unsigned traits;
} actions[ACTIONS] = {
    [ACTION_NONE] = {"", 0},
    /* The supervisor logs in on its own, and opens the keys before it takes the lock. */
    [ACTION_RUN] = {"run", ACTION_WRITES},
    [ACTION_CHECK] = {"check",
                      ACTION_NO_DIR | ACTION_SHOWN_FAILED | ACTION_SHOWN_QUIET | ACTION_GRANTS},
    [ACTION_INIT] = {"init", ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS | ACTION_JOB |
                                 ACTION_FORCE},
    [ACTION_NEW_ROUND] = {"new-round", ACTION_FROM | ACTION_WRITES | ACTION_LOGS_IN |
                                           ACTION_READS_DUMPS | ACTION_JOB},
    [ACTION_DUMP] = {"dump", ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS | ACTION_JOB |
                                 ACTION_YIELDS | ACTION_FORCE},
    [ACTION_LIST] = {"list", ACTION_READS_DUMPS | ACTION_SHOWN_QUIET | ACTION_FROM},
    /* --verify only reads, so it takes no lock and runs beside a dump. Its result is stored beside
     * the dump. */
    [ACTION_VERIFY] = {"verify", ACTION_READS_DUMPS | ACTION_SHOWN_QUIET | ACTION_FROM},
    [ACTION_DRILL] = {"drill", ACTION_FROM | ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS |
                                   ACTION_JOB | ACTION_YIELDS},
    [ACTION_RESTORE] = {"restore", ACTION_FROM | ACTION_WRITES | ACTION_LOGS_IN |
                                       ACTION_READS_DUMPS | ACTION_JOB | ACTION_INTO |
                                       ACTION_TABLE | ACTION_AT | ACTION_ACCEPT_CUT |
                                       ACTION_CHARSET | ACTION_WITH_CODE | ACTION_DRY_RUN |
                                       ACTION_FORCE},
    /* --conflicts writes only with --apply. */
    [ACTION_CONFLICTS] = {"conflicts", ACTION_LOGS_IN | ACTION_READS_DUMPS | ACTION_JOB |
                                           ACTION_YIELDS | ACTION_SHOWN_FAILED |
                                           ACTION_SHOWN_QUIET | ACTION_DRY_RUN | ACTION_APPLY},
    /* --rollup takes the ledger's own lock in the server instead of the world's lock. */
    [ACTION_ROLLUP] = {"rollup", ACTION_LOGS_IN | ACTION_READS_DUMPS | ACTION_JOB | ACTION_YIELDS |
                                     ACTION_SHOWN_FAILED | ACTION_DRY_RUN | ACTION_UNTIL},
    [ACTION_HISTORY] = {"history", ACTION_SHOWN_QUIET | ACTION_SINCE},
    [ACTION_WRITE_BACK] = {"write-back", ACTION_LOGS_IN | ACTION_JOB | ACTION_YIELDS |
                                             ACTION_SHOWN_FAILED | ACTION_UNLOCK},
    [ACTION_LOCKS] = {"locks", ACTION_SHOWN_QUIET},
    [ACTION_RELEASE] = {"release", ACTION_LOGS_IN | ACTION_JOB | ACTION_YIELDS | ACTION_FORCE},
    /* --seal may take long, and needs no server. */
    [ACTION_SEAL] = {"seal", ACTION_WRITES | ACTION_READS_DUMPS | ACTION_JOB | ACTION_YIELDS |
                                 ACTION_SHOWN_FAILED},
    [ACTION_STATUS] = {"status", ACTION_AT_ONCE | ACTION_SHOWN_QUIET},
    /* These need a supervisor: without one there is nothing to pause or resume. */
    [ACTION_PAUSE] = {"pause", ACTION_SUPERVISOR | ACTION_AT_ONCE | ACTION_UNTIL},
    [ACTION_RESUME] = {"resume", ACTION_SUPERVISOR | ACTION_AT_ONCE},
    [ACTION_TEST_ALERT] = {"test-alert", ACTION_NO_DIR | ACTION_SHOWN_FAILED | ACTION_SHOWN_QUIET},
    [ACTION_PROMOTE] = {"promote", ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS |
                                       ACTION_JOB | ACTION_BY_HAND | ACTION_FORCE},
    [ACTION_DEMOTE] = {"demote", ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS | ACTION_JOB |
                                     ACTION_FORCE},
    [ACTION_SWITCH_OVER] = {"switch-over", ACTION_WRITES | ACTION_LOGS_IN | ACTION_READS_DUMPS |
                                               ACTION_JOB | ACTION_SUPERVISOR},
    /* No command-line option starts this action. */
    [ACTION_TIDY] = {"tidy", ACTION_LOGS_IN | ACTION_READS_DUMPS},
};

const char *action_name(enum action a)
{
    return actions[a].name;
}

enum action action_find(const char *name)
{
    for (unsigned i = ACTION_RUN; i < ACTIONS; i++)
        if (strcmp(actions[i].name, name) == 0)
            return (enum action)i;
    return ACTION_NONE;
}

bool action_is(enum action a, enum action_trait trait)
{
    return (actions[a].traits & trait) != 0;
}
