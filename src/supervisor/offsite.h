/* The children that store dumps and the journal on another machine. */
#ifndef WK_SUPERVISOR_OFFSITE_H
#define WK_SUPERVISOR_OFFSITE_H

struct part;

extern const struct part offsite_part;

#endif
