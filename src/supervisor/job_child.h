/* The child of a job: executes the action, and sends the facts that the supervisor must act on as
 * structs. A killed child leaves the job without an outcome. */
#ifndef WK_SUPERVISOR_JOB_CHILD_H
#define WK_SUPERVISOR_JOB_CHILD_H

#include <stdbool.h>

#include "actions/context.h"
#include "actions/request.h"
#include "base/err.h"
#include "store/manifest.h"
#include "store/state.h"

/* Its packets, in this order at its end. */
enum job_packet {
    /* JSON: {"progress":{…}} or {"note":"…"}, for the status, the log and clients; or
     * {"blocked":{…}} */
    JOB_EVENT,
    JOB_SWAPPING,      /* the nonce that is about to be swapped in */
    JOB_OUTCOME,       /* struct job_outcome */
    JOB_STEPPING_BACK, /* nothing */
    JOB_DONE,          /* JSON: {"done":{"result","error"}}, for the clients that wait */
};
/* Plain data, because the child is a fork of this binary. Data for clients only follows as JSON. */
struct job_outcome {
    bool failed, new_state;
    bool died;            /* the child died without reporting */
    struct err error;     /* if it failed */
    struct state state;   /* new_state: the job has saved it */
    struct manifest dump; /* of a dump that was stored (manifest_figures()); name "": none was */
};

/* A worker_fn; `arg` is a struct job_child. */
struct job_child {
    struct action_context *a;
    const struct request *request;
};
int job_child(int fd, void *arg);

#endif
