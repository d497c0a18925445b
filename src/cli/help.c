#include "cli/help.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "actions/worlds.h"

/* Each begins a line with "  --"; what belongs to it is indented further. */
static const char world_actions[] =
    "  --run              supervise in the foreground (default; systemd Type=notify)\n  --check    "
    "        what is right, what is missing, how to fix it\n       --grants         only the "
    "statements that give the account all that it\n                        needs, for: | sudo "
    "mysql\n  --init             create sentinel and lease table, and what ledgers and\n           "
    "          progress need\n       --force          adopt the sentinel and lease table that are "
    "there\n  --new-round        the world as it is begins a new round; the last dump of\n         "
    "            the old one is made and kept\n       --from FILE      then loads the new world "
    "from this SQL file\n  --dump             one dump now (--force: also when the world shrank)\n "
    " --list             dumps, newest first\n       --from offsite   those in the store on "
    "another machine\n  --verify[=DUMP]    read dumps back: are they intact? (default: all)\n      "
    " --from offsite   those in the store on another machine\n  --drill[=DUMP]     restore a dump "
    "into a scratch schema, compare, drop it\n       --from offsite   one that is fetched from "
    "there first\n  --restore[=DUMP]   restore now; DUMP is a name, 'latest' (default), or a "
    "path\n                     to a .sql or .sql.gz of mysqldump or the like\n       --from "
    "offsite   one that is fetched from there first, and what the\n                        journal "
    "has after it\n       --into SCHEMA    somewhere else\n       --force          also over a "
    "living world, after a dump of it\n       --accept-cut     also from a file that lacks its "
    "closing line\n       --charset NAME   the character set of its texts\n       --with-code      "
    "also its views, routines, triggers and events\n       --dry-run        say what would be "
    "done\n       --table NAME[,NAME…]  only these tables: into a living world, or\n               "
    "         with --into\n       --at TIME        to that moment, by dump and journal:\n          "
    "              \"2026-11-21 18:30:05\", 18:30, -15m\n  --conflicts[=FILE] rows that players "
    "wrote into emptied tables, compared\n                     with the world as it is\n       "
    "--apply          insert what does not collide, from FILE\n       --renumber       and what "
    "collides, under new AUTO_INCREMENT values\n       --dry-run        say what would be "
    "inserted\n  --rollup[=LEDGER]  add old rows of ledgers to their totals, and delete them\n     "
    "  --until TIME     rows up to that time, however recent\n       --dry-run        say how many "
    "rows\n       --verify         compare totals, files of rolled-up rows and ledgers\n  "
    "--history          what happened to the world, and how long it was up\n       --since TIME    "
    " from that moment on, or 7d for a week (the default)\n  --seal[=DUMP]      accept dumps "
    "without a valid HMAC as ours, after reading\n                     them back (default: all "
    "that have none)\n  --status           state of the running supervisor; without a world: of "
    "all\n                     in " WORLDS_DIR "\n"
    "  --pause[=DURATION], --resume     planned work on the server\n"
    "       --until TIME     a pause that ends at that time\n"
    "  --promote          a standby takes the world over, with all that the store\n"
    "                     has of it\n"
    "       --by-hand        without a lease, on your word that no other machine\n"
    "                        keeps the world\n"
    "       --force          that word, unless the other machine has handed the\n"
    "                        world over\n"
    "  --demote           this machine becomes a standby; rows are saved to a\n"
    "                     conflict file\n"
    "       --force          also while the world is up and nobody else has it\n"
    "  --switch-over      hand the world over without loss: the game's writes stop,\n"
    "                     and what the store lacks is sent; then --promote on the\n"
    "                     other machine\n"
    "  --test-alert       one message through each channel\n";

static const char progress_actions[] =
    "  --write-back       send players' progress to the central store now\n"
    "       --unlock         then end all sessions and release their locks\n"
    "  --locks            the locks in the central store, and who holds each\n"
    "  --release=KEY      write back and release one lock of ours\n"
    "       --force          also one that another game server holds\n"
    "  --sql=progress-central  the schema of the central store of players' progress\n";

static const char options[] =
    "options:\n"
    "  --config FILE      the config of the world\n"
    "  --world NAME       the same as --config /etc/worldkeeper/NAME.ini\n"
    "  --json  --quiet  --verbose  --allow-root  --version, -V\n"
    "  --help, -h         this text; --help ACTION: what belongs to it\n"
    "\n"
    "exit status: 0 done; 1 failed; 2 bad usage or config; 3 another instance has\n"
    "the world; 4 refused for safety; 5 nothing intact to restore from; 6 --verify:\n"
    "not well, --status: not up (1: up, with open conditions)\n";

/* Returns whether the line names the action. Some lines name two actions. */
static bool help_names(const char *line, size_t len, const char *action)
{
    size_t n = strlen(action);
    for (const char *at = line; (at = memmem(at, len - (size_t)(at - line), "--", 2)); at += 2)
        if (strncmp(at + 2, action, n) == 0 && !isalpha((unsigned char)at[2 + n]) &&
            at[2 + n] != '-')
            return true;
    return false;
}

static void print_lines_of(const char *text, const char *action)
{
    bool its = false;
    for (const char *line = text, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        size_t len = (size_t)(end - line);
        if (strncmp(line, "  --", 4) == 0)
            its = help_names(line, len, action);
        if (its)
            printf("%.*s\n", (int)len, line);
    }
}

/* Prints the lines of one action from the full help text, so that no second text has to be kept up
 * to date. */
void help_print(enum action action)
{
    const char *name = action_name(action);
    if (action == ACTION_NONE) {
        printf("worldkeeper keeps the MEMORY tables of one game world alive.\n\n"
               "usage: worldkeeper [--config FILE | --world NAME] [ACTION] [OPTIONS]\n\n"
               "actions (one):\n%s%s\n%s",
               world_actions, progress_actions, options);
        return;
    }
    printf("usage: worldkeeper [--config FILE | --world NAME] --%s [OPTIONS]\n\n", name);
    print_lines_of(world_actions, name);
    print_lines_of(progress_actions, name);
    printf("\n%s", options);
}
