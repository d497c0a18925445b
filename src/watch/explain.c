#include "watch/explain.h"

#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "base/steps.h"
#include "base/text.h"
#include "mysql/galera.h"
#include "watch/probe.h"

#define TOO_MANY_CONNECTIONS 1040 /* from the server */
#define NO_SOCKET 2002            /* from the client library: no connection at all */
#define NO_HOST 2003
#define LOST_CONNECTION 2013

struct text {
    const char *cause, *todo, *command;
};

#define BY_ITSELF "the world is restored automatically if it comes back empty."
#define SERVER "systemctl status mariadb mysql"
#define GONE                                                                                       \
    "If they were dropped by mistake, restore the world; nothing is restored automatically. "      \
    "If an open condition shows a command with the time of the loss, run that one, because it "    \
    "loses less."
#define EMPTIED "The database server was restarted and the world is empty"

static const struct text causes[] = {
    [CAUSE_START] = {"The database server has not answered yet", "", ""},
    [CAUSE_ALIVE] = {"The world is up", "", ""},
    [CAUSE_RESTORED] = {"The world is up", "", ""},
    [CAUSE_UNREACHABLE] = {"The database server cannot be reached",
                           "Find out why it cannot be reached; " BY_ITSELF, SERVER},
    [CAUSE_STALLED] = {"The database server does not answer",
                       "Find out what blocks it. Nothing is restored while it may still have the "
                       "world.",
                       "mysql -e 'SHOW FULL PROCESSLIST'"},
    [CAUSE_DENIED] = {"The database server refuses worldkeeper's account",
                      "Find the privilege or limit that is missing. Until then no dump is made.",
                      "worldkeeper --check"},
    [CAUSE_FOREIGN] = {"The row by which worldkeeper knows its world was changed",
                       "Find out who changed it. If the world that is there is the right one, "
                       "adopt it; until then no dump is made.",
                       "worldkeeper --init --force"},
    [CAUSE_MISSING] = {"The table by which worldkeeper knows its world is missing",
                       "If the other tables are complete, worldkeeper --init takes them as the "
                       "world. If not, restore the newest dump, or with --at a later moment, which "
                       "keeps a copy of their rows; nothing is restored automatically.",
                       "worldkeeper --restore --force"},
    [CAUSE_DELETED] = {"The row by which worldkeeper knows its world was deleted",
                       "If the world is still there, put the row back; until then no dump is made.",
                       "worldkeeper --init"},
    [CAUSE_UNCONFIRMED] = {EMPTIED, "", ""},
    [CAUSE_ELSEWHERE] = {"The world is empty, on another database server than before",
                         "If the game has moved to this server, restore the world there. If not, "
                         "correct [mysql] in the config.",
                         "worldkeeper --restore"},
    [CAUSE_MANUAL] = {EMPTIED,
                      "Restore it: nothing is restored automatically ([restore] auto = no).",
                      "worldkeeper --restore"},
    [CAUSE_BACKOFF] = {EMPTIED ", and the restore failed",
                       "The restore is retried automatically. See what can be restored.",
                       "worldkeeper --list"},
    [CAUSE_LOSS] = {EMPTIED, "", ""},
    [CAUSE_RESTORE] = {"The world is being restored", "", ""},
    [CAUSE_WITHDRAWN] = {"A restore that is no longer wanted is being ended", "", ""},
    [CAUSE_FAILED] = {"The restore failed",
                      "The restore is retried automatically. See what can be restored.",
                      "worldkeeper --list"},
    [CAUSE_DOUBT] = {"This machine stood still, or its clock was set", "", ""},
    [CAUSE_PAUSE] = {"Paused on request", "When the work is done, end the pause.",
                     "worldkeeper --resume"},
    [CAUSE_RESUME] = {"The pause is over", "", ""},
    [CAUSE_STANDBY] = {"Another machine keeps this world", "", ""},
    [CAUSE_LEASE] = {"This machine does not hold the lease of the world",
                     "See which machine holds it.", "worldkeeper --status"},
    [CAUSE_STOP] = {"The supervisor was stopped", "", ""},
};

const char *explain_lost(const struct guard *g)
{
    if (g->loss_missing)
        return g->loss_elsewhere
                   ? "This is another database server than before, without the tables of the world"
                   : "The database server was restarted and the tables of the world do not exist";
    return g->loss_elsewhere ? "The world is empty, on another database server than before"
                             : EMPTIED;
}

/* One cause may have several explanations, distinguished by the error's number or our own words. */
static struct text explain_text_of(const struct guard *g, int error)
{
    struct text t = (size_t)g->cause < sizeof causes / sizeof *causes ? causes[g->cause]
                                                                      : (struct text){"", "", ""};
    /* No process listens there: ENOENT for a socket's file, ECONNREFUSED. */
    bool refused = (error == NO_SOCKET || error == NO_HOST) &&
                   (strstr(g->reason, "(2)") || strstr(g->reason, "(111)"));
    if (g->cause == CAUSE_UNREACHABLE && refused) {
        t.cause = "The database server is not running";
        t.todo = "Find out why it is not running, and start it; " BY_ITSELF;
    } else if (g->cause == CAUSE_UNREACHABLE && error == LOST_CONNECTION) {
        t.cause = "The database server ended the connection";
    } else if (g->cause == CAUSE_STALLED && error == GALERA_NOT_PRIMARY) {
        t.cause = "The Galera node is not in the primary component";
        t.todo = "Bring the node back to its cluster, or the cluster back to a primary component.";
        t.command = "mysql -e \"SHOW STATUS LIKE 'wsrep_cluster%'\"";
    } else if (g->cause == CAUSE_DENIED && text_starts(g->reason, PROBE_ANOTHER)) {
        t = (struct text){"Another supervisor watches this world", "Stop one of the two.", ""};
    } else if (g->cause == CAUSE_DENIED && error == TOO_MANY_CONNECTIONS) {
        t.cause = "The database server has no free connection";
        t.todo = "Find out who holds the connections, or raise max_connections.";
        t.command = "mysql -e 'SHOW FULL PROCESSLIST'";
    } else if (g->cause == CAUSE_MISSING && text_starts(g->reason, EXPECT_NO_SCHEMA)) {
        t.cause = "The database of the world and its tables do not exist";
        t.todo = GONE;
        t.command = "worldkeeper --restore";
    } else if (g->cause == CAUSE_MISSING && !g->rows_there) {
        t.cause = "The tables of the world are missing or empty";
        t.todo = GONE;
        t.command = "worldkeeper --restore";
    } else if (g->cause == CAUSE_STANDBY && g->state != GUARD_STANDBY) {
        t.cause = "This machine keeps the world now";
    }
    return t;
}

void explain(const struct guard *g, const struct config *c, int error, const char *hint,
             struct explanation *out)
{
    struct text t = explain_text_of(g, error);
    const char *todo = t.todo, *found;
    SCOPED(steps_free) struct steps steps = {0};
    bool failed = g->cause == CAUSE_FAILED || g->cause == CAUSE_BACKOFF;
    /* A command for the service manager must run on the server's machine. */
    bool far = c->mysql.host && !config_is_here(c->mysql.host) && strcmp(t.command, SERVER) == 0;
    *out = (struct explanation){0};
    steps_split(hint, &steps);
    found = steps.count ? steps.list[0].command.p : "";
    if (g->cause == CAUSE_MISSING && text_starts(found, "worldkeeper --restore") &&
        (g->rows_there || !strstr(found, " --table ")) && strlen(found) < sizeof out->command) {
        /* The journal's command loses less than the general one. A command for single tables would
         * be refused where no rows are, because they do not complete a world that is missing. */
        t.command = found;
        todo =
            "If they were dropped by mistake, this brings them back as they were before; nothing "
            "is restored automatically.";
    }
    snprintf(out->command, sizeof out->command, "%s", far ? "" : t.command);
    bool lost = text_starts(t.cause, EMPTIED);
    line_set(out->cause, sizeof out->cause, "%s%s", lost ? explain_lost(g) : t.cause,
             lost ? t.cause + strlen(EMPTIED) : "");
    if (!c->restore_auto && (found = strstr(todo, BY_ITSELF)))
        line_set(out->todo, sizeof out->todo,
                 "%.*snothing is restored automatically ([restore] auto = no).",
                 (int)(found - todo), todo);
    else
        line_set(out->todo, sizeof out->todo, "%s%s%s", failed && hint[0] ? hint : "",
                 failed && hint[0] ? ". " : "", todo);
    if (far) {
        char rest[sizeof out->todo];
        line_set(rest, sizeof rest, "%s", out->todo);
        line_set(out->todo, sizeof out->todo, "On %s: %s", c->mysql.host, rest);
    }
}
