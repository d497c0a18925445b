/* The keys of the config file: each with its section, default and the kind of its value. Private to
 * src/config and its tests; all other code sees struct config only. */
#ifndef WK_CONFIG_KEYS_H
#define WK_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define CONFIG_KEYS_MAX 192
#define CONFIG_NEAR_MAX 40 /* no suggestions for longer words */

/* The kind of a value, which determines the type of its field. Numbers obey min and max of their
 * key. */
enum config_kind {
    CONFIG_YES_NO,      /* bool */
    CONFIG_FLAG,        /* bool, from choices */
    CONFIG_CHOICE,      /* an enum, from choices */
    CONFIG_NUMBER,      /* unsigned or int */
    CONFIG_PERCENT,     /* unsigned */
    CONFIG_CONNECTIONS, /* unsigned: auto (0) or a number */
    CONFIG_EVENTS,      /* unsigned: EVENT_ bits */
    CONFIG_TIME,        /* int: 1 + minutes after midnight; 0: none */
    CONFIG_DURATION,    /* int64_t, milliseconds */
    CONFIG_SIZE,        /* uint64_t, at most INT64_MAX */
    CONFIG_MAILS,       /* struct config_list */
    CONFIG_COLUMNS,     /* struct config_list, of up to CONFIG_LEDGER_COLUMNS */
    CONFIG_TEXTS,       /* from here on char *, owned by the config */
    CONFIG_WORLD = CONFIG_TEXTS,
    CONFIG_SCHEMA,
    CONFIG_TABLE,
    CONFIG_USER,
    CONFIG_HOST,
    CONFIG_PATH,   /* absolute; stored without "//", "/./" and a '/' at the end */
    CONFIG_SOCKET, /* a path that fits into a socket's address */
    CONFIG_SECRET, /* absolute path or credential:NAME */
    CONFIG_FILE,   /* a name inside a directory */
    CONFIG_WEB_URL,
    CONFIG_WEB_URLS, /* several, each without a path; stored with "," between them */
    CONFIG_MAIL_URL,
    CONFIG_STORE_URL,
    CONFIG_MAIL,
    CONFIG_WORD,
    CONFIG_LINE,    /* one line of text for people */
    CONFIG_NAME,    /* of a table or column on the server */
    CONFIG_LOCK_ID, /* of a game server, in the central store */
    CONFIG_URL_END, /* continuation of a URL's path */
};

struct config_key {
    const char *section, *name;
    size_t offset; /* of the field in the struct of config_owner() */
    enum config_kind kind;
    const char *def; /* NULL: no default, or it depends on other keys (config_check()) */
    int64_t min, max;
    const struct config_choice {
        const char *name; /* NULL ends a list */
        int value;
    } * choices;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Returns the index of a key, or -1. */
int config_key_find(const char *section, const char *name);
/* The struct that a section's keys are fields of: the sections "ledger NAME", "alert.webhook" and
 * "alert.webhook.NAME" have one each. */
enum config_owner { OWNER_CONFIG, OWNER_LEDGER, OWNER_WEBHOOK };
enum config_owner config_owner(const struct config_key *k);
/* Sets every field of such a struct to its default. */
void config_set_defaults(void *object, enum config_owner owner);
void config_list_free(struct config_list *l);

/* Checks `value`, which must not be empty, and stores it in `object`, the struct of the key.
 * Returns 0, or -1 with `bad` ("is not …; allowed: …" and a hint); then the field is unchanged. */
int config_set(void *object, const struct config_key *k, const char *value, struct err *bad);
/* Returns the text to store for a value of a text kind (the caller frees it); NULL: invalid. */
char *config_read_text(enum config_kind kind, const char *value);

/* Returns the edit distance (letters to add, drop or change); CONFIG_NEAR_MAX for long words. */
size_t config_distance(const char *a, const char *b);
/* Returns true if `typed` is so similar to `word` that `word` was probably meant. */
bool config_near(const char *typed, const char *word);
/* Sets *best to `word` if that is near, and nearer than *best (NULL: none yet). */
void config_nearer(const char *typed, const char *word, const char **best);

/* Line numbers of a file's keys, from 1; 0: not in the file. */
struct config_source {
    const char *path;
    unsigned line[CONFIG_KEYS_MAX];
    unsigned webhook_line[CONFIG_WEBHOOKS][CONFIG_KEYS_MAX];
};
#endif
