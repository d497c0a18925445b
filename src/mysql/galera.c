#include "mysql/galera.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mysql/account.h"
#include "mysql/conn_int.h"

/* Returns whether this is a Galera node. Other servers, and those without the wsrep library,
 * lack these variables. */
static int is_node(struct db *db, char name[256], struct err *e)
{
    struct err why = {0};
    char *node = db_one(db,
                        "SELECT IF(@@SESSION.wsrep_on AND @@GLOBAL.wsrep_provider NOT IN "
                        "('','none'),@@GLOBAL.wsrep_node_name,NULL)",
                        &why);
    snprintf(name, 256, "%s", node ? (node[0] ? node : "unnamed") : "");
    bool there = node != NULL;
    free(node);
    if (there || why.cls == ERR_NONE || why.num == DB_NO_VARIABLE)
        return there;
    return err_pass(e, &why);
}

int galera_own_node(struct db *db, struct err *e)
{
    int node = is_node(db, db->node, e);
    if (node <= 0)
        return node;
    /* "DO 1" fails while the node is not ready. It must come before wsrep_on=0 and without dirty
     * reads, because either would skip that check. */
    if (galera_clean_reads(db, e) == 0 && db_exec(db, "DO 1", e) == 0 &&
        db_exec(db, "SET SESSION wsrep_on=0", e) == 0)
        return 0;
    int num = e->num;
    if (num == GALERA_NOT_PRIMARY) {
        err_set(e, ERR_REFUSED, num,
                "node %s is not in the primary component of its Galera cluster: its tables may be "
                "outdated",
                db->node);
        err_hint(e, GALERA_PRIMARY_HINT);
    } else if (e->cls == ERR_DENIED) {
        err_set(
            e, ERR_REFUSED, num,
            "node %s of a Galera cluster would execute this on all nodes and empty their MEMORY "
            "tables; to limit it to this node, the account needs the privilege %s (wsrep_on)",
            db->node, server_privilege(db_version(db), MAY_LEAVE_CLUSTER));
        db_hint_server(db, (const int[]){MAY_LEAVE_CLUSTER, -1}, e);
    }
    db->node[0] = '\0';
    return -1;
}

const char *galera_node(const struct db *db)
{
    return db->node;
}

int galera_share(struct db *db, bool yes, struct err *e)
{
    if (!db->node[0])
        return 0;
    return db_exec(db, yes ? "SET SESSION wsrep_on=1" : "SET SESSION wsrep_on=0", e);
}

int galera_clean_reads(struct db *db, struct err *e)
{
    struct err why;
    if (db_exec(db, "SET SESSION wsrep_dirty_reads=0", &why) == 0 || why.num == DB_NO_VARIABLE)
        return 0;
    return err_pass(e, &why);
}

int galera_look(struct db *db, struct galera *out, struct err *e)
{
    *out = (struct galera){0};
    int node = is_node(db, out->node, e);
    if (node <= 0)
        return node;
    struct db_rows *r = db_select(db, "nT", "SHOW STATUS LIKE 'wsrep_cluster_s%'", e);
    int got;
    while ((got = db_next(r, e)) == 1) {
        char name[64];
        db_copy(r, 0, name, sizeof name);
        if (strcmp(name, "wsrep_cluster_status") == 0)
            db_copy(r, 1, out->status, sizeof out->status);
        else if (strcmp(name, "wsrep_cluster_size") == 0)
            db_copy(r, 1, out->size, sizeof out->size);
    }
    db_rows_end(r);
    return got < 0 ? -1 : 1;
}
