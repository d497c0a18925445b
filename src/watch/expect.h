/* Turns an observation into a verdict. Pure: no clock, no file, no database. */
#ifndef WK_WATCH_EXPECT_H
#define WK_WATCH_EXPECT_H

#include "watch/verdict.h"

struct judgement {
    enum verdict verdict;
    bool restarted;  /* another server process than at the last ALIVE: what was in memory is gone.
                      * False where that is not proven (a start time not known, no last ALIVE) */
    bool same_place; /* same installation as at the last ALIVE (true when nothing is known) */
    bool rebuilt;   /* MISSING only: privileges are proven and no table of the schema holds a row */
    int64_t start;  /* start time of the server process, 0: not known */
    char text[640]; /* one printable line with the reason, for log and status */
};

/* ALIVE when the nonce is the expected one or next_nonce, or nothing is known yet (first contact).
 * MISSING needs privileges_proven, else DENIED. More than one row, or a malformed nonce: FOREIGN.
 *
 * A start time that differs proves another process, even if it is earlier: a server's clock may be
 * set back between two starts, but the value never changes while a process lives. */
void expect_judge(const struct observation *seen, const struct expectation *known,
                  struct judgement *out);

#endif
