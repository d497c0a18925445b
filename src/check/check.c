#include "check/check.h"

#include <string.h>

#include "base/js.h"
#include "check/rule.h"
#include "check/rules_disk.h"
#include "check/rules_elsewhere.h"
#include "check/rules_ledgers.h"
#include "check/rules_next.h"
#include "check/rules_offsite.h"
#include "check/rules_privileges.h"
#include "check/rules_progress.h"
#include "check/rules_schema.h"
#include "check/rules_server.h"
#include "check/rules_standby.h"

/* The order matters: later parts use facts of earlier ones. The facts about tables are loaded
 * first. */
static void check_ask_server(struct check *c)
{
    check_load_world(c);
    check_load_neighbours(c);
    check_privileges(c);
    check_replication(c);
    check_world(c);
    check_ledgers(c);
    check_progress(c);
    check_server(c);
    check_next_server(c);
}

int check_run(const struct config *cfg, struct progress *p, json_t **result, struct err *e)
{
    static const struct check_rule blind = {"not checked", NULL, CHECK_NOTE,
                                            "privileges, tables and settings of the server: "
                                            "checking these needs a connection as [mysql] user"};
    struct check c = check_begin(cfg, HINT_HERE);
    struct buf password = {0};
    /* The checks run from the config outwards because each uses what earlier ones opened, such as
     * the dump directory. */
    check_config(&c);
    int secrets = check_secrets(&c, &password);
    check_dump_dir(&c);
    if (secrets == 0) {
        progress_phase(p, "connecting", 0, 0);
        check_connect(&c, password.p);
    }
    if (c.db)
        check_prove_log(&c, password.p);
    buf_free(&password); /* not in memory for the rest of the check */
    if (c.db)
        check_ask_server(&c);
    else
        check_rules(&c, &blind, 1);
    check_dumps(&c);
    check_journal_dir(&c);
    check_status_dir(&c);
    check_neighbours(&c);
    progress_phase(p, "testing the off-site store", 0, 0);
    check_offsite(&c);
    check_standby(&c);
    progress_phase(p, "testing alert channels", 0, 0);
    check_alerts(&c);
    *result = json_pack("{s:O}", "checks", c.list);
    unsigned failed = c.failed;
    bool rights = check_is(&c, "missing_here");
    check_free(&c);
    if (!failed)
        return 0;
    err_set(e, ERR_SYSTEM, 0, "%u %s failed", failed, failed == 1 ? "check" : "checks");
    return err_hint(e, "the lines above say what to do%s",
                    rights ? "; all GRANTs at once: worldkeeper --check --grants" : "");
}

/* Returns the first failure in full, and the number of the other failures. */
static json_t *check_failures(const struct check *c)
{
    SCOPED(buf_free) struct buf what = {0};
    const json_t *first = NULL;
    unsigned more = 0;
    buf_adds(&what, "");
    for (size_t i = 0; i < json_array_size(c->list); i++) {
        const json_t *o = json_array_get(c->list, i);
        if (strcmp(js_text(o, "level"), "fail") != 0 || strcmp(js_text(o, "name"), "journal") == 0)
            continue;
        more += first != NULL;
        first = first ? first : o;
    }
    if (first)
        buf_printf(&what, "--check fails: %s: %s", js_text(first, "name"), js_text(first, "text"));
    if (more)
        buf_printf(&what, " (and %u more)", more);
    return json_pack("{s:o, s:s}", "what", js_clean(what.p), "hint",
                     first ? js_text(first, "hint") : "");
}

json_t *check_again(const struct config *cfg, const char *password)
{
    struct check c = check_begin(cfg, HINT_ROOT);
    struct buf secret = {0};
    json_t *out = NULL;
    check_secrets(&c, &secret);
    buf_free(&secret); /* only checked, not used here */
    check_dump_dir(&c);
    check_connect(&c, password);
    if (c.db) {
        check_prove_log(&c, password);
        check_ask_server(&c);
        check_journal_dir(&c);
        check_neighbours(&c);
        out = check_failures(&c);
    }
    check_free(&c);
    return out;
}
