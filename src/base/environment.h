/* Cleans the environment. Libraries take more from it than the user who starts us intends: plugins
 * to load, passwords, proxies, trusted certificates, a file to log TLS session keys to. All of that
 * is set in the config instead. */
#ifndef WK_BASE_ENVIRONMENT_H
#define WK_BASE_ENVIRONMENT_H

/* Keeps what this program itself reads, time zone and locale, the sanitizers' options and what
 * tests set (WK_…); removes the rest. Called first in main(). */
void environment_keep(void);

#endif
