#include "store/state.h"

#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/js.h"
#include "base/text.h"
#include "store/kept.h"
#include "store/round.h"

#define STATE_MAX (64u << 10)

#define STATE(kind, key, member, ...) JS_FIELD(struct state, kind, key, member, __VA_ARGS__)

/* Times are milliseconds since 1970. If a file of an older version lacks a key, the key reads as
 * zero. For each key, zero must therefore mean "not known" or "never". */
static const struct js_field fields[] = {
    STATE(TEXT, "world", world, NULL),
    STATE(FLAG, "known", known, NULL),
    STATE(SHOWN, "nonce", nonce, NULL),
    STATE(TEXT, "next_nonce", next, NULL),
    STATE(NUMBER, "generation", generation, NULL, 0, DB_GENERATION_MAX),
    STATE(NUMBER, "round", round, NULL, 0, ROUND_MAX),
    STATE(NUMBER, "alive_at", alive_at, NULL, 0, CLOCK_WALL_MAX),
    STATE(TEXT, "boot", boot, NULL),
    STATE(FLAG, "paused", paused, NULL),
    STATE(NUMBER, "pause_until", pause_until, NULL, 0, CLOCK_WALL_MAX),
    STATE(NUMBER, "endless_since", endless_since, NULL, 0, CLOCK_WALL_MAX),
    STATE(SHOWN, "last_restore", last_restore, NULL),
    STATE(SHOWN, "gaps", gaps, NULL),
    STATE(SHOWN, "habits", habits, NULL),
    STATE(TEXT, "made_nonce", made.nonce, NULL),
    STATE(SHOWN, "made_dump", made.dump, NULL),
    STATE(SHOWN, "made_file", made.upto.file, NULL),
    STATE(NUMBER, "made_pos", made.upto.pos, NULL, 0, INT64_MAX),
    STATE(FLAG, "made_followed", made.followed, NULL),
    STATE(FLAG, "followed", followed, NULL),
    STATE(FLAG, "watched", watched, NULL),
    STATE(FLAG, "drill_ran", drill.ran, NULL),
    STATE(NUMBER, "drill_at", drill.at, NULL, 0, CLOCK_WALL_MAX),
    STATE(SHOWN, "last_drill", drill.last, NULL),
    STATE(FLAG, "verify_ran", verify.ran, NULL),
    STATE(NUMBER, "verify_at", verify.at, NULL, 0, CLOCK_WALL_MAX),
    STATE(SHOWN, "last_verify", verify.last, NULL),
    STATE(NUMBER, "watched_at", watched_at, NULL, 0, CLOCK_WALL_MAX),
    STATE(SHOWN, "holder", holder, NULL),
    STATE(TEXT, "central", central, NULL),
    STATE(NUMBER, "lease_number", lease_number, NULL, 0, DB_GENERATION_MAX),
};

static const char *const roles[] = {[ROLE_PRIMARY] = "primary", [ROLE_STANDBY] = "standby"};

json_t *state_json(const struct state *s)
{
    json_t *o = json_object();
    js_write(o, fields, JS_COUNT(fields), s);
    json_object_set_new(o, "server", server_json(&s->server));
    if (s->role != ROLE_UNSAID)
        json_object_set_new(o, "role", json_string(roles[s->role]));
    return o;
}

bool state_standby(const struct state *s, const struct config *c)
{
    return c->standby.given && (s->role == ROLE_STANDBY || (s->role == ROLE_UNSAID && !s->known));
}

int state_holder(struct state *s, struct err *e)
{
    unsigned char random[8];
    char host[64] = "", hex[2 * sizeof random + 1];
    gethostname(host, sizeof host - 1);
    SCOPED(buf_free) struct buf front = {0};
    text_clean(&front, host, sizeof host);
    buf_addc(&front, '/');
    if (text_starts(s->holder, front.p))
        return 0;
    if (RAND_bytes(random, sizeof random) != 1)
        return err_set(e, ERR_SYSTEM, 0, "cannot get random numbers");
    text_hex(random, sizeof random, hex);
    snprintf(s->holder, sizeof s->holder, "%s%s", front.p, hex);
    return 1;
}

int state_keep_holder(struct state *s, int dirfd, struct err *e)
{
    int made = state_holder(s, e);
    return made < 0 || (made > 0 && state_save(dirfd, s, e) < 0) ? -1 : 0;
}

void state_alive(struct state *s, wall_t at)
{
    s->known = true;
    s->alive_at = at;
    snprintf(s->boot, sizeof s->boot, "%s", machine_boot());
}

bool state_same_boot(const struct state *s)
{
    return s->boot[0] && strcmp(s->boot, machine_boot()) == 0;
}

void state_restored(struct state *s, const struct state_made *made)
{
    if (strcmp(s->made.nonce, made->nonce) == 0) /* its outcome is already recorded */
        return;
    s->made = *made;
    json_auto_t *o =
        json_pack("{s:o, s:b, s:o, s:n, s:n, s:n, s:n, s:n, s:n}", "at", js_time(clock_wall()),
                  "ok", true, "dump", made->dump[0] ? js_clean(made->dump) : json_null(), "rows",
                  "seconds", "lost_seconds", "lost_seconds_max", "restored_to", "outage_seconds");
    SCOPED(xfree) char *text = json_dumps(o, JSON_COMPACT);
    snprintf(s->last_restore, sizeof s->last_restore, "%s", text);
}

void state_keep_later(struct state *s, const struct state *saved, const struct state *wrote)
{
    bool world = saved->known && strcmp(saved->nonce, wrote->nonce) != 0;
    if (saved->role == ROLE_STANDBY && wrote->role != ROLE_STANDBY &&
        saved->generation >= s->generation)
        s->role = ROLE_STANDBY;
    if (!world || saved->generation <= s->generation)
        return;
    s->known = true;
    memcpy(s->nonce, saved->nonce, sizeof s->nonce);
    s->generation = saved->generation;
    s->server = saved->server;
    s->alive_at = saved->alive_at;
    memcpy(s->boot, saved->boot, sizeof s->boot);
    s->made = saved->made;
    memcpy(s->last_restore, saved->last_restore, sizeof s->last_restore);
}

int state_is_of(const struct state *s, const char *world, const char *dir, struct err *e)
{
    if (!s->world[0] || strcmp(s->world, world) == 0)
        return 0;
    err_set(e, ERR_REFUSED, 0, "%s belongs to world %s, not to %s", dir, s->world, world);
    SCOPED(buf_free) struct buf other = {0}, quoted = {0};
    buf_shell(&other, s->world);
    buf_shell(&quoted, dir);
    return err_hint(e,
                    "give each world its own [dump] dir; if world %s was renamed: remove "
                    "%s/state.json, then worldkeeper --init --force adopts its sentinel",
                    other.p, quoted.p);
}

int state_load(int dirfd, struct state *out, struct err *e)
{
    json_auto_t *o = NULL;
    *out = (struct state){0};
    if (kept_load(dirfd, "state.json", STATE_MAX, &o, e) < 0)
        return -1;
    js_read(o, fields, JS_COUNT(fields), out);
    server_from_json(json_object_get(o, "server"), &out->server);
    for (enum state_role r = ROLE_PRIMARY; r <= ROLE_STANDBY; r++)
        if (strcmp(js_text(o, "role"), roles[r]) == 0)
            out->role = r;
    return 0;
}

int state_sign(int dirfd, struct err *e)
{
    return kept_sign(dirfd, "state.json", STATE_MAX, false, e);
}

int state_save(int dirfd, const struct state *s, struct err *e)
{
    int rc = kept_save(dirfd, "state.json", STATE_MAX, state_json(s), e);
    if (rc == 0)
        fault_point("state.saved");
    return rc;
}
