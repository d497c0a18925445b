#include "cli/draw.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include "base/clock.h"
#include "base/js.h"

/* Texts of results are patterns with {fields} (draw_fill()): what is missing in the JSON is left out with the words
 * around it, so that results of other versions can be shown as well. */

struct screen screen_mode;

void draw_coloured(struct buf *b, bool on, enum colour colour, const char *s)
{
    static const char *const codes[] = {"",         "\033[1m",  "\033[2m", "\033[31m",
                                        "\033[32m", "\033[33m", "\033[36m"};
    if (on && colour != PLAIN)
        buf_printf(b, "%s%s\033[0m", codes[colour], s);
    else
        buf_adds(b, s);
}

/* Decodes one UTF-8 character; an invalid byte counts as a character. */
static size_t decode(const char *s, uint32_t *out)
{
    const unsigned char *p = (const unsigned char *)s;
    size_t n = p[0] >= 0xf0 ? 4 : p[0] >= 0xe0 ? 3 : p[0] >= 0xc0 ? 2 : 1;
    *out = n == 1 ? p[0] : p[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            *out = p[0];
            return 1;
        }
        *out = *out << 6 | (p[i] & 0x3fu);
    }
    return n;
}

struct range {
    uint32_t from, to;
};

static bool in_ranges(uint32_t c, const struct range *r, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (c >= r[i].from && c <= r[i].to)
            return true;
    return false;
}

/* Columns on a terminal: combining marks take none, East Asian characters and emoji two. */
static size_t char_width(uint32_t c)
{
    /* Of Unicode's tables only what occurs in names and messages; an unknown character counts as one column. */
    static const struct range none[] = {{0x300, 0x36f},   {0x483, 0x489},   {0x591, 0x5bd},
                                        {0x610, 0x61a},   {0x64b, 0x65f},   {0x200b, 0x200f},
                                        {0x202a, 0x202e}, {0x2060, 0x2064}, {0x20d0, 0x20f0},
                                        {0xfe00, 0xfe0f}, {0xfeff, 0xfeff}};
    static const struct range wide[] = {{0x1100, 0x115f},   {0x2e80, 0x303e},   {0x3041, 0xa4cf},
                                        {0xac00, 0xd7a3},   {0xf900, 0xfaff},   {0xfe30, 0xfe6f},
                                        {0xff00, 0xff60},   {0xffe0, 0xffe6},   {0x1f300, 0x1f64f},
                                        {0x1f680, 0x1f6ff}, {0x1f900, 0x1faff}, {0x20000, 0x3fffd}};
    if (in_ranges(c, none, sizeof none / sizeof *none))
        return 0;
    return in_ranges(c, wide, sizeof wide / sizeof *wide) ? 2 : 1;
}

size_t draw_width(const char *s)
{
    size_t width = 0;
    uint32_t c;
    while (*s) {
        s += decode(s, &c);
        width += char_width(c);
    }
    return width;
}

/* The number of bytes of `s` that fit into `width` columns. */
static size_t fitting(const char *s, size_t width)
{
    size_t used = 0, at = 0;
    uint32_t c;
    while (s[at]) {
        size_t n = decode(s + at, &c);
        if (used + char_width(c) > width)
            break;
        used += char_width(c);
        at += n;
    }
    return at;
}

void draw_padded(struct buf *b, const char *s, size_t width, bool right)
{
    /* An empty text still needs its blanks: buf_adds() makes `p` a string. */
    SCOPED(buf_free) struct buf cut = {0};
    buf_adds(&cut, "");
    /* At most `width` columns of `s`, cut between characters with "…" (or "..."). */
    const char *dots = screen_mode.utf8 ? "…" : "...";
    size_t dots_width = screen_mode.utf8 ? 1 : 3;
    if (draw_width(s) <= width) {
        buf_adds(&cut, s);
    } else if (width <= dots_width) {
        buf_add(&cut, s, fitting(s, width));
    } else {
        buf_add(&cut, s, fitting(s, width - dots_width));
        buf_adds(&cut, dots);
    }
    size_t fill = width - draw_width(cut.p);
    for (size_t i = 0; right && i < fill; i++)
        buf_addc(b, ' ');
    buf_adds(b, cut.p);
    for (size_t i = 0; !right && i < fill; i++)
        buf_addc(b, ' ');
}

/* Asked for each time: a terminal may be resized while a bar is drawn. */
size_t draw_columns(int fd)
{
    struct winsize w;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    const char *s = getenv("COLUMNS");
    long n = s ? strtol(s, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (size_t)n : 80;
}

/* A word that is longer than the terminal stays whole: it may be a path to copy. */
void draw_wrapped(const char *s, size_t used, size_t indent)
{
    size_t width = screen_mode.wrap ? draw_columns(1) : SIZE_MAX;
    SCOPED(buf_free) struct buf word = {0};
    bool first = true;
    while (*s) {
        size_t n = strcspn(s, " ");
        buf_clear(&word);
        buf_add(&word, s, n);
        size_t w = draw_width(word.p);
        if (!first && used + 1 + w > width && w + indent <= width) {
            printf("\n%*s", (int)indent, "");
            used = indent;
        } else if (!first) {
            putchar(' ');
            used++;
        }
        fputs(word.p, stdout);
        used += w;
        s += n + (s[n] == ' ');
        first = false;
    }
    putchar('\n');
}

int64_t draw_ms(double seconds)
{
    const double most = 1e15; /* ms: no real age or duration is larger */
    if (!(seconds > 0))       /* true for NaN as well */
        return 0;
    return seconds * 1000 < most ? (int64_t)(seconds * 1000) : (int64_t)most;
}

const char *draw_age(int64_t seconds, char out[TEXT_SHORT])
{
    if (seconds >= 60)
        return text_duration(draw_ms((double)seconds), out);
    snprintf(out, TEXT_SHORT, "%d s", seconds > 0 ? (int)seconds : 0);
    return out;
}

/* The code that prints a hint need not know how its commands are completed (screen_typed()). */
const char *draw_typed(struct buf *b, const char *hint)
{
    buf_clear(b);
    if (screen_mode.typed)
        screen_mode.typed(hint, b);
    else
        buf_adds(b, hint);
    return b->p;
}

/* Names come from a server, a file or another process: no escape sequence of theirs reaches the terminal. */
const char *draw_text(struct buf *b, const json_t *o, const char *key)
{
    buf_clear(b);
    text_clean(b, js_text(o, key), 4000);
    return b->p;
}

/* One field of draw_fill(); returns whether there is something to show. */
static bool add_field(struct buf *b, const json_t *o, const char *key, char format)
{
    /* A missing number reads as -1, so that 0 stays a figure to show. */
    char t[TEXT_SHORT];
    struct buf text = {0};
    const json_t *value = json_object_get(o, key);
    int64_t n = js_number(o, key, -1), now = clock_wall().ms / 1000, count = n > 0 ? n : 0;
    bool there = n >= 0;
    switch (format) {
    case 'n':
        buf_adds(b, text_count((uint64_t)count, t));
        break;
    case 'p':
        buf_adds(b, text_count((uint64_t)count, t));
        there = n > 0;
        break;
    case '?':
        buf_adds(b, n < 0 ? "?" : text_count((uint64_t)count, t));
        break;
    case 'd':
        buf_printf(b, "%" PRId64, count);
        break;
    case 'b':
        buf_adds(b, text_size((uint64_t)count, t));
        break;
    case 's':
        buf_adds(b, text_duration(draw_ms(json_number_value(value)), t));
        there = json_is_number(value);
        break;
    case 'a':
        buf_adds(b, draw_age(count, t));
        break;
    case 'u':
        there = n > 0;
        buf_adds(b, there ? draw_age(n < now ? now - n : 0, t) : "?");
        break;
    case '+':
        buf_adds(b, n == 1 ? "" : "s");
        there = true;
        break;
    default:
        draw_text(&text, o, key);
        there = text.len > 0;
        if (format == 't') {
            /* "2026-01-31T23:59:59Z" in a readable form. */
            size_t len = strlen(text.p);
            if (len >= 20 && text.p[10] == 'T' && text.p[len - 1] == 'Z' &&
                (len == 20 || text.p[19] == '.'))
                buf_printf(b, "%.10s %.8s UTC", text.p, text.p + 11);
            else
                buf_adds(b, len ? text.p : "?");
        } else {
            buf_add(b, text.p, text.len);
        }
        buf_free(&text);
    }
    return there;
}

const char *draw_fill(struct buf *b, const json_t *o, const char *as)
{
    /* What a group in [...] has added is taken back if one of its fields had nothing to show. */
    size_t group = 0; /* where the text of [...] begins */
    bool whole = true;
    buf_adds(b, "");
    for (; *as; as++) {
        if (*as == '[') {
            group = b->len;
            whole = true;
        } else if (*as == ']' && !whole) {
            b->len = group;
            b->p[group] = '\0';
        } else if (*as == '{') {
            char key[40];
            size_t len = strcspn(++as, ":}");
            snprintf(key, sizeof key, "%.*s", (int)len, as);
            char format = as[len] == ':' ? as[len + 1] : '\0';
            whole = add_field(b, o, key, format) && whole;
            as += strcspn(as, "}");
        } else if (*as != ']') {
            buf_addc(b, *as);
        }
    }
    return b->p;
}

void draw_line(const json_t *o, const char *as)
{
    SCOPED(buf_free) struct buf b = {0};
    puts(draw_fill(&b, o, as));
}

void draw_hint(int indent, const char *hint)
{
    SCOPED(buf_free) struct buf b = {0};
    if (hint[0])
        printf("%*sHINT: %s\n", indent, "", draw_typed(&b, hint));
}

void draw_headline(const char *word, enum colour colour, const char *rest)
{
    SCOPED(buf_free) struct buf b = {0};
    draw_coloured(&b, screen_mode.out_colour, colour, word);
    printf("%s%s%s\n", b.p, rest[0] ? " " : "", rest);
}

/* A table. A column is as wide as its widest cell; the last one is not padded. */
struct cells {
    char **text;
    size_t columns, count;
    bool right[DRAW_COLUMNS];
};

static void cells_add(struct cells *t, const char *s)
{
    t->text = xrealloc(t->text, (t->count + 1) * sizeof *t->text);
    t->text[t->count++] = xstrdup(s);
}

static void cells_free(struct cells *t)
{
    for (size_t i = 0; i < t->count; i++)
        free(t->text[i]);
    free(t->text);
    t->text = NULL;
    t->count = 0;
}

/* All texts are made before one is printed: the widths depend on the last row, too. */
void draw_table(const json_t *list, const struct column *columns, size_t n)
{
    SCOPED(cells_free) struct cells t = {.columns = n};
    SCOPED(buf_free) struct buf b = {0};
    size_t i;
    json_t *o;
    for (size_t c = 0; c < n; c++) {
        t.right[c] = columns[c].right;
        cells_add(&t, columns[c].head);
    }
    json_array_foreach(list, i, o)
    {
        for (size_t c = 0; c < n; c++) {
            buf_clear(&b);
            draw_fill(&b, o, columns[c].as ? columns[c].as : "");
            if (columns[c].cell)
                columns[c].cell(&b, o);
            cells_add(&t, b.p);
        }
    }
    SCOPED(xfree) size_t *width = xcalloc(t.columns, sizeof *width);
    for (size_t k = 0; k < t.count; k++) {
        size_t w = draw_width(t.text[k]);
        if (w > width[k % t.columns])
            width[k % t.columns] = w;
    }
    for (size_t row = 0; row * t.columns < t.count; row++) {
        SCOPED(buf_free) struct buf line = {0}, shown = {0};
        for (size_t k = 0; k < t.columns && row * t.columns + k < t.count; k++) {
            const char *s = t.text[row * t.columns + k];
            bool last = k + 1 == t.columns, right = t.right[k];
            buf_adds(&line, k ? "  " : "");
            draw_padded(&line, s, last && !right ? draw_width(s) : width[k], right);
        }
        while (line.len && line.p[line.len - 1] == ' ')
            line.p[--line.len] = '\0';
        draw_coloured(&shown, screen_mode.out_colour && row == 0, BOLD, line.p);
        puts(shown.p);
    }
}
