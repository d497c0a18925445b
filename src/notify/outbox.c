#include "notify/outbox.h"

#include <stdlib.h>
#include <string.h>

#include "base/js.h"

/* Two things progress independently: the delivery per channel, and the copy on the disk. An alert
 * is removed when all channels have delivered it and no answer of the disk writer is pending. */

static void outbox_remove_at(struct outbox *o, size_t i)
{
    json_decref(o->list[i].json);
    o->count--;
    memmove(&o->list[i], &o->list[i + 1], (o->count - i) * sizeof *o->list);
}

/* An alert that is being written to disk stays until its number is known. */
static void remove_delivered(struct outbox *o)
{
    for (size_t i = o->count; i-- > 0;) {
        bool everywhere = o->list[i].copy != OUTBOX_GIVEN;
        for (int ch = 0; ch < ALERT_CHANNELS; ch++)
            everywhere = everywhere && o->list[i].done[ch];
        if (everywhere)
            outbox_remove_at(o, i);
    }
}

/* Pointers into the list hold until the next insert. */
static struct outbox_alert *outbox_insert(struct outbox *o, size_t at, json_t *alert)
{
    o->list = xrealloc(o->list, (o->count + 1) * sizeof *o->list);
    memmove(&o->list[at + 1], &o->list[at], (o->count - at) * sizeof *o->list);
    o->count++;
    o->list[at] = (struct outbox_alert){.json = alert};
    return &o->list[at];
}

static struct outbox_alert *outbox_first(const struct outbox *o, enum outbox_copy copy)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].copy == copy)
            return &o->list[i];
    return NULL;
}

void outbox_store_again(struct outbox *o)
{
    struct outbox_alert *a = outbox_first(o, OUTBOX_UNSTORED);
    if (a && !outbox_first(o, OUTBOX_NEW) && !outbox_first(o, OUTBOX_GIVEN))
        a->copy = OUTBOX_NEW;
}

void outbox_add(struct outbox *o, const struct config *c, json_t *alert)
{
    if (o->count >= ALERT_QUEUE_MAX) {
        size_t i = 0;
        while (i < o->count && o->list[i].copy == OUTBOX_GIVEN)
            i++;
        if (i != o->count) { /* a socket's buffer limits the number of alerts in OUTBOX_GIVEN */
            for (int ch = 0; ch < ALERT_CHANNELS; ch++)
                o->channel[ch].dropped += !o->list[i].done[ch];
            outbox_remove_at(o, i);
        }
    }
    bool behind = outbox_first(o, OUTBOX_UNSTORED);
    struct outbox_alert *a = outbox_insert(o, o->count, alert);
    a->copy = behind ? OUTBOX_UNSTORED : OUTBOX_NEW;
    outbox_store_again(o);
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        a->done[ch] = !alert_channel_on(c, ch) || (ch == ALERT_SMTP && alert_is_expected(alert));
}

void outbox_add_stored(struct outbox *o, json_t *alert, uint64_t number,
                       const bool waits[ALERT_CHANNELS])
{
    /* The same alert may already be in memory: the disk writer stored it but died before it
     * reported so. */
    size_t at = 0;
    for (size_t i = 0; i < o->count; i++)
        if (json_equal(json_object_get(o->list[i].json, "id"), json_object_get(alert, "id"))) {
            json_decref(alert);
            return;
        }
    while (at < o->count && o->list[at].copy == OUTBOX_STORED && o->list[at].number < number)
        at++;
    struct outbox_alert *a = outbox_insert(o, at, alert);
    a->copy = OUTBOX_STORED;
    a->number = number;
    for (int ch = 0; ch < ALERT_CHANNELS; ch++) {
        a->done[ch] = !waits[ch];
        a->begun[ch] = true;
    }
}

void outbox_follow(struct outbox *o, const struct config *c)
{
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++) {
        if (alert_channel_on(c, ch))
            continue;
        o->channel[ch].mark = 0; /* if the channel is enabled again, the mark on disk is newer */
        for (size_t i = 0; i < o->count; i++)
            o->list[i].done[ch] = true;
    }
    remove_delivered(o);
}

void outbox_forget(struct outbox *o, enum alert_channel ch)
{
    o->channel[ch] = (struct outbox_channel){0};
    for (size_t i = 0; i < o->count; i++) {
        o->list[i].sending[ch] = 0;
        o->list[i].done[ch] = true;
    }
    remove_delivered(o);
}

size_t outbox_waiting(const struct outbox *o, enum alert_channel ch)
{
    size_t n = 0;
    for (size_t i = 0; i < o->count; i++)
        n += !o->list[i].done[ch];
    return n;
}

static bool is_ready(const struct outbox_alert *a, enum alert_channel ch, bool disk_away)
{
    return !a->done[ch] && (disk_away || a->copy == OUTBOX_STORED || a->copy == OUTBOX_UNSTORED);
}

/* Refills the token bucket up to `now`. A refill interval that has begun keeps counting; a full
 * bucket has no such interval. */
static void outbox_refill(struct outbox_channel *c, mono_t now)
{
    int64_t more = mono_since(now, c->refilled) / OUTBOX_REFILL;
    if (more >= (int64_t)c->spent) {
        c->spent = 0;
        c->refilled = now;
    } else if (more > 0) {
        c->spent -= (unsigned)more;
        c->refilled = mono_add(c->refilled, more * OUTBOX_REFILL);
    }
}

int64_t outbox_wait(const struct outbox *o, enum alert_channel ch, bool disk_away, mono_t now)
{
    struct outbox_channel c = o->channel[ch];
    bool any = false, urgent = false;
    for (size_t i = 0; i < o->count; i++) {
        const struct outbox_alert *a = &o->list[i];
        if (!is_ready(a, ch, disk_away))
            continue;
        any = true;
        if (!js_flag(a->json, "urgent"))
            continue;
        if (!a->begun[ch])
            return 0; /* urgent alerts do not wait for the end of a pause */
        urgent = true;
    }
    if (!any)
        return -1;
    outbox_refill(&c, now);
    /* Wait for the longer of the pause after a failure and the wait for a token. */
    int64_t pause = c.not_before.ms ? mono_since(c.not_before, now) : 0;
    int64_t token =
        c.spent < OUTBOX_BURST || urgent ? 0 : OUTBOX_REFILL - mono_since(now, c.refilled);
    int64_t wait = pause > token ? pause : token;
    return wait > 0 ? wait : 0;
}

void outbox_begin(struct outbox *o, enum alert_channel ch, bool disk_away, mono_t now,
                  struct message *m)
{
    struct outbox_channel *c = &o->channel[ch];
    json_t *alerts = json_array();
    for (size_t i = 0; i < o->count; i++) {
        struct outbox_alert *a = &o->list[i];
        a->sending[ch] = 0;
        if (!is_ready(a, ch, disk_away))
            continue;
        a->begun[ch] = true;
        json_array_append(alerts, a->json);
        a->sending[ch] = (unsigned)json_array_size(alerts);
    }
    c->early = c->not_before.ms && !mono_reached(now, c->not_before);
    c->sending_dropped = c->dropped;
    c->sending_damaged = c->damaged;
    *m = (struct message){alerts, c->dropped, c->damaged};
}

/* Raises the delivery mark of each channel that has delivered this alert, if the alert is on
 * disk. */
static void raise_mark(struct outbox *o, const struct outbox_alert *a)
{
    for (int ch = 0; ch < ALERT_CHANNELS; ch++)
        if (a->done[ch] && a->number > o->channel[ch].mark)
            o->channel[ch].mark = a->number;
}

static void set_delivered(struct outbox *o, struct outbox_alert *a, enum alert_channel ch)
{
    a->sending[ch] = 0;
    a->done[ch] = true;
    raise_mark(o, a);
}

/* The first part of a message that is accepted contains the counts. */
static void counts_delivered(struct outbox_channel *c)
{
    c->dropped -= c->sending_dropped;
    c->damaged -= c->sending_damaged;
    c->sending_dropped = c->sending_damaged = 0;
}

void outbox_sent(struct outbox *o, enum alert_channel ch, mono_t now)
{
    struct outbox_channel *c = &o->channel[ch];
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].sending[ch])
            set_delivered(o, &o->list[i], ch);
    counts_delivered(c);
    outbox_refill(c, now);
    if (c->spent < OUTBOX_BURST) /* an urgent alert is sent even if no token is left */
        c->spent++;
    c->pause = 0;
    c->not_before = (mono_t){0};
    remove_delivered(o);
}

static bool outbox_lacking(const json_t *alert, const json_t *left)
{
    const json_t *one;
    size_t i;
    json_array_foreach(left, i, one)
    {
        if (message_lacks(alert, one))
            return true;
    }
    return false;
}

static void outbox_received(json_t *alert, const json_t *received)
{
    json_t *list = json_object_get(alert, ALERT_RECEIVED), *one;
    size_t i;
    if (!json_is_array(list)) {
        list = json_array();
        json_object_set_new(alert, ALERT_RECEIVED, list);
    }
    json_array_foreach(received, i, one)
    {
        if (message_lacks(alert, one))
            json_array_append(list, one);
    }
}

static void pause_after_failure(struct outbox_channel *c, int64_t retry_after, mono_t now)
{
    c->pause = clock_backoff(c->pause, OUTBOX_RETRY_FIRST, OUTBOX_RETRY_MAX);
    c->not_before = mono_add(now, c->pause > retry_after ? c->pause : retry_after);
}

/* A server that accepts again ends the pause after earlier failures. */
void outbox_accepted(struct outbox *o, enum alert_channel ch, unsigned place)
{
    struct outbox_channel *c = &o->channel[ch];
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].sending[ch] == place)
            set_delivered(o, &o->list[i], ch);
    counts_delivered(c);
    c->pause = 0;
    c->not_before = (mono_t){0};
    c->early = false;
    remove_delivered(o);
}

/* The pause after earlier failures goes on, because some recipients may never be accepted. */
void outbox_partly(struct outbox *o, enum alert_channel ch, const json_t *received,
                   const json_t *left)
{
    struct outbox_channel *c = &o->channel[ch];
    for (size_t i = 0; i < o->count; i++) {
        struct outbox_alert *a = &o->list[i];
        if (!a->sending[ch])
            continue;
        a->changed = outbox_lacking(a->json, left);
        outbox_received(a->json, received);
        if (!a->changed)
            set_delivered(o, a, ch);
    }
    counts_delivered(c);
    c->early = false;
    remove_delivered(o);
}

const json_t *outbox_changed(const struct outbox *o, uint64_t *number)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].changed && o->list[i].copy == OUTBOX_STORED) {
            *number = o->list[i].number;
            return o->list[i].json;
        }
    return NULL;
}

void outbox_rewritten(struct outbox *o, uint64_t number)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].number == number)
            o->list[i].changed = false;
}

void outbox_failed(struct outbox *o, enum alert_channel ch, int64_t retry_after, mono_t now)
{
    struct outbox_channel *c = &o->channel[ch];
    for (size_t i = 0; i < o->count; i++)
        o->list[i].sending[ch] = 0;
    /* A failed early attempt does not extend the pause that it did not wait for. */
    if (c->early && retry_after == 0)
        return;
    pause_after_failure(c, retry_after, now);
}

const json_t *outbox_next(const struct outbox *o)
{
    const struct outbox_alert *a = outbox_first(o, OUTBOX_NEW);
    return a ? a->json : NULL;
}

void outbox_given(struct outbox *o)
{
    struct outbox_alert *a = outbox_first(o, OUTBOX_NEW);
    if (a)
        a->copy = OUTBOX_GIVEN;
}

void outbox_stored(struct outbox *o, uint64_t number)
{
    struct outbox_alert *a = outbox_first(o, OUTBOX_GIVEN);
    if (!a)
        return;
    a->copy = number ? OUTBOX_STORED : OUTBOX_UNSTORED;
    a->number = number;
    raise_mark(o, a);
    if (number)
        outbox_store_again(o);
    remove_delivered(o);
}

void outbox_not_stored(struct outbox *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->list[i].copy != OUTBOX_STORED)
            o->list[i].copy = OUTBOX_NEW;
    remove_delivered(o);
}

/* Stores all alerts again, because the delivery marks of the old directory do not apply to the new
 * one. */
void outbox_moved(struct outbox *o)
{
    for (size_t i = 0; i < o->count; i++) {
        o->list[i].copy = OUTBOX_NEW;
        o->list[i].number = 0;
    }
    for (int ch = 0; ch < ALERT_CHANNELS; ch++)
        o->channel[ch].mark = 0;
    remove_delivered(o);
}

/* Returns the delivery mark of a channel. It stays below the lowest pending alert, which must stay
 * on disk. */
uint64_t outbox_mark(const struct outbox *o, enum alert_channel ch)
{
    uint64_t mark = o->channel[ch].mark;
    for (size_t i = 0; i < o->count; i++)
        if (!o->list[i].done[ch] && o->list[i].number && o->list[i].number <= mark)
            mark = o->list[i].number - 1;
    return mark;
}
