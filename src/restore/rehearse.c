#include "restore/rehearse.h"

#include <string.h>

#include "mysql/account.h"

/* The numbers of the errors that the server itself would give. */
#define DENIED 1142
#define READ_ONLY 1290
#define NO_SUPER 1419

/* `needed`: privileges, separated by commas. */
static int lacks(const struct grants *g, const char *schema, const char *needed, struct err *e)
{
    SCOPED(buf_free) struct buf missing = {0};
    db_missing_privileges(&missing, g, schema, needed);
    if (!missing.len)
        return 0;
    err_set(e, ERR_DENIED, DENIED, "the account lacks %s on schema %s", missing.p, schema);
    return err_hint(e, "worldkeeper --check prints the GRANT to type");
}

/* --into needs fewer privileges, since nothing is swapped; temporary tables are for the dump of the
 * living world that --force takes first. */
static int privileges(const struct grants *g, const struct config *c,
                      const struct restore_options *opt, bool triggers, struct err *e)
{
    if (opt->into)
        return lacks(g, opt->into, "SELECT, INSERT, CREATE", e);
    if (lacks(g, c->schema, "SELECT, INSERT, CREATE, DROP, ALTER, LOCK TABLES", e) < 0 ||
        (triggers && lacks(g, c->schema, "TRIGGER", e) < 0))
        return -1;
    return opt->force && c->dump_method != METHOD_LOCK
               ? lacks(g, c->schema, "CREATE TEMPORARY TABLES", e)
               : 0;
}

static bool is_on(struct db *db, const char *name)
{
    SCOPED(xfree) char *v = db_variable(db, name);
    return v && (strcmp(v, "1") == 0 || strcasecmp(v, "ON") == 0);
}

/* Server variables with which the server would refuse the restore. */
static int settings(struct db *db, const struct grants *g, bool triggers, struct err *e)
{
    bool super = grants_have(g, NULL, "SUPER");
    bool writes =
        super || grants_have(g, NULL, db_is_mariadb(db) ? "READ_ONLY ADMIN" : "CONNECTION_ADMIN");
    if (is_on(db, "super_read_only") || (is_on(db, "read_only") && !writes)) {
        err_set(e, ERR_QUERY, READ_ONLY, "the server is read-only: nothing can be restored on it");
        return err_hint(e, "name the server that takes writes, or SET GLOBAL read_only=OFF");
    }
    if (!triggers || super || db_variable_number(db, "log_bin") != 1 ||
        db_variable_number(db, "log_bin_trust_function_creators") != 0)
        return 0;
    err_set(e, ERR_QUERY, NO_SUPER,
            "with a binary log the server lets only SUPER move this world's triggers over");
    return err_hint(e,
                    "SET GLOBAL log_bin_trust_function_creators=ON; worldkeeper --check says more");
}

int rehearse(struct db *db, const struct config *c, const struct restore_options *opt,
             const struct plan *plan, struct err *e)
{
    SCOPED(grants_free) struct grants g = {0};
    struct err ignored;
    unsigned strange = 0;
    bool triggers = false;
    for (size_t i = 0; i < plan->count && !opt->into; i++)
        triggers |= plan->list[i].triggers;
    if (db_grants(db, &g, &strange, &ignored) < 0)
        return 0;
    /* With a grant that was not understood, missing privileges cannot be determined. */
    if (!strange && privileges(&g, c, opt, triggers, e) < 0)
        return -1;
    return settings(db, &g, triggers, e);
}
