/* Reads the few XML elements in answers of stores, as the bytes arrive. No document is kept; no
 * entities and no files that it names are read. Pure. */
#ifndef WK_OFFSITE_XML_H
#define WK_OFFSITE_XML_H

#include <stdbool.h>
#include <stddef.h>

#define XML_TEXT 4096

struct xml {
    /* Called when an element begins (`text` NULL) and ends, with its own text; `name` is without a
     * prefix. A text longer than XML_TEXT comes as "". Returns 0, or -1 to stop. */
    int (*element)(void *arg, const char *name, const char *text);
    void *arg;

    bool in_tag, too_long;
    size_t tag_len, text_len;
    char tag[256], text[XML_TEXT];
};
/* Returns -1 if `element` stopped it. */
int xml_read(struct xml *x, const char *data, size_t len);

#endif
