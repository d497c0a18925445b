#include "actions/ledgers.h"
#include "check/rules_ledgers.h"
#include "dump/ledger_count.h"
#include "ledger/files.h"
#include "ledger/ledger.h"
#include "ledger/sql.h"
#include "parts/missing.h"
#include "restore/ledgers.h"
#include "supervisor/rollups.h"
#include "supervisor/world.h"

const struct part rollups_part = {.begin = NULL};

MISSING_ACTION(action_rollup, "ledger")

int action_init_ledgers(struct action_context *a, json_t **made, json_t **skipped, struct err *e)
{
    *made = json_array();
    *skipped = json_array();
    return 0;
}

void check_ledgers(struct check *c)
{
}

/* ---- dump ---- */

void ledger_count_begin(struct ledger_count *c, const struct config *cfg, struct manifest *m,
                        const struct db_table *t)
{
    c->m = NULL;
}

void ledger_count_row(const struct ledger_count *c, const char *tuple, size_t len)
{
}

int ledger_count_end(const struct config *cfg, struct manifest *m, struct db *db, struct err *e)
{
    return 0;
}

/* ---- restore ---- */

int ledgers_lock(struct db *db, const struct config *c, struct err *e)
{
    return 0;
}

int ledgers_guard(struct restore *r, struct err *e)
{
    return 0;
}

int ledgers_plan(struct restore *r, struct err *e)
{
    return 0;
}

int ledgers_loaded(struct restore *r, struct err *e)
{
    return 0;
}

int ledger_lock(struct db *db, const char *schema, const char *name, int64_t wait, struct err *e)
{
    return 0;
}

const char *ledger_own(char out[LEDGER_OWN_MAX], const struct config_ledger *c, const char *suffix)
{
    return "";
}

/* ---- offsite: files of rolled-up rows ---- */

bool ledger_file_parse(const char *name, size_t len, const char *ledger, struct ledger_file *out)
{
    return false;
}

bool ledger_file_named(const char *file, const char *ending, const char *ledger,
                       struct ledger_file *out)
{
    return false;
}

int ledger_file_load(int dirfd, struct ledger_file *f, struct err *e)
{
    return err_set(e, ERR_REFUSED, 0, CONFIG_NO_PART, "ledger");
}

int ledger_file_take(const struct buf *manifest, struct ledger_file *f, struct err *e)
{
    return err_set(e, ERR_REFUSED, 0, CONFIG_NO_PART, "ledger");
}

int ledger_file_undo(int dirfd, const struct ledger_file *f, struct err *e)
{
    return err_set(e, ERR_REFUSED, 0, CONFIG_NO_PART, "ledger");
}

struct ledger_ref ledger_filed_last(const struct ledger_filed *m)
{
    return (struct ledger_ref){.known = false};
}

int ledger_files_settle(int dirfd, const char *ledger, bool newer, struct ledger_ref *at,
                        struct err *e)
{
    return err_set(e, ERR_REFUSED, 0, CONFIG_NO_PART, "ledger");
}
