/* Drawing functions for the views of this folder. Widths are terminal columns, not bytes. */
#ifndef WK_CLI_DRAW_H
#define WK_CLI_DRAW_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/text.h"

struct config;

struct screen {
    bool quiet, verbose;         /* from the options */
    bool utf8;                   /* the locale's characters are UTF-8 */
    bool out_colour, err_colour; /* standard output / standard error is a terminal with colors */
    bool bar;                    /* standard error is a terminal that can redraw a line */
    bool wrap;                   /* standard output is a terminal: long texts are wrapped */
    /* the world that commands in hints name; NULL: hints are unchanged */
    const struct config *world;
};
extern struct screen screen_mode;

enum colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW, CYAN };
/* Appends `s`, in a color if `on`. */
void draw_coloured(struct buf *b, bool on, enum colour colour, const char *s);

size_t draw_width(const char *s);
/* Appends exactly `width` columns: truncated, or padded with spaces (`right`: right-aligned). */
void draw_padded(struct buf *b, const char *s, size_t width, bool right);
/* Returns the columns of the terminal `fd`, else $COLUMNS, else 80. */
size_t draw_columns(int fd);
/* Prints `s`; on a terminal wrapped between words, with the following lines indented. `used`:
 * columns already printed on the line. */
void draw_wrapped(const char *s, size_t used, size_t indent);

/* Prints a table of the objects in `list`, or only its head. */
#define DRAW_COLUMNS 8
struct column {
    const char *head, *as; /* as: for draw_fill(); NULL: use the function */
    void (*cell)(struct buf *b, const json_t *o);
    bool right;
};
void draw_table(const json_t *list, const struct column *columns, size_t n);
#define DRAW_TABLE(list, columns) draw_table((list), (columns), sizeof(columns) / sizeof *(columns))

/* Formats an age in whole seconds: "0 s", "59 s", "3m 05s", … */
const char *draw_age(int64_t seconds, char out[TEXT_SHORT]);

/* Appends `as` with the fields of `o` in it:
 *   {key}    its text, clean
 *   {key:n}  a number as "3,750,000"    {key:?}  the same, "?" where it is unknown
 *   {key:p}  the same, missing if 0     {key:d}  without commas
 *   {key:+}  the "s" of a plural        {key:b}  bytes as "1.2 MiB"
 *   {key:s}  seconds as "3m 05s"        {key:t}  a time as "2026-01-31T23:59:59Z"
 *   {key:a}  age in seconds             {key:u}  age of a moment in seconds since 1970
 * An unknown size, duration, time or age of a moment is shown as "?".
 *   [...]    left out if a field in it is missing, or of another type */
const char *draw_fill(struct buf *b, const json_t *o, const char *as);
/* Prints the same as a line. */
void draw_line(const json_t *o, const char *as);
/* Prints the first line of a result: a colored word, then the rest. */
void draw_headline(const char *word, enum colour colour, const char *rest);
/* Prints "HINT: …" with its commands completed, indented; nothing for "". */
void draw_hint(int indent, const char *hint);

/* Prints what a condition's hint says to do, indented: sentences, then each command on its own line
 * below its purpose; nothing for "" and "nothing". */
void draw_steps(size_t indent, const char *hint);

/* Converts seconds from JSON, any number, to milliseconds for text_duration(). */
int64_t draw_ms(double seconds);
/* Returns the text of a JSON field with control characters made harmless. */
const char *draw_text(struct buf *b, const json_t *o, const char *key);

/* Returns the hint with its commands completed. */
const char *draw_typed(struct buf *b, const char *hint);

#endif
