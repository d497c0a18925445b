/* The worker of a standby: fetches what the primary stores. */
#ifndef WK_SUPERVISOR_STANDBY_H
#define WK_SUPERVISOR_STANDBY_H

struct part;

extern const struct part standby_part;

#endif
