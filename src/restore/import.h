/* Imports a file of another tool (mysqldump, phpMyAdmin, …), or a copy of one of our dumps without
 * its manifest, statement by statement. Used only for a file that an operator names. Its rows go
 * into the shadow tables of the plan, so that such a restore is all or nothing too. The grammar of
 * sql/foreign.h is accepted: statements that change no table are skipped, code is collected
 * (code.h), and all others are executed in the file's order, so that a table becomes what the
 * stock client makes of it. Everything else is refused with its line. */
#ifndef WK_RESTORE_IMPORT_H
#define WK_RESTORE_IMPORT_H

#include "base/gzip.h"
#include "restore/code.h"
#include "restore/plan.h"
#include "sql/foreign.h"

/* Settings of a new session of the server, as the stock client gets it. */
struct import_server {
    struct server_version version;
    char mode[512], zone[65];
};
struct import {
    int fd;
    const char *name;    /* of the file */
    const char *charset; /* character set of its texts, overriding the file; NULL: the file's own */
    bool accept_cut;
    struct import_server server;
};

struct import_report {
    bool ends; /* it ends in the way of the tool that wrote it, and so does each part of it */
    uint64_t cut_line; /* line of an incomplete last statement; 0: there is none */
    uint64_t last_line;
    char schema[256]; /* the schema to restore, if the file has several; "": it has only one */
    bool utc;         /* its times are in UTC, but it does not say so: mysqldump --compact */
    struct names sequences;  /* sequences that it creates, which are not restored */
    char sha256[SHA256_HEX]; /* of the bytes that were checked */
};
void import_report_free(struct import_report *r);

/* First pass: adds the file's tables, with their engines, to the plan; changes nothing. `code`:
 * collects the file's code; NULL: not wanted yet. */
int import_plan(const struct import *in, struct plan *plan, struct code *code,
                struct import_report *report, struct err *e);
#endif
