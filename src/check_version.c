#include <limits.h>
#include <stdio.h>

#include "check.h"

/* Versions as 100 * major + minor: the one that all tests are run on, and the oldest whose words
 * for statements and rights are the same. */
static const struct {
    const char *name, *tested, *known;
    int tested_number, known_number;
} servers[] = {
    {"MySQL", "9.7", "8.4", 907, 804},
    {"MariaDB", "10.11", "10.11", 1011, 1011},
};

char *check_version(bool mariadb, const char *version, enum check_level *level)
{
    int major = 0, minor = 0, known = sscanf(version, "%d.%d", &major, &minor) == 2;
    int number = known ? 100 * major + minor : INT_MAX;
    *level = CHECK_OK;
    if (number == servers[mariadb].tested_number)
        return xstrdup("worldkeeper is tested with this version");
    *level = number < servers[mariadb].known_number ? CHECK_WARN : CHECK_NOTE;
    return *level == CHECK_WARN ? xasprintf("too old: worldkeeper knows %s from %s on",
                                            servers[mariadb].name, servers[mariadb].known)
                                : xasprintf("not tested with worldkeeper: %s %s is",
                                            servers[mariadb].name, servers[mariadb].tested);
}
