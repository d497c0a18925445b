/* The disk writer: a worker that does all writing of the supervisor, so that a slow or failed disk
 * never delays the loop. When the supervisor dies, it writes what was sent before and exits. */
#ifndef WK_SUPERVISOR_DISK_WRITER_H
#define WK_SUPERVISOR_DISK_WRITER_H

#include "base/fault.h"
#include "base/file.h"
#include "base/worker.h"
#include "config/config.h"
#include "notify/alert.h"
#include "notify/queue.h"

#define DISK_WRITER_RETRY_MS fault_wait(10000) /* pause after a failed write */

/* Requests to it. JSON is the content of the file. */
enum disk_request {
    DISK_PUBLISH,   /* status files (status_files.h), by file_publish(), mode 0644 */
    DISK_STATE,     /* struct state: state.json, by file_commit() */
    DISK_ALERT,     /* JSON, into the alert queue -> DISK_STORED */
    DISK_REWRITE,   /* JSON [number, alert]: replaces one in the queue */
    DISK_INCIDENTS, /* JSON, beside the alert queue */
    DISK_LOAD,      /* -> DISK_KEPT for each alert in the queue, then DISK_LOADED */
    DISK_POLL,      /* struct disk_marks -> DISK_POLLED */
    DISK_HISTORY,   /* JSON: a record of the history -> DISK_RECORDED */
};
struct disk_marks {
    uint64_t delivered[ALERT_CHANNELS]; /* outdated marks are written */
};

/* Answers from it. */
enum disk_answer {
    DISK_FAILED, /* struct disk_failure */
    DISK_STORED, /* uint64_t: its number */
    DISK_KEPT,   /* struct disk_kept, and the alert as JSON */
    DISK_LOADED, /* struct queue_kept without its list */
    DISK_POLLED, /* struct disk_state, and the list of damaged dumps (store/proof.h) as JSON */
    DISK_RECORDED,
};
struct disk_failure {
    enum disk_request request;
    struct err error;
};
struct disk_kept {
    uint64_t number;
    bool waits[ALERT_CHANNELS]; /* for a channel that has not delivered it */
};
struct disk_state {
    bool status_ok, state_ok;  /* of the last write */
    enum file_dir_place place; /* what is at the path of the dump directory */
    char disk[600];            /* its file system's device, or "" */
    bool free_known;
    uint64_t free_bytes;
    wall_t
        intact_at; /* of the newest intact dump, if dumps are damaged; ms 0: none, or not known */
};

struct disk_writer_args {
    const struct config *cfg;
    int dump_dirfd; /* borrowed */
};
/* worker_fn; arg is a struct disk_writer_args. */
int disk_writer_worker(int fd, void *arg);
/* Sends a request from the supervisor. Returns -1 if it cannot take a packet now, or does not
 * run. */
int disk_writer_send(const struct worker *writer, enum disk_request request, const void *data,
                     size_t size);
int disk_writer_send_json(const struct worker *writer, enum disk_request request,
                          json_t *o /* taken */);

#endif
