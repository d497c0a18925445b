/* The worker of a standby: what the primary stores comes here. */
#ifndef WK_SUPERVISOR_STANDBY_H
#define WK_SUPERVISOR_STANDBY_H

struct part;

extern const struct part standby_part;

#endif
