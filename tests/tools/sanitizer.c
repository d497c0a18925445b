/* Linked into the program and the unit tests of SAN=1: the defaults of AddressSanitizer, which
 * ASAN_OPTIONS can override. */

const char *__asan_default_options(void);

/* AddressSanitizer's interceptor of __tls_get_addr() assumes a header of glibc before 2.25 in front
 * of any dynamic TLS block whose offset in a page is 16, and takes the words there for the block's
 * address and size. A leak check that reads that memory ends with "Tracer caught signal 11", in
 * about one of a hundred runs of a program that loads TLS
 * (https://github.com/google/sanitizers/issues/1322; fixed in GCC 14 and LLVM 17). */
const char *__asan_default_options(void)
{
    return "intercept_tls_get_addr=0";
}
