#include "config/parts.h"

#include <stddef.h>
#include <string.h>

/* Only this file is compiled anew for another choice of parts. */
#ifndef WK_LEFT_OUT
#define WK_LEFT_OUT
#endif

bool config_has_part(const char *part)
{
    static const char *const left_out[] = {WK_LEFT_OUT NULL};
    for (size_t i = 0; left_out[i]; i++)
        if (strcmp(left_out[i], part) == 0)
            return false;
    return true;
}
