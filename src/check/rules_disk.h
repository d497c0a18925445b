/* --check: config and secrets, directories, room for dumps, and other worlds of this machine. */
#ifndef WK_CHECK_RULES_DISK_H
#define WK_CHECK_RULES_DISK_H

#include "check/rule.h"

/* rules_disk.c: files, directories, and access of other users */
void check_config(struct check *c);
#define CHECK_KEYS_MAX 65536u /* bytes of a file of several keys */
/* `password` receives the server's password. Returns -1 if it cannot be read. */
int check_secrets(struct check *c, struct buf *password);
void check_dump_dir(struct check *c); /* opens it, with state and catalog */
void check_dumps(struct check *c);    /* compression, room, age, leftover files */
void check_status_dir(struct check *c);
void check_journal_dir(struct check *c); /* [journal] mode = follow */
/* Finds other worlds of this machine: those with the same account (into c->worlds), and those that
 * use this world's schema or directories. */
void check_load_neighbours(struct check *c);
void check_neighbours(struct check *c);

#endif
