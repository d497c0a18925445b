/* The result of a probe, the expected world, and the verdict. Pure: no clock, no file, no
 * database. */
#ifndef WK_WATCH_EXPECT_H
#define WK_WATCH_EXPECT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/line.h"
#include "mysql/server.h"

enum verdict {
    VERDICT_NONE,        /* no probe yet */
    VERDICT_ALIVE,       /* our sentinel row is there */
    VERDICT_EMPTY,       /* the sentinel table is there, without a row */
    VERDICT_MISSING,     /* there is no sentinel table, and we could see it */
    VERDICT_FOREIGN,     /* the row is not ours, or proves nothing */
    VERDICT_UNREACHABLE, /* no connection, or it broke */
    VERDICT_STALLED,     /* no answer in time */
    VERDICT_DENIED,      /* the server answers but refuses us */
};
const char *verdict_name(enum verdict v); /* "ALIVE" … */
char verdict_letter(enum verdict v);      /* A E M F U S D, '-' for none */

/* Start of the text of a MISSING judgement when the whole schema does not exist. */
#define EXPECT_NO_SCHEMA "schema not there"

#define NONCE_LEN 32 /* hex digits of 128 bits */

/* What one probe saw, before expect_judge(). */
struct observation {
    enum verdict
        failed;        /* UNREACHABLE, STALLED, DENIED or MISSING if the probe failed; else NONE */
    int error;         /* the server's or system's error number of that failure */
    char text[LINE];   /* one line for people */
    bool schema_there; /* for MISSING */
    bool schema_has_rows;   /* for MISSING: a table of the schema holds a row */
    bool privileges_proven; /* for MISSING: we may see the tables of the schema */
    unsigned rows;          /* rows of the sentinel */
    char engine[65];        /* engine of a sentinel that is not MEMORY, else "" */
    char nonce[NONCE_LEN + 1];
    uint64_t generation; /* of the sentinel row */
    struct server_id server;
    mono_t opened; /* when the connection was made */
    bool dead;     /* UNREACHABLE: the server process that answered before is gone */
    bool another;  /* another supervisor watches this world; `text` says which */
    int64_t latency_ms;
};

/* The supervisor's knowledge from before (state.json, else the newest manifest). */
struct expectation {
    bool known;                /* there was an ALIVE or a dump before */
    char nonce[NONCE_LEN + 1]; /* of the last ALIVE */
    /* nonce of a restore that may have swapped before a crash; or "" */
    char next_nonce[NONCE_LEN + 1];
    struct server_id server; /* at the last ALIVE */
    mono_t seen;             /* when this supervisor saw it; ms 0: an earlier supervisor did */
};

struct judgement {
    enum verdict verdict;
    /* another server process than at the last ALIVE: everything in memory is gone. False if that is
     * not proven (a start time is not known, no last ALIVE) */
    bool restarted;
    bool same_place; /* same installation as at the last ALIVE (true if nothing is known) */
    bool rebuilt;  /* MISSING only: privileges are proven and no table of the schema holds a row */
    int64_t start; /* start time of the server process, 0: not known */
    char text[LINE]; /* one printable line with the reason, for log and status */
};

/* Judges an observation. ALIVE if the nonce is the expected one or next_nonce, or if nothing is
 * known yet (first contact). MISSING needs privileges_proven, else DENIED. More than one row, or a
 * malformed nonce: FOREIGN.
 *
 * A start time that differs proves another process, even if it is earlier: a server's clock may be
 * set back between two starts, but the value never changes while a process lives. */
void expect_judge(const struct observation *seen, const struct expectation *known,
                  struct judgement *out);

#endif
