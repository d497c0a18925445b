/* Who answers in a TLS handshake: the server's certificate, verified by ourselves.
 *
 * Client libraries verify in different ways. MariaDB's Connector/C 3.4 logs in to a server whose certificate it cannot
 * verify, and compares a fingerprint afterwards. Therefore OpenSSL asks us, whichever library has called it: each
 * context that is made between peer_begin() and peer_end() calls back into peer.c for each certificate, and a handshake
 * that ends with none accepted ends the connection. Both happen before a library can send anything through the connection.
 *
 * Per thread; nothing of it may be used by two threads at once. */
#ifndef WK_MYSQL_PEER_H
#define WK_MYSQL_PEER_H

#include <stdbool.h>

struct peer {
    const char *name;       /* a host name or an address that the certificate must be made out to */
    const char *file, *dir; /* the authorities that count; one of the two may be NULL */
    bool anybody; /* no certificate is refused; `name` and the authorities do not matter */
    void (*proven)(void *); /* called with `of` when the certificate was accepted; may be NULL */
    void *of;
    bool asked, accepted; /* out: was there a certificate, and did we accept it? */
    char why[128];        /* out: why not */
};

/* The handshakes of this thread are judged by `p`, until peer_end(). */
void peer_begin(struct peer *p);
void peer_end(void);
/* Fills file and dir with `ca`, or with the system's store if it is NULL. Returns NULL, or why there are no
 * authorities; free() it. */
char *peer_authorities(struct peer *p, const char *ca);
/* The version of the OpenSSL that asks us, as client libraries state theirs. */
const char *peer_openssl(void);

#endif
