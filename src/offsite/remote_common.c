/* Functions that each kind of store calls by itself: names, rate limit, limits of a list. */
#include "offsite/remote_int.h"

#include <inttypes.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/number.h"

#define PART ".part"
#define LETTERS_DIGITS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

/* ---- names ---- */

static bool ends_with(const char *s, const char *end)
{
    size_t len = strlen(s), tail = strlen(end);
    return len >= tail && strcmp(s + len - tail, end) == 0;
}

/* Allows only a few characters that have no meaning to a shell, a URL, XML or a file system. So
 * no quoting can go wrong, and no name leads out of its directory. */
bool remote_path_valid(const char *name)
{
    while (*name) {
        size_t len = strcspn(name, "/");
        if (len == 0 || !strchr(LETTERS_DIGITS, name[0]) ||
            strspn(name, LETTERS_DIGITS "._-") < len)
            return false;
        name += len + (name[len] == '/');
    }
    return true;
}

bool remote_name_valid(const char *name)
{
    size_t len = strlen(name);
    return len > 0 && len <= REMOTE_NAME_MAX && name[len - 1] != '/' && remote_path_valid(name) &&
           !ends_with(name, PART);
}

char *remote_part(const char *name)
{
    unsigned char random[4];
    char hex[2 * sizeof random + 1];
    if (RAND_bytes(random, sizeof random) != 1)
        memset(random, 0, sizeof random); /* a taken name only causes an error */
    text_hex(random, sizeof random, hex);
    return xasprintf("%s.%" PRId64 "-%s" PART, name, clock_wall().ms / 1000, hex);
}

/* Parses the name strictly as remote_part() makes it, because files are deleted by this time: a
 * stranger's file may have a similar ending. */
int64_t remote_part_time(const char *name)
{
    size_t len = strlen(name), tail = sizeof PART - 1 + 9; /* "-0123abcd.part" */
    if (len <= tail || !ends_with(name, PART))
        return -1;
    const char *dash = name + len - tail, *dot = dash;
    while (dot > name && dot[-1] >= '0' && dot[-1] <= '9')
        dot--;
    if (*dash != '-' || strspn(dash + 1, "0123456789abcdef") != 8 || dash - dot < 1 ||
        dash - dot > 11 || dot == name || dot[-1] != '.')
        return -1;
    uint64_t at;
    return number_digits(&dot, INT64_MAX / 1000, &at) ? (int64_t)at : -1;
}

/* ---- sending ---- */

void remote_stamp(char out[REMOTE_STAMP], const char *text)
{
    size_t len = 0;
    for (; *text && len < REMOTE_STAMP - 1; text++)
        out[len++] = *text > ' ' && *text < 0x7f ? *text : '_';
    out[len] = '\0';
}

/* Computes when all bytes so far are due. Separate pauses would add up the excess of each pause.
 * Unused time is not saved up, so no burst follows a pause. */
void remote_pace(struct remote *r, size_t len)
{
    if (!r->cfg->max_rate)
        return;
    mono_t now = clock_mono();
    if (r->paced.ms < now.ms)
        r->paced = now;
    r->paced = mono_add(r->paced, (int64_t)((uint64_t)len * 1000 / r->cfg->max_rate));
    int64_t ms = mono_since(r->paced, now);
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

enum remote_result remote_came(const struct remote_source *from, const char *name, int64_t bytes,
                               struct err *e)
{
    if (from->size < 0 || from->size == bytes)
        return REMOTE_OK;
    err_set(e, ERR_CHANGED, 0,
            "%s: %" PRId64 " bytes were sent instead of the announced %" PRId64 "", name, bytes,
            from->size);
    return REMOTE_REFUSED;
}

enum remote_result remote_exists(const char *name, struct err *e)
{
    err_set(e, ERR_REFUSED, 0, "cannot store %s: the name is taken", name);
    return REMOTE_EXISTS;
}

/* ---- lists ---- */

/* Allows 4 KiB for each file, which is more than any server sends for one, and 10,000 files in
 * advance, because the list of an empty directory may have a preamble. */
int remote_listing_grows(struct remote_listing *l, size_t len, struct err *e)
{
    l->bytes += len;
    return l->bytes > ((uint64_t)l->count + 10000) * 4096
               ? err_set(e, ERR_REFUSED, 0, "%s: its listing does not end", l->r->shown.p)
               : 0;
}

int64_t remote_size_read(const char *text)
{
    uint64_t n;
    return number_read(text, INT64_MAX, &n) ? (int64_t)n : -1;
}

int remote_listing_entry(struct remote_listing *l, const char *name, struct err *e)
{
    l->x.name = name;
    return ++l->count > REMOTE_ENTRIES_MAX ? err_set(e, ERR_REFUSED, 0, "%s: more than %d files",
                                                     l->r->shown.p, REMOTE_ENTRIES_MAX)
                                           : l->to->entry(l->to->arg, &l->x, e);
}
