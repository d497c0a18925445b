#include "page/site.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "page/page.h"

#define AGAIN_MS INT64_C(60000)

enum {
    STATUS_HTML,
    PLAYERS_HTML,
    PLAYERS_JSON,
    FEED,
    BADGE,
    MADE,
    CSS = MADE,
    STATUS_JS,
    PLAYERS_JS
};
const char *const site_files[] = {"status.html",    "players.html", "players.json",
                                  "incidents.atom", "badge.svg",    "page.css",
                                  "status.js",      "players.js",   NULL};

/* Remembers what was written last, so that a file is rewritten only if its content has changed. */
struct site {
    const struct config *cfg;
    bool there;       /* the static files were written */
    char *said[MADE]; /* as last written, without the times */
    mono_t again;     /* when all files are written again, even unchanged */
};

struct site *site_new(const struct config *c)
{
    struct site *s = xcalloc(1, sizeof *s);
    s->cfg = c;
    return s;
}

void site_forget(struct site *s)
{
    s->there = false;
    for (size_t i = 0; i < MADE; i++) {
        free(s->said[i]);
        s->said[i] = NULL;
    }
}

void site_free(struct site *s)
{
    site_forget(s);
    free(s);
}

static int site_write_file(int dirfd, size_t file, const char *text, struct err *e)
{
    return file == PLAYERS_JSON /* written at each call */
               ? file_republish(dirfd, site_files[file], text, strlen(text), 0644, e)
               : file_publish(dirfd, site_files[file], text, strlen(text), 0644, e);
}

/* Writes the static files if they were not written yet. The caller has already removed the
 * temporary files of killed processes when it opened the directory. */
static int write_static(struct site *s, int dirfd, struct err *e)
{
    if (s->there)
        return 0;
    if (site_write_file(dirfd, CSS, asset_page_css, e) < 0 ||
        site_write_file(dirfd, STATUS_JS, asset_status_js, e) < 0 ||
        site_write_file(dirfd, PLAYERS_JS, asset_players_js, e) < 0)
        return -1;
    s->there = true;
    return 0;
}

/* Renders a file. Called without the times to see whether the page has changed, and again with them
 * to write a changed page. */
static void site_make(const struct config *c, size_t file, const json_t *status,
                      const json_t *history, struct buf *out)
{
    json_t *o = NULL, *short_one;
    char *text = NULL;
    buf_adds(out, "");
    switch (file) {
    case STATUS_HTML:
        o = page_status_values(c, status, history);
        page_fill(out, asset_status_html, o);
        break;
    case PLAYERS_HTML:
        o = page_players_values(c, status, clock_wall());
        page_fill(out, asset_players_html, o);
        break;
    case PLAYERS_JSON:
        o = page_players_values(c, status, clock_wall());
        short_one = page_players_json(o, status);
        text = json_dumps(short_one, JSON_COMPACT);
        buf_adds(out, text);
        json_decref(short_one);
        break;
    case FEED:
        page_feed(out, c, status, history);
        break;
    default:
        page_badge(out, c, status);
    }
    free(text);
    json_decref(o);
}

int site_publish(struct site *s, int dirfd, const json_t *status, const json_t *history,
                 struct err *e)
{
    mono_t now = clock_mono();
    bool again = mono_reached(now, s->again);
    /* The times are removed before the comparison: a page that differs only in its times has not
     * changed. */
    static const char *const times[] = {"updated", "valid_until", "valid_until_unix"};
    json_t *timeless = json_copy((json_t *)(uintptr_t)status);
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        json_object_del(timeless, times[i]);
    int rc = write_static(s, dirfd, e);
    for (size_t i = 0; i < MADE && rc == 0; i++) {
        struct buf says = {0}, text = {0};
        site_make(s->cfg, i, timeless, history, &says);
        /* The players' file expires together with the status, so it is always written. */
        bool due = again || i == PLAYERS_JSON || !s->said[i] || strcmp(s->said[i], says.p) != 0;
        if (due) {
            site_make(s->cfg, i, status, history, &text);
            rc = site_write_file(dirfd, i, text.p, e);
            free(s->said[i]);
            s->said[i] = rc == 0 ? xstrdup(says.p) : NULL;
        }
        buf_free(&says);
        buf_free(&text);
    }
    if (again)
        s->again = mono_add(now, AGAIN_MS);
    json_decref(timeless);
    return rc;
}
