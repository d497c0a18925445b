/* Runs a fuzzing target once on each file that is named: a corpus without a fuzzer. */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int run(const char *path)
{
    FILE *f = fopen(path, "rb");
    size_t size = 0;
    uint8_t *data = NULL;
    if (f && fseek(f, 0, SEEK_END) == 0) {
        size = (size_t)ftell(f);
        data = malloc(size ? size : 1);
        rewind(f);
    }
    bool read = f && data && fread(data, 1, size, f) == size;
    if (read)
        LLVMFuzzerTestOneInput(data, size);
    else
        perror(path);
    if (f)
        fclose(f);
    free(data);
    return read ? 0 : 1;
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (run(argv[i]))
            return 1;
    printf("%d files\n", argc - 1);
    return 0;
}
