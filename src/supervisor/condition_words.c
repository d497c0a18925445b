/* The subjects of conditions, and what a loss now would cost. */
#include "supervisor/condition_words.h"

#include "base/text.h"
#include "config/config.h"

/* The subject of each condition, as an operator reads it on a phone: the object and what is wrong
 * with it, without internal terms. */
const struct condition_words condition_words[CONDITIONS] = {
    [CONDITION_DAMAGED] = {"dump_damaged", EVENT_DISK, "a dump is damaged"},
    [CONDITION_DUMP] = {"dump", EVENT_DISCARDED, "dump failed"},
    [CONDITION_SHRUNK] = {"dump_shrunk", EVENT_DISCARDED, "tables lost rows", "no more rows lost"},
    [CONDITION_STALE] = {"stale", EVENT_STALE, "no new dump for too long"},
    [CONDITION_DISK_LOW] = {"disk", EVENT_DISK, "disk of the dumps nearly full"},
    [CONDITION_STATUS] = {"status", EVENT_DISK, "status files cannot be written"},
    [CONDITION_STATE] = {"state", EVENT_DISK, "state.json cannot be written"},
    [CONDITION_DISK_WRITER] = {"writing", EVENT_DISK, "disk of the dumps does not answer"},
    [CONDITION_DIR_MOVED] = {"dump_dir", EVENT_DISK, "dump directory moved or replaced"},
    [CONDITION_REFUSED] = {"config", EVENT_STARTED, "new config refused"},
    [CONDITION_JOURNAL_GAP] = {"journal_gap", EVENT_JOURNAL, "journal interrupted",
                               "journal gap is over"},
    [CONDITION_JOURNAL] = {"journal", EVENT_JOURNAL, "no journal"},
    [CONDITION_JOURNAL_LAG] = {"journal_lag", EVENT_JOURNAL, "journal is late"},
    [CONDITION_CHECK] = {"check", EVENT_CHECK, "--check fails"},
    [CONDITION_QUEUE] = {"alert_queue", EVENT_CHECK, "foreign files in the alert queue"},
    [CONDITION_LEDGER] = {"ledger", EVENT_LEDGER, "ledger not rolled up"},
    [CONDITION_LEDGER_SLOW] = {"ledger_slow", EVENT_LEDGER, "ledger grows too fast"},
    [CONDITION_LEDGER_LATE] = {"ledger_late", EVENT_LEDGER, "ledger has late rows"},
    [CONDITION_LEDGER_IGNORED] = {"ledger_ids", EVENT_LEDGER, "ledger rows are in no total"},
    [CONDITION_STOLEN] = {"progress_stolen", EVENT_PROGRESS, "progress of players set aside"},
    [CONDITION_CENTRAL] = {"progress_central", EVENT_PROGRESS, "progress of players not sent"},
    [CONDITION_DRILL] = {"drill", EVENT_DRILL, "drill failed"},
    [CONDITION_VERIFY] = {"verify", EVENT_DRILL, "verify failed"},
    [CONDITION_OFFSITE] = {"offsite", EVENT_OFFSITE, "off-site copies fail"},
    [CONDITION_OFFSITE_LATE] = {"offsite_late", EVENT_OFFSITE, "off-site copies are late"},
    [CONDITION_STANDBY] = {"standby", EVENT_STANDBY, "standby is behind"},
    [CONDITION_COLD] = {"standby_cold", EVENT_STANDBY, "standby has not loaded the world"},
    [CONDITION_LEASE] = {"lease", EVENT_STANDBY, "lease cannot be taken over"},
    [CONDITION_LEFT] = {"standby_tables", EVENT_STANDBY, "standby still has tables of the world"},
    [CONDITION_PAUSE] = {"pause", EVENT_PAUSE, "PAUSED for long, without an end"},
    [CONDITION_BLOCKED] = {"blocked", EVENT_WAITING, "restore BLOCKED by other sessions"},
};

/* Appends what a loss now would cost. Unknown figures are not shown: if the clock was set back, the
 * age of a dump is unknown. The play since a dump never exceeds the age of the dump, whether the
 * world is up or not. */
void exposure_words(const struct exposure *e, struct buf *out)
{
    char age[TEXT_SHORT], rest[TEXT_SHORT];
    if (!e->dump) {
        buf_adds(out, "all of the world: no verified dump exists; this changes when one is stored");
        return;
    }
    if (e->dump_age < 0) {
        buf_adds(out, e->damaged
                          ? "all of the world: the newest dump is damaged, and no older "
                            "intact one is known; this changes when the next dump is stored"
                          : "all play since the newest verified dump, whose age is not known "
                            "(the clock was set back); this changes when the next dump is "
                            "stored");
        return;
    }
    text_duration(e->dump_age, age);
    if (e->damaged) { /* how far the journal leads from an older dump is seen by a restore */
        buf_printf(out,
                   "at most %s of play: the newest intact dump is %s old, as a newer one is "
                   "damaged%s; this changes when the next dump is stored",
                   age, age,
                   e->journal ? "; a restore adds what the journal has since that dump" : "");
        return;
    }
    bool covered = e->unproven >= 0 && e->unproven < e->dump_age;
    if (covered)
        buf_printf(out,
                   "at most %s of play: the newest verified dump is %s old, and the journal "
                   "covers the time since, but for these last %s; ",
                   text_duration(e->unproven, rest), age, rest);
    else
        buf_printf(
            out, "at most %s of play: the newest verified dump is %s old, and %s; ", age, age,
            !e->journal ? "no journal covers the time since ([journal] mode = off)"
            : e->up     ? "the journal is not known to cover the time since"
                    : "whether the journal covers the time since is seen when the world is back");
    buf_adds(out, !e->up    ? "this does not grow while nobody plays"
                  : covered ? "this stays so while the journal is followed"
                            : "this grows until the next dump is stored");
}
