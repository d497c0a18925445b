#include "progress/central_sql.h"

/* Includes SQL that is longer than a string literal may be. The path is relative to the
 * directory in which make runs. */
__asm__(".pushsection .rodata\n"
        ".global progress_central_sql\n"
        "progress_central_sql:\n"
        ".incbin \"src/progress/central.sql\"\n"
        ".byte 0\n"
        ".popsection\n");
