#include "cli/draw.h"

#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <wchar.h>

#include "actions/hint_command.h"
#include "base/clock.h"
#include "base/js.h"
#include "base/steps.h"

/* Texts of results are patterns with {fields} (draw_fill()). If a field is missing in the JSON, it
 * is left out together with the words around it. Results of other versions can therefore be shown
 * as well. */

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

/* Returns the number of bytes of the first character of `s`, which is not empty, and its terminal
 * columns. Combining marks take none; East Asian characters and emoji take two. An invalid byte, or
 * a character that libc does not know, takes one. The text is UTF-8 in every locale. */
static size_t first_char(const char *s, size_t *columns)
{
    static locale_t utf8;
    wchar_t c;
    if (!utf8)
        utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
    if (!utf8) { /* no locale files: each character counts as one column, and none is split */
        size_t bytes = 1;
        while (((unsigned char)s[bytes] & 0xc0) == 0x80)
            bytes++;
        *columns = 1;
        return bytes;
    }
    locale_t before = uselocale(utf8);
    size_t n = mbrtowc(&c, s, strnlen(s, MB_LEN_MAX), &(mbstate_t){0});
    int width = n <= MB_LEN_MAX ? wcwidth(c) : 1;
    uselocale(before);
    *columns = width < 0 ? 1 : (size_t)width;
    return n <= MB_LEN_MAX ? n : 1;
}

size_t draw_width(const char *s)
{
    size_t width = 0, columns;
    while (*s) {
        s += first_char(s, &columns);
        width += columns;
    }
    return width;
}

/* Returns the number of bytes of `s` that fit into `width` columns. */
static size_t draw_fitting(const char *s, size_t width)
{
    size_t used = 0, at = 0, columns;
    while (s[at]) {
        size_t n = first_char(s + at, &columns);
        if (used + columns > width)
            break;
        used += columns;
        at += n;
    }
    return at;
}

void draw_padded(struct buf *b, const char *s, size_t width, bool right)
{
    const char *dots = screen_mode.utf8 ? "…" : "...";
    size_t dots_width = screen_mode.utf8 ? 1 : 3;
    bool cut = draw_width(s) > width && width > dots_width;
    SCOPED(buf_free) struct buf shown = {0};
    buf_add(&shown, s, draw_fitting(s, cut ? width - dots_width : width));
    buf_adds(&shown, cut ? dots : "");
    int fill = (int)(width - draw_width(shown.p));
    buf_printf(b, "%*s%s%*s", right ? fill : 0, "", shown.p, right ? 0 : fill, "");
}

/* Returns the terminal's width. It is queried each time, because the terminal may be resized while
 * a bar is drawn. */
size_t draw_columns(int fd)
{
    struct winsize w;
    if (ioctl(fd, TIOCGWINSZ, &w) == 0 && w.ws_col > 0)
        return w.ws_col;
    const char *s = getenv("COLUMNS");
    long n = s ? strtol(s, NULL, 10) : 0;
    return n > 0 && n < 10000 ? (size_t)n : 80;
}

/* Prints wrapped text. A word that is wider than the terminal is not broken, because it may be a
 * path to copy. */
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

const char *draw_typed(struct buf *b, const char *hint)
{
    buf_clear(b);
    if (screen_mode.world)
        hint_command(screen_mode.world, HINT_HERE, hint, b);
    else
        buf_adds(b, hint);
    return b->p;
}

/* Returns a text without escape sequences, because names come from a server, a file or another
 * process. */
const char *draw_text(struct buf *b, const json_t *o, const char *key)
{
    buf_clear(b);
    text_clean(b, js_text(o, key), 4000);
    return b->p;
}

/* Appends one field of draw_fill(). Returns false if there is nothing to show. */
static bool add_field(struct buf *b, const json_t *o, const char *key, char format)
{
    /* A missing number is read as -1, so that 0 is still shown. */
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
        buf_adds(b, there ? text_size((uint64_t)count, t) : "?");
        break;
    case 's':
        there = json_is_number(value);
        buf_adds(b, there ? text_elapsed(draw_ms(json_number_value(value)), t) : "?");
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
        /* Milliseconds are dropped: "2026-01-31T23:59:59Z" is the format that --at takes. */
        if (format == 't' && text.len >= 20 && text.p[10] == 'T' && text.p[text.len - 1] == 'Z' &&
            (text.len == 20 || text.p[19] == '.'))
            buf_printf(b, "%.19sZ", text.p);
        else
            buf_adds(b, format == 't' && !there ? "?" : text.p);
        buf_free(&text);
    }
    return there;
}

const char *draw_fill(struct buf *b, const json_t *o, const char *as)
{
    /* The text of a group in [...] is removed if one of its fields has nothing to show. */
    size_t group = 0; /* start of the text of [...] */
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
    SCOPED(buf_free) struct buf b = {0}, clean = {0};
    text_clean(&clean, hint, 4000);
    if (hint[0])
        printf("%*sHINT: %s\n", indent, "", draw_typed(&b, clean.p));
}

void draw_steps(size_t indent, const char *hint)
{
    SCOPED(buf_free) struct buf b = {0}, clean = {0};
    SCOPED(steps_free) struct steps s = {0};
    text_clean(&clean, hint, 4000);
    if (!hint[0] || strcmp(hint, "nothing") == 0)
        return;
    steps_split(draw_typed(&b, clean.p), &s);
    if (s.prose.len) {
        printf("%*s", (int)indent, "");
        draw_wrapped(s.prose.p, indent, indent);
    }
    for (size_t i = 0; i < s.count; i++) {
        if (s.list[i].does.len) {
            buf_addc(&s.list[i].does, ':');
            printf("%*s", (int)indent, "");
            draw_wrapped(s.list[i].does.p, indent, indent);
        }
        printf("%*s%s\n", (int)indent, "", s.list[i].command.p);
    }
}

void draw_headline(const char *word, enum colour colour, const char *rest)
{
    SCOPED(buf_free) struct buf b = {0};
    draw_coloured(&b, screen_mode.out_colour, colour, word);
    printf("%s%s%s\n", b.p, rest[0] ? " " : "", rest);
}

/* Prints a table. A column is as wide as its widest cell; the last one is not padded. All cells are
 * filled before any is printed, because the widths depend on the last row too. */
void draw_table(const json_t *list, const struct column *columns, size_t n)
{
    size_t rows = json_array_size(list) + 1, width[DRAW_COLUMNS] = {0};
    struct buf *cells = xcalloc(rows * n, sizeof *cells);
    for (size_t k = 0; k < rows * n; k++) {
        const struct column *c = &columns[k % n];
        const json_t *o = json_array_get(list, k / n - 1);
        draw_fill(&cells[k], o, k < n ? c->head : c->as ? c->as : "");
        if (k >= n && c->cell)
            c->cell(&cells[k], o);
        size_t w = draw_width(cells[k].p);
        width[k % n] = w > width[k % n] ? w : width[k % n];
    }
    for (size_t row = 0; row < rows; row++) {
        SCOPED(buf_free) struct buf line = {0}, shown = {0};
        for (size_t k = 0; k < n; k++) {
            struct buf *cell = &cells[row * n + k];
            bool last = k + 1 == n, right = columns[k].right;
            buf_adds(&line, k ? "  " : "");
            draw_padded(&line, cell->p, last && !right ? draw_width(cell->p) : width[k], right);
            buf_free(cell);
        }
        while (line.len && line.p[line.len - 1] == ' ')
            line.p[--line.len] = '\0';
        draw_coloured(&shown, screen_mode.out_colour && row == 0, BOLD, line.p);
        puts(shown.p);
    }
    free(cells);
}
