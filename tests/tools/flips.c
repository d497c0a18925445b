/* Damages a dump, its manifest and a segment of the journal in every way that one bit and one cut
 * can, and asks the program's own readers each time, for the fault campaign:
 *
 *     flips dump|manifest|segment DIRECTORY NAME
 *
 * Prints `bits N missed N`, `lengths N missed N`. A flip that does not change the content of a
 * manifest is counted as `same`. Each missed damage is printed on its own line. At the end the file
 * is as before. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/text.h"
#include "dump/verify.h"
#include "journal/segment.h"
#include "journal/segment_read.h"
#include "store/manifest.h"

enum finding { FOUND, SAME, MISSED };

struct target {
    int dirfd;
    const char *name;
    char *file;
    struct manifest m; /* the undamaged one */
    json_t *said;      /* its content */
};

/* Verifies the damaged dump against the undamaged manifest that was written with it. */
static enum finding look_dump(const struct target *t)
{
    struct err e = {0};
    return verify_dump(t->dirfd, t->file, &t->m, NULL, &e) < 0 ? FOUND : MISSED;
}

/* Compares everything that the program reads from the manifest. */
static enum finding look_manifest(const struct target *t)
{
    struct manifest m;
    struct err e = {0};
    if (manifest_read(t->dirfd, t->name, &m, &e) < 0)
        return FOUND;
    json_t *said = manifest_json(&m);
    enum finding f = said && json_equal(said, t->said) ? SAME : MISSED;
    json_decref(said);
    manifest_free(&m);
    return f;
}

/* Reads the segment. The damage is found unless the whole segment can be read and is finalized. */
static enum finding look_segment(const struct target *t)
{
    struct change c;
    struct err e = {0};
    struct segment_reader *r = segment_open(t->dirfd, t->name, &e);
    int got = r ? 1 : -1;
    while (got == 1)
        got = segment_next(r, &c, &e);
    enum finding f = got == 0 && segment_finalized(r) ? MISSED : FOUND;
    segment_reader_close(r);
    return f;
}

static const struct kind {
    const char *name, *ending;
    enum finding (*look)(const struct target *t);
} kinds[] = {{"dump", ".sql.gz", look_dump},
             {"manifest", ".json", look_manifest},
             {"segment", "", look_segment}};

static void tell(const char *what, const size_t counts[3])
{
    printf("%s %zu missed %zu same %zu\n", what, counts[FOUND] + counts[SAME] + counts[MISSED],
           counts[MISSED], counts[SAME]);
}

static void flip_all(const struct kind *k, const struct target *t, int fd, const struct buf *b)
{
    size_t counts[3] = {0};
    for (size_t bit = 0; bit < 8 * b->len; bit++) {
        char byte = (char)(b->p[bit / 8] ^ 1 << bit % 8);
        if (pwrite(fd, &byte, 1, (off_t)(bit / 8)) != 1)
            exit(2);
        enum finding f = k->look(t);
        counts[f]++;
        if (f == MISSED)
            printf("missed: bit %zu of byte %zu\n", bit % 8, bit / 8);
        if (pwrite(fd, b->p + bit / 8, 1, (off_t)(bit / 8)) != 1)
            exit(2);
    }
    tell("bits", counts);
}

static void cut_all(const struct kind *k, const struct target *t, int fd, const struct buf *b)
{
    size_t counts[3] = {0};
    for (size_t len = b->len; len-- > 0;) {
        if (ftruncate(fd, (off_t)len) < 0)
            exit(2);
        enum finding f = k->look(t);
        counts[f]++;
        if (f == MISSED)
            printf("missed: length %zu of %zu\n", len, b->len);
    }
    if (pwrite(fd, b->p, b->len, 0) != (ssize_t)b->len)
        exit(2);
    tell("lengths", counts);
}

static const struct kind *kind_of(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static int run(const struct kind *k, struct target *t)
{
    struct err e = {0};
    struct buf b = {0};
    if (k->look != look_segment &&
        (manifest_read(t->dirfd, t->name, &t->m, &e) < 0 || !(t->said = manifest_json(&t->m)))) {
        fprintf(stderr, "flips: %s\n", e.text);
        return 2;
    }
    int fd = openat(t->dirfd, t->file, O_RDWR | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 || file_read(t->dirfd, t->file, MANIFEST_MAX, &b, &e) < 0) {
        fprintf(stderr, "flips: cannot read %s\n", t->file);
        return 2;
    }
    if (k->look(t) == FOUND) {
        fprintf(stderr, "flips: %s is damaged already\n", t->file);
        return 2;
    }
    flip_all(k, t, fd, &b);
    cut_all(k, t, fd, &b);
    close(fd);
    buf_free(&b);
    return k->look(t) == FOUND ? 2 : 0;
}

int main(int argc, char **argv)
{
    const struct kind *k = argc == 4 ? kind_of(argv[1]) : NULL;
    struct target t = {.dirfd = k ? open(argv[2], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1};
    if (t.dirfd < 0) {
        fprintf(stderr, "usage: flips dump|manifest|segment DIRECTORY NAME\n");
        return 2;
    }
    t.name = argv[3];
    t.file = xasprintf("%s%s", t.name, k->ending);
    int rc = run(k, &t);
    json_decref(t.said);
    manifest_free(&t.m);
    free(t.file);
    close(t.dirfd);
    return rc;
}
