/* Uploads files of rolled-up rows, and deletes what [ledger] keep no longer asks for. Part of the
 * worker that sends dumps: files wait for a waiting dump. */
#ifndef WK_OFFSITE_UPLOAD_LEDGERS_H
#define WK_OFFSITE_UPLOAD_LEDGERS_H

#include "offsite/upload.h"

/* What is to be done next. */
struct upload_ledgers_step {
    uint64_t waiting; /* files that are not in the store yet */
    wall_t since;     /* when the oldest of them was written; ms 0: none waits */
    bool send;        /* send this file */
    struct ledger_file file;
};
int upload_ledgers_choose(struct upload *u, struct upload_ledgers_step *s, struct err *e);
enum remote_result upload_ledgers_send(struct upload *u, const struct ledger_file *f,
                                       struct err *e);
enum remote_result upload_ledgers_tidy(struct upload *u, struct err *e);

#endif
