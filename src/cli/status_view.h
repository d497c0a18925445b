/* Terminal output of --status, of one world or of all. */
#ifndef WK_CLI_STATUS_VIEW_H
#define WK_CLI_STATUS_VIEW_H

#include <jansson.h>
#include <stdio.h>

void screen_status(const json_t *o);

#endif
