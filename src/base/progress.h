/* Progress of a long job. Reported at most five times a second, and at once when the phase changes.
 * The caller that starts the job decides where reports go: packets to the supervisor, a bar on a
 * terminal. A NULL progress is allowed everywhere. */
#ifndef WK_BASE_PROGRESS_H
#define WK_BASE_PROGRESS_H

#include <stdint.h>

#include "base/clock.h"

struct progress {
    void (*report)(struct progress *p);
    void *arg;
    const char *phase;         /* static text: "locking", "reading", "verifying", "loading" … */
    char table[256];           /* cleaned for printing; "" if there is none */
    uint64_t rows, rows_total; /* total 0: unknown */
    uint64_t bytes, bytes_total;
    mono_t started, reported;
};

void progress_phase(struct progress *p, const char *phase, uint64_t rows_total,
                    uint64_t bytes_total);
void progress_table(struct progress *p, const char *table);
void progress_at(struct progress *p, uint64_t rows, uint64_t bytes);
/* Returns 0..100, by bytes if their total is known, else by rows; -1: unknown. */
int progress_percent(const struct progress *p);

#endif
