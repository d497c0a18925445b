/* Decides which machine keeps the world ([standby]). A worker renews the lease and moves the fence
 * (base/fence.h) itself. This file decides what that means, and informs the guard. A standby has no
 * lease, and its fence is closed.
 *
 * Rule 4 (tests/models/README.md): the worker reads the record (offsite/record.h) before it first
 * renews a lease, and before it takes one that has ended, or whose place is empty or has another
 * number than before. So a place that was lost, or restored from a backup, does not give the world
 * to a machine that was replaced. record_permits() says what follows if the record cannot be read.
 * Renewals do not read the record, because a slow store must not let the lease end.
 *
 * With lease = none, the worker reads the record instead, and opens the fence while the record
 * names this machine. The record is not a lock, but a machine that returns does nothing before it
 * has checked whether it was replaced. */
#include "supervisor/lease.h"

#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/fault.h"
#include "base/fence.h"
#include "base/js.h"
#include "base/line.h"
#include "offsite/record.h"
#include "standby/lease.h"
#include "store/state.h"
#include "supervisor/decisions.h"
#include "supervisor/jobs.h"
#include "supervisor/lease_table.h"
#include "supervisor/notifier.h"
#include "supervisor/prober.h"
#include "supervisor/world.h"

/* Three kinds of processes follow one lease. The worker renews it and moves the fence in shared
 * memory. The supervisor sees whether the fence is open and informs the guard. Every other process
 * checks the fence before it acts. So a hanging supervisor does not keep an expired lease, and the
 * expiry stops all of them at the same time. */

#define START_MS fault_wait(5000) /* pause before a worker that died is restarted */
/* Type of the packet to the worker: the world's generation, which the lease carries. */
#define GENERATION 2

enum standing {
    UNASKED,
    HOLDS,
    AWAY, /* the place of the lease is unreachable or refuses us, or the record could not be read */
    ANOTHERS, /* another machine holds the lease, or held it last: this machine has stepped back */
};

/* Between two reads of the record, if there is no lease, or the record could not be read yet. */
#define RECORD_MS fault_wait(10000)
#define TABLE_MS 5000 /* time for writing worldkeeper_lease; then the world becomes UP without it */
/* Between two checks whether another machine could take the lease. */
#define TAKEABLE_MS fault_wait(60000)
/* Timeout of the store for one request; with a lease also the wait for a whole read. */
#define RECORD_TIMEOUT 5000
#define SERVER_MS                                                                                  \
    fault_wait(60000) /* time for the server to answer; then the world is set aside without it */

/* Sent by the worker after each attempt. */
struct report {
    enum standing standing;
    struct lease_grant grant;
    struct lease_record record; /* valid if ANOTHERS */
    struct err why;             /* valid if AWAY */
    bool lease;                 /* true: about the lease; false: about the record */
    /* With a lease: the record was read since the supervisor's start and named no other machine. */
    bool read;
    struct err unread; /* why a machine that goes on has not read it; ERR_NONE: it has */
    bool looked;       /* whether `untakeable` was determined */
    /* Why no machine could take the lease although it is renewed; ERR_NONE: it could be taken. */
    struct err untakeable;
    bool
        replaced; /* the record names a successor of this local life: this machine is its standby */
};

static struct leases {
    struct worker worker;
    mono_t next_start; /* time of the next start, after a worker died */
    struct report last;
    uint64_t sent; /* the generation last sent to the worker */
    /* Whether the guard was told that the fence is open; whether it was told anything yet. */
    bool open, begun;
    /* Since when the fence is open, for the table that games read; ms 0: it is closed. */
    mono_t opened_since;
    bool standby;
    mono_t replaced_since, next_aside; /* ms 0: this machine was not replaced */
} leases;

/* ---- the child ---- */

/* What the record says, for a machine with a lease. */
struct answer {
    enum record_says says;
    bool replaced;              /* see struct report */
    struct lease_record record; /* its machine, number and generation; number 0: there is none */
    struct err why;             /* why it could not be read */
};

/* Private to the worker. The supervisor only knows the last report. */
struct child {
    int fd;
    const struct world *w;
    struct lease *lease;
    struct lease_grant grant;
    uint64_t taken;       /* highest number of a lease that this machine has taken */
    uint64_t known;       /* the same; 0: it stepped back since */
    struct worker reader; /* with a lease: reads the record */
    bool asking;          /* the reader's answer is needed before a lease is taken or renewed */
    struct answer answer; /* the reader's last one */
    mono_t next_read;     /* when to read the record again that could not be read */
    struct report report;
    struct config quick; /* config with a short timeout, for reading the record */
    struct transfer t;
    struct lives newest;
    struct err damaged; /* why the record read last cannot be used; ERR_NONE: it can */
    mono_t next_look;   /* when to check next whether the lease could be taken */
};

/* ---- the record ---- */

/* Judges by the last known record, because the one in the store could not be read. Without a known
 * record it is a store of version 0.2. */
static enum record_says judge_unread(struct child *c, const struct life *own,
                                     const struct lives *last, struct err *e)
{
    remote_close(c->t.store);
    c->t.store = NULL;
    if (e->cls == ERR_DAMAGED)
        c->damaged = *e;
    if (last->number && !last->own) {
        c->newest = *last;
        c->report.replaced = record_replaced(last, own, last);
        return RECORD_ANOTHERS;
    }
    if (c->damaged.cls == ERR_NONE)
        return RECORD_UNKNOWN;
    *e = c->damaged; /* an outage of the store does not end the doubt */
    return RECORD_DAMAGED;
}

/* Judges the record; with `answers` false as one that cannot be read, for the reason in `e`. The
 * last known record is kept on the disk: local dumps of an abandoned life are not the world's, and
 * a start without the store must not forget that this machine was replaced. */
static enum record_says judge_record(struct child *c, bool answers, struct err *e)
{
    const struct world *w = c->w;
    struct state s;
    struct lives last;
    struct err ignored;
    if (state_load(w->a->job.dirfd, &s, &ignored) < 0)
        s = w->a->state;
    struct life own = {.generation = s.known ? s.generation : 0};
    snprintf(own.nonce, sizeof own.nonce, "%s", s.nonce);
    lives_load(w->a->job.dirfd, &last);
    bool read = answers && (c->t.store || remote_open(&c->quick, &c->t.store, e) == REMOTE_OK) &&
                record_read(&c->t, w->cfg->name, &last, &c->newest, &ignored, e) == 0;
    if (!read)
        return judge_unread(c, &own, &last, e);
    err_clear(&c->damaged);
    enum record_says says = record_judge(&c->newest, s.holder, &own, &last);
    c->report.replaced = says == RECORD_ANOTHERS && record_replaced(&c->newest, &own, &last);
    if (c->report.replaced && (last.own || last.number != c->newest.number))
        return lives_save(w->a->job.dirfd, &c->newest, e) < 0 ? RECORD_ANOTHERS : says;
    return says;
}

/* Copies what is shown of the record that was read last. */
static void name_record(const struct child *c, struct lease_record *out)
{
    *out =
        (struct lease_record){.number = c->newest.number, .generation = c->newest.now.generation};
    snprintf(out->holder, sizeof out->holder, "%s", c->newest.machine);
}

static void try_record(struct child *c)
{
    struct err e = {0};
    struct report *r = &c->report;
    r->replaced = false;
    enum record_says says = judge_record(c, true, &e);
    r->standing = says == RECORD_ANOTHERS                            ? ANOTHERS
                  : says == RECORD_UNKNOWN || says == RECORD_DAMAGED ? AWAY
                                                                     : HOLDS;
    if (says == RECORD_ANOTHERS || says == RECORD_DAMAGED)
        fence_set((mono_t){0});
    else
        fence_stay_open();
    name_record(c, &r->record);
    r->why = e;
    worker_send_packet(c->fd, 0, r, sizeof *r);
}

/* ---- the reader: the record beside a lease ---- */

/* The reader is a process of its own, because a store may be slow, and a call to a mounted
 * directory cannot be ended. */
static void reader_judge(struct child *c, bool answers, struct answer *out)
{
    out->says = judge_record(c, answers, &out->why);
    out->replaced = c->report.replaced;
    name_record(c, &out->record);
}

static int reader_main(int fd, void *arg)
{
    static struct answer a; /* static, so that no byte of the packet is uninitialized */
    reader_judge(arg, true, &a);
    worker_send_packet(fd, 0, &a, sizeof a);
    return 0;
}

static void reader_start(struct child *c)
{
    worker_kill(&c->reader);
    while (waitpid(-1, NULL, WNOHANG) > 0) {
    }
    worker_start(&c->reader, reader_main, c, false, &(struct err){0});
}

/* Judges without an answer of the store. */
static void reader_silent(struct child *c)
{
    struct answer *a = &c->answer;
    *a = (struct answer){0};
    err_set(&a->why, ERR_STALLED, 0, "the store did not answer within %d seconds",
            RECORD_TIMEOUT / 1000);
    reader_judge(c, false, a);
}

/* Returns true if the reader has answered or has died. */
static bool reader_hear(struct child *c)
{
    struct packet m;
    bool closed = false;
    bool heard = worker_receive_packet(c->reader.fd, &m, &closed);
    const struct answer *a = heard ? packet_struct(&m, sizeof *a) : NULL;
    if (!heard && !closed)
        return false;
    worker_end(&c->reader);
    if (a)
        c->answer = *a;
    else
        reader_silent(c);
    return true;
}

/* Reads the record for a lease that this machine does not hold now, so that no renewal waits for
 * it. A reader that does not answer in time continues; the next call waits for it again. */
static void reader_ask(struct child *c)
{
    mono_t until = mono_add(clock_mono(), RECORD_TIMEOUT);
    int64_t left;
    if (!c->asking)
        reader_start(c);
    c->asking = true;
    while (c->reader.fd >= 0 && (left = mono_since(until, clock_mono())) > 0) {
        struct pollfd p = {.fd = c->reader.fd, .events = POLLIN};
        if (poll(&p, 1, (int)left) > 0 && reader_hear(c)) {
            c->asking = false;
            return;
        }
    }
    c->asking = c->reader.fd >= 0;
    reader_silent(c);
}

static void lease_step_back(struct child *c)
{
    fence_set((mono_t){0});
    c->report.standing = ANOTHERS;
    c->report.read = false;
    err_clear(&c->report.unread);
    /* A lease that this machine may take later is a new one. */
    c->grant = (struct lease_grant){.generation = c->grant.generation};
    c->known = 0;
}

/* Sets whether the record was read, and why not. */
static void note_read(struct child *c)
{
    const struct answer *a = &c->answer;
    c->report.read = a->says == RECORD_OURS || a->says == RECORD_NONE;
    c->report.unread = a->why;
    if (c->report.read)
        err_clear(&c->report.unread);
}

/* Takes up the answer to a record that could not be read before. */
static void reader_late(struct child *c)
{
    struct report *r = &c->report;
    const struct answer *a = &c->answer;
    note_read(c);
    if (a->says == RECORD_ANOTHERS) {
        lease_step_back(c);
        r->lease = false;
        r->replaced = a->replaced;
        r->record = a->record;
    }
    worker_send_packet(c->fd, 0, r, sizeof *r);
}

/* Reads a record again that could not be read, while this machine holds the lease. Returns how long
 * to sleep, at most `ms`. */
static int64_t reader_again(struct child *c, int64_t ms)
{
    const struct report *r = &c->report;
    if (r->standing != HOLDS || r->unread.cls == ERR_NONE || c->reader.fd >= 0)
        return ms;
    mono_t now = clock_mono();
    int64_t due = mono_since(c->next_read, now);
    if (due > 0)
        return due < ms ? due : ms;
    c->next_read = mono_add(now, RECORD_MS);
    reader_start(c);
    return ms;
}

/* Waits, and meanwhile receives the world's current generation, and an answer of the reader. */
static void pause_for(struct child *c, int64_t ms)
{
    mono_t until = mono_add(clock_mono(), ms);
    int64_t left;
    while ((left = mono_since(until, clock_mono())) > 0) {
        left = reader_again(c, left);
        struct pollfd p[] = {{.fd = c->fd, .events = POLLIN},
                             {.fd = c->reader.fd, .events = POLLIN}};
        struct packet m;
        bool closed = false;
        if (poll(p, 2, (int)left) <= 0)
            continue;
        if (p[1].revents && c->asking)
            return; /* the next attempt hears it */
        if (p[1].revents && reader_hear(c))
            reader_late(c);
        if (!p[0].revents)
            continue;
        if (worker_receive_packet(c->fd, &m, &closed) && m.type == GENERATION) {
            const uint64_t *generation = packet_struct(&m, sizeof *generation);
            if (generation && *generation > c->grant.generation)
                c->grant.generation = *generation;
        }
        if (closed)
            _exit(0);
    }
}

/* ---- the lease ---- */

/* Rule 4: reads the record before a lease is taken, or renewed for the first time. Returns LEASE_OK
 * if this machine may do so. `others`: the lease's place names another machine. */
static enum lease_result ask_record(struct child *c, bool others, bool unchanged, struct err *e)
{
    struct report *r = &c->report;
    const struct answer *a = &c->answer;
    struct lives last;
    reader_ask(c);
    lives_load(c->w->a->job.dirfd, &last);
    r->replaced = a->replaced;
    note_read(c);
    /* A machine that took the lease after the record was written has a higher number than the
     * record. So a lower number shows that the place was restored from an older backup. */
    bool older = others && a->says == RECORD_OURS && r->record.number < a->record.number;
    if (others ? !older : a->says == RECORD_ANOTHERS) {
        r->standing = ANOTHERS;
        r->lease = others;
        r->record = others ? r->record : a->record;
        return LEASE_HELD;
    }
    if (record_permits(a->says, unchanged, &last)) {
        c->asking = false; /* an answer that is still to come is heard by pause_for() */
        c->next_read = mono_add(clock_mono(), RECORD_MS);
        return LEASE_OK;
    }
    r->lease = false;
    err_clear(&r->unread); /* this machine does not continue */
    err_pass(e, &a->why);
    if (a->says == RECORD_UNKNOWN)
        err_hint(e, "the record is read again by itself; worldkeeper --list --from offsite tests "
                    "the store. If the store is lost, make sure that no other machine keeps the "
                    "world, and set another [offsite] url");
    err_step(e, "cannot read the record of the world, and the lease does not prove that no other "
                "machine has taken the world over");
    return LEASE_AWAY;
}

/* Takes or renews a lease that this worker does not hold: at its start, or because it is gone. The
 * machine that holds, or held, a newer lease keeps the world. */
static enum lease_result lease_look(struct child *c, struct err *e)
{
    struct lease_record *r = &c->report.record;
    const struct state *s = &c->w->a->state;
    int64_t wait;
    if (fence_is_shut()) {
        err_set(e, ERR_REFUSED, 0, "this machine gives it back");
        return LEASE_AWAY;
    }
    enum lease_result got = lease_read(c->lease, r, e);
    if (got != LEASE_OK)
        return got;
    /* Compared by the holder's name, not by the number, because another machine may have taken and
     * released the lease. */
    bool others = r->number && strcmp(r->holder, s->holder) != 0;
    bool unchanged = lease_unchanged(r, s->holder, c->known);
    if (others)
        fence_set((mono_t){0});
    if (others || !unchanged || !c->report.read)
        got = ask_record(c, others, unchanged, e);
    if (got != LEASE_OK)
        return got;
    /* Records are ordered by the numbers of leases: this one must not be below the record's. */
    uint64_t recorded = c->answer.record.number, above = recorded > c->taken ? recorded : c->taken;
    struct lease_grant next = {.number = c->known, .generation = c->grant.generation};
    if (unchanged && !r->free && c->known >= recorded) {
        got = lease_renew(c->lease, &next, e);
        if (got != LEASE_HELD) {
            if (got == LEASE_OK)
                c->grant = next;
            return got;
        }
        err_clear(e);
    }
    got = lease_take(c->lease, above, c->grant.generation, &next, &wait, e);
    if (got == LEASE_OK)
        c->grant = next;
    return got;
}

static void look_takeable(struct child *c)
{
    struct err *e = &c->report.untakeable;
    mono_t now = clock_mono();
    if (!mono_reached(now, c->next_look))
        return;
    c->next_look = mono_add(now, TAKEABLE_MS);
    c->report.looked = true;
    err_clear(e);
    if (lease_takeable(c->lease, e) != LEASE_REFUSED) /* a missing answer proves nothing */
        err_clear(e);
}

static void try_once(struct child *c)
{
    struct err e = {0};
    const struct world *w = c->w;
    enum lease_result got = LEASE_OK;
    if (!c->lease)
        got = lease_open(w->cfg, w->a->job.dirfd, w->a->state.holder, &c->lease, &e);
    c->report.standing = AWAY;
    c->report.lease = true;
    c->report.replaced = false;
    /* A lease that has ended is gone, even if its place still has it: another machine may have had
     * it meanwhile, and the place may have been restored from a backup. */
    bool ended = mono_reached(clock_mono(), c->grant.valid_until);
    if (ended && c->grant.number)
        c->report.read = false;
    if (got == LEASE_OK)
        got = ended ? LEASE_HELD : lease_renew(c->lease, &c->grant, &e);
    if (got == LEASE_HELD) {
        err_clear(&e);
        got = lease_look(c, &e);
    }
    if (got == LEASE_OK) {
        c->report.standing = HOLDS;
        c->known = c->taken = c->grant.number;
        /* The fence moves before the report is sent, because no process may act on a lease that
         * this machine does not hold. */
        fence_set(c->grant.valid_until);
        look_takeable(c);
    } else if (c->report.standing == ANOTHERS) {
        lease_step_back(c);
    }
    c->report.grant = c->grant;
    c->report.why = e;
    worker_send_packet(c->fd, 0, &c->report, sizeof c->report);
}

static bool has_lease(const struct world *w)
{
    return w->cfg->standby.lease != LEASE_NONE;
}

static int lease_child_main(int fd, void *arg)
{
    static struct child c; /* static, so that no byte of the packet is uninitialized */
    c.fd = fd;
    c.w = arg;
    c.grant.generation = c.w->a->state.generation;
    c.known = c.taken = c.w->a->state.lease_number;
    c.report.read = leases.last.read && fence_open(); /* by an earlier worker, or a promotion */
    worker_init(&c.reader, "record");
    c.quick = *c.w->cfg;
    if (c.quick.offsite.timeout > RECORD_TIMEOUT)
        c.quick.offsite.timeout = RECORD_TIMEOUT;
    while (!has_lease(c.w)) {
        try_record(&c);
        pause_for(&c, RECORD_MS);
    }
    for (;;) {
        try_once(&c);
        int64_t third = c.w->cfg->standby.ttl / 3;
        /* After a missing answer the next attempt comes soon, because the lease is expiring. */
        pause_for(&c, c.report.standing == AWAY ? (third < 4000 ? third / 4 : 1000) : third);
    }
    return 0;
}

/* ---- the supervisor ---- */

/* A new fence is closed until the first grant, so that no process acts on an old lease. */
int leases_begin(struct world *w, struct err *e)
{
    if (!w->cfg->standby.given)
        return 0;
    if (state_keep_holder(&w->a->state, w->a->job.dirfd, e) < 0 || fence_make(e) < 0)
        return -1;
    if (!has_lease(w))
        fence_by_record();
    leases.standby = state_standby(&w->a->state, w->cfg);
    leases_decide(w);
    return 0;
}

static void lease_stop(struct world *w)
{
    (void)w;
    /* An interrupted renewal either took effect or did not; both are safe. */
    worker_kill(&leases.worker);
    lease_table_stop();
}

static void lease_restart(struct world *w)
{
    lease_stop(w);
    leases.next_start = clock_mono();
}

/* ---- decisions ---- */

#define RECORD_TEXT "the record of the world does not name another machine"

static const char *clean_holder(const struct lease_record *r, char out[LEASE_WORDS])
{
    SCOPED(buf_free) struct buf who = {0};
    text_clean(&who, r->holder, sizeof r->holder);
    snprintf(out, LEASE_WORDS, "%s", who.p ? who.p : "");
    return out;
}

/* Returns why this machine may not act; NULL if the only reason is that it has not asked yet. */
static const char *why_closed(char *out, size_t size)
{
    const struct report *r = &leases.last;
    char words[LEASE_WORDS];
    if (fence_is_shut())
        line_set(out, size, "this machine hands the world over");
    else if (r->standing == ANOTHERS && !r->lease)
        line_set(out, size,
                 "according to the record of the world, another machine keeps it: %s, generation "
                 "%" PRIu64 "%s",
                 clean_holder(&r->record, words), r->record.generation,
                 r->replaced ? "" : "; this machine's world is not an ancestor of that world");
    else if (r->standing == ANOTHERS)
        line_set(out, size, "stepped back: %s, generation %" PRIu64, lease_words(&r->record, words),
                 r->record.generation);
    else if (r->standing == AWAY && !r->lease)
        line_set(out, size, "%s; %s", r->why.text, r->why.hint);
    else if (r->standing == AWAY)
        line_set(out, size, "the lease of the world could not be renewed: %s", r->why.text);
    else if (r->standing == HOLDS)
        line_set(out, size, "%s",
                 r->lease ? "the lease of the world ended before it was renewed"
                          : "according to its record, another machine keeps the world");
    else
        return NULL;
    return out;
}

/* Informs the guard, which acts on it. The fence has already moved and does not wait for the
 * guard. */
static void inform_guard(struct world *w, bool open)
{
    char why[LINE];
    const struct report *r = &leases.last;
    if (open)
        line_set(why, sizeof why, "this machine has the lease of the world, number %" PRIu64,
                 r->grant.number);
    const char *text = open ? (has_lease(w) ? (r->grant.number ? why : NULL) : RECORD_TEXT)
                            : why_closed(why, sizeof why);
    world_event(w,
                &(struct guard_event){.type = open ? GUARD_UNFENCED : GUARD_FENCED, .text = text});
}

bool leases_decide(struct world *w)
{
    if (!fence_made())
        return false;
    bool open = fence_open();
    if (!open)
        lease_table_expect(false);
    bool late = condition_lasts(&leases.opened_since, open, TABLE_MS, clock_mono());
    /* A game that finds no lease in the world must not read UP. A promotion writes the table
     * itself. */
    open = open && (!has_lease(w) || leases.standby || lease_table_tried() || late);
    if (leases.begun && open == leases.open)
        return false;
    leases.open = open;
    leases.begun = true;
    inform_guard(w, open);
    return !open;
}

static void judge_takeable(struct world *w)
{
    const struct err *e = &leases.last.untakeable;
    if (!leases.last.looked)
        return;
    if (e->cls != ERR_NONE)
        notify_open(w, CONDITION_LEASE, NULL, "this machine keeps the world, and renews the lease",
                    e->hint, "no standby can be promoted: %s", e->text);
    else
        notify_over(w, CONDITION_LEASE, "the lease can be taken over again");
}

static void lease_message(struct world *w, struct worker *v, const struct packet *m)
{
    const struct report *r = m ? packet_struct(m, sizeof *r) : NULL;
    if (!m)
        worker_end(v);
    if (!r)
        return;
    bool unread = leases.last.unread.cls != ERR_NONE;
    bool renewed = leases.last.standing != r->standing ||
                   leases.last.record.number != r->record.number ||
                   leases.last.record.free != r->record.free || leases.last.why.cls != r->why.cls ||
                   leases.last.why.num != r->why.num;
    leases.last = *r;
    worker_err_clean(&leases.last.why);
    worker_err_clean(&leases.last.unread);
    worker_err_clean(&leases.last.untakeable);
    w->status_dirty = true;
    if (!r->lease) {
        if (renewed && r->standing == AWAY && r->why.cls != ERR_DAMAGED && !has_lease(w))
            log_line(LOG_WARN_,
                     "cannot read the record of the world, and without a lease nothing else shows "
                     "whether another machine has taken the world over: %s",
                     leases.last.why.text);
    } else if (r->standing == HOLDS && r->grant.number != w->a->state.lease_number) {
        log_line(LOG_NOTE_, "this machine holds the lease of the world, number %" PRIu64,
                 r->grant.number);
        w->a->state.lease_number = r->grant.number;
        w->state_dirty = true;
    }
    if (!unread && r->unread.cls != ERR_NONE)
        log_line(
            LOG_WARN_,
            "cannot read the record of the world: %s; this machine continues, because its lease "
            "is unchanged and the last known record is its own",
            leases.last.unread.text);
    else if (unread && r->read)
        log_line(LOG_NOTE_, "the record of the world was read: it names no other machine");
    if (r->standing == HOLDS && r->lease)
        lease_table_write(w, r->grant.number, r->grant.valid_until);
    if (renewed && !fence_open())
        inform_guard(w, false); /* the reason is new, or is known only now */
    judge_takeable(w);
}

static int64_t lease_silent(const struct world *w)
{
    int64_t asks = RECORD_MS + 2 * RECORD_TIMEOUT;
    return has_lease(w) && w->cfg->standby.ttl > asks ? w->cfg->standby.ttl : asks;
}

/* Rule 4: a machine that was replaced becomes a standby without a command. Its rows are saved and
 * its tables are set aside, which needs the server. */
static void lease_set_aside(struct world *w, mono_t now)
{
    struct request r = {.action = ACTION_DEMOTE, .automatic = true};
    struct err e;
    bool replaced = leases.last.replaced && !leases.standby;
    const struct observation *o = prober_last();
    if (!condition_lasts(&leases.replaced_since, replaced, 0, now) || w->stopping ||
        jobs_running() != ACTION_NONE || !mono_reached(now, leases.next_aside))
        return;
    bool asked = mono_since(prober_last_asked(), leases.replaced_since) > 0;
    bool answers = asked && (o->failed == VERDICT_NONE || o->failed == VERDICT_MISSING);
    if (!answers && mono_since(now, leases.replaced_since) < SERVER_MS)
        return;
    leases.next_aside = mono_add(now, START_MS);
    log_line(LOG_WARN_,
             "another machine has taken the world over: this machine's world is being set aside");
    if (jobs_start(w, &r, &e) < 0)
        world_log_err(w, LOG_ERROR_, "setting this machine's world aside", &e);
}

static void lease_timers(struct world *w, mono_t now)
{
    struct err e;
    if (!has_lease(w) || state_standby(&w->a->state, w->cfg))
        notify_over(w, CONDITION_LEASE, "this machine has no lease that could be taken over");
    if (!fence_made())
        return;
    /* --promote and --demote change the role of this machine. */
    bool standby = state_standby(&w->a->state, w->cfg);
    if (standby != leases.standby) {
        leases.standby = standby;
        leases.last = (struct report){.read = !standby}; /* by --promote or --init */
        lease_table_expect(!standby);
        if (standby) {
            lease_stop(w);
            fence_shut(true); /* the worker may have been about to open the fence */
        }
        lease_restart(w);
    }
    /* A working worker is never silent for so long, because each of its requests has a timeout. */
    if (leases.worker.pid && mono_since(now, leases.worker.heard) > 4 * lease_silent(w)) {
        log_line(LOG_WARN_, "the lease worker made no progress and was stopped");
        lease_stop(w);
    }
    if (!leases.worker.pid && !leases.standby && !w->stopping &&
        mono_reached(now, leases.next_start)) {
        leases.next_start = mono_add(now, START_MS);
        leases.sent = w->a->state.generation;
        if (worker_start(&leases.worker, lease_child_main, w, false, &e) < 0)
            world_log_err(w, LOG_WARN_, "the lease", &e);
    }
    /* A restore has raised the generation, and the lease contains it. */
    if (leases.worker.fd >= 0 && leases.sent != w->a->state.generation &&
        worker_send_packet(leases.worker.fd, GENERATION, &w->a->state.generation,
                           sizeof w->a->state.generation) == 0)
        leases.sent = w->a->state.generation;
    w->status_dirty |= leases_decide(w);
    lease_set_aside(w, now);
}

/* Returns how long the loop may sleep. It wakes when the lease ends, to remove the flag before a
 * reader trusts it for too long. */
int64_t leases_sleep(mono_t now, int64_t ms)
{
    int64_t left = fence_made() && leases.open ? mono_since(fence_until(), now) : ms;
    return left < ms ? left : ms;
}

/* ---- what is shown ---- */

static json_t *lease_status_json(const struct world *w)
{
    static const char *const states[] = {"held", "doubtful", "gone"};
    const struct report *r = &leases.last;
    const struct config_standby *s = &w->cfg->standby;
    if (!has_lease(w))
        return json_null();
    bool anothers = r->standing == ANOTHERS, ours = r->grant.number > 0 && !anothers;
    bool timed = !leases.standby;
    enum lease_hold hold = lease_judge(fence_until(), s->ttl, clock_mono());
    int64_t left = mono_since(fence_until(), clock_mono());
    json_t *o = json_pack("{s:s, s:s?}", "role", leases.standby ? "standby" : "primary", "state",
                          !timed     ? NULL
                          : anothers ? "stepped-back"
                                     : states[hold]);
    json_object_set_new(
        o, "number",
        js_known(ours || anothers, (int64_t)(ours ? r->grant.number : r->record.number)));
    json_object_set_new(o, "holder",
                        ours       ? js_clean(w->a->state.holder)
                        : anothers ? js_clean(r->record.holder)
                                   : json_null());
    json_object_set_new(o, "valid_seconds",
                        timed && hold != LEASE_GONE ? json_real((double)left / 1000) : json_null());
    const struct err *why = r->standing == AWAY ? &r->why : &r->unread;
    json_object_set_new(o, "error", why->cls != ERR_NONE ? js_clean(why->text) : json_null());
    return o;
}

static void lease_begin(struct world *w)
{
    world_worker(w, &leases.worker, "lease", lease_message);
    lease_table_begin(w);
}

const struct part leases_part = {.begin = lease_begin,
                                 .timers = lease_timers,
                                 .restart = lease_restart,
                                 .opens_dirs = true,
                                 .stop = lease_stop,
                                 .status = "lease",
                                 .status_json = lease_status_json};
