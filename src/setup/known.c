#include "setup/known.h"

#include <stdlib.h>
#include <string.h>

#include "binlog/prerequisites.h"
#include "setup/restart.h"
#include "setup/talk.h"

/* Returns true if privileges for the journal were declined. binlog_prerequisites() cannot tell:
 * over an administrator's session it reports what the server lacks, but not what was declined. */
static bool was_declined(struct world *w)
{
    struct needed_grants left = {0};
    struct err ignored = {0};
    bool declined = false;
    needed_grants_for(w->cfg, w->s->db, w->account.name, &left, &ignored);
    for (size_t i = 0; i < left.count; i++)
        declined |= left.list[i].lost && text_starts(left.list[i].lost, "no journal");
    needed_grants_free(&left);
    return declined;
}

static void say_journal(struct world *w)
{
    SCOPED(binlog_prerequisites_free) struct binlog_prerequisites is = {0};
    struct err why = {0};
    bool none = w->cfg->journal == JOURNAL_OFF || was_declined(w);
    if (none)
        is.reason = xstrdup("no journal is kept");
    else if (binlog_prerequisites(w->s->db, w->cfg->schema, &is, &why) < 0)
        is.reason = xstrdup(why.text);
    if (!is.reason)
        talk_say("  a restart, crash or kill of the server: restored automatically, with all that "
                 "was acknowledged\n");
    else
        talk_say("  a restart, crash or kill of the server: restored automatically from the newest "
                 "dump\n"
                 "Not yet:\n  what was played after that dump: %s\n",
                 is.reason);
    if (is.reason && !none && restart_needed(w))
        restart_say(w);
}

void known_say(struct world *w)
{
    talk_say("\nWorld %s is protected against:\n", w->name);
    say_journal(w);
    if (!w->cfg->offsite.url)
        talk_say("Not yet, and in worldkeeper-offsite(7):\n  the loss of this machine's disk "
                 "([offsite] url)\n");
    if (!config_any_channel(w->cfg))
        talk_say(
            "No alert is sent when the world is lost: configure [alert.smtp] or [alert.webhook] in "
            "%s\n",
            w->config_path);
    talk_line(
        "\nWorth knowing:\n"
        "  worldkeeper --world %s --status       what it does now\n"
        "  worldkeeper --world %s --list         its dumps, and the times that --restore --at "
        "reaches\n"
        "  worldkeeper --world %s --pause=1h     before planned work on the server\n",
        w->name, w->name, w->name);
}
