#include "actions/progress.h"
#include "check/rules_progress.h"
#include "parts/missing.h"
#include "progress/central_sql.h"
#include "progress/local.h"
#include "progress/renew.h"
#include "supervisor/world.h"
#include "supervisor/write_back.h"

const struct part write_backs_part = {.begin = NULL};

MISSING_ACTION(action_write_back, "progress")
MISSING_ACTION(action_locks, "progress")
MISSING_ACTION(action_release, "progress")

int action_init_progress(struct action_context *a, struct err *e)
{
    return 0;
}

const char progress_central_sql[] = "";

void check_progress(struct check *c)
{
}

bool check_central_here(const struct config *cfg)
{
    return false;
}

/* ---- dump and restore ---- */

const char *const local_own[] = {NULL};
const char *const local_bound[] = {NULL};

int renew_sessions(struct db *db, const struct config *cfg, const char *session,
                   const char *progress, struct progress *p, struct renewed *out, struct err *e)
{
    *out = (struct renewed){.asked = false};
    return 0;
}
