/* The metrics in Prometheus' text format for the node exporter's textfile collector. One table maps
 * values of the status to metrics. This file does no I/O. */
#include "supervisor/metrics.h"

#include <string.h>

#include "base/clock.h"
#include "base/js.h"

#define GAUGE "gauge"
#define COUNTER "counter"
#define HISTOGRAM "histogram"

/* A value is a number, a boolean, or a UTC time, which becomes seconds since 1970. A path names
 * members, joined by dots. "[]" stands for each element of a list; the names after a blank are the
 * members of the element that become labels: "ledger=name" is a label `ledger` with the value of
 * `name`. A histogram's path leads to {"buckets", "sum"}.
 *
 * Names, types and help texts are an interface. If two files of one machine differ in the help or
 * the type of a metric, as during an upgrade, node_exporter silently drops one world's samples of
 * it. So another help text needs another name. */
static const struct metric {
    const char *name, *type, *help, *path;
} table[] = {
    {"up", GAUGE, "1 while the world is up", "ready"},
    {"paused", GAUGE, "1 while paused on request", "figures.paused"},
    {"generation", GAUGE, "raised by each restore", "generation"},
    {"build_info", GAUGE, "always 1, with the version of the supervisor",
     "figures.build[].is version"},
    {"state", GAUGE, "1 for the state that the world is in", "figures.states[].is state"},
    {"state_since_timestamp_seconds", GAUGE, "since when it has been in it (unix time)", "since"},
    {"start_timestamp_seconds", GAUGE, "when the supervisor was started (unix time)",
     "figures.started"},
    {"valid_until_timestamp_seconds", GAUGE,
     "the supervisor is dead when this is in the past (unix time)", "valid_until"},
    {"probe_seconds", GAUGE, "how long the last answered probe took", "figures.probe_seconds"},
    {"condition", GAUGE, "1 while the condition is open", "figures.conditions[].is condition"},

    {"last_dump_timestamp_seconds", GAUGE, "when the newest intact dump was taken (unix time)",
     "last_dump.at_unix"},
    {"last_dump_rows", GAUGE, "rows in it", "last_dump.rows"},
    {"last_dump_bytes", GAUGE, "its size on disk", "last_dump.file_size"},
    {"last_dump_seconds", GAUGE, "how long it took", "last_dump.seconds"},
    {"last_dump_wait_seconds", GAUGE, "the longest time that it can have kept a writer waiting",
     "figures.dump_wait_seconds"},
    {"dump_interval_seconds", GAUGE, "how often dumps are taken", "figures.dump_interval"},
    {"disk_free_bytes", GAUGE, "room in the dump directory", "disk.free_bytes"},
    {"damaged_dumps", GAUGE, "dumps that were found damaged and are not restored",
     "figures.damaged"},

    {"journal_lag_seconds", GAUGE,
     "how old a change may be that is not proven to be in the journal", "journal.behind_seconds"},
    {"journal_gap", GAUGE, "1 while changes may be missing from the journal since the last dump",
     "journal.gap"},

    {"last_restore_timestamp_seconds", GAUGE, "when the last restore ended (unix time)",
     "last_restore.at"},
    {"last_restore_success", GAUGE, "1 if it brought the world back", "last_restore.ok"},
    {"last_restore_seconds", GAUGE, "how long it took", "last_restore.seconds"},
    {"last_restore_rows", GAUGE, "rows that it restored", "last_restore.rows"},
    {"last_restore_outage_seconds", GAUGE, "how long the world was not up",
     "last_restore.outage_seconds"},
    {"last_restore_lost_seconds", GAUGE, "how much of the newest play was lost",
     "last_restore.lost_seconds"},

    {"last_drill_timestamp_seconds", GAUGE, "when the last drill ended (unix time)",
     "last_drill.at"},
    {"last_drill_success", GAUGE, "1 if it restored the dump and found it equal", "last_drill.ok"},
    {"last_drill_seconds", GAUGE, "how long its restore took", "last_drill.seconds"},
    {"last_drill_rows", GAUGE, "rows that it restored", "last_drill.rows"},
    {"last_verify_timestamp_seconds", GAUGE, "when dumps were last read back (unix time)",
     "last_verify.at"},
    {"last_verify_success", GAUGE, "1 if all of them were whole", "last_verify.ok"},
    {"last_verify_damaged_dumps", GAUGE, "how many of them were not", "last_verify.damaged"},

    {"runs_total", COUNTER, "dumps, restores, drills and verifies since the supervisor started",
     "figures.runs[].count action result"},
    {"failures_total", COUNTER, "those that failed, by the kind of error",
     "figures.failures[].count action kind"},

    {"alerts_waiting", GAUGE, "alerts not yet delivered", "alerts.waiting"},
    {"alert_channel_up", GAUGE, "1 if the last message was delivered",
     "figures.channels[].up channel"},
    {"alert_channel_waiting", GAUGE, "alerts that wait for it",
     "figures.channels[].waiting channel"},
    {"alerts_sent_total", COUNTER, "messages delivered since the supervisor started",
     "figures.channels[].sent channel"},
    {"alerts_failed_total", COUNTER, "attempts to deliver one that failed",
     "figures.channels[].failed channel"},

    {"ledger_rows", GAUGE, "rows in the ledger, not yet rolled up", "ledgers[].rows ledger=name"},
    {"ledger_rolled_up_total", COUNTER, "rows that are in its totals",
     "ledgers[].rolled_up ledger=name"},
    {"ledger_keys", GAUGE, "totals in its rollup", "ledgers[].keys ledger=name"},
    {"ledger_late_total", COUNTER,
     "rows that were older than rows rolled up before them, when their turn came",
     "ledgers[].late ledger=name"},
    {"ledger_last_rollup_timestamp_seconds", GAUGE, "end of the last run (unix time)",
     "ledgers[].last ledger=name"},
    {"ledger_last_rollup_seconds", GAUGE, "how long the last run took",
     "ledgers[].seconds ledger=name"},

    {"progress_sessions", GAUGE, "sessions in the local store", "progress.sessions"},
    {"progress_unsent", GAUGE, "blobs that the central store does not have yet", "progress.unsent"},
    {"progress_oldest_unsent_seconds", GAUGE, "how long the oldest of them waits",
     "progress.oldest_unsent_seconds"},
    {"progress_stolen", GAUGE, "blobs set aside that may no longer be sent", "progress.stolen"},
    {"progress_sent_total", COUNTER, "blobs sent since the supervisor started", "progress.sent"},
    {"progress_central_up", GAUGE, "1 while the central store takes saves", "figures.central_up"},

    {"offsite_dumps", GAUGE, "dumps in the store on the other machine, read back",
     "offsite.stored"},
    {"offsite_waiting", GAUGE, "dumps and journal segments that it does not have yet",
     "offsite.waiting"},
    {"offsite_behind_seconds", GAUGE,
     "how long the oldest of them waits that is newer than all that is there",
     "offsite.behind_seconds"},
    {"offsite_fenced", GAUGE,
     "1 while nothing is stored, as another machine stores the world there", "offsite.fenced"},
    {"offsite_failed_total", COUNTER, "attempts to store something that failed", "offsite.failed"},

    {"standby_behind_seconds", GAUGE,
     "time since the moment of the newest change that the standby has", "standby.behind_seconds"},
    {"standby_warm", GAUGE,
     "1 while the world is loaded and caught up, 0 while a promotion would load it",
     "standby.warm.ready"},
    {"standby_warm_behind_seconds", GAUGE,
     "time since the moment of the newest change that is in what is loaded",
     "standby.warm.behind_seconds"},
    {"standby_last_pull_timestamp_seconds", GAUGE,
     "when the standby had all that the store has (unix time)", "standby.last_pull"},

    {"loop_late_seconds", HISTOGRAM, "how late the supervisor's loop was, each round",
     "figures.lateness"},
    {"loop_late_max_seconds", GAUGE, "its greatest lateness since it started",
     "figures.lateness.max"},

    /* Old names, which existing dashboards and alert rules use. */
    {"last_dump_time_seconds", GAUGE, "when the newest dump was taken (unix time)",
     "last_dump.at_unix"},
    {"journal_behind_seconds", GAUGE,
     "how old a change may be that is not proven to be in the journal; -1: nobody follows",
     "journal.behind_seconds"},
    {"valid_until_seconds", GAUGE, "the supervisor is dead when this is past (unix time)",
     "valid_until"},
    {"progress_sent", GAUGE, "blobs sent since the supervisor started", "progress.sent"},
};

/* One metric that is being written. Its head is written with the first sample, or not at all. */
struct family {
    const struct metric *metric;
    const char *world;
    struct buf *out;
    bool begun; /* help and type were written */
};

/* Appends a label. The text format allows any UTF-8 in its value; only these three characters are
 * escaped. */
static void metrics_add_label(struct buf *b, const char *name, size_t len, const char *value)
{
    buf_add(b, name, len);
    buf_adds(b, "=\"");
    for (; *value; value++) {
        if (*value == '\n')
            buf_adds(b, "\\n");
        else if (*value == '\\' || *value == '"')
            buf_printf(b, "\\%c", *value);
        else
            buf_addc(b, *value);
    }
    buf_addc(b, '"');
}

/* Writes one sample. `element`: the object whose members become labels, or NULL; `le`: the limit of
 * a bucket, or NULL. */
static void metrics_sample(struct family *f, const char *suffix, const json_t *element,
                           const char *le, double value)
{
    const struct metric *m = f->metric;
    if (!f->begun)
        buf_printf(f->out, "# HELP worldkeeper_%s %s\n# TYPE worldkeeper_%s %s\n", m->name, m->help,
                   m->name, m->type);
    f->begun = true;
    buf_printf(f->out, "worldkeeper_%s%s{", m->name, suffix);
    metrics_add_label(f->out, "world", strlen("world"), f->world);
    const char *label = m->path + strcspn(m->path, " ");
    for (label += strspn(label, " "); *label;) {
        size_t len = strcspn(label, " "), name = strcspn(label, " =");
        const char *from = label[name] == '=' ? label + name + 1 : label;
        SCOPED(xfree) char *member = xstrndup(from, (size_t)(label + len - from));
        buf_addc(f->out, ',');
        metrics_add_label(f->out, label, name, js_text(element, member));
        label += len + strspn(label + len, " ");
    }
    if (le) {
        buf_addc(f->out, ',');
        metrics_add_label(f->out, "le", strlen("le"), le);
    }
    buf_printf(f->out, "} %.3f\n", value);
}

/* Converts a value to a number; returns false if it is unknown. Flags become 0 and 1, times become
 * seconds. */
static bool metrics_number_of(const json_t *value, double *out)
{
    wall_t at;
    *out = json_is_true(value) ? 1 : json_number_value(value);
    if (!json_is_string(value))
        return json_is_number(value) || json_is_boolean(value);
    if (text_utc_ms_parse(json_string_value(value), &at) < 0)
        return false;
    *out = (double)at.ms / 1000;
    return true;
}

static void metrics_follow(struct family *f, const char *path, const json_t *value,
                           const json_t *element)
{
    double number;
    while (value && *path && *path != ' ') {
        size_t len = strcspn(path, ".[ ");
        SCOPED(xfree) char *member = xstrndup(path, len);
        value = json_object_get(value, member);
        path += len;
        if (text_starts(path, "[].")) {
            const json_t *each;
            size_t i;
            json_array_foreach(value, i, each)
            {
                metrics_follow(f, path + strlen("[]."), each, each);
            }
            return;
        }
        path += *path == '.';
    }
    if (strcmp(f->metric->type, HISTOGRAM) == 0) {
        /* "+Inf" is the last bucket, and the counts are already cumulative. */
        const json_t *buckets = json_object_get(value, "buckets"), *bucket;
        double count = 0, sum;
        size_t i;
        if (json_array_size(buckets) && metrics_number_of(json_object_get(value, "sum"), &sum)) {
            json_array_foreach(buckets, i, bucket)
            {
                metrics_number_of(json_object_get(bucket, "count"), &count);
                metrics_sample(f, "_bucket", NULL, js_text(bucket, "le"), count);
            }
            metrics_sample(f, "_sum", NULL, NULL, sum);
            metrics_sample(f, "_count", NULL, NULL, count);
        }
    } else if (metrics_number_of(value, &number))
        metrics_sample(f, "", element, NULL, number);
}

void metrics_text(const char *world, const json_t *status, struct buf *out)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct family f = {.metric = &table[i], .world = world, .out = out};
        metrics_follow(&f, table[i].path, status, NULL);
    }
}
