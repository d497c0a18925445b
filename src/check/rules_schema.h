/* --check: the schema, its sentinel and lease, tables, and definitions. */
#ifndef WK_CHECK_RULES_SCHEMA_H
#define WK_CHECK_RULES_SCHEMA_H

#include "check/rule.h"

void check_load_world(struct check *c); /* facts that other parts use as well */
void check_world(struct check *c);      /* sentinel, lease, tables, definitions */

#endif
