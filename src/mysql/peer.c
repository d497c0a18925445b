#include "mysql/peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/line.h"
#include "base/text.h"

static _Thread_local struct peer *current;

static bool is_address(const char *name)
{
    unsigned char parsed[16];
    return inet_pton(AF_INET, name, parsed) == 1 || inet_pton(AF_INET6, name, parsed) == 1;
}

/* Returns whether a certificate is for this name. As in the client libraries, an address may
 * also be given as a DNS name. */
static bool peer_bears(X509 *cert, const char *name)
{
    if (!is_address(name))
        return X509_check_host(cert, name, 0, 0, NULL) == 1;
    return X509_check_ip_asc(cert, name, 0) == 1 ||
           X509_check_host(cert, name, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1;
}

/* Verifies the chain and the dates with our own store, so that the result does not depend on the
 * library's store or on errors that the library ignores. */
static int peer_verified(X509_STORE_CTX *ours, X509_STORE *store, const struct peer *p,
                         X509_STORE_CTX *theirs)
{
    X509 *cert = X509_STORE_CTX_get0_cert(theirs);
    if (X509_STORE_load_locations(store, p->file, p->dir) != 1)
        return X509_V_ERR_STORE_LOOKUP;
    if (X509_STORE_CTX_init(ours, store, cert, X509_STORE_CTX_get0_untrusted(theirs)) != 1 ||
        X509_STORE_CTX_set_default(ours, "ssl_server") != 1)
        return X509_V_ERR_UNSPECIFIED;
    int level = X509_VERIFY_PARAM_get_auth_level(X509_STORE_CTX_get0_param(theirs));
    X509_VERIFY_PARAM_set_auth_level(X509_STORE_CTX_get0_param(ours), level);
    if (X509_verify_cert(ours) != 1) {
        int code = X509_STORE_CTX_get_error(ours);
        return code == X509_V_OK ? X509_V_ERR_UNSPECIFIED : code;
    }
    return peer_bears(cert, p->name) ? X509_V_OK : X509_V_ERR_HOSTNAME_MISMATCH;
}

static int peer_verify(const struct peer *p, X509_STORE_CTX *theirs)
{
    X509_STORE *store = X509_STORE_new();
    X509_STORE_CTX *ours = X509_STORE_CTX_new();
    int code = store && ours ? peer_verified(ours, store, p, theirs) : X509_V_ERR_OUT_OF_MEM;
    X509_STORE_CTX_free(ours);
    X509_STORE_free(store);
    return code;
}

/* OpenSSL calls this instead of verifying a certificate. A later handshake requested by the
 * server is refused. */
static int peer_judge(X509_STORE_CTX *theirs, void *arg)
{
    struct peer *p = current;
    (void)arg;
    int code = !p           ? X509_V_ERR_APPLICATION_VERIFICATION
               : p->anybody ? X509_V_OK
                            : peer_verify(p, theirs);
    X509_STORE_CTX_set_error(theirs, code);
    if (!p)
        return 0;
    p->asked = true;
    p->accepted = code == X509_V_OK;
    if (!p->accepted)
        line_set(p->why, sizeof p->why, "%s", X509_verify_cert_error_string(code));
    else if (p->proven)
        p->proven(p->of);
    return p->accepted;
}

/* Closes the connection after a handshake that was not accepted. A library may continue although
 * we refused, and a handshake without a certificate does not call peer_judge(). */
static void peer_gate(const SSL *ssl, int where, int ret)
{
    (void)ret;
    if ((where & SSL_CB_HANDSHAKE_DONE) && current && !current->accepted)
        shutdown(SSL_get_fd(ssl), SHUT_RDWR);
}

static void new_context(void *context, void *ptr, CRYPTO_EX_DATA *data, int index, long argl,
                        void *argp)
{
    (void)ptr;
    (void)data;
    (void)index;
    (void)argl;
    (void)argp;
    if (!current)
        return;
    SSL_CTX_set_cert_verify_callback(context, peer_judge, NULL);
    SSL_CTX_set_info_callback(context, peer_gate);
}

static void ask_us(void)
{
    SSL_CTX_get_ex_new_index(0, NULL, new_context, NULL, NULL);
}

void peer_begin(struct peer *p)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, ask_us);
    current = p;
}

void peer_end(void)
{
    current = NULL;
}

char *peer_authorities(struct peer *p, const char *ca)
{
    if (ca) {
        p->file = ca;
        return access(ca, R_OK) == 0 ? NULL
                                     : xasprintf("cannot read tls_ca %s: %s", ca, strerror(errno));
    }
    const char *file = X509_get_default_cert_file(), *dir = X509_get_default_cert_dir();
    p->file = access(file, R_OK) == 0 ? file : NULL;
    p->dir = access(dir, R_OK | X_OK) == 0 ? dir : NULL;
    return p->file || p->dir ? NULL
                             : xasprintf("the system has no certificate authorities (neither %s "
                                         "nor %s exists): install ca-certificates",
                                         file, dir);
}

const char *peer_openssl(void)
{
    return OpenSSL_version(OPENSSL_VERSION);
}
