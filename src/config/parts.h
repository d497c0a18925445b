/* The optional parts that this program was built with (src/README.md). */
#ifndef WK_CONFIG_PARTS_H
#define WK_CONFIG_PARTS_H

#include <stdbool.h>

#define CONFIG_NO_PART "this worldkeeper was built without its optional part %s"

/* Returns false for a part that was left out: ledger, progress, offsite, standby or page. */
bool config_has_part(const char *part);

#endif
