/* --check: alert channels, heartbeat, and settings that are insecure on purpose. */
#include <fcntl.h>

#include "base/file.h"
#include "check/rule.h"
#include "notify/alert.h"
#include "notify/queue.h"

#define WAITING "configured and reachable, but {waiting} alerts wait to be delivered"
#define SEND_ONE "worldkeeper --test-alert sends one message"
#define CHANNEL(name)                                                                              \
    {                                                                                              \
        {name, "bad_error", CHECK_FAIL, "{bad_error}", "{bad_hint}"},                              \
            {name, "reach_error", CHECK_WARN, "{reach_error}", "{reach_hint}"},                    \
            {name, "waiting running", CHECK_WARN, WAITING, SEND_ONE},                              \
            {name, "waiting", CHECK_WARN, WAITING, "a running supervisor delivers them"},          \
            {name, NULL, CHECK_OK, "configured and reachable{login_tried}; nothing was sent",      \
             SEND_ONE},                                                                            \
    }

/* Connects and logs in, but sends nothing: nobody shall be woken by a check. */
static void check_channel(struct check *c, enum alert_channel ch)
{
    static const struct check_rule rules[ALERT_CHANNELS][5] = {
        [ALERT_SMTP] = CHANNEL("alert smtp"), [ALERT_WEBHOOK] = CHANNEL("alert webhook")};
    struct err bad = {0}, unreachable = {0};
    if (alert_request(c->cfg, ch, REQUEST_CHECK, NULL, NULL, &bad) == 0 &&
        alert_request(c->cfg, ch, REQUEST_CONNECT, NULL, NULL, &unreachable) < 0)
        err_step(&unreachable, "no message would get through now");
    check_error(c, "bad", &bad);
    check_error(c, "reach", &unreachable);
    /* Alerts that are not delivered yet; no queue, none. */
    SCOPED(file_close) int fd =
        c->dirfd < 0 ? -1
                     : openat(c->dirfd, "alerts", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int n = fd < 0 ? 0 : queue_waiting(fd, ch, NULL);
    check_number(c, "waiting", n > 0 ? n : 0);
    check_word(c, "login_tried", ch == ALERT_SMTP && c->cfg->smtp.user ? ", login accepted" : "");
    CHECK_RULES(c, rules[ch]);
}

static const struct check_rule insecure[] = {
    {"insecure", NULL, CHECK_WARN, "{insecure}",
     "it is meant for tests and for networks of your own"},
};

static const struct check_rule rest[] = {
    /* A world that is lost at night is a matter of minutes only if somebody hears of it. */
    {"alerts", "!channels", CHECK_WARN,
     "no channel is configured: a lost world would be reported to nobody",
     "set [alert.smtp] url, from, to or [alert.webhook] url"},
    {"alerts", "!all_events", CHECK_NOTE, "[alert] events leaves some out"},

    /* The one alert that does not need this machine. */
    {"heartbeat", "!heartbeat", CHECK_NOTE,
     "none: nobody learns of it when this whole machine is gone",
     "[heartbeat] url of a service that complains when it is not fetched"},
    {"heartbeat", "heartbeat_error", CHECK_WARN, "{heartbeat_error}", "{heartbeat_hint}"},
    {"heartbeat", NULL, CHECK_OK, "configured and reachable; it was not fetched"},
};

void check_alerts(struct check *c)
{
    struct err e = {0};
    const char *text;
    bool heartbeat = alert_channel_on(c->cfg, ALERT_HEARTBEAT);
    unsigned channels = 0;
    /* All insecure settings that the config explicitly allows, not only those of alerts. */
    for (unsigned i = 0; (text = config_exposed(c->cfg, i)); i++) {
        check_word(c, "insecure", "%s", text);
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
        alert_request(c->cfg, ALERT_HEARTBEAT, REQUEST_CONNECT, NULL, NULL, &e);
    check_error(c, "heartbeat", &e);
    CHECK_RULES(c, rest);
}
