/* Verifies the server's certificate in a TLS handshake with our own code.
 *
 * Client libraries verify in different ways. MariaDB's Connector/C 3.4 logs in to a server whose
 * certificate it cannot verify, and compares a fingerprint afterwards. Therefore OpenSSL calls us,
 * whichever library uses it: each context that is created between peer_begin() and peer_end() calls
 * peer.c for each certificate, and a handshake without an accepted certificate ends the connection.
 * Both happen before a library can send anything through the connection.
 *
 * State is per thread; two threads must not share it at the same time. */
#ifndef WK_MYSQL_PEER_H
#define WK_MYSQL_PEER_H

#include <stdbool.h>

struct peer {
    const char *name;       /* host name or address that the certificate must be issued for */
    const char *file, *dir; /* the trusted authorities; one of the two may be NULL */
    bool anybody;           /* accept any certificate; `name` and the authorities are ignored */
    void (*proven)(void *); /* called with `of` after the certificate was accepted; may be NULL */
    void *of;
    bool asked, accepted; /* out: whether there was a certificate, and whether we accepted it */
    char why[128];        /* out: the reason for a refusal */
};

/* Makes `p` judge the handshakes of this thread until peer_end(). */
void peer_begin(struct peer *p);
void peer_end(void);
/* Sets file and dir to `ca`, or to the system's store if it is NULL. Returns NULL, or the reason
 * why there are no authorities; the caller frees it. */
char *peer_authorities(struct peer *p, const char *ca);
/* Returns the version of the OpenSSL that calls us, in the format of client libraries. */
const char *peer_openssl(void);

#endif
