#include "base/line.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define CUT "..."

static bool line_is_inside_character(char c)
{
    return ((unsigned char)c & 0xc0) == 0x80;
}

/* Formats into the array from `at` on. */
static void line_format(char *out, size_t at, size_t size, const char *fmt, va_list ap)
{
    int n = vsnprintf(out + at, size - at, fmt, ap);
    if (n < 0 || (size_t)n < size - at || size < sizeof CUT)
        return;
    size_t end = size - sizeof CUT;
    while (end > 0 && line_is_inside_character(out[end]))
        end--;
    memcpy(out + end, CUT, sizeof CUT);
}

void line_vset(char *out, size_t size, const char *fmt, va_list ap)
{
    line_format(out, 0, size, fmt, ap);
}

void line_set(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_format(out, 0, size, fmt, ap);
    va_end(ap);
}

void line_add(char *out, size_t size, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    line_format(out, strlen(out), size, fmt, ap);
    va_end(ap);
}
