/* The few elements of XML that stores answer with, read as the bytes come: no document is kept, none of
 * its entities and no file that it names is read. Pure. */
#ifndef WK_OFFSITE_XML_H
#define WK_OFFSITE_XML_H

#include <stdbool.h>
#include <stddef.h>

#define XML_TEXT 4096

struct xml {
    /* Called where an element begins (`text` NULL) and ends, with its own text; `name` is without a
     * prefix. A text that is longer than XML_TEXT comes as "". 0, or -1 to stop. */
    int (*element)(void *arg, const char *name, const char *text);
    void *arg;

    bool in_tag, too_long;
    size_t tag_len, text_len;
    char tag[256], text[XML_TEXT];
};
/* -1: `element` stopped it. */
int xml_read(struct xml *x, const char *data, size_t len);

#endif
