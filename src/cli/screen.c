#include "cli/screen.h"

#include <langinfo.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/js.h"
#include "cli/draw.h"

/* The bar is the last line on standard error. Any other output first removes it, and it is drawn
 * again afterwards. */

/* Interval of plain lines in logs of cron and systemd: often enough to show progress, rarely enough
 * to be readable. */
#define PLAIN_EVERY_MS 10000
#define RATE_AFTER_MS 300  /* before that, a rate is noise */
#define LEFT_AFTER_MS 1000 /* the same for the time left */
#define BAR_MAX 40
#define LABEL_MAX 32
#define HEAD_MIN 30 /* label and bar together */

/* The bar as it was last drawn. */
static struct {
    char phase[64];
    json_t *event;   /* the last event of this phase */
    bool open;       /* its line on the terminal has no newline yet */
    mono_t plain_at; /* last plain line */
} bar;

/* Returns whether the locale uses UTF-8. It does not call setlocale(), which would change the whole
 * program. */
static bool locale_is_utf8(void)
{
    locale_t l = newlocale(LC_CTYPE_MASK, "", (locale_t)0);
    if (l == (locale_t)0)
        return false;
    bool utf8 = strcmp(nl_langinfo_l(CODESET, l), "UTF-8") == 0;
    freelocale(l);
    return utf8;
}

void screen_open(int quiet, int verbose)
{
    const char *term = getenv("TERM"), *no_colour = getenv("NO_COLOR");
    bool can = term && term[0] && strcmp(term, "dumb") != 0;
    bool colours = can && !(no_colour && no_colour[0]);
    json_decref(bar.event);
    memset(&bar, 0, sizeof bar);
    screen_mode = (struct screen){.quiet = quiet != 0,
                                  .verbose = verbose != 0,
                                  .utf8 = locale_is_utf8(),
                                  .out_colour = colours && isatty(1),
                                  .err_colour = colours && isatty(2),
                                  .bar = can && isatty(2),
                                  .wrap = isatty(1) != 0};
}

void screen_world(const struct config *world)
{
    screen_mode.world = world;
}

/* Progress */

struct measure {
    int64_t rows, bytes, percent, ms; /* percent -1: unknown; ms of the phase */
    double part;                      /* 0..1, or -1: unknown */
};

/* Returns the share that is done, from 0 to 1, or -1 if the total is not known. */
static double screen_share(int64_t done, int64_t total)
{
    double part = total > 0 ? (double)done / (double)total : -1;
    return part > 1 ? 1 : part;
}

/* Measures progress by bytes, else by rows, else by the job's own percentage. */
static struct measure screen_measure(const json_t *p)
{
    struct measure m = {.rows = js_number(p, "rows", 0),
                        .bytes = js_number(p, "bytes", 0),
                        .percent = js_number(p, "percent", -1),
                        .ms = js_number(p, "phase_ms", 0)};
    m.part = screen_share(m.bytes, js_number(p, "bytes_total", 0));
    if (m.part < 0)
        m.part = screen_share(m.rows, js_number(p, "rows_total", 0));
    if (m.part < 0 && m.percent >= 0)
        m.part = screen_share(m.percent, 100);
    if (m.percent < 0 && m.part >= 0)
        m.percent = (int64_t)(m.part * 100);
    if (m.percent > 100)
        m.percent = 100;
    return m;
}

/* Adds the rate in bytes if they are known, because rows of different tables differ in size. */
static void add_rate(struct buf *b, const char *before, const struct measure *m)
{
    char t[TEXT_SHORT];
    if (m->ms < RATE_AFTER_MS || (m->bytes <= 0 && m->rows <= 0))
        return;
    double rate = (double)(m->bytes > 0 ? m->bytes : m->rows) * 1000.0 / (double)m->ms;
    rate = rate < 1e18 ? rate : 1e18; /* above UINT64_MAX the conversion is undefined */
    if (m->bytes > 0)
        buf_printf(b, "%s%s/s", before, text_size((uint64_t)rate, t));
    else
        buf_printf(b, "%s%s rows/s", before, text_count((uint64_t)rate, t));
}

/* Adds the time left, assuming constant speed. Shows nothing in the first moments, when the
 * estimate would be unreliable. */
static void add_left(struct buf *b, const char *before, const struct measure *m)
{
    char t[TEXT_SHORT];
    if (m->ms < LEFT_AFTER_MS || m->part <= 0.01 || m->part >= 1)
        return;
    double left = (double)m->ms * (1 - m->part) / m->part;
    buf_printf(b, "%s%s left", before, draw_age(draw_ms(left / 1000) / 1000 + 1, t));
}

static void screen_add_label(struct buf *b, const json_t *p)
{
    SCOPED(buf_free) struct buf t = {0};
    buf_adds(b, draw_text(&t, p, "phase"));
    if (js_text(p, "table")[0])
        buf_printf(b, " %s", draw_text(&t, p, "table"));
}

/* Adds the figures after the bar, always of about the same width, so that the bar does not jump.
 * `level`: 0 all, 1 without the rate, 2 without rate and time left, 3 only the percentage. */
static void screen_add_figures(struct buf *b, const struct measure *m, const json_t *p, int level)
{
    char t[TEXT_SHORT], widest[TEXT_SHORT];
    SCOPED(buf_free) struct buf rate = {0}, left = {0};
    buf_adds(b, "");
    buf_adds(&rate, "");
    buf_adds(&left, "");
    int64_t total = js_number(p, "rows_total", 0), most = total > m->rows ? total : m->rows;
    add_rate(&rate, "", m);
    add_left(&left, "", m);
    if (m->percent >= 0)
        buf_printf(b, "%3d%%", (int)m->percent);
    if (most > 0 && level < 3)
        buf_printf(b, "  %*s rows", (int)strlen(text_count((uint64_t)most, widest)),
                   text_count((uint64_t)(m->rows > 0 ? m->rows : 0), t));
    if (level < 1) {
        buf_adds(b, "  ");
        draw_padded(b, rate.p, rate.len > 12 ? draw_width(rate.p) : 12, true);
    }
    if (level < 2 && m->part >= 0) {
        buf_adds(b, "  ");
        draw_padded(b, left.p, 12, false);
    }
}

static void add_bar(struct buf *b, double part, size_t width)
{
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    SCOPED(buf_free) struct buf full = {0};
    size_t steps = (size_t)(part * (double)width * 8), cells = 0;
    buf_adds(&full, "");
    for (; cells < steps / 8; cells++)
        buf_adds(&full, screen_mode.utf8 ? "█" : "#");
    if (screen_mode.utf8 && steps % 8 && cells < width) {
        buf_adds(&full, eighths[steps % 8]);
        cells++;
    }
    buf_adds(b, screen_mode.utf8 ? "▕" : "[");
    draw_coloured(b, screen_mode.err_colour, GREEN, full.p);
    for (; cells < width; cells++)
        buf_addc(b, screen_mode.utf8 ? ' ' : '.');
    buf_adds(b, screen_mode.utf8 ? "▏" : "]");
}

/* Adds the label, the bar and the figures, which share the terminal's width. The figures are
 * shortened first. */
static void screen_add_line(struct buf *line, const json_t *p, const struct measure *m, size_t room)
{
    SCOPED(buf_free) struct buf label = {0}, figures = {0};
    size_t head = 0, tail = 0;
    screen_add_label(&label, p);
    for (int level = 0; level < 4 && head < HEAD_MIN; level++) {
        buf_clear(&figures);
        screen_add_figures(&figures, m, p, level);
        tail = draw_width(figures.p);
        head = room > tail + 1 ? room - tail - 1 : 0;
    }
    bool with_bar = m->part >= 0 && head >= HEAD_MIN;
    size_t name = with_bar ? head / 2 : head;
    name = name > LABEL_MAX ? LABEL_MAX : name;
    draw_padded(line, label.p, name, false);
    if (with_bar) {
        size_t left = head - name - 3;
        buf_addc(line, ' ');
        add_bar(line, m->part, left > BAR_MAX ? BAR_MAX : left);
    }
    if (head) {
        buf_addc(line, ' ');
        buf_adds(line, figures.p);
    }
}

static void draw_bar(const json_t *p, bool whole)
{
    SCOPED(buf_free) struct buf line = {0};
    struct measure m = screen_measure(p);
    size_t columns = draw_columns(2);
    if (whole) {
        int64_t total = js_number(p, "rows_total", 0);
        m.percent = 100;
        m.part = 1;
        m.rows = total > m.rows ? total : m.rows;
    }
    buf_adds(&line, "\r");
    screen_add_line(&line, p, &m, columns > 1 ? columns - 1 : 1); /* the last column would wrap */
    buf_adds(&line, "\033[K");
    fwrite(line.p, 1, line.len, stderr);
    fflush(stderr);
    bar.open = true;
}

static void screen_on_progress(json_t *p)
{
    bool changed = strcmp(bar.phase, js_text(p, "phase")) != 0;
    if (js_text(p, "phase")[0] == '\0')
        return;
    if (changed && screen_mode.bar && bar.event && screen_measure(bar.event).part >= 0)
        draw_bar(bar.event, true); /* a phase that ended is shown as complete */
    snprintf(bar.phase, sizeof bar.phase, "%s", js_text(p, "phase"));
    json_decref(bar.event);
    bar.event = json_incref(p);
    if (screen_mode.bar)
        draw_bar(p, false);
    else if (changed || mono_since(clock_mono(), bar.plain_at) >= PLAIN_EVERY_MS) {
        /* If no bar can be drawn, a plain line is printed. It has no figures if the phase has just
         * begun. */
        SCOPED(buf_free) struct buf line = {0};
        struct measure m = screen_measure(p);
        screen_add_label(&line, p);
        if (!changed) {
            if (m.percent >= 0)
                buf_printf(&line, ", %d%%", (int)m.percent);
            draw_fill(&line, p, "[, {rows:p} rows]");
            add_rate(&line, ", ", &m);
            add_left(&line, ", ", &m);
        }
        fprintf(stderr, "worldkeeper: %s\n", line.p);
        bar.plain_at = clock_mono();
    }
}

static void clear_bar(void)
{
    if (bar.open)
        fputs("\r\033[K", stderr);
    bar.open = false;
    fflush(stderr);
}

/* Shows an event. A note ends the bar's line; the bar is drawn again below it. */
void screen_event(const json_t *o)
{
    SCOPED(buf_free) struct buf b = {0}, line = {0};
    json_t *p = json_object_get(o, "progress");
    if (screen_mode.quiet)
        return;
    if (json_is_object(p))
        screen_on_progress(p);
    if (json_is_string(json_object_get(o, "note"))) {
        clear_bar();
        draw_coloured(&line, screen_mode.err_colour, CYAN, draw_text(&b, o, "note"));
        fprintf(stderr, "%s%s\n", screen_mode.bar ? "" : "worldkeeper: ", line.p);
        if (screen_mode.bar && bar.event)
            draw_bar(bar.event, false);
    }
}

void screen_done(void)
{
    clear_bar();
    json_decref(bar.event);
    bar.event = NULL;
    bar.phase[0] = '\0';
}

/* Errors and JSON */

/* Prints an error. The text is cleaned again, because it may have come from a server, over a
 * socket. */
void screen_error(const struct err *e)
{
    SCOPED(buf_free) struct buf b = {0}, line = {0};
    clear_bar();
    text_clean(&b, e->text, sizeof e->text);
    draw_coloured(&line, screen_mode.err_colour, RED, "worldkeeper:");
    fprintf(stderr, "%s %s\n", line.p, b.p);
    buf_clear(&b);
    buf_clear(&line);
    text_clean(&b, e->hint, sizeof e->hint);
    draw_coloured(&line, screen_mode.err_colour, YELLOW, "HINT:");
    if (e->hint[0])
        fprintf(stderr, "%s %s\n", line.p, b.p);
}

/* The keys of the outer object are an interface. The exit status is included for tools that see
 * only the output. */
void screen_json(enum action action, const json_t *result, const struct err *e, int exit_status)
{
    json_auto_t *o = json_pack("{s:s, s:b, s:i}", "action", action_name(action), "ok",
                               exit_status == 0, "exit", exit_status);
    json_auto_t *copy = result ? json_deep_copy(result) : NULL;
    /* --status has the keys of status.json at the top level, as in that file. */
    if (copy && action == ACTION_STATUS)
        json_object_update_missing(o, copy);
    else if (copy)
        json_object_set(o, "result", copy);
    if (e) {
        json_t *why = json_pack("{s:s, s:i}", "class", err_class_name(e->cls), "num", e->num);
        js_set_clean(why, "text", e->text);
        js_set_clean(why, "hint", e->hint);
        json_object_set_new(o, "error", why);
    }
    SCOPED(xfree) char *s = json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(9));
    SCOPED(buf_free) struct buf b = {0};
    text_escape_json(&b, s ? s : "{}");
    puts(b.p);
    fflush(stdout);
}
