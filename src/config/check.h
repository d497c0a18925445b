/* Checks across lines: missing keys, keys that exclude or need each other, and defaults that depend
 * on other keys. */
#ifndef WK_CONFIG_CHECK_H
#define WK_CONFIG_CHECK_H

#include "config/keys.h"

/* Checks rules between keys after the last line: required keys, keys that exclude or need each
 * other, defaults that depend on other keys. */
int config_check(struct config *c, const struct config_source *src, struct err *e);

/* Returns true if the path is the directory or is inside of it. Pure. */
bool config_inside(const char *path, const char *dir);

#endif
