/* Sessions on a node of a Galera cluster. MEMORY rows are local to each node there, but CREATE,
 * RENAME, TRUNCATE and DROP are carried out on all nodes: a restore would empty the tables of the
 * others. Changes to the world therefore stay on their node (wsrep_on=0); only the lease is
 * shared. */
#ifndef WK_MYSQL_GALERA_H
#define WK_MYSQL_GALERA_H

#include <stdint.h>

#include "mysql/conn.h"

/* Keeps this session's further statements on its node; no effect on a server that is not a node.
 * ERR_REFUSED with a hint if the account lacks the privilege, or if the node is not in the
 * cluster's primary component: its tables cannot be trusted then. */
int galera_own_node(struct db *db, struct err *e);
/* Returns the node's name after galera_own_node(); "" on a server that is not a node. */
const char *galera_node(const struct db *db);
/* Switches a session of galera_own_node() to cluster-wide statements (`yes`), or back to its own
 * node. */
int galera_share(struct db *db, bool yes, struct err *e);
/* Forbids reading tables while the node is outside the primary component, even where its
 * configuration would allow it: statements fail with 1047. */
int galera_clean_reads(struct db *db, struct err *e);

#define GALERA_NOT_PRIMARY 1047
#define GALERA_DENIED 1227 /* wsrep_on may not be set */
#define GALERA_PRIMARY_HINT                                                                        \
    "SHOW STATUS LIKE 'wsrep_cluster_status' says what this node thinks; it answers again when "   \
    "it "                                                                                          \
    "is back in the cluster's primary component. If all nodes are down, start the one that "       \
    "was "                                                                                         \
    "last (safe_to_bootstrap: 1 in grastate.dat) with galera_new_cluster"

/* What the server shows: whether it is a node (its name), in the primary component ("Primary"),
 * and the number of the component's nodes. */
struct galera {
    char node[256], status[64], size[24];
};
int galera_look(struct db *db, struct galera *out, struct err *e);

#endif
