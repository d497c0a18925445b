/* The session of an administrator of the server, and paths below s->root. */
#ifndef WK_SETUP_ADMIN_H
#define WK_SETUP_ADMIN_H

#include "config/config.h"
#include "setup/setup.h"

/* Opens s->db; asks for an administrator's login if there is no other way in. */
int setup_connect(struct setup *s, struct err *e);
/* Opens s->db again if the server has ended the session, as after a question that was left open
 * for long. */
int setup_reconnect(struct setup *s, struct err *e);
/* Returns true if a config names the server of the session. A server on this machine has two
 * addresses, a socket and a port; either counts. */
bool setup_same_server(const struct setup *s, const struct config_mysql *m);
/* Returns true if both are the same schema of the session's server, as that server compares
 * names. */
bool setup_same_schema(const struct setup *s, const char *a, const char *b);
/* Returns true if the config's world is this schema of the session's server. */
bool setup_keeps(const struct setup *s, const struct config *cfg, const char *schema);
/* Chooses the server at this address for setup_connect(). ERR_REFUSED: the options name another
 * one. */
int setup_choose_server(struct setup *s, const struct config_mysql *at, struct err *e);
/* Returns "socket PATH" or "host NAME:PORT"; the caller frees it. */
char *setup_server_name(const struct config_mysql *m);
/* Return a path below s->root; the caller frees it. */
char *setup_path(const struct setup *s, const char *path);
char *setup_config_path(const struct setup *s, const char *name, const char *end);

#endif
