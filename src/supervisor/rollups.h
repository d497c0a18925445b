/* Runs rollups of ledgers when they are due. */
#ifndef WK_SUPERVISOR_ROLLUPS_H
#define WK_SUPERVISOR_ROLLUPS_H

struct part;

extern const struct part rollups_part;

#endif
