/* Makes the commands in hints pasteable: adds the user that the service runs as and the config, and
 * quotes what a shell would split or expand. */
#ifndef WK_ACTIONS_HINT_COMMAND_H
#define WK_ACTIONS_HINT_COMMAND_H

#include "base/err.h"
#include "base/text.h"
#include "config/config.h"

/* The reader of the hint: the user who started this process on a terminal; or root, who reads it in
 * a mail, in the status or in the log of a supervisor that runs as another user. */
enum hint_reader { HINT_HERE, HINT_ROOT };

/* Returns the user to run worldkeeper as for this world: the current one, but for root the owner of
 * the dumps, else the user that the package creates, if it exists; else "USER". malloc. */
char *hint_user(const struct config *cfg);

/* Appends the hint with each "worldkeeper --ACTION" in it completed: with the world, and, for root,
 * with runuser to the service's user. A complete command is unchanged. */
void hint_command(const struct config *cfg, enum hint_reader reader, const char *hint,
                  struct buf *out);
/* Like hint_command(), for an error's own hint: errors name only the action; the code that reports
 * them completes the command. */
void hint_error(const struct config *cfg, enum hint_reader reader, struct err *e);

/* Returns, for a config that the current user may not read, the same command for root to run as a
 * user who may. malloc. */
char *hint_retype(const char *path, char *const *argv);

/* Returns the command that starts a supervisor: systemctl if the service would find the config,
 * else worldkeeper itself. malloc. */
char *hint_start(const struct config *cfg);

#endif
