#include "supervisor/status_files.h"

#include <string.h>

/* A packet is UP or OTHER, and for each file its name, and WRITE and its text or REMOVE. */
#define UP 'u'
#define OTHER 'o'
#define WRITE '+'
#define REMOVE '-'

void status_files_begin(struct buf *out, bool up)
{
    buf_addc(out, up ? UP : OTHER);
}

static void add_string(struct buf *out, const char *s)
{
    buf_add(out, s, strlen(s) + 1);
}

void status_files_add(struct buf *out, const char *name, const char *text)
{
    add_string(out, name);
    buf_addc(out, text ? WRITE : REMOVE);
    add_string(out, text ? text : "");
}

bool status_files_any(const struct buf *packet)
{
    return packet->len > 1;
}

struct status_files status_files_read(const char *packet, size_t len)
{
    return (struct status_files){
        .up = len > 1 && packet[0] == UP, .at = packet + (len > 0), .end = packet + len};
}

/* Returns the next string, or NULL if there is none that ends. */
static const char *next_string(struct status_files *s)
{
    const char *string = s->at, *nul = memchr(string, '\0', (size_t)(s->end - string));
    if (!nul)
        return NULL;
    s->at = nul + 1;
    return string;
}

bool status_files_next(struct status_files *s, struct status_file *out)
{
    const char *name = next_string(s), *text = name ? next_string(s) : NULL;
    if (!text)
        return false;
    *out = (struct status_file){.name = name, .text = text[0] == WRITE ? text + 1 : NULL};
    return text[0] == WRITE || text[0] == REMOVE;
}
