#include "actions/lease_keep.h"
#include "actions/standby.h"
#include "actions/whose.h"
#include "check/rules_standby.h"
#include "parts/missing.h"
#include "supervisor/lease.h"
#include "supervisor/standby.h"
#include "supervisor/world.h"

const struct part leases_part = {.begin = NULL};
const struct part standby_part = {.begin = NULL};

MISSING_ACTION(action_promote, "standby")
MISSING_ACTION(action_demote, "standby")
MISSING_ACTION(action_switch_over, "standby")

int action_allowed(const struct action_context *a, const struct request *r, struct err *e)
{
    return 0;
}

/* ---- the lease of an action ---- */

int lease_keep_own(struct lease_keep *k, struct action_context *a, const char *what, struct err *e)
{
    return 0;
}

int lease_keep_ask(struct action_context *a, struct err *e)
{
    return 0;
}

void lease_keep_end(struct lease_keep *k)
{
}

int action_may_begin(struct action_context *a, const struct db_sentinel *here, struct err *e)
{
    return 0;
}

/* ---- the lease of a supervisor ---- */

int leases_begin(struct world *w, struct err *e)
{
    return 0;
}

bool leases_decide(struct world *w)
{
    return false;
}

int64_t leases_sleep(mono_t now, int64_t ms)
{
    return ms;
}

void check_standby(struct check *c)
{
}
