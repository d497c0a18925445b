#include "check.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "report/alert.h"
#include "report/reach.h"

/* Alerts that could not be delivered so far; 0 where there is no queue yet. */
static int waiting(const struct check *c, enum alert_channel ch)
{
    int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
    int fd = c->dirfd < 0 ? -1 : openat(c->dirfd, "alerts", flags);
    if (fd < 0)
        return 0;
    int n = alert_queue_waiting(fd, ch, NULL);
    close(fd);
    return n;
}

static void check_channel(struct check *c, enum alert_channel ch)
{
    struct err e = {0};
    char name[32];
    snprintf(name, sizeof name, "alert %s", alert_channel_name(ch));
    if (alert_check(c->cfg, ch, &e) < 0) {
        check_error(c, CHECK_FAIL, name, &e);
        return;
    }
    if (reach_channel(c->cfg, ch, &e) < 0) {
        err_step(&e, "no message would get through now");
        check_error(c, CHECK_WARN, name, &e);
        return;
    }
    int n = waiting(c, ch);
    if (n > 0)
        check_add(c, CHECK_WARN, name,
                  "configured and reachable, but %d alerts wait to be delivered", n);
    else
        check_add(c, CHECK_OK, name, "configured and reachable%s; nothing was sent",
                  ch == ALERT_SMTP && c->cfg->smtp.user ? ", login accepted" : "");
    if (n > 0 && !c->running)
        check_hint(c, "a running supervisor delivers them");
    else
        check_hint(c, "worldkeeper --test-alert sends one message");
}

static void check_heartbeat(struct check *c)
{
    struct err e = {0};
    if (!c->cfg->heartbeat_url && !c->cfg->heartbeat_url_file) {
        check_add(c, CHECK_NOTE, "heartbeat",
                  "none: nobody is told when this whole machine is gone");
        check_hint(c, "[heartbeat] url of a service that complains when it is not fetched");
    } else if (reach_heartbeat(c->cfg, &e) < 0) {
        check_error(c, CHECK_WARN, "heartbeat", &e);
    } else {
        check_add(c, CHECK_OK, "heartbeat", "configured and reachable; it was not fetched");
    }
}

/* Not only of alerts: what the config allows in so many words is still to be seen. */
static void check_exposed(struct check *c)
{
    const char *text;
    for (unsigned i = 0; (text = config_exposed(c->cfg, i)); i++) {
        check_add(c, CHECK_WARN, "insecure", "%s", text);
        check_hint(c, "it is meant for tests and for networks of your own");
    }
}

void check_alerts(struct check *c)
{
    unsigned on = 0;
    check_exposed(c);
    for (enum alert_channel ch = 0; ch < ALERT_CHANNELS; ch++)
        if (alert_channel_on(c->cfg, ch)) {
            check_channel(c, ch);
            on++;
        }
    if (on == 0) {
        check_add(c, CHECK_WARN, "alerts",
                  "no channel is configured: a lost world would be told to nobody");
        check_hint(c, "set [alert.smtp] url, from, to or [alert.webhook] url");
    } else if (c->cfg->alert_events != EVENT_ALL) {
        check_add(c, CHECK_NOTE, "alerts", "[alert] events leaves some out");
    }
    check_heartbeat(c);
}
