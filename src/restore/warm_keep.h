/* The standby's worker for the copy of warm.h: loads it where need be, and follows the journal. */
#ifndef WK_RESTORE_WARM_KEEP_H
#define WK_RESTORE_WARM_KEEP_H

#include "restore/warm.h"

/* The standby's worker, which loads it where need be, and follows. */
struct warm_keeper {
    bool ready;
    char why[WARM_WHY_MAX];      /* it is not; "": nothing was tried yet */
    char dump[DUMP_NAME_MAX];    /* of struct warm */
    uint64_t rows;               /* in it */
    char refused[DUMP_NAME_MAX]; /* no copy can be made of this dump and the journal after it */
    mono_t behind_since;
    mono_t compared;
    wall_t compared_at; /* its rows were those of a load; ms 0: not found by this process */
};
/* Brings it up to what is here, loads it where need be. -1: try again. */
int warm_keep(struct warm_keeper *k, const struct job *job, const struct state *state,
              struct err *e);

#endif
