/* The dumps as the supervisor knows them: the newest one, when the next one is due, and the nonces
 * of all intact dumps. */
#include "supervisor/dumps.h"

#include "base/fault.h"
#include "base/line.h"
#include "store/catalog.h"
#include "supervisor/condition_words.h"
#include "supervisor/notifier.h"
#include "supervisor/world.h"

/* A failed dump leaves the world unprotected for longer than configured, so the first retries come
 * soon. */
#define RETRY_FIRST_MS fault_wait(10000)
#define RETRY_MAX_MS fault_wait(300000)

static struct dumps {
    bool have;
    struct manifest newest; /* without its list of tables */
    mono_t taken, next;     /* taken: time of the newest dump; without a dump, our start */
    bool asked;             /* `next` has another reason than the interval */
    unsigned failures;      /* failed dumps in a row */
    int64_t pause;          /* ms waited after the last failure */
    /* Nonces of all intact dumps: they are earlier lives of this world, not another world. */
    struct names nonces;
} dumps;

bool dumps_know_nonce(const char *nonce)
{
    return names_has(&dumps.nonces, nonce);
}

int64_t dumps_age(mono_t now)
{
    return mono_since(now, dumps.taken);
}

static void learn_nonce(const char *nonce)
{
    if (!dumps_know_nonce(nonce))
        names_add(&dumps.nonces, nonce);
}

static void set_newest(struct world *w, const struct manifest *m)
{
    int64_t age = clock_wall().ms - m->at.ms;
    if (age < 0)
        age = 0; /* dated in the future: the clock was set back */
    /* The list of tables is not kept, because hundreds of names would occupy memory for nothing. */
    dumps.newest = manifest_figures(m, w->cfg->sentinel);
    dumps.have = true;
    dumps.taken = mono_add(clock_mono(), -age);
    learn_nonce(m->nonce);
}

/* Schedules the next dump by the age of the newest one, not by the time when the config was read. A
 * dump that was asked for stays due at its time unless the interval ends before: it may retry a
 * failed one, close a gap, or be the first one of a restored world. */
static void by_interval(struct world *w)
{
    mono_t now = clock_mono(),
           next = dumps.have ? mono_add(dumps.taken, w->cfg->dump_interval) : dumps.next;
    if (mono_reached(now, next))
        next = now;
    if (dumps.asked && mono_reached(next, dumps.next))
        return;
    dumps.next = next;
    dumps.asked = false;
}

/* After a config change, a shorter interval may make a dump due at once. A dump that is already due
 * stays due. */
static void dumps_restart(struct world *w)
{
    if (!mono_reached(clock_mono(), dumps.next))
        by_interval(w);
}

void dumps_load(struct world *w, const struct catalog *c)
{
    const struct catalog_entry *newest = catalog_newest(c, 0);
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].intact)
            learn_nonce(c->list[i].m.nonce);
    if (c->round_nonce[0])
        learn_nonce(c->round_nonce);
    dumps.have = false;
    if (!newest) {
        dumps.next = clock_mono();
        return;
    }
    set_newest(w, &newest->m);
    by_interval(w);
}

void dumps_stored(struct world *w, const struct manifest *m)
{
    set_newest(w, m);
    /* The interval is counted from the end of this dump, so that there is a pause even if a dump
     * takes longer than the interval. */
    dumps.next = mono_add(clock_mono(), w->cfg->dump_interval);
    dumps.asked = false;
    dumps.failures = 0;
    dumps.pause = 0;
}

/* Schedules the retry: after 10 s, doubled up to 5 min, but never later than the interval. */
int64_t dumps_failed(struct world *w, bool next_interval)
{
    int64_t wait = dumps.pause = clock_backoff(dumps.pause, RETRY_FIRST_MS, RETRY_MAX_MS);
    if (wait > w->cfg->dump_interval || next_interval)
        wait = w->cfg->dump_interval;
    dumps.failures++;
    dumps_due(mono_add(clock_mono(), wait));
    return wait;
}

const struct manifest *dumps_newest(void)
{
    return dumps.have ? &dumps.newest : NULL;
}

unsigned dumps_failures(void)
{
    return dumps.failures;
}

mono_t dumps_next(void)
{
    return dumps.next;
}

void dumps_due(mono_t when)
{
    dumps.next = when;
    dumps.asked = true;
}

/* Reports a newest dump that is older than [dump] max_age. */
static void dumps_timers(struct world *w, mono_t now)
{
    char t[TEXT_SHORT], headline[80];
    if (w->guard.state == GUARD_STANDBY) {
        static const char elsewhere[] = "another machine keeps the world, and makes its dumps";
        notify_over(w, CONDITION_STALE, elsewhere);
        notify_over(w, CONDITION_DUMP, elsewhere);
        return;
    }
    if (w->guard.state == GUARD_PAUSED) /* a planned pause */
        return;
    if (dumps.taken.ms == 0)
        dumps.taken = now; /* if no dump exists, the age is counted from our start */
    line_set(headline, sizeof headline, "no dump for %s",
             text_duration(mono_since(now, dumps.taken), t));
    if (mono_since(now, dumps.taken) > w->cfg->max_dump_age)
        notify_open_as(
            w, CONDITION_STALE, NULL, headline, "still trying",
            "the log says why each one failed; worldkeeper --check names what keeps a dump "
            "from being made",
            "no good dump for more than %s", text_duration(w->cfg->max_dump_age, t));
    else if (w->conditions[CONDITION_STALE].on || dumps.have)
        notify_over(w, CONDITION_STALE, "there is a good dump again");
}

const struct part dumps_part = {.timers = dumps_timers, .restart = dumps_restart};
