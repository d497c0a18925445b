#include "base/board.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>

/* Writing takes less than a microsecond, but a writer that was killed meanwhile never finishes. */
#define TRIES 3

struct board {
    size_t words;
    /* Odd during a write. If a reader finds the same even number before and after copying, the copy
     * is consistent. */
    _Atomic uint64_t version;
    _Atomic uint64_t data[];
};

struct board *board_new(size_t size, struct err *e)
{
    size_t words = size / sizeof(uint64_t);
    struct board *b = mmap(NULL, sizeof *b + words * sizeof(uint64_t), PROT_READ | PROT_WRITE,
                           MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b == MAP_FAILED) {
        err_sys(e, errno, "cannot share memory with workers");
        return NULL;
    }
    b->words = words;
    return b;
}

void board_clear(struct board *b)
{
    atomic_store(&b->version, 0);
}

void board_write(struct board *b, const void *data)
{
    /* Sets the number odd instead of incrementing it, because a killed writer may have left it
     * either way. */
    uint64_t version = atomic_load(&b->version) | 1;
    atomic_store(&b->version, version);
    for (size_t i = 0; i < b->words; i++) {
        uint64_t word;
        memcpy(&word, (const char *)data + i * sizeof word, sizeof word);
        atomic_store(&b->data[i], word);
    }
    atomic_store(&b->version, version + 1);
}

bool board_read(const struct board *b, uint64_t *seen, void *out)
{
    for (int i = 0; i < TRIES; i++) {
        uint64_t version = atomic_load(&b->version);
        if (version == *seen || version == 0)
            return false;
        for (size_t k = 0; k < b->words && version % 2 == 0; k++) {
            uint64_t word = atomic_load(&b->data[k]);
            memcpy((char *)out + k * sizeof word, &word, sizeof word);
        }
        if (version % 2 == 0 && atomic_load(&b->version) == version) {
            *seen = version;
            return true;
        }
    }
    return false;
}
