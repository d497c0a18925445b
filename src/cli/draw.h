/* What the views of this folder are drawn with. Widths are terminal columns, not bytes. */
#ifndef WK_CLI_DRAW_H
#define WK_CLI_DRAW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"

struct config;

struct screen {
    bool quiet, verbose; /* as the options say */
    bool utf8;           /* the locale's characters are UTF-8 */
    bool out_colour,
        err_colour; /* standard output / standard error is a terminal that shows colours */
    bool bar;       /* standard error is a terminal that can redraw a line */
    bool wrap;      /* standard output is a terminal: long texts are wrapped */
    const struct config *world; /* that commands in hints name; NULL: none, they stay as they are */
};
extern struct screen screen_mode;

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN };
/* `s` in a colour if `on`. */
void draw_coloured(struct buf *b, bool on, enum colour colour, const char *s);

size_t draw_width(const char *s);
/* Exactly `width` columns: cut, or padded with spaces (`right`: right-aligned). */
void draw_padded(struct buf *b, const char *s, size_t width, bool right);
/* Columns of the terminal that `fd` is, else $COLUMNS, else 80. */
size_t draw_columns(int fd);
/* Prints `s`; on a terminal wrapped between words, with the following lines indented. `used`:
 * columns already printed on the line. */
void draw_wrapped(const char *s, size_t used, size_t indent);

/* A table of the objects in `list`, or nothing but its head. */
#define DRAW_COLUMNS 8
struct column {
    const char *head, *as; /* as: for draw_fill(); NULL: by the function */
    void (*cell)(struct buf *b, const json_t *o);
    bool right;
};
void draw_table(const json_t *list, const struct column *columns, size_t n);
#define DRAW_TABLE(list, columns) draw_table((list), (columns), sizeof(columns) / sizeof *(columns))

/* "0 s", "59 s", "3m 05s", …: an age in whole seconds. */
const char *draw_age(int64_t seconds, char out[TEXT_SHORT]);

/* Appends `as` with the fields of `o` in it:
 *   {key}    its text, clean
 *   {key:n}  a number as "3,750,000"    {key:?}  the same, "?" where it is unknown
 *   {key:p}  the same, missing if 0     {key:d}  without commas
 *   {key:+}  the "s" of a plural        {key:b}  bytes as "1.2 MiB"
 *   {key:s}  seconds as "3m 05s"        {key:t}  a time as "2026-01-31 23:59:59 UTC"
 *   {key:a}  age in seconds             {key:u}  age of a moment in seconds since 1970
 *   [...]    left out if a field in it is missing, or of another type */
const char *draw_fill(struct buf *b, const json_t *o, const char *as);
/* Prints it as a line. */
void draw_line(const json_t *o, const char *as);
/* The first line of a result: a coloured word, then the rest. */
void draw_headline(const char *word, enum colour colour, const char *rest);
/* Prints "HINT: …" with its commands completed, after so many blanks; nothing for "". */
void draw_hint(int indent, const char *hint);

/* Prints what a condition's hint says to do, after so many blanks: sentences, then each command whole
 * on a line of its own below what it does; nothing for "" and "nothing". */
void draw_steps(size_t indent, const char *hint);

/* Seconds from JSON, which may be any number, as milliseconds for text_duration(). */
int64_t draw_ms(double seconds);
/* The text of a JSON field with control characters made harmless, whatever its source. */
const char *draw_text(struct buf *b, const json_t *o, const char *key);

/* The hint with its commands completed. */
const char *draw_typed(struct buf *b, const char *hint);

/* status_view.c */
void screen_status(const json_t *o);

#endif
