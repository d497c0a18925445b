/* Parts of the URL of an off-site store ([offsite] url). Pure. */
#ifndef WK_CONFIG_STORE_URL_H
#define WK_CONFIG_STORE_URL_H

#include <stdbool.h>

enum store_kind { STORE_DIR, STORE_SFTP, STORE_S3, STORE_HTTP };

/* The texts are owned and decoded (%XX). */
struct store_url {
    enum store_kind kind;
    bool plain;   /* http:// */
    char *user;   /* sftp only, else NULL */
    char *host;   /* with its port, as in the URL; NULL for file:// and s3:// */
    char *bucket; /* only for s3, else NULL */
    char *path;   /* "/", "/a/b/"; for s3 the prefix of all names: "", "a/b/" */
};

/* Parses a URL. Returns -1 if it is invalid: unknown scheme, a password, a query, a path with "..",
 * bytes that are not UTF-8, … */
int store_url_parse(const char *text, struct store_url *out);
void store_url_free(struct store_url *u);

#endif
