#include "watch/condition.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

const char *condition_key(char out[CONDITION_KEY], const struct err *e)
{
    uint64_t hash = TEXT_HASH;
    bool own = e->cls == ERR_REFUSED && e->num == 0;
    for (const char *s = e->text; own && *s; s++)
        if (*s < '0' || *s > '9')
            hash = text_hash(hash, s, 1);
    if (own)
        snprintf(out, CONDITION_KEY, "%s %08" PRIx32, err_class_name(e->cls), (uint32_t)hash);
    else
        snprintf(out, CONDITION_KEY, "%s %d", err_class_name(e->cls), e->num);
    return out;
}

/* A problem that passes by itself within the limit is never reported. */
bool condition_lasts(mono_t *since, bool is, int64_t limit, mono_t now)
{
    if (!is)
        *since = (mono_t){0};
    else if (!since->ms)
        *since = now;
    return is && mono_since(now, *since) >= limit;
}

enum guard_alert_kind condition_alert(const struct condition *c, bool on, const char *key,
                                      bool open, int64_t repeat, mono_t now)
{
    if (!on)
        return c->on || open ? GUARD_ALERT_RECOVERED : GUARD_ALERT_NONE;
    /* Compares only the stored part of the key, which may have been truncated. */
    if (!c->on || strncmp(c->key, key, sizeof c->key - 1) != 0)
        return GUARD_ALERT_NEW;
    return guard_reminds(repeat, c->notified, now) ? GUARD_ALERT_REMINDER : GUARD_ALERT_NONE;
}
