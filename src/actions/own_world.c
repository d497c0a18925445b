#include "actions/own_world.h"

#include <string.h>

#include "mysql/galera.h"
#include "mysql/sentinel.h"

struct db *action_connect_world(const struct action_context *a, struct err *e)
{
    struct db_params p = a->job.db;
    p.schema = a->cfg->schema;
    struct db *db = db_open(&p, e);
    if (db && galera_own_node(db, e) == 0)
        return db;
    db_close(db);
    return NULL;
}

int action_check_world(const struct action_context *a, struct db *db, struct err *e)
{
    struct db_sentinel s = {0};
    if (db_sentinel_read(db, a->cfg->schema, a->cfg->sentinel, &s, e) < 0 && !db_table_missing(e))
        return -1;
    if (s.rows == 1 && (!a->state.known || strcmp(s.nonce, a->state.nonce) == 0))
        return 0;
    err_set(e, ERR_REFUSED, 0, "world %s is not up: %s", a->cfg->name,
            s.rows ? "its sentinel row is not the one that is known" : "its sentinel row is gone");
    err_hint(e, "worldkeeper --status says what is being done about it");
    return -1;
}
