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

#include "config/config.h"
#include "mysql/account.h"
#include "mysql/objects.h"
#include "actions/hint_command.h"
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

/* ---- facts and rules of each side ---- */

/* rules_disk.c: files, directories, and access of other users */
void check_config(struct check *c);
/* `password` receives the server's password. Returns -1 if it cannot be read. */
int check_secrets(struct check *c, struct buf *password);
void check_dump_dir(struct check *c); /* opens it, with state and catalog */
void check_dumps(struct check *c);    /* compression, room, age, leftover files */
void check_status_dir(struct check *c);
void check_journal_dir(struct check *c); /* [journal] mode = follow */
/* Finds other worlds of this machine: those with the same account (into c->worlds), and those that
 * use this world's schema or directories. */
void check_load_neighbours(struct check *c);
void check_neighbours(struct check *c);
/* rules_server.c */
void check_version(struct check *c);
void check_connect(struct check *c, const char *password); /* c->db: NULL if it fails */
/* Requests the binary log as a journal does, over a separate connection, for the finding about the
 * journal. */
void check_prove_log(struct check *c, const char *password);
void check_replication(struct check *c);
void check_server(struct check *c); /* clock, settings, size limits, memory, journal */
/* rules_next.c: settings that a server restart loses. Call it after check_server() and
 * check_privileges(), whose facts it uses. */
void check_next_server(struct check *c);
/* rules_privileges.c: missing and superfluous privileges of the account */
void check_privileges(struct check *c);
/* Return true if the account has the privilege on the world's schema, or on the whole server. */
bool check_may(const struct check *c, const char *privilege);
bool check_may_server(const struct check *c, enum server_privilege p);
/* if false, some may exist that the account cannot see */
bool check_routines_readable(const struct check *c);
/* Returns true if this config needs it on the world's schema. */
bool check_needs(const struct check *c, const struct schema_privilege *p);
/* Appends one GRANT of the privileges that are missing on a schema, or, with `all`, of all useful
 * ones. */
void check_schema_grant(const struct check *c, struct buf *b, const char *schema, bool all);
/* Adds the missing GRANTs for seeing and ending the sessions that block a restore. */
void check_blocker_grants(struct check *c, struct names *out);
/* Add a world to c->worlds, or all worlds that have a lease table. */
void check_add_world(struct check *c, const char *schema);
void check_add_leases(struct check *c);
/* rules_schema.c */
void check_load_world(struct check *c); /* facts that other parts use as well */
void check_world(struct check *c);      /* sentinel, lease, tables, definitions */
/* rules_ledgers.c: tables, views and rules of each [ledger NAME] */
void check_ledgers(struct check *c);
/* rules_progress.c: the local store of [progress], and the central one */
void check_progress(struct check *c);
/* Returns true if [progress] names the world's own server and account. That account then also calls
 * the central store's routines. */
bool check_central_here(const struct config *cfg);
/* rules_elsewhere.c: the store of [offsite], the lease of [standby], alert channels and heartbeat */
void check_offsite(struct check *c);
void check_standby(struct check *c);
void check_alerts(struct check *c);

#endif
