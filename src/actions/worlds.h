/* The worlds of this machine, found by their configs: the status of one and of all for --status. */
#ifndef WK_ACTIONS_WORLDS_H
#define WK_ACTIONS_WORLDS_H

#include <jansson.h>

#include "base/err.h"
#include "config/config.h"

#define WORLDS_DIR "/etc/worldkeeper"

/* Calls `see` for each *.ini in `dir`, sorted by name: with its config, or with NULL and the error
 * if it cannot be read. Returns -1 if the directory itself cannot be read. */
int worlds_each(const char *dir,
                void (*see)(void *arg, const char *path, const struct config *cfg,
                            const struct err *why),
                void *arg, struct err *e);

/* Returns the last status that a supervisor published there; NULL: none. It may be another world's
 * that uses the same directory. */
json_t *worlds_published(const struct config *cfg);
/* Returns the status of one world: its supervisor's answer, or, if this user may not ask it, its
 * last published status, if still valid. ERR_UNWELL: no answer; `patience`: see action_context. */
int worlds_ask(const struct config *cfg, int patience, json_t **status, struct err *e);
/* Returns 0: healthy. ERR_CONDITION: up, with open conditions. ERR_UNWELL: not up. */
int worlds_judge(const json_t *status, struct err *e);
/* Returns {"worlds":[status with "config" and "exit"; for a world without a status
 * {"world","state":null, "config","exit","error","hint"}; for a retired one
 * {"world","state":null,"retired":true,"config","exit":0}]}. Fails with the worst of their
 * errors. */
int worlds_status(const char *dir, json_t **result, struct err *e);

#endif
