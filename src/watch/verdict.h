/* What a probe found out, and what was expected: plain data shared by probe, expect and guard. */
#ifndef WK_WATCH_VERDICT_H
#define WK_WATCH_VERDICT_H

#include <stdbool.h>
#include <stdint.h>

#include "db/server.h"

enum verdict {
    VERDICT_NONE, /* no probe yet */
    VERDICT_ALIVE,
    VERDICT_EMPTY,
    VERDICT_MISSING,
    VERDICT_FOREIGN,
    VERDICT_UNREACHABLE,
    VERDICT_STALLED,
    VERDICT_DENIED,
};
const char *verdict_name(enum verdict v);  /* "ALIVE" … */
char verdict_letter(enum verdict v);       /* A E M F U S D, '-' for none */
enum verdict verdict_of(const char *name); /* VERDICT_NONE for an unknown name */

#define NONCE_LEN 32 /* hex digits of 128 bits */

/* The same installation, whichever process. MySQL keeps a UUID in its data directory: two of them
 * decide. MariaDB's uid is a hash of a network card's address and the port: another one after a
 * reboot with other cards, the same one for a second data directory on that port. So there: the
 * same data directory, and the same host name or uid. What is not known matches nothing. */
bool server_same_place(const struct server_id *a, const struct server_id *b);

/* What one probe saw, before judgement. */
struct observation {
    enum verdict
        failed;     /* UNREACHABLE, STALLED, DENIED, MISSING when it came no further; else NONE */
    int error;      /* the server's or system's error number of that */
    char text[512]; /* one line for people */
    bool schema_there;      /* for MISSING */
    bool schema_has_rows;   /* for MISSING: some table of the schema holds a row */
    bool privileges_proven; /* for MISSING: we may see the tables of the schema */
    unsigned rows;          /* rows of the sentinel */
    char engine[65];        /* of a sentinel that is not of engine MEMORY, else "" */
    char nonce[NONCE_LEN + 1];
    uint64_t generation; /* of the sentinel row */
    struct server_id server;
    int64_t latency_ms;
};

/* What the supervisor knows from before (state.json, else the newest manifest). */
struct expectation {
    bool known;                     /* an ALIVE was seen, or a dump was stored, some time */
    char nonce[NONCE_LEN + 1];      /* of the last ALIVE */
    char next_nonce[NONCE_LEN + 1]; /* of a restore that may have swapped before a crash; or "" */
    struct server_id server;        /* at the last ALIVE */
};

#endif
