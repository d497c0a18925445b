/* What may stand in the config file: every key with its section, default and the parser of its
 * value. Private to src/config and its test; everyone else sees struct config only. */
#ifndef WK_CONFIG_CONFIG_KEYS_H
#define WK_CONFIG_CONFIG_KEYS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "config/config.h"

#define CONFIG_KEYS_MAX 80
#define CONFIG_NEAR_MAX 40 /* longer words are compared with nothing */

/* Why a value was refused: "value 'x' is not <what>; allowed: <allowed>" and the way out. */
struct config_bad {
    char what[160];
    char allowed[256];
    char hint[256];
};

struct config_choice {
    const char *name; /* NULL ends a list */
    int value;
};

struct config_key;
/* Checks `value` (never empty) and stores it at `field`. Returns 0, or -1 with `bad` filled and the
 * field as it was. */
typedef int config_parse_fn(const struct config_key *k, const char *value, void *field,
                            struct config_bad *bad);

enum config_flag {
    CONFIG_STRING = 1 << 0,   /* the field is a char *, owned by the config */
    CONFIG_QUIET = 1 << 1,    /* the value may be or hold a secret: never shown in a message */
    CONFIG_ANY_NAME = 1 << 2, /* a name of the server's: " #" may be a part of it */
};

struct config_key {
    const char *section, *name;
    size_t offset; /* of the field in struct config */
    config_parse_fn *parse;
    unsigned flags;
    const char *def; /* NULL: none, or it depends on other keys (config_check) */
    int64_t min, max;
    const struct config_choice *choices;
};

extern const struct config_key config_keys[];
extern const size_t config_key_count;

/* Index of a key, or -1. */
int config_key_find(const char *section, const char *name);
bool config_section_known(const char *section);
/* Sets every field to its default. */
void config_set_defaults(struct config *c);

/* Parsers of values (config_parse.c, and config_text.c from config_parse_world on). Numbers
 * and durations (ms) obey min and max. */
config_parse_fn config_parse_yes_no;      /* bool: yes|no */
config_parse_fn config_parse_flag;        /* bool: from choices */
config_parse_fn config_parse_choice;      /* an enum: from choices */
config_parse_fn config_parse_number;      /* unsigned or int */
config_parse_fn config_parse_percent;     /* unsigned */
config_parse_fn config_parse_connections; /* unsigned: auto (0) or a number */
config_parse_fn config_parse_duration;    /* int64_t */
config_parse_fn config_parse_size;        /* uint64_t */
config_parse_fn config_parse_events;      /* unsigned: EVENT_ bits */
config_parse_fn config_parse_world;       /* the rest: char * */
config_parse_fn config_parse_schema;
config_parse_fn config_parse_table;
config_parse_fn config_parse_user;
config_parse_fn config_parse_host;
config_parse_fn config_parse_path;   /* absolute; stored without "//", "/./" and a '/' at the end */
config_parse_fn config_parse_secret; /* absolute path or credential:NAME */
config_parse_fn config_parse_file;   /* a name inside a directory */
config_parse_fn config_parse_web_url;
config_parse_fn config_parse_mail_url;
config_parse_fn config_parse_mail;
config_parse_fn config_parse_word;
config_parse_fn config_parse_mails; /* struct config_smtp: to and to_count */

/* For parsers. Both fill `bad` and return -1. */
int config_refuse(struct config_bad *bad, const char *what, const char *allowed);
int config_hint(struct config_bad *bad, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Replaces the string of a char * field; returns 0. */
int config_store(void *field, const char *value);
/* Calls `each` for the parts of "a, b, c", without the blanks around them, until one returns -1. */
int config_each(const char *list, int (*each)(const char *part, void *arg), void *arg);
/* Digits only; -1 for anything else, and for more than nine of them. */
int64_t config_digits(const char *s);

/* Number of letters to add, drop or change between two words; CONFIG_NEAR_MAX for long ones. */
size_t config_distance(const char *a, const char *b);
/* Is `typed` so near to `word` that it was probably meant? */
bool config_near(const char *typed, const char *word);

/* Where the keys of a file stood: line numbers from 1, 0 for a key that is not there. */
struct config_source {
    const char *path;
    unsigned line[CONFIG_KEYS_MAX];
};
/* After the last line: required keys, keys that exclude or need each other, defaults that depend on
 * other keys. */
int config_check(struct config *c, const struct config_source *src, struct err *e);

#endif
