/* The session of an administrator of the server, and paths below s->root. */
#ifndef WK_SETUP_ADMIN_H
#define WK_SETUP_ADMIN_H

#include "setup/setup.h"

/* Opens s->db; asks for an administrator's login if there is no other way in. */
int setup_connect(struct setup *s, struct err *e);
/* Opens s->db again if the server has ended the session, as after a question that was left open
 * for long. */
int setup_reconnect(struct setup *s, struct err *e);
/* Return a path below s->root; the caller frees it. */
char *setup_path(const struct setup *s, const char *path);
char *setup_config_path(const struct setup *s, const char *name, const char *end);

#endif
