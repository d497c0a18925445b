/* The files of the page beside the flag: static files are written once, the others when their
 * contents change, and each minute. */
#ifndef WK_PAGE_SITE_H
#define WK_PAGE_SITE_H

#include <jansson.h>
#include <stddef.h>

#include "base/err.h"
#include "config/config.h"

struct site;

struct site *site_new(const struct config *c /* borrowed */);
void site_free(struct site *s);
/* Call this when the directory was replaced or repaired: everything is written again. */
void site_forget(struct site *s);
int site_publish(struct site *s, int dirfd, const json_t *status, const json_t *history,
                 struct err *e);
/* The names of its files, ended by NULL. */
extern const char *const site_files[];

#endif
