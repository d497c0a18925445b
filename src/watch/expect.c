#include "watch/expect.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/line.h"
#include "base/text.h"

#define NONCE_SHOWN 8 /* hex digits of a nonce in a text: enough to distinguish two */

static const struct {
    const char *name;
    char letter;
} names[] = {
    [VERDICT_NONE] = {"NONE", '-'},       [VERDICT_ALIVE] = {"ALIVE", 'A'},
    [VERDICT_EMPTY] = {"EMPTY", 'E'},     [VERDICT_MISSING] = {"MISSING", 'M'},
    [VERDICT_FOREIGN] = {"FOREIGN", 'F'}, [VERDICT_UNREACHABLE] = {"UNREACHABLE", 'U'},
    [VERDICT_STALLED] = {"STALLED", 'S'}, [VERDICT_DENIED] = {"DENIED", 'D'},
};
#define NAMES (sizeof names / sizeof *names)

const char *verdict_name(enum verdict v)
{
    return (size_t)v < NAMES ? names[v].name : "NONE";
}

char verdict_letter(enum verdict v)
{
    return (size_t)v < NAMES ? names[v].letter : '-';
}

/* Cleans text from the server, which cannot be trusted, to one printable line. */
static void expect_say(struct judgement *out, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));
static void expect_say(struct judgement *out, const char *fmt, ...)
{
    SCOPED(buf_free) struct buf raw = {0}, line = {0};
    va_list ap;
    va_start(ap, fmt);
    buf_vprintf(&raw, fmt, ap);
    va_end(ap);
    text_clean(&line, raw.p, sizeof out->text - sizeof "...");
    line_set(out->text, sizeof out->text, "%s", line.p);
}

/* Formats a start time from the server, which may be any number. */
static const char *start_text(int64_t start, char out[TEXT_SHORT])
{
    /* Beyond the year 9999 it cannot be a time: show the number. */
    if (start < 0 || start > INT64_C(253402300799))
        snprintf(out, TEXT_SHORT, "%" PRId64, start);
    else
        text_utc((wall_t){start * 1000}, out);
    return out;
}

static bool is_nonce(const char *s)
{
    for (size_t i = 0; i < NONCE_LEN; i++)
        if (!isxdigit((unsigned char)s[i]))
            return false;
    return s[NONCE_LEN] == '\0';
}

/* Uses the failed probe's own text, with the error number if that is not in it. */
static void judge_failed(const struct observation *seen, struct judgement *out)
{
    const char *text = seen->text;
    if (!text[0])
        text = seen->failed == VERDICT_UNREACHABLE ? "no connection"
               : seen->failed == VERDICT_STALLED   ? "no answer in time"
                                                   : "the server refuses this account";
    char number[16];
    snprintf(number, sizeof number, "%d", seen->error);
    out->verdict = seen->failed;
    if (seen->error == 0 || strstr(text, number))
        expect_say(out, "%s", text);
    else
        expect_say(out, "%s (error %d)", text, seen->error);
}

/* Checks privileges first, because without privileges on a table the server answers as if it did
 * not exist. */
static void judge_missing(const struct observation *seen, struct judgement *out)
{
    if (!seen->privileges_proven) {
        out->verdict = VERDICT_DENIED;
        expect_say(out,
                   "sentinel table not visible (error %d); this account may lack the privilege to "
                   "see it",
                   seen->error);
        return;
    }
    out->verdict = VERDICT_MISSING;
    out->rebuilt = !seen->schema_has_rows;
    if (!seen->schema_there)
        expect_say(out, EXPECT_NO_SCHEMA " (error %d)", seen->error);
    else
        expect_say(out, "sentinel table not there (error %d), %s", seen->error,
                   out->rebuilt ? "no table of the schema holds a row"
                                : "tables of the schema hold rows");
}

/* A connection that is older than the last ALIVE leads to the same process: no connection survives
 * its server, but it may survive a time without probes. A broken connection alone proves no
 * restart, but one that breaks within the second of the server's start has no other likely cause.
 */
static bool expect_restarted(const struct observation *seen, const struct expectation *known)
{
    const struct server_id *now = &seen->server, *then = &known->server;
    if (known->seen.ms && seen->opened.ms <= known->seen.ms)
        return now->start != then->start;
    bool same_pid = now->pid > 1 && now->pid == then->pid; /* 1: systemd created the socket */
    return server_restarted(now, then) || (known->seen.ms && then->young && !same_pid);
}

static void judge_empty(const struct observation *seen, const struct expectation *known,
                        struct judgement *out)
{
    char now[TEXT_SHORT], then[TEXT_SHORT];
    const struct server_id *a = &seen->server, *b = &known->server;
    out->verdict = VERDICT_EMPTY;
    start_text(a->start, now);
    start_text(b->start, then);
    if (!known->known)
        expect_say(out, "sentinel empty, and no earlier state of this world is known");
    else if (!out->same_place)
        expect_say(
            out,
            "sentinel empty, on another server: host %s, data in %s, previously host %s, data in "
            "%s",
            a->hostname, a->datadir, b->hostname, b->datadir);
    else if (out->restarted && a->start == b->start)
        expect_say(out, "sentinel empty, server started again within the second of its start, %s",
                   now);
    else if (out->restarted)
        expect_say(out, "sentinel empty, server started at %s, previously at %s", now, then);
    else if (a->start == 0 || b->start == 0)
        expect_say(out, "sentinel empty, and it is unknown whether the server restarted");
    else
        expect_say(out, "sentinel row deleted: the server is still the one started at %s", now);
}

/* Checks every reason against the row first: only a row that passes all checks is ALIVE. */
static void judge_row(const struct observation *seen, const struct expectation *known,
                      struct judgement *out)
{
    bool first = !known->known || (!known->nonce[0] && !known->next_nonce[0]);
    bool last = known->nonce[0] && strcmp(seen->nonce, known->nonce) == 0;
    bool next = known->next_nonce[0] && strcmp(seen->nonce, known->next_nonce) == 0;
    char now[TEXT_SHORT];
    out->verdict = VERDICT_FOREIGN;
    if (seen->rows > 1) {
        expect_say(out, "sentinel holds %u rows instead of one", seen->rows);
        return;
    }
    if (seen->engine[0]) {
        expect_say(
            out,
            "sentinel table uses engine %s instead of MEMORY: its row survives a server restart "
            "and proves nothing",
            seen->engine);
        return;
    }
    if (!is_nonce(seen->nonce)) {
        expect_say(out, "sentinel row is not ours: its nonce is not %d hex digits", NONCE_LEN);
        return;
    }
    if (!first && !last && !next) {
        expect_say(out, "sentinel nonce %.*s is not ours, expected %.*s", NONCE_SHOWN, seen->nonce,
                   NONCE_SHOWN, known->nonce[0] ? known->nonce : known->next_nonce);
        return;
    }
    out->verdict = VERDICT_ALIVE;
    const char *why = "";
    if (first)
        why = ", first contact";
    else if (!last)
        why = ", from one of our restores or dumps"; /* an operator may have loaded it */
    else if (out->restarted)
        why = ", inserted again after the server started at ";
    expect_say(out, "sentinel there, nonce %.*s, generation %" PRIu64 "%s%s", NONCE_SHOWN,
               seen->nonce, seen->generation, why,
               last && out->restarted ? start_text(seen->server.start, now) : "");
}

void expect_judge(const struct observation *seen, const struct expectation *known,
                  struct judgement *out)
{
    /* Without a known start time no restart is proven, and so no loss. */
    *out = (struct judgement){.same_place = true, .start = seen->server.start};
    if (known->known && seen->server.start != 0) {
        out->same_place = server_same_place(&seen->server, &known->server);
        out->restarted =
            known->server.start != 0 && (expect_restarted(seen, known) || !out->same_place);
    }
    switch (seen->failed) {
    case VERDICT_UNREACHABLE:
    case VERDICT_STALLED:
    case VERDICT_DENIED:
        judge_failed(seen, out);
        break;
    case VERDICT_MISSING:
        judge_missing(seen, out);
        break;
    case VERDICT_NONE:
    case VERDICT_ALIVE:
    case VERDICT_EMPTY:
    case VERDICT_FOREIGN:
        if (seen->rows == 0)
            judge_empty(seen, known, out);
        else
            judge_row(seen, known, out);
        if (seen->another && out->verdict != VERDICT_FOREIGN) {
            out->verdict = VERDICT_DENIED;
            expect_say(out, "%s", seen->text);
        }
        break;
    }
}
