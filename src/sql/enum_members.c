#include "sql/enum_members.h"

#include <stdlib.h>
#include <string.h>

#include "sql/token.h"

int enum_members_parse(const char *type, struct enum_members *out)
{
    /* the text of a type is SQL, including quotes and escapes */
    struct sql_text text = {.s = type, .end = type + strlen(type), .binary = true};
    struct sql_token t;
    sql_next(&text, &t);
    *out = (struct enum_members){.set = sql_is(&t, "set")};
    if ((!out->set && !sql_is(&t, "enum")) || sql_next(&text, &t) != SQL_OPEN)
        return -1;
    do {
        struct buf member = {0};
        sql_next(&text, &t);
        if (!sql_token_bytes(&t, false, &member))
            return -1;
        out->list = xgrow(out->list, out->count, sizeof *out->list);
        out->lengths = xgrow(out->lengths, out->count, sizeof *out->lengths);
        out->lengths[out->count] = member.len;
        out->list[out->count++] = member.p;
        sql_next(&text, &t);
    } while (sql_is_punct(&t, ","));
    return t.kind == SQL_CLOSE && sql_next(&text, &t) == SQL_END ? 0 : -1;
}

/* Returns the number of a member, counted from 1, or 0 if the text is not a member. */
static size_t member_number(const struct enum_members *c, const char *text, size_t len)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->lengths[i] == len && memcmp(c->list[i], text, len) == 0)
            return i + 1;
    return 0;
}

int enum_members_find(const struct enum_members *c, const char *text, size_t len, uint64_t *number)
{
    const char *end = text + len;
    *number = 0;
    if (len == 0)
        return 0;
    if (!c->set) {
        *number = member_number(c, text, len);
        return *number ? 0 : -1;
    }
    /* a member of a SET cannot contain a comma: servers refuse such a type */
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

/* Frees the members, also of a type that was read only in part. */
void enum_members_free(struct enum_members *c)
{
    for (size_t i = 0; i < c->count; i++)
        free(c->list[i]);
    free(c->list);
    free(c->lengths);
    *c = (struct enum_members){0};
}
