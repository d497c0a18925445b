#include "restore/loss.h"

#include <stdio.h>

#include "base/line.h"

/* Lowers the end to a proven moment. A proof older than the last sign of life is ignored, because
 * the clock was set in between. */
static void take_end(wall_t *end, wall_t proven, wall_t alive)
{
    if (proven.ms && proven.ms >= alive.ms && (end->ms == 0 || proven.ms < end->ms))
        *end = proven;
}

/* Returns the upper bound of the loss. The earliest moment that is proven to be after the world's
 * end gives the smallest bound. */
struct loss loss_of(const struct loss_facts *f)
{
    wall_t end = {0};
    if (f->nothing)
        return (struct loss){.nothing = true};
    take_end(&end, f->gone, f->alive);
    take_end(&end, f->server_started, f->alive);
    take_end(&end, f->now, f->alive);
    bool known = f->covered.ms && end.ms && end.ms >= f->covered.ms;
    return (struct loss){.most_ms = known ? end.ms - f->covered.ms : -1};
}

const char *loss_words(const struct loss *l, char out[TEXT_SHORT])
{
    char t[TEXT_SHORT];
    if (l->nothing)
        return "nothing lost";
    if (l->most_ms < 0)
        return "loss unknown";
    snprintf(out, TEXT_SHORT, "at most %s lost", text_bound(l->most_ms, t));
    return out;
}

void loss_to_json(const struct loss *l, json_t *o)
{
    char words[TEXT_SHORT];
    bool bounded = l->nothing || l->most_ms >= 0;
    json_object_set_new(o, "lost_seconds", l->nothing ? json_integer(0) : json_null());
    json_object_set_new(o, "lost_seconds_max",
                        l->nothing ? json_integer(0)
                        : bounded  ? json_real((double)l->most_ms / 1000)
                                   : json_null());
    json_object_set_new(o, "lost", json_string(loss_words(l, words)));
}

struct loss loss_from_json(const json_t *o)
{
    const json_t *lost = json_object_get(o, "lost_seconds");
    const json_t *most = json_object_get(o, "lost_seconds_max");
    double s = json_is_number(most) ? json_number_value(most) : -1;
    if (json_is_integer(lost) && json_integer_value(lost) == 0 && s == 0)
        return (struct loss){.nothing = true};
    return (struct loss){.most_ms = s >= 0 && s < 1e12 ? (int64_t)(s * 1000 + 0.5) : -1};
}
