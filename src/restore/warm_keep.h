/* The standby's worker for the copy of warm.h: loads it if necessary, and follows the journal. */
#ifndef WK_RESTORE_WARM_KEEP_H
#define WK_RESTORE_WARM_KEEP_H

#include "restore/warm.h"

/* State of this worker. */
struct warm_keeper {
    bool ready;
    char why[WARM_WHY_MAX];      /* why there is none; "": nothing was tried yet */
    char dump[DUMP_NAME_MAX];    /* of struct warm */
    uint64_t rows;               /* in it */
    char refused[DUMP_NAME_MAX]; /* a dump from which, with its journal, no copy can be made */
    mono_t behind_since;
    mono_t compared;
    wall_t compared_at; /* when its rows were found equal to a load; ms 0: not by this process */
};
/* Updates it with what is here; loads it if necessary. Returns -1: try again. */
int warm_keep(struct warm_keeper *k, const struct job *job, const struct state *state,
              struct err *e);

#endif
