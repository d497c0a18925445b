/* Linked into the program and the unit tests of SAN=1: what AddressSanitizer does unless ASAN_OPTIONS says otherwise. */

const char *__asan_default_options(void);

/* Its interceptor of __tls_get_addr() takes a thread's dynamic block whose place in a page is 16 for one with a header
 * of glibc before 2.25, and the words in front of the block for its place and size. A leak check that reads there ends
 * with "Tracer caught signal 11", once in a hundred runs of a program that loads TLS
 * (https://github.com/google/sanitizers/issues/1322; mended in GCC 14 and LLVM 17). */
const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}
