/* Where a target puts its input for code that reads files: a directory in memory, gone at the end,
 * and files without a name. */
#ifndef WK_FUZZ_SCRATCH_H
#define WK_FUZZ_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

/* Made at the first call. */
int scratch_dir(void);
/* Makes or replaces a file of it. */
void scratch_put(const char *name, const void *data, size_t len);
void scratch_remove(const char *name);
/* A file without a name, mode 0600, with this content and read from its start. The caller closes.
 */
int scratch_file(const void *data, size_t len);
/* `data` in memory of its very size, so that reading behind it is found. The caller frees. */
void *scratch_copy(const void *data, size_t len);

/* A promise that a target looks after. */
void demand(bool kept);

#endif
