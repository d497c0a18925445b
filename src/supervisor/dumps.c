#include "supervisor/dumps.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/fault.h"
#include "mysql/objects.h"
#include "supervisor/world.h"

/* A failed dump leaves the world unprotected for longer than it should: the first tries come soon. */
#define RETRY_FIRST_MS fault_wait(10000)
#define RETRY_MAX_MS fault_wait(300000)

struct dumps {
    bool have;
    struct manifest newest; /* without its tables */
    mono_t taken, next;     /* taken: the newest one; without one, our start */
    unsigned failures;      /* in a row */
    struct db_names nonces; /* of all intact dumps: lives of this world, not another world */
};

struct dumps *dumps_new(void)
{
    return xcalloc(1, sizeof(struct dumps));
}

void dumps_free(struct dumps *d)
{
    db_names_free(&d->nonces);
    free(d);
}

bool dumps_know_nonce(const struct world *w, const char *nonce)
{
    return db_names_has(&w->dumps->nonces, nonce);
}

static void learn_nonce(struct world *w, const char *nonce)
{
    if (!dumps_know_nonce(w, nonce))
        db_names_add(&w->dumps->nonces, nonce);
}

static void set_newest(struct world *w, const struct manifest *m)
{
    struct dumps *d = w->dumps;
    int64_t age = clock_wall().ms - m->at.ms;
    if (age < 0)
        age = 0; /* dated in the future: the clock was set back */
    /* Without the tables: hundreds of names would stay in memory for nothing. */
    d->newest = manifest_figures(m, w->cfg->sentinel);
    d->have = true;
    d->taken = mono_add(clock_mono(), -age);
    learn_nonce(w, m->nonce);
}

void dumps_load(struct world *w, const struct catalog *c)
{
    const struct catalog_entry *newest = catalog_newest(c, 0);
    for (size_t i = 0; i < c->count; i++)
        if (c->list[i].intact)
            learn_nonce(w, c->list[i].m.nonce);
    w->dumps->have = false;
    w->dumps->next = clock_mono();
    if (!newest)
        return;
    set_newest(w, &newest->m);
    dumps_follow_interval(w);
}

void dumps_stored(struct world *w, const struct manifest *m)
{
    set_newest(w, m);
    /* Counted from the end of this dump: one that takes longer than the interval leaves a pause. */
    w->dumps->next = mono_add(clock_mono(), w->cfg->dump_interval);
    w->dumps->failures = 0;
}

/* 10 s, doubled up to 5 min, but never later than the interval would be. */
int64_t dumps_failed(struct world *w, bool next_interval)
{
    struct dumps *d = w->dumps;
    int64_t wait = RETRY_FIRST_MS << (d->failures < 5 ? d->failures : 5);
    if (wait > RETRY_MAX_MS)
        wait = RETRY_MAX_MS;
    if (wait > w->cfg->dump_interval || next_interval)
        wait = w->cfg->dump_interval;
    d->failures++;
    d->next = mono_add(clock_mono(), wait);
    return wait;
}

const struct manifest *dumps_newest(const struct world *w)
{
    return w->dumps->have ? &w->dumps->newest : NULL;
}

uint64_t dumps_newest_size(const struct world *w)
{
    return w->dumps->newest.file_size;
}

unsigned dumps_failures(const struct world *w)
{
    return w->dumps->failures;
}

mono_t dumps_next(const struct world *w)
{
    return w->dumps->next;
}

void dumps_due(struct world *w, mono_t when)
{
    w->dumps->next = when;
}

/* The newest dump's age counts, not when the config was read: a shorter interval may make one due at once. */
void dumps_follow_interval(struct world *w)
{
    struct dumps *d = w->dumps;
    mono_t now = clock_mono();
    if (d->have)
        d->next = mono_add(d->taken, w->cfg->dump_interval);
    if (mono_reached(now, d->next))
        d->next = now;
}

void dumps_timers(struct world *w, mono_t now)
{
    struct dumps *d = w->dumps;
    char t[TEXT_SHORT];
    /* Planned, or the business of another machine. */
    if (w->guard.state == GUARD_PAUSED || w->guard.state == GUARD_STANDBY ||
        w->cfg->max_dump_age == 0)
        return;
    if (d->taken.ms == 0)
        d->taken = now; /* no dump ever: counted from our start */
    if (mono_since(now, d->taken) > w->cfg->max_dump_age)
        notify_open(w, CONDITION_STALE, NULL, "still trying",
                    "the log and worldkeeper --check show why dumps fail",
                    "no good dump for more than %s", text_duration(w->cfg->max_dump_age, t));
    else if (w->conditions[CONDITION_STALE].on || d->have)
        notify_over(w, CONDITION_STALE, "there is a good dump again");
}
