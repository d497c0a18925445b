#include "watch/verdict.h"

#include <ctype.h>
#include <string.h>

static const struct {
    const char *name;
    char letter;
} names[] = {
    [VERDICT_NONE] = {"NONE", '-'},       [VERDICT_ALIVE] = {"ALIVE", 'A'},
    [VERDICT_EMPTY] = {"EMPTY", 'E'},     [VERDICT_MISSING] = {"MISSING", 'M'},
    [VERDICT_FOREIGN] = {"FOREIGN", 'F'}, [VERDICT_UNREACHABLE] = {"UNREACHABLE", 'U'},
    [VERDICT_STALLED] = {"STALLED", 'S'}, [VERDICT_DENIED] = {"DENIED", 'D'},
};
#define NAMES (sizeof names / sizeof *names)

const char *verdict_name(enum verdict v)
{
    return (size_t)v < NAMES ? names[v].name : "NONE";
}

char verdict_letter(enum verdict v)
{
    return (size_t)v < NAMES ? names[v].letter : '-';
}

/* 8-4-4-4-12 hexadecimal digits: MySQL has one in its data directory; MariaDB's uid looks otherwise. */
static bool is_uuid(const char *s)
{
    size_t i = 0;
    for (; s[i]; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? s[i] != '-' : !isxdigit((unsigned char)s[i]))
            return false;
    }
    return i == 36;
}

/* Both known and equal. */
static bool match(const char *a, const char *b)
{
    return a[0] && strcmp(a, b) == 0;
}

bool server_same_place(const struct server_id *a, const struct server_id *b)
{
    if (is_uuid(a->uid) && is_uuid(b->uid))
        return strcmp(a->uid, b->uid) == 0;
    /* MariaDB without a network card calls itself "unknown". */
    bool uid = match(a->uid, b->uid) && strcmp(a->uid, "unknown") != 0;
    return match(a->datadir, b->datadir) && (match(a->hostname, b->hostname) || uid);
}
