/* The code in a dump: views, routines, packages, libraries, triggers and events. Code runs with an
 * account's privileges. So it is created only if the server lost it together with the tables, and
 * only from a dump that is known to be ours or that an operator accepts by --with-code. Everything
 * else in a dump is data and is restored without code. Code is created after the swap: if the
 * server refuses it, that is reported and does not make the restore fail. */
#ifndef WK_RESTORE_CODE_H
#define WK_RESTORE_CODE_H

#include <stdbool.h>
#include <stddef.h>

#include "dump/format.h"
#include "sql/definition.h"

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
    struct code_settings now; /* in effect for the following statements */
};
/* Adds a statement of the dump's definitions section: SET, DROP, CREATE. Copied. Of two definitions
 * with the same kind and name the later one stays. Pure. */
void code_note(struct code *c, const char *sql, size_t len);
/* The same for a file of another tool; ignores other statements, and settings that do not concern
 * definitions. */
void code_note_foreign(struct code *c, const char *sql, size_t len);
/* Returns the character set in which its text is sent, so that the server sees the same quotes
 * as our parser: its own, or UTF-8 if the bytes are the same. NULL: there is none. */
const char *code_client(const struct code_item *it);
/* A verify_fn: notes the definitions of a dump in a struct code. */
int code_see(void *code, const struct format_item *item, struct err *e);
void code_free(struct code *c);

/* Known origin of a dump's code. */
enum code_trust {
    CODE_UNKNOWN, /* not known: the code is not restored */
    CODE_OWN,     /* the dump is in the world's own directory, and no key is configured */
    CODE_SIGNED,  /* the dump's HMAC is valid */
};

/* What a restore does with the code, decided from its options and findings. */
enum code_use {
    CODE_MAKE,     /* create everything that does not exist */
    CODE_LEAVE,    /* create nothing, and report what is missing */
    CODE_TRIGGERS, /* as CODE_LEAVE, but only triggers of re-created tables are missing */
};
struct code_case {
    bool with_code; /* an operator accepts the code */
    bool into;      /* restored into a schema other than the world's */
    bool elsewhere; /* the world comes from another machine, and the schema's contents do not */
    bool empty;     /* the schema was empty before the restore */
    bool known;     /* a table of the dump existed before */
    enum code_trust trust;
};
enum code_use code_use(const struct code_case *c);
/* Returns why CODE_LEAVE was decided (static text). */
const char *code_why(const struct code_case *c);

#endif
