/* Inside of the scan: the ways that scan.c chooses from. */
#ifndef WK_DB_SCAN_INT_H
#define WK_DB_SCAN_INT_H

#include "db/scan.h"

int scan_by_copies(struct db *db, const struct db_table *t, db_tuple_fn *fn, db_chunk_fn *chunk,
                   void *arg, uint64_t *rows, struct err *e);
/* An error on the way, in this module's words. Returns -1. */
int scan_failed(const struct db_table *t, struct err *e);
int64_t scan_clock(void); /* microseconds */

#endif
