/* Rules of --check.
 *
 * A rule is a row of a table: the topic it belongs to, when it holds, and what is reported then.
 * `when` and the texts refer to facts by words:
 *
 *   name             set by the code of that part, with check_word() and the like
 *   @name            a global variable of the server (@session.name: of the session), asked once
 *   section.key      a key of the config: yes and no are 1 and 0, times milliseconds, sizes bytes
 *   found            is there a finding in the topic yet?
 *
 * A word holds unless its text is empty, "0", "OFF" or "NO". `when` lists what must hold together:
 * "word", "!word", "word=text", and of two numbers or words "a<b". A text shows {word}, and other
 * forms of it with {word:form}: size, time and count for people, shell for a command line, name
 * and account quoted for SQL.
 *
 * The first matching rule of a topic (consecutive rules with the same name) is reported, and ends
 * the topic unless it says `go_on`. So findings depend on the words alone. */
#ifndef WK_CHECK_RULE_H
#define WK_CHECK_RULE_H

#include <jansson.h>

#include "actions/hint_command.h"
#include "config/config.h"
#include "mysql/account.h"
#include "mysql/objects.h"
#include "store/catalog.h"
#include "store/state.h"

/* Rules omit members that are NULL or false. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

enum check_level { CHECK_OK, CHECK_NOTE, CHECK_WARN, CHECK_FAIL };

struct check_rule {
    const char *name; /* of the topic and of its findings */
    const char *when; /* NULL: always */
    enum check_level level;
    const char *text, *hint; /* no hint: NULL */
    bool go_on;
    /* a SELECT of names, with ? for the schema: the rule needs at least one, and shows them as
     * {names} */
    const char *query;
};

/* A world that the account can see, by its lease table, which survives restarts, or by its
 * config. */
struct check_world {
    char *schema;
    bool triggers, definers; /* has triggers; has some with another account as DEFINER */
};

struct check {
    const struct config *cfg;
    enum hint_reader reader;
    json_t *list; /* of findings */
    unsigned failed;
    struct check_fact {
        const char *name; /* part of a rule or of the code: not terminated, not owned */
        size_t len;
        char *text;
    } * facts;
    size_t fact_count;

    int dirfd; /* the dump directory, -1: not opened */
    struct state state;
    struct catalog catalog;
    bool keys_bad; /* the HMAC keys cannot be read; reported once */

    struct db *db; /* NULL: no connection */
    struct err
        /* why the server does not send its binary log; ERR_NONE: it does, or was not asked */
        log_refused;
    bool mariadb;
    struct server_version version;
    struct server_id server;
    struct db_account account;
    struct grants grants;
    bool grants_known;
    /* MySQL shows privileges of active roles as the account's own. These are the account's alone
     * (the first, without a name), and with those of one role each. None: no role is active. */
    struct check_role {
        char *name;
        struct grants grants;
    } * roles;
    size_t role_count;
    struct check_world *worlds; /* the checked world is the first */
    size_t world_count;
    struct db_tables tables; /* of all engines, without the sentinel, the lease and shadow tables */
    bool tables_known;
    struct db_triggers triggers; /* on tables that a restore replaces */
    uint64_t memory_bytes;       /* data and indexes of the MEMORY tables */
    uint64_t memory_data;        /* data only */
};

/* ---- engine, rule.c ---- */

struct check check_begin(const struct config *cfg, enum hint_reader reader);
void check_free(struct check *c);
void check_rules(struct check *c, const struct check_rule *rules, size_t count);
#define CHECK_RULES(c, rules) check_rules(c, rules, sizeof(rules) / sizeof *(rules))

/* These set a word. `name` is not copied. */
void check_word(struct check *c, const char *name, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
void check_fact(struct check *c, const char *name, bool holds);
void check_number(struct check *c, const char *name, int64_t n);
/* Sets two numbers: the size of the table's data, and its maximum in MEMORY, else 0. Returns true
 * if it is nearly full. */
bool check_table_size(struct check *c, const struct db_table *t, const char *size,
                      const char *room);
/* Sets "`a`, `b` and 3 more". */
void check_names(struct check *c, const char *name, const struct names *n);
/* Sets "a, b", from an array of strings. */
void check_list(struct check *c, const char *name, const json_t *list);
/* Sets {name_error} and {name_hint}, for example {clock_error}; both empty without an error. */
#define check_error(c, name, e) check_words_error(c, name "_error", name "_hint", e)
void check_words_error(struct check *c, const char *error, const char *hint, const struct err *e);

/* Return the value of a word; "" and -1 if it has none. */
const char *check_text(struct check *c, const char *name);
int64_t check_value(struct check *c, const char *name);
bool check_is(struct check *c, const char *name);
/* Returns true if all terms of a `when` hold. */
bool check_holds(struct check *c, const char *when);

#endif
