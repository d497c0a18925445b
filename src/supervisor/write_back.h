/* Sends players' progress to the central store. */
#ifndef WK_SUPERVISOR_WRITE_BACK_H
#define WK_SUPERVISOR_WRITE_BACK_H

struct part;

extern const struct part write_backs_part;

#endif
