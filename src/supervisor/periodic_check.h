/* Runs the rules of --check once a day. */
#ifndef WK_SUPERVISOR_PERIODIC_CHECK_H
#define WK_SUPERVISOR_PERIODIC_CHECK_H

struct part;

extern const struct part periodic_check_part;

#endif
