/* The worlds of this machine, found by their configs: what --status shows of one and of all. */
#ifndef WK_ACTIONS_WORLDS_H
#define WK_ACTIONS_WORLDS_H

#include <jansson.h>

#include "config/config.h"
#include "base/err.h"

#define WORLDS_DIR "/etc/worldkeeper"

/* Calls `see` for each *.ini in `dir`, sorted by name: with its config, or with NULL and the error
 * if it cannot be read. -1: the directory itself cannot be read. */
int worlds_each(const char *dir,
                void (*see)(void *arg, const char *path, const struct config *cfg,
                            const struct err *why),
                void *arg, struct err *e);

/* What its supervisor, or another one that uses the same directory, published there last; NULL: nothing. */
json_t *worlds_published(const struct config *cfg);
/* The status of one world: its supervisor's answer, or, where this user may not ask it, what it
 * published last, if that is still valid. ERR_UNWELL: no answer; `patience`: see action_context. */
int worlds_ask(const struct config *cfg, int patience, json_t **status, struct err *e);
/* 0: healthy. ERR_CONDITION: up, with open conditions. ERR_UNWELL: not up. */
int worlds_judge(const json_t *status, struct err *e);
/* {"worlds":[status with "config" and "exit"; for a world without a status {"world","state":null,
 * "config","exit","error","hint"}; of one that is retired {"world","state":null,"retired":true,"config","exit":0}]}; fails with the worst of their errors. */
int worlds_status(const char *dir, json_t **result, struct err *e);

#endif
