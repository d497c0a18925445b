/* What a server gets that asks for a local file (LOAD DATA LOCAL). */
#include <stdio.h>
#include <string.h>

#include "mysql/conn_int.h"

/* The library asks these for the "file" that the server wants. While nothing is being
 * loaded, a server that asks is a rogue one, and gets nothing: no file is ever opened. */
static int feed_open(void **feed, const char *file, void *arg)
{
    (void)file;
    struct db *db = arg;
    *feed = db->feed;
    return db->feed ? 0 : 1;
}

static int feed_read(void *arg, char *out, unsigned room)
{
    struct db_feed *f = arg;
    size_t n = f->left < room ? f->left : room;
    memcpy(out, f->data, n);
    f->data += n;
    f->left -= n;
    return (int)n;
}

static void feed_close(void *arg)
{
    (void)arg;
}

static int feed_error(void *arg, char *text, unsigned size)
{
    (void)arg;
    snprintf(text, size, "the server asked for a file");
    return 2000; /* CR_UNKNOWN_ERROR */
}

void db_bulk_prepare(struct db *db)
{
    mysql_set_local_infile_handler(db->my, feed_open, feed_read, feed_close, feed_error, db);
}
