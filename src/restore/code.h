/* The code in a dump: views, routines, packages, libraries, triggers and events. Code runs with
 * somebody's privileges, so it is created only where the server lost it together with the tables,
 * and only from a dump that is known to be ours or that an operator accepts by --with-code.
 * Everything else in a dump is data and is restored without it. Code is created after the swap:
 * what the server refuses is reported and does not make the restore fail. */
#ifndef WK_RESTORE_CODE_H
#define WK_RESTORE_CODE_H

#include <jansson.h>

#include "base/text.h"
#include "mysql/conn.h"
#include "config/config.h"
#include "sql/definition.h"
#include "store/manifest.h"

/* The session settings under which a statement is executed; "": the dump does not give them. */
struct code_settings {
    char client[33], collation[65], zone[65], mode[1024];
};
struct code_item {
    char *sql;
    struct code_settings settings;
    struct definition d; /* its body is in `sql` */
    const char *refused; /* why it cannot be created; NULL: it can */
};
struct code {
    struct code_item *list;
    size_t count;
    struct code_settings now; /* in effect for the statements that follow */
};
/* Adds a statement of the dump's definitions section: SET, DROP, CREATE. Copied. Of two definitions
 * with the same kind and name the later one stays. Pure. */
void code_note(struct code *c, const char *sql, size_t len);
/* The same for a file of another tool; ignores other statements, and settings that do not concern
 * definitions. */
void code_note_foreign(struct code *c, const char *sql, size_t len);
void code_free(struct code *c);

/* Where a dump's code is known to come from. */
enum code_trust {
    CODE_UNKNOWN, /* not known: the code is left out */
    CODE_OWN,     /* the dump lies in the world's own directory, and no key is configured */
    CODE_SIGNED,  /* the dump's HMAC is valid */
};

/* What a restore does with the code; decided from its options and from what it found. */
enum code_use {
    CODE_MAKE,     /* create everything that does not exist */
    CODE_LEAVE,    /* create nothing, and report what is missing */
    CODE_TRIGGERS, /* as CODE_LEAVE, but only triggers of re-created tables are missing */
};
struct code_case {
    bool with_code; /* an operator accepts the code */
    bool into;      /* restored into a schema other than the world's */
    bool empty;     /* nothing was in the schema before anything was restored */
    bool known;     /* a table of the dump was there before */
    enum code_trust trust;
};
enum code_use code_use(const struct code_case *c);

struct code_report {
    size_t made;
    /* Arrays, by their keys in the JSON of a restore; NULL: none. would_make (found by a dry run) and left_out: of
     * "view name"; failed: "view name: why"; own_definer: "function name (root@localhost)", created
     * with our account instead; may_execute: functions on which the server gave us EXECUTE; events_disabled: names of those that were enabled. */
    json_t *lists;
    struct buf enable; /* the statements that enable the events, each with its definer */
    char why[200];     /* the reason for left_out */
    char note[300];    /* "": none */
};
#endif
