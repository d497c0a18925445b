#include "journal/cover.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LIVELY_MS 10000 /* one that is being followed is written each second */

/* Spans come in the order of their beginnings. Those of dumps before the same end are one. A dump
 * that was taken because of an end has a name by the second, which may be the end's own. */
static void add(struct cover *c, const struct cover_span *s)
{
    struct cover_span *last = c->count ? &c->list[c->count - 1] : NULL;
    bool same = last && last->open == s->open && (s->open || last->to.ms == s->to.ms);
    if (same || (last && last->open))
        return;
    if (last && s->from.ms + 1000 <= last->to.ms) { /* over the end of the one before */
        wall_t from = last->from;
        if (s->open || s->to.ms > last->to.ms)
            *last = *s;
        last->from = from;
        return;
    }
    wall_t from = last && s->from.ms < last->to.ms ? last->to : s->from;
    c->list = xrealloc(c->list, (c->count + 1) * sizeof *c->list);
    c->list[c->count] = *s;
    c->list[c->count++].from = from;
}

static wall_t moment_of(const struct catalog_entry *d)
{
    return (wall_t){d->m.at.ms + d->m.took_ms};
}

static void end(struct cover_span *s, wall_t at, const char *why)
{
    s->to = at.ms > s->from.ms ? at : s->from;
    snprintf(s->why, sizeof s->why, "%s", why);
}

void cover_free(struct cover *c)
{
    free(c->list);
    *c = (struct cover){0};
}

/* ---- segments ---- */

/* Does this mark end what can be had of the dump? */
static bool ends(const struct segment_mark *m, const struct catalog_entry *d)
{
    if (m->kind == CHANGE_SWAP)
        return strcmp(m->text, d->m.name) != 0;
    return m->kind == CHANGE_GAP;
}

/* Ended by a mark behind the dump? */
static bool by_marks(const struct archive_segment *s, const struct catalog_entry *d,
                     struct cover_span *span)
{
    size_t n = s->sum.mark_count < SEGMENT_MARKS ? s->sum.mark_count : SEGMENT_MARKS;
    for (size_t i = 0; i < n; i++) {
        const struct segment_mark *m = &s->sum.marks[i];
        char why[200];
        if (db_point_compare(&m->place, &d->m.end) < 0 || !ends(m, d))
            continue;
        snprintf(why, sizeof why, m->kind == CHANGE_SWAP ? "dump %s was restored" : "%s", m->text);
        end(span, m->at, why);
        return true;
    }
    if (s->sum.mark_count <= SEGMENT_MARKS)
        return false;
    end(span, s->sum.marks[SEGMENT_MARKS - 1].at, "more happened than is listed");
    return true;
}

static void by_end(const struct archive *a, size_t i, wall_t now, struct cover_span *span)
{
    const struct archive_segment *s = &a->list[i];
    const struct archive_segment *next = i + 1 < a->count ? &a->list[i + 1] : NULL;
    const char *why = s->damage[0]        ? s->damage
                      : !next             ? "the segments end"
                      : next->head.why[0] ? next->head.why
                                          : "the segments do not go on";
    end(span, s->sum.to.at, why);
    span->open = !next && !s->damage[0] && now.ms - s->sum.to.at.ms < LIVELY_MS;
}

static void reach(const struct archive *a, const struct catalog_entry *d, wall_t now,
                  struct cover *out)
{
    struct cover_span span = {.from = moment_of(d)};
    int first = archive_find(a, &d->m.end, d->m.log_born, &d->m.server);
    if (first < 0)
        return;
    size_t i = (size_t)first;
    while (!by_marks(&a->list[i], d, &span)) {
        if (!archive_goes_on(a, i)) {
            by_end(a, i, now, &span);
            break;
        }
        i++;
    }
    add(out, &span);
}

void cover_segments(const struct catalog *dumps, const struct archive *a, wall_t now,
                    struct cover *out)
{
    *out = (struct cover){0};
    for (size_t i = dumps->count; i-- > 0;)
        if (dumps->list[i].intact)
            reach(a, &dumps->list[i], now, out);
}

/* ---- the log ---- */

void cover_log(const struct catalog *dumps, const struct cover_gap *gaps, size_t count,
               struct cover *out)
{
    *out = (struct cover){0};
    for (size_t i = dumps->count; i-- > 0;) {
        const struct catalog_entry *d = &dumps->list[i];
        struct cover_span span = {.from = moment_of(d), .open = true};
        if (!d->intact || !d->m.end.file[0])
            continue;
        for (size_t g = 0; g < count && span.open; g++) {
            /* its place is behind it; one without is told by its time alone */
            bool before = gaps[g].place.file[0] ? db_point_compare(&gaps[g].place, &d->m.end) <= 0
                                                : gaps[g].at.ms < d->m.at.ms;
            if (before)
                continue;
            span.open = false;
            end(&span, gaps[g].at, gaps[g].why);
        }
        add(out, &span);
    }
}
