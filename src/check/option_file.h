/* The server's option files: what a variable is set to there. */
#ifndef WK_CHECK_OPTION_FILE_H
#define WK_CHECK_OPTION_FILE_H

#include <stdbool.h>

#include "base/text.h"

/* What is said of one option: by the files read so far, the last of which wins. */
struct option_search {
    const char *name;   /* with underscores */
    struct buf value;   /* empty: nothing said; "1" where only the name stands */
    unsigned looked_at; /* files that could be read */
};
/* Reads one file, and what it includes. A file that cannot be read is skipped. */
void option_file(struct option_search *s, const char *path);
/* Reads all *.cnf of a directory, in the order of their names. */
void option_dir(struct option_search *s, const char *path);
/* Takes a line of a file, or an argument of a command line without its dashes. */
void option_line(struct option_search *s, const char *line, size_t len);
void option_search_free(struct option_search *s);

#endif
