/* What stands in for an optional part that was left out (src/README.md, "Core and optional parts").
 * The config's sections of such a part are refused, so the core never has work for it: its hooks do
 * nothing, and its actions are refused. */
#ifndef WK_PARTS_MISSING_H
#define WK_PARTS_MISSING_H

#include "actions/context.h"
#include "config/parts.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"

#define MISSING_ACTION(action, part)                                                               \
    int action(struct action_context *a, const struct request *r, json_t **result, struct err *e)  \
    {                                                                                              \
        return err_set(e, ERR_USAGE, 0, CONFIG_NO_PART, part);                                     \
    }

#endif
