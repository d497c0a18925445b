/* A line of text for people in an array of fixed size: `char why[LINE]`, or a member of plain data
 * that another process receives. What does not fit is cut between characters, and "..." at the end
 * shows it: neither a reason nor a command to paste looks complete if it is not. */
#ifndef WK_BASE_LINE_H
#define WK_BASE_LINE_H

#include <stdarg.h>
#include <stddef.h>

#define LINE 640 /* bytes of an array for a sentence with names and a reason */

void line_set(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
void line_vset(char *out, size_t size, const char *fmt, va_list ap);
/* Appends to the text in `out`. */
void line_add(char *out, size_t size, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

#endif
