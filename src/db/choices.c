#include "db/choices.h"

#include <stdlib.h>
#include <string.h>

#include "core/text.h"

/* What stands behind a backslash. */
static char unescaped(char c)
{
    switch (c) {
    case '0':
        return '\0';
    case 'n':
        return '\n';
    case 'r':
        return '\r';
    default:
        return c;
    }
}

/* One 'member' at s; returns the place behind its closing quote, NULL where it is none. */
static const char *read_member(const char *s, struct buf *out)
{
    buf_clear(out);
    buf_reserve(out, 1);
    if (*s++ != '\'')
        return NULL;
    for (; *s; s++) {
        if (*s == '\'' && *++s != '\'')
            return s;
        if (*s == '\\' && s[1])
            buf_addc(out, unescaped(*++s));
        else
            buf_addc(out, *s);
    }
    return NULL;
}

int db_choices_parse(const char *type, struct db_choices *out)
{
    *out = (struct db_choices){.set = text_starts(type, "set(")};
    if (!out->set && !text_starts(type, "enum("))
        return -1;
    struct buf member = {0};
    const char *s = strchr(type, '(');
    do {
        s = read_member(s + 1, &member);
        if (!s)
            break;
        out->list = xrealloc(out->list, (out->count + 1) * sizeof *out->list);
        out->lengths = xrealloc(out->lengths, (out->count + 1) * sizeof *out->lengths);
        out->lengths[out->count] = member.len;
        out->list[out->count] = xcalloc(member.len + 1, 1);
        memcpy(out->list[out->count++], member.p, member.len);
    } while (*s == ',');
    buf_free(&member);
    return s && strcmp(s, ")") == 0 ? 0 : -1;
}

/* From 1; 0 for no member. */
static size_t member_number(const struct db_choices *c, const char *text, size_t len)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->lengths[i] == len && memcmp(c->list[i], text, len) == 0)
            return i + 1;
    return 0;
}

int db_choices_find(const struct db_choices *c, const char *text, size_t len, uint64_t *number)
{
    const char *end = text + len;
    *number = 0;
    if (len == 0)
        return 0;
    if (!c->set) {
        *number = member_number(c, text, len);
        return *number ? 0 : -1;
    }
    for (;;) {
        const char *comma = memchr(text, ',', (size_t)(end - text));
        size_t n = member_number(c, text, (size_t)((comma ? comma : end) - text));
        if (n == 0 || n > 64)
            return -1;
        *number |= UINT64_C(1) << (n - 1);
        if (!comma)
            return 0;
        text = comma + 1;
    }
}

void db_choices_free(struct db_choices *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->list[i]);
    free(c->list);
    free(c->lengths);
    *c = (struct db_choices){0};
}
