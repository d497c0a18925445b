#include "supervisor/job_child.h"

#include <stdio.h>
#include <string.h>

#include "actions/run.h"
#include "base/fault.h"
#include "base/js.h"
#include "base/worker.h"
#include "watch/expect.h"

#define JOB_DONE_MAX fault_limit("job.answer", WORKER_MESSAGE_MAX - 64u) /* bytes */
#define TEXT_KEPT 1000u /* bytes of a text in an answer that is too long */

static void child_event(void *arg, const json_t *o)
{
    worker_send_json(*(const int *)arg, JOB_EVENT, o);
}

/* Sends the nonce of the restored world, which probes may see from now on. */
static void child_swapping(void *arg, const char *nonce, uint64_t generation)
{
    const struct action_context *a = arg;
    char next[NONCE_LEN + 1] = "";
    (void)generation;
    snprintf(next, sizeof next, "%s", nonce);
    worker_send_packet(*(const int *)a->emit_arg, JOB_SWAPPING, next, sizeof next);
}

/* Sends which sessions block the restore. Clients have already read it as a note. */
static void child_blocked(void *arg, const char *text, const char *hint)
{
    const struct action_context *a = arg;
    json_auto_t *o =
        json_pack("{s:{s:o, s:o}}", "blocked", "what", js_clean(text), "hint", js_clean(hint));
    worker_send_json(*(const int *)a->emit_arg, JOB_EVENT, o);
}

static void child_stepping_back(void *arg)
{
    worker_send_packet(*(const int *)arg, JOB_STEPPING_BACK, "", 0);
}

static const char *job_child_longest(json_t *in)
{
    const char *key, *found = "";
    json_t *value;
    size_t most = 0;
    json_object_foreach(in, key, value)
    {
        size_t size = json_dumpb(value, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);
        found = size > most ? key : found;
        most = size > most ? size : most;
    }
    return found;
}

/* Shortens an answer that exceeds one packet, such as the plan of very many tables or the list of
 * very many dumps. Removes the longest members, or the end of a long text. The data that the
 * supervisor records and reports is kept. */
static void job_child_shorten(struct action_context *a, json_t *result, const json_t *whole)
{
    while (json_dumpb(whole, NULL, 0, JSON_COMPACT) > JOB_DONE_MAX && json_object_size(result)) {
        json_t *in = result, *value;
        const char *key = job_child_longest(in);
        while (json_object_size(value = json_object_get(in, key)) > 0) {
            in = value;
            key = job_child_longest(in);
        }
        bool cut = json_string_length(value) > TEXT_KEPT;
        SCOPED(xfree) char *note =
            cut ? xasprintf("the answer is too long: \"%s\" in it is truncated", key)
                : xasprintf("the answer is too long: \"%s\" is omitted", key);
        action_note(a, note);
        if (cut) {
            SCOPED(buf_free) struct buf kept = {0};
            text_clean(&kept, json_string_value(value), TEXT_KEPT - 3);
            js_set_clean(in, key, kept.p);
        } else {
            json_object_del(in, key);
        }
    }
}

int job_child(int fd, void *arg)
{
    static struct job_outcome out; /* static, so that no byte of the packet is uninitialized */
    const struct job_child *job = arg;
    struct action_context *a = job->a;
    enum state_role role = a->state.role;
    const struct request *r = job->request;
    json_t *result = NULL;
    a->emit = child_event;
    a->emit_arg = &fd;
    a->job.swapping = child_swapping;
    a->job.blocked = child_blocked;
    a->stepping_back = child_stepping_back;
    out.failed = action_run(a, r, &result, &out.error) < 0;
    /* A saved role or round is valid even if a later step failed. */
    out.new_state = a->state.role != role || ((!out.failed || r->action == ACTION_NEW_ROUND) &&
                                              json_object_get(result, "state"));
    json_object_del(result, "state");
    out.state = a->state;
    out.dump = a->dumped;
    worker_send_packet(fd, JOB_OUTCOME, &out, sizeof out);
    json_t *done = json_object(), *o = json_pack("{s:o}", "done", done);
    if (result)
        json_object_set_new(done, "result", result);
    if (out.failed)
        json_object_set_new(done, "error", worker_err_json(&out.error));
    job_child_shorten(a, result, o);
    worker_send_json(fd, JOB_DONE, o);
    json_decref(o);
    return 0;
}
