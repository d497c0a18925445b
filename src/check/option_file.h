/* Reads the server's option files: the value of a variable there. */
#ifndef WK_CHECK_OPTION_FILE_H
#define WK_CHECK_OPTION_FILE_H

#include <stdbool.h>

#include "base/text.h"

/* The value of one option in the files read so far, the last of which wins. */
struct option_search {
    const char *name;   /* name with underscores */
    struct buf value;   /* empty: not set; "1" if only the name is given */
    unsigned looked_at; /* number of files that could be read */
};
/* Reads one file and its includes. A file that cannot be read is skipped. */
void option_file(struct option_search *s, const char *path);
/* Reads all *.cnf files of a directory in the order of their names. */
void option_dir(struct option_search *s, const char *path);
/* Takes a line of a file, or a command-line argument without its dashes. */
void option_line(struct option_search *s, const char *line, size_t len);
void option_search_free(struct option_search *s);

#endif
