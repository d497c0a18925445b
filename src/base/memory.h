/* The memory of this machine. */
#ifndef WK_BASE_MEMORY_H
#define WK_BASE_MEMORY_H

#include <stdint.h>

/* Bytes that can be had without swapping, as the kernel estimates it; -1: not known. */
int64_t memory_available(void);

#endif
