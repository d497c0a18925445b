#include "mysql/prove.h"

#include "mysql/account.h"
#include "mysql/only_table.h"
#include "mysql/server.h"
#include "mysql/session.h"
#include "sql/literal.h"

#define NEEDS_PRIVILEGE 1227
#define NO_COLUMN 1054
#define READ_ONLY 1290

static enum db_proof refuted_by(const struct err *why, const int *nums)
{
    return err_among(why, nums) ? DB_REFUTED : DB_UNPROVEN;
}

static void add_lease_table(struct buf *b, const char *schema, const char *sentinel)
{
    SCOPED(xfree) char *name = xasprintf("%s_lease", sentinel);
    sql_ident2(b, schema, name);
}

/* Executes one statement that must not wait. A backup may hold locks on all tables (FLUSH TABLES
 * WITH READ LOCK), and a waiting statement would make the game's statements wait after it. */
static int run_at_once(struct db *db, const struct buf *sql, struct err *why)
{
    struct err ignored;
    int rc = db_lock_wait(db, 0, why) < 0 ? -1 : db_exec_len(db, sql->p, sql->len, why);
    if (rc == 0 || !db_unanswered(why))
        db_exec(db, "SET SESSION lock_wait_timeout=" SESSION_LOCK_WAIT, &ignored);
    return rc;
}

/* Tests whether this account may create objects of another definer. The server checks the
 * definer first, then the columns. The column does not exist, so no trigger is ever created. The
 * lease table is used because it is ours, small, and seldom read. */
enum db_proof db_prove_definer(struct db *db, const char *schema, const char *sentinel,
                               const char *definer, struct err *why)
{
    static const int refusals[] = {NEEDS_PRIVILEGE, DB_LOG_NEEDS_SUPER, 0};
    SCOPED(buf_free) struct buf b = {0};
    *why = (struct err){0};
    buf_adds(&b, "CREATE DEFINER=");
    db_account_quote(&b, definer);
    buf_adds(&b, " TRIGGER ");
    sql_ident2(&b, schema, DB_OWN_PREFIX "proof");
    buf_adds(&b, " BEFORE INSERT ON ");
    add_lease_table(&b, schema, sentinel);
    buf_adds(&b, " FOR EACH ROW SET NEW.worldkeeper_no_such_column=1");
    run_at_once(db, &b, why);
    return why->num == NO_COLUMN ? DB_PROVEN : refuted_by(why, refusals);
}

enum db_proof db_prove_write(struct db *db, const char *schema, const char *sentinel,
                             struct err *why)
{
    static const int refusals[] = {READ_ONLY, 0};
    SCOPED(buf_free) struct buf b = {0};
    *why = (struct err){0};
    buf_adds(&b, "UPDATE ");
    add_lease_table(&b, schema, sentinel);
    buf_adds(&b, " " DB_ONLY_TABLE " SET generation=generation WHERE FALSE");
    return run_at_once(db, &b, why) == 0 ? DB_PROVEN : refuted_by(why, refusals);
}

enum db_proof db_prove_log_status(struct db *db, struct err *why)
{
    static const int refusals[] = {NEEDS_PRIVILEGE, 0};
    *why = (struct err){0};
    struct db_rows *r = db_log_status(db, why);
    db_rows_end(r);
    return r ? DB_PROVEN : refuted_by(why, refusals);
}

enum db_proof db_prove_unlogged(struct db *db, struct err *why)
{
    static const int refusals[] = {NEEDS_PRIVILEGE, 0};
    *why = (struct err){0};
    if (db_exec(db, "SET SESSION sql_log_bin=0", why) < 0)
        return refuted_by(why, refusals);
    return db_exec(db, "SET SESSION sql_log_bin=1", why) < 0 ? DB_UNPROVEN : DB_PROVEN;
}
