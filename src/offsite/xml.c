/* Parses as much XML as lists and refusals need: elements and their text, piece by piece, in
 * fixed memory. No library is used, so none must be loaded; no entity expands, nesting is
 * ignored, and documents need not be well-formed. Unknown input is skipped. Text that is too
 * long becomes empty, which is not a valid name. */
#include "offsite/xml.h"

#include <stdlib.h>
#include <string.h>

/* Replaces the five entities and numbers of ASCII; any other entity becomes '?'. */
static void xml_decode(char *s)
{
    static const struct {
        const char *name;
        char is;
    } known[] = {{"lt", '<'}, {"gt", '>'}, {"amp", '&'}, {"quot", '"'}, {"apos", '\''}};
    char *out = s;
    while (*s) {
        char *end = *s == '&' ? strchr(s, ';') : NULL;
        if (!end || end - s > 10) {
            *out++ = *s++;
            continue;
        }
        char is = '?';
        *end = '\0';
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strcmp(s + 1, known[i].name) == 0)
                is = known[i].is;
        if (s[1] == '#') {
            long n = s[2] == 'x' ? strtol(s + 3, NULL, 16) : strtol(s + 2, NULL, 10);
            is = n >= 0x20 && n < 0x7f ? (char)n : '?';
        }
        *out++ = is;
        s = end + 1;
    }
    *out = '\0';
}

/* The tag is "name attributes", "/name", "name attributes/", "?…" or "!…". */
static int tag_ended(struct xml *x)
{
    bool end = x->tag[0] == '/', both = x->tag_len && x->tag[x->tag_len - 1] == '/';
    if (x->tag[0] == '?' || x->tag[0] == '!')
        return 0;
    char *name = x->tag + end;
    name[strcspn(name, " \t\r\n/")] = '\0';
    char *colon = strrchr(name, ':');
    name = colon ? colon + 1 : name;
    if (!end && x->element(x->arg, name, NULL) < 0)
        return -1;
    x->text[x->too_long ? 0 : x->text_len] = '\0';
    xml_decode(x->text);
    int rc = end || both ? x->element(x->arg, name, end ? x->text : "") : 0;
    x->text_len = 0;
    x->too_long = false;
    return rc;
}

int xml_read(struct xml *x, const char *data, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        char c = data[i];
        if (!x->in_tag && c == '<') {
            x->in_tag = true;
            x->tag_len = 0;
        } else if (!x->in_tag) {
            if (x->text_len < sizeof x->text - 1 && c)
                x->text[x->text_len++] = c;
            else
                x->too_long = true;
        } else if (c != '>') { /* the end of a long tag shows whether it is self-closing */
            x->tag_len -= x->tag_len == sizeof x->tag - 1;
            x->tag[x->tag_len++] = c;
        } else {
            x->in_tag = false;
            x->tag[x->tag_len] = '\0';
            if (tag_ended(x) < 0)
                return -1;
        }
    }
    return 0;
}
