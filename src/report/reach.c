#include "report/reach.h"

#include <string.h>

#include "core/file.h"
#include "report/wire.h"

static int64_t patience(int64_t timeout)
{
    return timeout < REACH_TIMEOUT ? timeout : REACH_TIMEOUT;
}

static void forget(struct buf *secret)
{
    if (secret->p)
        explicit_bzero(secret->p, secret->cap);
    buf_free(secret);
}

static int connect_only(struct wire *w, struct err *e)
{
    WIRE_SET(w, CURLOPT_CONNECT_ONLY, 1L);
    CURLcode rc = wire_run(w);
    return rc == CURLE_OK ? 0 : wire_fail(w, rc, e);
}

static int reach_mail(const struct config_smtp *s, struct err *e)
{
    const struct wire_target target = {.key = "[alert.smtp] url",
                                       .url = s->url,
                                       .protocols = "smtp,smtps",
                                       .tls_ca = s->tls_ca,
                                       .timeout = patience(s->timeout),
                                       .no_login = true};
    struct wire w = {0};
    struct buf password = {0};
    int rc = wire_open(&w, &target, e);
    if (rc == 0 && s->user && s->password_file) {
        rc = file_read_secret(s->password_file, &password, e);
        if (rc == 0) {
            WIRE_SET(&w, CURLOPT_USERNAME, s->user);
            WIRE_SET(&w, CURLOPT_PASSWORD, password.p);
            wire_secret(&w, password.p);
        }
    }
    if (rc == 0) {
        bool may_be_plain = s->starttls == STARTTLS_PREFERRED && !s->user;
        WIRE_SET(&w, CURLOPT_USE_SSL,
                 (long)(s->starttls == STARTTLS_OFF ? CURLUSESSL_NONE
                        : may_be_plain              ? CURLUSESSL_TRY
                                                    : CURLUSESSL_ALL));
        rc = connect_only(&w, e);
    }
    wire_close(&w);
    forget(&password);
    return rc;
}

static int reach_web(const struct wire_target *t, const char *url_file, struct err *e)
{
    struct wire_target target = *t;
    struct wire w = {0};
    struct buf url = {0};
    int rc = 0;
    if (url_file) {
        rc = file_read_secret(url_file, &url, e);
        target.url = url.p;
    }
    if (rc == 0)
        rc = wire_open(&w, &target, e);
    if (rc == 0)
        rc = connect_only(&w, e);
    wire_close(&w);
    forget(&url);
    return rc;
}

int reach_channel(const struct config *c, enum alert_channel ch, struct err *e)
{
    if (ch == ALERT_SMTP)
        return reach_mail(&c->smtp, e);
    const struct wire_target t = {.key = "[alert.webhook] url",
                                  .url = c->webhook.url,
                                  .protocols = "http,https",
                                  .tls_ca = c->webhook.tls_ca,
                                  .insecure = c->webhook.insecure,
                                  .timeout = patience(c->webhook.timeout)};
    return reach_web(&t, c->webhook.url_file, e);
}

int reach_heartbeat(const struct config *c, struct err *e)
{
    const struct wire_target t = {.key = "[heartbeat] url",
                                  .url = c->heartbeat_url,
                                  .protocols = "http,https",
                                  .insecure = c->heartbeat_insecure,
                                  .timeout = patience(c->heartbeat_timeout)};
    return reach_web(&t, c->heartbeat_url_file, e);
}
