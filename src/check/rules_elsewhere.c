/* --check: services reached over the network other than the server and the store. Alert channels
 * and the heartbeat, then settings that are insecure on purpose. */
#include "check/rules_elsewhere.h"

#include <fcntl.h>
#include <stdlib.h>

#include "base/file.h"
#include "check/rule.h"
#include "notify/alert.h"
#include "notify/queue.h"

#define WAITING "configured and reachable, but {waiting} alerts wait to be delivered"
#define SEND_ONE "worldkeeper --test-alert sends one message"

/* Connects and logs in, but sends nothing, because a check must not alert anyone. */
static void check_channel(struct check *c, enum alert_channel ch)
{
    SCOPED(xfree) char *name = xasprintf("alert %s", alert_channel_name(c->cfg, ch));
    const struct check_rule rules[] = {
        {name, "bad_error", CHECK_FAIL, "{bad_error}", "{bad_hint}"},
        {name, "reach_error", CHECK_WARN, "{reach_error}", "{reach_hint}"},
        {name, "waiting running", CHECK_WARN, WAITING, SEND_ONE},
        {name, "waiting", CHECK_WARN, WAITING, "a running supervisor delivers them"},
        {name, NULL, CHECK_OK, "configured and reachable{login_tried}; nothing was sent", SEND_ONE},
    };
    struct err bad = {0}, unreachable = {0};
    if (alert_request(c->cfg, ch, REQUEST_CHECK, NULL, NULL, NULL, &bad) == 0 &&
        alert_request(c->cfg, ch, REQUEST_CONNECT, NULL, NULL, NULL, &unreachable) < 0)
        err_step(&unreachable, "no message would get through now");
    check_error(c, "bad", &bad);
    check_error(c, "reach", &unreachable);
    /* Counts alerts that are not delivered yet; without a queue there are none. */
    SCOPED(file_close) int fd =
        c->dirfd < 0 ? -1
                     : openat(c->dirfd, "alerts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int n = fd < 0 ? 0 : queue_waiting(c->cfg, fd, ch, NULL);
    check_number(c, "waiting", n > 0 ? n : 0);
    check_word(c, "login_tried", ch == ALERT_SMTP && c->cfg->smtp.user ? ", login accepted" : "");
    CHECK_RULES(c, rules);
}

static const struct check_rule insecure[] = {
    {"insecure", NULL, CHECK_WARN, "{insecure}", "use it only for tests and private networks"},
};

static const struct check_rule rest[] = {
    /* A world that is lost at night is back within minutes only if an operator is notified. */
    {"alerts", "!channels", CHECK_WARN,
     "no channel is configured: a lost world would not be reported",
     "set [alert.smtp] url, from, to or [alert.webhook] url"},
    {"alerts", "!all_events", CHECK_NOTE, "[alert] events excludes some"},

    /* The heartbeat is the only alert that works when this machine is down. */
    {"heartbeat", "!heartbeat", CHECK_NOTE, "none: a failure of this whole machine is not reported",
     "set [heartbeat] url to a service that alerts when its URL is no longer fetched"},
    {"heartbeat", "heartbeat_error", CHECK_WARN, "{heartbeat_error}", "{heartbeat_hint}"},
    {"heartbeat", NULL, CHECK_OK, "configured and reachable; it was not fetched"},
};

void check_alerts(struct check *c)
{
    struct err e = {0};
    char *text;
    bool heartbeat = alert_channel_on(c->cfg, ALERT_HEARTBEAT);
    unsigned channels = 0;
    /* Reports all insecure settings that the config explicitly allows, not only those of alerts. */
    for (unsigned i = 0; (text = config_exposed(c->cfg, i)); i++) {
        check_word(c, "insecure", "%s", text);
        free(text);
        CHECK_RULES(c, insecure);
    }
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        if (alert_channel_on(c->cfg, ch)) {
            check_channel(c, ch);
            channels++;
        }
    check_number(c, "channels", channels);
    check_fact(c, "all_events", c->cfg->alert_events == EVENT_ALL);
    check_fact(c, "heartbeat", heartbeat);
    if (heartbeat)
        alert_request(c->cfg, ALERT_HEARTBEAT, REQUEST_CONNECT, NULL, NULL, NULL, &e);
    check_error(c, "heartbeat", &e);
    CHECK_RULES(c, rest);
}
