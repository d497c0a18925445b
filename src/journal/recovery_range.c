#include "journal/recovery_range.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/line.h"

#define LIVELY_MS 10000   /* a segment that is being followed is written each second */
#define FINALIZED_MS 2000 /* a finalized segment has a successor by then */
#define LOST_MS 1000      /* --at includes the whole second */

/* Adds a span. Spans are added in the order of their beginnings, and dumps with the same end
 * make one span. The time of a dump taken because a span ended has whole seconds, so it may
 * equal that end. */
static void recovery_range_add(struct recovery_range *c, const struct recovery_range_span *s)
{
    struct recovery_range_span *last = c->count ? &c->list[c->count - 1] : NULL;
    bool same = last && last->open == s->open && (s->open || last->to.ms == s->to.ms);
    if (same || (last && last->open))
        return;
    if (last && s->from.ms + 1000 <= last->to.ms) { /* overlaps the end of the previous span */
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

static wall_t recovery_range_moment_of(const struct catalog_entry *d)
{
    return (wall_t){d->m.at.ms + d->m.took_ms};
}

static void recovery_range_end(struct recovery_range_span *s, wall_t at, const char *why)
{
    s->to = at.ms > s->from.ms ? at : s->from;
    line_set(s->why, sizeof s->why, "%s", why);
}

void recovery_range_free(struct recovery_range *c)
{
    free(c->list);
    *c = (struct recovery_range){0};
}

/* ---- segments ---- */

/* How far one dump reaches, computed while its segments are read. */
struct walk {
    const struct catalog_entry *d;
    struct recovery_range_span span;
    bool lost; /* there is no world until the next restore */
    struct recovery_range *out;
};

static void close_span(struct walk *w, wall_t at, const char *why)
{
    if (w->lost)
        return;
    recovery_range_end(&w->span, at, why);
    recovery_range_add(w->out, &w->span);
}

/* Returns whether this mark ends what can be restored from the dump. No moment can be restored
 * between a loss and the restore that loaded this dump with all later changes. */
static bool ended_by(struct walk *w, const struct segment_mark *m)
{
    char why[200];
    bool ours = m->kind == CHANGE_SWAP && w->lost && strcmp(m->text, w->d->m.name) == 0;
    if (m->kind == CHANGE_LOST) {
        close_span(w, (wall_t){m->at.ms - LOST_MS}, "the world was lost");
        w->lost = true;
    } else if (ours) {
        w->span = (struct recovery_range_span){.from = m->at};
        w->lost = false;
    } else if (!w->lost) {
        line_set(why, sizeof why, m->kind == CHANGE_SWAP ? "dump %s was restored" : "%s", m->text);
        close_span(w, m->at, why);
        return true;
    }
    return m->kind == CHANGE_SWAP && !ours;
}

/* Returns whether a mark after the dump ends what can be restored from it. */
static bool by_marks(const struct archive_segment *s, struct walk *w)
{
    size_t n = s->sum.mark_count < SEGMENT_MARKS ? s->sum.mark_count : SEGMENT_MARKS;
    for (size_t i = 0; i < n; i++) {
        const struct segment_mark *m = &s->sum.marks[i];
        if (db_binlog_pos_compare(&m->place, &w->d->m.end) >= 0 && ended_by(w, m))
            return true;
    }
    if (s->sum.mark_count <= SEGMENT_MARKS)
        return false;
    close_span(w, s->sum.marks[SEGMENT_MARKS - 1].at, "more events than can be listed");
    return true;
}

static void recovery_range_reach(const struct archive *a, const struct catalog_entry *d, wall_t now,
                                 struct recovery_range *out)
{
    struct walk w = {.d = d, .span = {.from = recovery_range_moment_of(d)}, .out = out};
    int first = archive_find(a, &d->m.end, d->m.log_created_at, &d->m.server);
    if (first < 0)
        return;
    size_t i = (size_t)first;
    while (!by_marks(&a->list[i], &w)) {
        if (archive_continues(a, i)) {
            i++;
            continue;
        }
        const struct archive_segment *s = &a->list[i];
        const struct archive_segment *next = i + 1 < a->count ? s + 1 : NULL;
        int64_t lively = s->finalized ? FINALIZED_MS : LIVELY_MS;
        w.span.open = !next && !s->damage[0] && now.ms - s->sum.to.at.ms < lively;
        close_span(&w, s->sum.to.at,
                   s->damage[0]        ? s->damage
                   : !next             ? "the segments end"
                   : next->head.why[0] ? next->head.why
                                       : "the next segment is missing");
        break;
    }
}

void recovery_range_segments(const struct catalog *dumps, const struct archive *a, wall_t now,
                             struct recovery_range *out)
{
    *out = (struct recovery_range){0};
    for (size_t i = dumps->count; i-- > 0;)
        if (catalog_usable(&dumps->list[i]))
            recovery_range_reach(a, &dumps->list[i], now, out);
}

/* ---- the binlog ---- */

/* Returns the next MEMORY table. If the tables of two consecutive dumps differ, there was a gap
 * that may have gone unnoticed. The newer dump then starts a new span. */
static const struct manifest_table *next_memory(const struct manifest *m, size_t *i)
{
    while (*i < m->table_count && strcasecmp(m->tables[*i].engine, "MEMORY") != 0)
        ++*i;
    return *i < m->table_count ? &m->tables[(*i)++] : NULL;
}

/* Compares the MEMORY tables of two dumps, which are sorted by name. */
static bool is_same_world(const struct manifest *a, const struct manifest *b)
{
    const struct manifest_table *x, *y;
    size_t i = 0, k = 0;
    do {
        x = next_memory(a, &i);
        y = next_memory(b, &k);
    } while (x && y && strcmp(x->name, y->name) == 0 &&
             strcmp(x->columns_hash, y->columns_hash) == 0);
    return !x && !y && a->generation == b->generation;
}

/* Returns whether the gap is after the dump. A gap without a position is compared by its time
 * alone. */
static bool is_after(const struct segment_mark *gap, const struct manifest *m)
{
    return gap->place.file[0] ? db_binlog_pos_compare(&gap->place, &m->end) > 0
                              : gap->at.ms >= m->at.ms;
}

/* Returns whether the server's log has this position. */
static bool has_position(const struct recovery_range_server *server, const struct db_binlog_pos *p)
{
    for (size_t i = 0; i < server->file_count; i++)
        if (strcmp(server->files[i].name, p->file) == 0)
            return server->files[i].size >= p->pos;
    return false;
}

/* Returns how many of the newest dumps the server's log may continue. If it lacks the position of a
 * dump of this server, it was purged or reset since, and continues no older dump. */
static size_t recovery_range_kept(const struct catalog *dumps,
                                  const struct recovery_range_server *server)
{
    size_t n = 0;
    while (n < dumps->count && (!dumps->list[n].m.end.file[0] ||
                                !server_same_place(&server->id, &dumps->list[n].m.server) ||
                                has_position(server, &dumps->list[n].m.end)))
        n++;
    return n;
}

/* Returns whether a range begins at the dump, which the server's log continues if it is of this
 * server. */
static bool recovery_range_begins(const struct catalog_entry *d,
                                  const struct recovery_range_server *server)
{
    return catalog_usable(d) && d->m.end.file[0] && server_same_place(&server->id, &d->m.server);
}

void recovery_range_log(const struct catalog *dumps, const struct segment_mark *gaps, size_t count,
                        const struct recovery_range_server *server, struct recovery_range *out)
{
    bool same = !dumps->count || (server->world && is_same_world(&dumps->list[0].m, server->world));
    *out = (struct recovery_range){0};
    /* For each dump the newest one such that all dumps from the one to the other have the same
     * tables. */
    SCOPED(xfree) size_t *alike = xcalloc(dumps->count + 1, sizeof *alike);
    for (size_t i = 0; i < dumps->count; i++)
        alike[i] = i && is_same_world(&dumps->list[i].m, &dumps->list[i - 1].m) ? alike[i - 1] : i;
    for (size_t i = recovery_range_kept(dumps, server); i-- > 0;) {
        const struct catalog_entry *d = &dumps->list[i];
        struct recovery_range_span span = {.from = recovery_range_moment_of(d)};
        if (!recovery_range_begins(d, server))
            continue;
        const struct segment_mark *gap = NULL; /* the first known gap after the dump */
        for (size_t g = 0; g < count && !gap; g++)
            gap = is_after(&gaps[g], &d->m) ? &gaps[g] : NULL;
        size_t last = alike[i];
        wall_t proven = recovery_range_moment_of(&dumps->list[last]);
        span.open = !gap && last == 0 && same;
        /* A known gap before the dump that differs explains the difference. */
        if (gap && (last == 0 || !is_after(gap, &dumps->list[last - 1].m)))
            recovery_range_end(&span, gap->at, gap->text);
        else if (last > 0)
            recovery_range_end(&span, proven,
                               "the next dump has other tables, or is of another world");
        else if (!same)
            recovery_range_end(&span, proven,
                               server->world
                                   ? "the tables are different now, or this is another world"
                                   : "the present state of the world is unknown");
        recovery_range_add(out, &span);
    }
}
