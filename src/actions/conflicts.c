/* --conflicts: finds the file and carries out the request (restore/conflict_merge.h). */
#include "actions/conflicts.h"

#include <string.h>
#include <sys/stat.h>

#include "actions/request.h"
#include "restore/conflict_merge.h"

/* Finds the file that the argument names: a name in the dump directory, or a path into it. The
 * directories are compared by inode, so any path to the opened directory works. */
static int conflicts_name_of(const struct action_context *a, const char *arg, const char **name,
                             struct err *e)
{
    const char *slash = strrchr(arg, '/');
    struct stat here, there;
    *name = slash ? slash + 1 : arg;
    if (slash) {
        SCOPED(xfree) char *dir = xstrndup(arg, slash == arg ? 1 : (size_t)(slash - arg));
        bool same = fstat(a->job.dirfd, &here) == 0 && stat(dir, &there) == 0 &&
                    here.st_dev == there.st_dev && here.st_ino == there.st_ino;
        if (!same)
            return err_set(e, ERR_USAGE, 0, "%s is not in %s", arg, a->cfg->dump_dir);
    }
    if (merge_is_name(*name))
        return 0;
    err_set(e, ERR_USAGE, 0, "%s is not the name of a conflict file (conflict-….sql.gz)", arg);
    return err_hint(e, "worldkeeper --conflicts lists them");
}

int action_conflicts(struct action_context *a, const struct request *r, json_t **result,
                     struct err *e)
{
    const char *name = NULL;
    if (r->dump && conflicts_name_of(a, r->dump, &name, e) < 0)
        return -1;
    if (!r->apply)
        return merge_list(&a->job, name, &a->state, result, e);
    struct merge_options opt = {.renumber = r->renumber, .dry_run = r->dry_run};
    return merge_apply(&a->job, name, &a->state, &opt, result, e);
}
