#include <stdio.h>

#include "check.h"

/* Versions as 100 * major + minor, in order: what all tests are run on, and between which nothing
 * is expected to differ. */
static const int mariadb_tested[] = {1011, 1108}, mysql_tested[] = {907};
#define MYSQL_KNOWN 804 /* its names of statements and rights are those of 9.7 */

const char *check_version(bool mariadb, const char *version, enum check_level *level)
{
    const int *tested = mariadb ? mariadb_tested : mysql_tested;
    size_t count = mariadb ? sizeof mariadb_tested / sizeof *mariadb_tested : 1;
    int major = 0, minor = 0;
    *level = CHECK_NOTE;
    if (sscanf(version, "%d.%d", &major, &minor) != 2)
        return "this version is not one that is known here";
    int v = 100 * major + minor;
    for (size_t i = 0; i < count; i++)
        if (v == tested[i]) {
            *level = CHECK_OK;
            return "worldkeeper is tested with this version";
        }
    if (v > tested[count - 1])
        return mariadb ? "newer than what worldkeeper was tested with: MariaDB 10.11 and 11.8"
                       : "newer than what worldkeeper was tested with: MySQL 9.7";
    if (v >= (mariadb ? tested[0] : MYSQL_KNOWN))
        return mariadb ? "not tested with worldkeeper: MariaDB 10.11 and 11.8 are"
                       : "not tested with worldkeeper: MySQL 9.7 is, and 8.4 has its words";
    *level = CHECK_WARN;
    return mariadb ? "too old: worldkeeper knows MariaDB from 10.11 on"
                   : "too old: worldkeeper knows MySQL from 8.4 on";
}
