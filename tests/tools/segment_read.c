/* Prints the content of journal segments, one line per change, for the system tests and for
 * debugging: segment_read DIRECTORY FILE... */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>

#include "change_names.h"
#include "journal/segment.h"
#include "journal/segment_read.h"

static void show(const struct change *c)
{
    printf("%s %s %" PRIu64 " at %" PRId64, change_names[c->kind], c->file, c->pos,
           c->at.ms / 1000);
    if (c->table)
        printf(" table %s", c->table->name);
    if (c->len)
        printf(" %.*s", (int)c->len, c->tuple);
    if (c->why)
        printf(" %s", c->kind == CHANGE_GAP ? c->why : "");
    if (c->gtid.seq)
        printf(" gtid %" PRIu32 "-%" PRIu32 "-%" PRIu64, c->gtid.domain, c->gtid.server,
               c->gtid.seq);
    putchar('\n');
}

static int read_file(int dirfd, const char *file)
{
    struct change c;
    struct err e;
    int got = -1;
    struct segment_reader *r = segment_open(dirfd, file, &e);
    if (r)
        printf("segment %" PRIu64 " from %s %" PRIu64 " follows %d\n", segment_head(r)->number,
               segment_head(r)->from.point.file, segment_head(r)->from.point.pos,
               segment_head(r)->follows);
    while (r && (got = segment_next(r, &c, &e)) == 1)
        show(&c);
    if (got < 0)
        printf("error %s\n", e.text);
    else
        printf("%s to %s %" PRIu64 " gtid %s\n", segment_finalized(r) ? "finalized" : "open",
               segment_sum(r)->to.point.file, segment_sum(r)->to.point.pos,
               segment_sum(r)->to.point.gtid);
    segment_reader_close(r);
    return got;
}

int main(int argc, char **argv)
{
    int dirfd = argc > 2 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, rc = 0;
    if (dirfd < 0) {
        fprintf(stderr, "usage: segment_read DIRECTORY FILE...\n");
        return 2;
    }
    for (int i = 2; i < argc; i++)
        rc |= read_file(dirfd, argv[i]) < 0;
    return rc;
}
