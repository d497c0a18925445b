/* The URL of a store for copies off the machine ([offsite] url), in its parts. Pure. */
#ifndef WK_CONFIG_STORE_URL_H
#define WK_CONFIG_STORE_URL_H

#include <stdbool.h>

enum store_kind { STORE_DIR, STORE_SFTP, STORE_S3, STORE_HTTP };

/* Texts are owned; decoded where the URL has %XX. */
struct store_url {
    enum store_kind kind;
    bool plain;   /* http:// */
    char *user;   /* sftp only, else NULL */
    char *host;   /* with its port, as in the URL; NULL for file:// and s3:// */
    char *bucket; /* s3 only, else NULL */
    char *path;   /* "/", "/a/b/"; of s3 the prefix of all names: "", "a/b/" */
};

/* -1: it is none: another scheme, a password, a query, a path with "..", bytes that are no UTF-8 … */
int store_url_parse(const char *text, struct store_url *out);
void store_url_free(struct store_url *u);

#endif
