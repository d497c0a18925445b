/* Calls a lease as the program does: lease_call CONFIG HOLDER, then on standard input a line for
 * each call:
 *
 *     prove | open | read | take [ABOVE [GENERATION]] | renew [NUMBER] | release | seen |
 *     believe VERSION SINCE (opens it again, with what another lease has seen)
 *
 * Each call is answered with a line of JSON; left_ms: how long the grant is valid. The proof is
 * stored in [dump] dir. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/js.h"
#include "standby/lease.h"

struct caller {
    struct config *cfg;
    int dirfd;
    const char *holder;
    struct lease *lease;
    struct lease_grant grant;
};

static void add_grant(const struct caller *c, json_t *out)
{
    json_object_set_new(out, "number", json_integer((json_int_t)c->grant.number));
    json_object_set_new(out, "generation", json_integer((json_int_t)c->grant.generation));
    json_object_set_new(out, "left_ms",
                        json_integer(mono_since(c->grant.valid_until, clock_mono())));
}

static enum lease_result call(struct caller *c, char *words[3], json_t *out, struct err *e)
{
    const char *verb = words[0];
    uint64_t one = words[1] ? strtoull(words[1], NULL, 10) : 0,
             two = words[2] ? strtoull(words[2], NULL, 10) : 0;
    struct lease_record r = {0};
    struct lease_proof p = {0};
    struct lease_seen seen = {0};
    int64_t wait = 0;
    enum lease_result got = LEASE_REFUSED;
    if (strcmp(verb, "prove") == 0) {
        got = lease_prove(c->cfg, c->dirfd, &p, e);
        json_object_set_new(out, "conditions", json_boolean(p.conditions));
        json_object_set_new(out, "members", json_string(p.members));
        json_object_set_new(out, "answered", json_integer(p.answered));
    } else if (strcmp(verb, "open") == 0) {
        lease_close(c->lease);
        got = lease_open(c->cfg, c->dirfd, c->holder, &c->lease, e);
    } else if (strcmp(verb, "read") == 0) {
        got = lease_read(c->lease, &r, e);
        json_object_set_new(out, "holder", json_string(r.holder));
        json_object_set_new(out, "number", json_integer((json_int_t)r.number));
        json_object_set_new(out, "free", json_boolean(r.free));
    } else if (strcmp(verb, "take") == 0) {
        got = lease_take(c->lease, one, two, &c->grant, &wait, e);
        json_object_set_new(out, "wait", json_integer(wait));
        add_grant(c, out);
    } else if (strcmp(verb, "renew") == 0) {
        if (words[1])
            c->grant.number = one;
        got = lease_renew(c->lease, &c->grant, e);
        add_grant(c, out);
    } else if (strcmp(verb, "release") == 0) {
        got = lease_release(c->lease, &c->grant, e);
    } else if (strcmp(verb, "seen") == 0) {
        lease_seen_get(c->lease, &seen);
        json_object_set_new(out, "version", json_string(seen.version));
        json_object_set_new(out, "since", json_integer(seen.since.ms));
        json_object_set_new(out, "age", json_integer(mono_since(clock_mono(), seen.since)));
        got = LEASE_OK;
    } else if (strcmp(verb, "believe") == 0) {
        lease_close(c->lease);
        snprintf(seen.version, sizeof seen.version, "%s", words[1]);
        seen.since.ms = (int64_t)two;
        got = lease_open(c->cfg, c->dirfd, c->holder, &c->lease, e);
        if (got == LEASE_OK)
            lease_seen_set(c->lease, &seen);
    }
    return got;
}

int main(int argc, char **argv)
{
    static const char *const results[] = {[LEASE_OK] = "ok",
                                          [LEASE_HELD] = "held",
                                          [LEASE_AWAY] = "away",
                                          [LEASE_REFUSED] = "refused"};
    struct caller c = {.dirfd = -1};
    struct err e = {0};
    char line[1000];
    js_begin();
    if (argc != 3 || config_load(argv[1], &c.cfg, &e) < 0 ||
        (c.dirfd = file_dir(c.cfg->dump_dir, 0, 0, &e)) < 0) {
        fprintf(stderr, "%s\n", argc == 3 ? e.text : "usage: lease_call CONFIG HOLDER");
        return 2;
    }
    c.holder = argv[2];
    while (fgets(line, sizeof line, stdin)) {
        char *words[3] = {0}, *rest = line;
        for (size_t i = 0; i < 3; i++)
            words[i] = strtok_r(rest, " \n", &rest);
        json_auto_t *out = json_object();
        err_clear(&e);
        enum lease_result got = words[0] ? call(&c, words, out, &e) : LEASE_REFUSED;
        json_object_set_new(out, "result", json_string(results[got]));
        json_object_set_new(out, "text", json_string(e.text));
        json_object_set_new(out, "hint", json_string(e.hint));
        json_dumpf(out, stdout, JSON_COMPACT);
        putchar('\n');
        fflush(stdout);
    }
    lease_close(c.lease);
    config_free(c.cfg);
    return 0;
}
