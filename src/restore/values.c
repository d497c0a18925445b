#include "restore/values.h"

#include <string.h>

const char *values_behind_quoted(const char *s, const char *end)
{
    char quote = *s++;
    for (; s < end && *s != quote; s++)
        if (*s == '\\' && quote != '`' && s + 1 < end)
            s++;
    return s < end ? s + 1 : end;
}

const char *values_end(const char *s, const char *end)
{
    size_t depth = 0;
    while (s < end) {
        if (*s == '\'' || *s == '"' || *s == '`') {
            s = values_behind_quoted(s, end);
            continue;
        }
        if (depth == 0 && (*s == ',' || *s == ')'))
            return s;
        depth += *s == '(';
        depth -= *s == ')';
        s++;
    }
    return end;
}

/* One row at its parenthesis: how many values, and where it ends. Those to keep go to `out`. */
static size_t take_row(struct buf *out, const char **at, const char *end, const bool *drop,
                       size_t count)
{
    const char *s = *at;
    size_t n = 0;
    bool any = false;
    do {
        const char *from = s + 1;
        s = values_end(from, end);
        if (s == end)
            return 0;
        if (n < count && !drop[n]) {
            buf_addc(out, any ? ',' : '(');
            buf_add(out, from, (size_t)(s - from));
            any = true;
        }
        n++;
    } while (*s == ',');
    buf_adds(out, any ? ")" : "()");
    *at = s + 1;
    return n;
}

int values_pick(struct buf *out, const char *s, size_t len, const bool *generated, size_t count)
{
    const char *end = s + len;
    size_t start = out->len, kept = 0;
    for (size_t i = 0; i < count; i++)
        kept += !generated[i];
    while (s < end) {
        if (*s != '(') {
            buf_addc(out, *s++);
            continue;
        }
        size_t n = take_row(out, &s, end, generated, count);
        if (n == count && kept < count)
            continue;
        if (out->p)
            out->p[out->len = start] = '\0';
        return n == kept ? 0 : -1;
    }
    return 1;
}
