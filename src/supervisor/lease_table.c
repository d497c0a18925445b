/* Writes worldkeeper_lease in the world's schema: until when this machine holds the lease, for
 * games that ask their own server. A separate worker writes it, because a server that does not
 * answer must not delay a renewal. */
#include "supervisor/lease_table.h"

#include <poll.h>

#include "base/fault.h"
#include "base/fence.h"
#include "mysql/lease.h"
#include "supervisor/notifier.h"
#include "supervisor/world.h"

#define RENEWED 1 /* to the writer */
#define WRITTEN 2 /* from the writer: the table was written, or could not be written */

/* `until` is a time of our own monotonic clock. The server's clock is read when the row is
 * written. */
struct renewal {
    uint64_t number, generation;
    mono_t until;
};

static struct worker writer;
static bool tried;

struct child {
    const struct world *w;
    struct db *db;
    struct err said; /* the last failure that was logged; ERR_NONE: the last write succeeded */
};

/* Writes the end of the lease by the server's clock. The server's time is read before the remaining
 * time is computed, so the end is never too late. */
static int write_once(struct child *c, const struct renewal *r, struct err *e)
{
    const struct config *cfg = c->w->cfg;
    struct db_lease_word word = {
        .generation = r->generation, .number = r->number, .owner = c->w->host};
    if (!c->db && !(c->db = db_open(&c->w->a->job.db, e)))
        return -1;
    if (db_lease_now(c->db, &word.now_us, e) < 0)
        return -1;
    word.left_ms = mono_since(r->until, clock_mono());
    if (word.left_ms <= 0 || !fence_open())
        return 0;
    fault_point("lease_table.writes");
    if (db_lease_publish(c->db, cfg->schema, &word, e) < 0)
        return -1;
    /* If the lease was released meanwhile, the process that released it may have written the table
     * before us. */
    return fence_is_shut() ? db_lease_end(c->db, cfg->schema, e) : 0;
}

static void lease_table_renew(struct child *c, const struct renewal *r)
{
    struct err e = {0};
    if (write_once(c, r, &e) == 0) {
        c->said = (struct err){0};
        return;
    }
    db_close(c->db);
    c->db = NULL;
    if (c->said.cls != e.cls || c->said.num != e.num)
        log_line(LOG_WARN_, "cannot write table worldkeeper_lease, which games may read: %s",
                 e.text);
    c->said = e;
}

static int lease_table_child_main(int fd, void *arg)
{
    struct child c = {.w = arg};
    struct renewal newest = {0};
    bool closed = false;
    /* Several renewals may be queued while the server does not answer: only the newest one
     * counts. */
    while (!closed) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        struct packet m;
        const struct renewal *r;
        if (poll(&p, 1, newest.number ? 0 : -1) <= 0) {
            if (newest.number) {
                lease_table_renew(&c, &newest);
                worker_send_packet(fd, WRITTEN, NULL, 0);
            }
            newest.number = 0;
        } else if (worker_receive_packet(fd, &m, &closed) && m.type == RENEWED &&
                   (r = packet_struct(&m, sizeof *r))) {
            newest = *r;
        }
    }
    db_close(c.db);
    return 0;
}

void lease_table_write(struct world *w, uint64_t number, mono_t until)
{
    static struct renewal r; /* static, so that no byte of the packet is uninitialized */
    struct err e;
    r.number = number;
    r.generation = w->a->state.generation;
    r.until = until;
    if (writer.fd >= 0 && worker_send_packet(writer.fd, RENEWED, &r, sizeof r) == 0)
        return;
    lease_table_stop();
    if (worker_start(&writer, lease_table_child_main, w, false, &e) < 0)
        world_log_err(w, LOG_WARN_, "the writer of worldkeeper_lease", &e);
    else
        /* If sending fails, the next renewal is written. */
        worker_send_packet(writer.fd, RENEWED, &r, sizeof r);
}

static void lease_table_message(struct world *w, struct worker *v, const struct packet *m)
{
    (void)w;
    if (!m)
        worker_end(v);
    else if (m->type == WRITTEN)
        tried = true;
}

void lease_table_begin(struct world *w)
{
    world_worker(w, &writer, "lease-table", lease_table_message);
}

bool lease_table_tried(void)
{
    return tried;
}

void lease_table_expect(bool written)
{
    tried = written;
}

void lease_table_stop(void)
{
    worker_kill(&writer); /* the lease in the table expires by itself */
}
