#include "actions/from.h"
#include "check/rules_offsite.h"
#include "offsite/fetch.h"
#include "offsite/fetch_ledgers.h"
#include "parts/missing.h"
#include "supervisor/offsite.h"
#include "supervisor/world.h"

const struct part offsite_part = {.begin = NULL};

MISSING_ACTION(action_from_verify, "offsite")

int action_from_catalog(struct action_context *a, const struct request *r, struct catalog *out,
                        struct err *e)
{
    return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, "offsite");
}

int action_from_begin(struct action_context *a, const struct request *r, wall_t until, bool beside,
                      struct action_from *from, struct err *e)
{
    *from = (struct action_from){.name = ""};
    return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, "offsite");
}

void action_from_end(struct action_from *from)
{
}

void action_adopt(struct action_context *a)
{
}

void check_offsite(struct check *c)
{
}

/* ---- ledger: files of rolled-up rows that another machine stored ---- */

int fetch_open(struct fetch *f, const struct config *cfg, int dirfd, struct progress *progress,
               struct err *e)
{
    return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, "offsite");
}

void fetch_close(struct fetch *f)
{
}

int fetch_ledgers(struct fetch *f, struct fetch_ledgers *l, struct err *e)
{
    return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, "offsite");
}
