/* Reads and writes recipients and identities: bech32 (BIP 173), in upper case if it is secret. */
#ifndef WK_OFFSITE_AGE_KEYS_H
#define WK_OFFSITE_AGE_KEYS_H

#include "offsite/age.h"

#define AGE_TEXT 63u /* a recipient as text, with its NUL */

/* Overwrites the keys. */
void age_keys_wipe(struct age_keys *k);
/* Adds "age1…", several separated by commas. ERR_CONFIG names the wrong one and the reason, but
 * never text that could be a secret key. */
int age_recipients(const char *text, struct age_keys *out, struct err *e);
/* Adds those of a file: one per line; empty lines and lines with # are skipped. */
int age_recipients_file(const char *path, struct age_keys *out, struct err *e);
/* Adds those of an identity file as age-keygen(1) writes it, a secret file (file_read_secret()). */
int age_identities_file(const char *path, struct age_keys *out, struct err *e);
/* Computes the recipient that belongs to an identity. */
int age_recipient_of(const unsigned char identity[AGE_KEY], char out[AGE_TEXT], struct err *e);

#endif
