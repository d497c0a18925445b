/* Imports a file of another tool (mysqldump, phpMyAdmin, …), or a copy of one of our dumps without its manifest,
 * statement by statement. Only for a file that an operator names. Its rows go into the shadow tables of the plan, so that
 * such a restore is all or nothing too. What is accepted is the grammar of sql/foreign.h; of that, statements that
 * change no table are skipped, code is noted (code.h), and all others are carried out in the file's order, so that a
 * table becomes what the stock client makes of it. Whatever is not accepted is refused with its line. */
#ifndef WK_RESTORE_IMPORT_H
#define WK_RESTORE_IMPORT_H

#include "restore/code.h"
#include "restore/plan.h"
#include "sql/foreign.h"

/* A new session of the server, as the stock client gets it. */
struct import_server {
    struct server_version version;
    char mode[512], zone[65];
};
struct import {
    int fd;
    const char *name;    /* of the file */
    const char *charset; /* of its texts, whatever it says; NULL: as it says */
    bool accept_cut;
    struct import_server server;
};

struct import_report {
    bool ends;         /* it ends as the tool that wrote it ends a file, or each part of it does */
    uint64_t cut_line; /* of the statement that it ends in; 0: there is none */
    uint64_t last_line;
    char schema[256]; /* the one to restore, of several in the file; "": there is only one */
    bool utc;         /* its times are in UTC, though it does not say so: mysqldump --compact */
    struct names sequences; /* that it makes, and that are not restored */
};
void import_report_free(struct import_report *r);

/* First pass: adds the file's tables, with their engines, to the plan; changes nothing. `code`: its
 * code is noted there; NULL: it is not wanted yet. */
int import_plan(const struct import *in, struct plan *plan, struct code *code,
                struct import_report *report, struct err *e);
#endif
