/* The second pass over another tool's file (import.h): executes its statements. */
#ifndef WK_RESTORE_IMPORT_LOAD_H
#define WK_RESTORE_IMPORT_LOAD_H

#include "restore/import.h"
#include "restore/load.h"

/* Reads the settings of a new session of the server, as the stock client gets it. */
int import_server(struct db *db, struct import_server *out, struct err *e);
/* Second pass: creates and loads the tables, and collects the code. */
int import_load(const struct import *in, const struct import_report *report, struct loader *l,
                struct code *code, struct err *e);

#endif
