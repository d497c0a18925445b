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
enum code_trust code_trust(const struct config *c, const struct manifest *m);

/* Is the schema empty, as on a rebuilt server: no tables except the sentinel, its lease and those
 * of the running restore, and no view, routine, package, library, trigger or event that is visible
 * to the account? */
int code_schema_empty(struct db *db, const char *schema, const char *sentinel, bool *empty,
                      struct err *e);

/* What a restore does with the code; decided from its options and from what it found. */
enum code_use {
    CODE_NOTHING,  /* create nothing: the server still has all of it */
    CODE_MAKE,     /* create everything that does not exist */
    CODE_LEAVE,    /* create nothing, and report what is missing */
    CODE_TRIGGERS, /* as CODE_LEAVE, but only triggers of re-created tables are missing */
};
struct code_case {
    bool with_code; /* an operator accepts the code */
    bool into;      /* restored into a schema other than the world's */
    bool empty;     /* code_schema_empty() before anything was restored */
    bool known;     /* a table of the dump was there before */
    enum code_trust trust;
};
enum code_use code_use(const struct code_case *c);
/* Why it is left out (static text). */
const char *code_why(const struct code_case *c);

struct code_report {
    size_t made;
    /* Arrays, by the keys of code_json(); NULL: none. would_make (found by a dry run) and left_out: of
     * "view name"; failed: "view name: why"; own_definer: "function name (root@localhost)", created
     * with our account instead; events_disabled: names of those that were enabled. */
    json_t *lists;
    struct buf enable; /* the statements that enable the events, each with its definer */
    char why[200];     /* the reason for left_out */
    char note[300];    /* "": none */
};
/* `schema` is the default of `db`, whose session settings are the usual ones again afterwards. */
struct code_run {
    struct db *db;
    const char *schema;
    enum code_trust trust; /* decides which definers are accepted */
    bool triggers_only;    /* only triggers, and only those of tables that were re-created */
    bool (*made_again)(const void *arg, const char *table);
    const void *arg;
};
void code_make(const struct code *c, const struct code_run *run, struct code_report *out);
void code_leave(const struct code *c, const struct code_run *run, const char *why,
                struct code_report *out);
/* What code_make() would create, as far as it shows without asking for it. */
void code_list(const struct code *c, const struct code_run *run, struct code_report *out);
/* {"made", "would_make", "left_out", "why", "failed", "own_definer", "events_disabled", "enable"}; NULL: nothing
 * to report. */
json_t *code_json(const struct code_report *r);
/* A one-line warning for the operator, or "". `into`: restored into another schema. */
void code_warning(const struct code_report *r, const char *dump, bool into, char *out, size_t room);
void code_report_free(struct code_report *r);

#endif
