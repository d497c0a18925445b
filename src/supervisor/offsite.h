/* The children that copy dumps and the journal to another machine. */
#ifndef WK_SUPERVISOR_OFFSITE_H
#define WK_SUPERVISOR_OFFSITE_H

struct part;

extern const struct part offsite_part;

#endif
