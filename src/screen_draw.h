/* Inside of the screen: what its parts share. Widths are columns of a terminal, not bytes. */
#ifndef WK_SCREEN_DRAW_H
#define WK_SCREEN_DRAW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "core/text.h"

struct screen {
    bool quiet, verbose;
    bool utf8; /* the locale's characters are UTF-8 */
    bool out_colour,
        err_colour; /* standard output / standard error is a terminal that shows colours */
    bool bar;       /* standard error is a terminal that can redraw a line */
    bool wrap;      /* standard output is a terminal: long texts are broken */
    void (*typed)(const char *hint, struct buf *out); /* NULL: none */
};
extern struct screen screen_mode;

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN };
/* `s` in a colour when `on`. */
void draw_coloured(struct buf *b, bool on, enum colour colour, const char *s);

size_t draw_width(const char *s);
/* At most `width` columns of `s`, cut between characters with "…" (or "..."). */
void draw_cut(struct buf *b, const char *s, size_t width);
/* Exactly `width` columns: cut, or filled with spaces (before it with `right`). */
void draw_padded(struct buf *b, const char *s, size_t width, bool right);
/* Columns of the terminal behind `fd`, else $COLUMNS, else 80. */
size_t draw_columns(int fd);
/* Prints `s`; on a terminal broken between words, the following lines indented. `used`: columns
 * that the line has already. */
void draw_wrapped(const char *s, size_t used, size_t indent);

/* A table: the widest cell decides; the last column is not filled. */
struct cells {
    char **text;
    size_t columns, count;
    const char *align; /* "lrr…": one letter a column */
};
void cells_add(struct cells *t, const char *s);
void cells_print(struct cells *t, bool heading);
void cells_free(struct cells *t);

/* "0 s", "59 s", "3m 05s", …: an age in whole seconds. */
const char *draw_age(int64_t seconds, char out[TEXT_SHORT]);

/* Milliseconds for text_duration(), of seconds that may be anything. */
int64_t draw_ms(double seconds);

/* Clean text of a JSON field: control characters are made harmless again, wherever it came from. */
const char *draw_text(struct buf *b, const json_t *o, const char *key);

/* The hint with its commands made whole. */
const char *draw_typed(struct buf *b, const char *hint);

/* screen_status.c, screen_result.c */
void screen_status(const json_t *o);
void screen_check(const json_t *o);
void screen_list(const json_t *o);
void screen_restore(const json_t *o);
void screen_drill(const json_t *o);

#endif
