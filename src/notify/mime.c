#include "notify/mime.h"

#include <openssl/evp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define LINE 78         /* columns of a header line */
#define ENCODED_LINE 76 /* columns of a header line with encoded-words */
#define WORD_OPEN "=?UTF-8?B?"
#define WORD_CLOSE "?="
#define WORD_BYTES 45 /* of text per encoded-word: 60 characters of base64, 72 with the frame */

/* Returns false for control characters too, because they must never appear in a header
 * unencoded. */
static bool is_ascii_text(const char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < 0x20 || (unsigned char)*s > 0x7e)
            return false;
    return true;
}

/* Returns the length of the longest prefix of `s`, at most `max` bytes, that ends between
 * characters. */
static size_t whole_chars(const char *s, size_t len, size_t max)
{
    if (len <= max)
        return len;
    size_t n = max;
    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n ? n : max;
}

/* Appends valid UTF-8 as encoded-words. `column` is the line's current column. */
static void encoded_words(struct buf *out, const char *s, size_t column)
{
    size_t len = strlen(s), frame = strlen(WORD_OPEN WORD_CLOSE);
    for (size_t done = 0; done < len;) {
        size_t room =
            column + frame + 4 < ENCODED_LINE ? (ENCODED_LINE - column - frame) / 4 * 3 : 6;
        size_t n = whole_chars(s + done, len - done, room < WORD_BYTES ? room : WORD_BYTES);
        unsigned char b64[WORD_BYTES / 3 * 4 + 5];
        EVP_EncodeBlock(b64, (const unsigned char *)s + done, (int)n);
        buf_printf(out, "%s" WORD_OPEN "%s" WORD_CLOSE, done ? "\r\n " : "", (const char *)b64);
        done += n;
        column = 1;
    }
}

void mime_text_header(struct buf *out, const char *name, const char *text)
{
    SCOPED(buf_free) struct buf clean = {0};
    text_clean(&clean, text, 4096);
    buf_printf(out, "%s: ", name);
    size_t column = strlen(name) + 2;
    /* "=?" in plain text could be read as an encoded-word. */
    if (is_ascii_text(clean.p) && !strstr(clean.p, "=?")) {
        /* Plain ASCII is folded before a blank. Trailing blanks are dropped because they could
         * become a separate line. */
        size_t len = strlen(clean.p);
        while (len && clean.p[len - 1] == ' ')
            len--;
        for (size_t i = 0; i < len;) {
            size_t n = strspn(clean.p + i, " ");
            n += strcspn(clean.p + i + n, " ");
            if (i && column + n > LINE) {
                buf_adds(out, "\r\n");
                column = 0;
            }
            buf_add(out, clean.p + i, n);
            column += n;
            i += n;
        }
    } else {
        encoded_words(out, clean.p, column);
    }
    buf_adds(out, "\r\n");
}

static const char *skip_blanks(const char *s, size_t *len)
{
    while (*len && (*s == ' ' || *s == '\t')) {
        s++;
        (*len)--;
    }
    while (*len && (s[*len - 1] == ' ' || s[*len - 1] == '\t'))
        (*len)--;
    return s;
}

static bool address_ok(const char *s, size_t len)
{
    if (len == 0 || len > 254 || s[0] == '@' || s[len - 1] == '@')
        return false;
    for (size_t i = 0; i < len; i++)
        if ((unsigned char)s[i] <= 0x20 || (unsigned char)s[i] >= 0x7f ||
            strchr("<>()[],;:\\\"", s[i]))
            return false;
    return true;
}

int mime_mailbox(const char *text, struct mailbox *out, struct err *e)
{
    const char *open = strrchr(text, '<'), *addr = text;
    size_t len = strlen(text), name_len = 0;
    if (open) {
        const char *shut = strchr(open, '>');
        if (!shut || shut[1 + strspn(shut + 1, " \t")])
            goto bad;
        name_len = (size_t)(open - text);
        addr = open + 1;
        len = (size_t)(shut - addr);
    }
    addr = skip_blanks(addr, &len);
    if (!address_ok(addr, len))
        goto bad;
    const char *name = skip_blanks(text, &name_len);
    if (name_len >= 2 && name[0] == '"' && name[name_len - 1] == '"') {
        name++;
        name_len -= 2;
    }
    char *raw = xstrndup(name, name_len);
    text_clean(&out->name, raw, 200);
    free(raw);
    buf_add(&out->addr, addr, len);
    return 0;
bad:;
    struct buf clean = {0};
    text_clean(&clean, text, 200);
    err_set(e, ERR_CONFIG, 0, "not a mail address: %s", clean.p);
    err_hint(e, "write user@host or Name <user@host>, in ASCII");
    buf_free(&clean);
    return -1;
}

void mime_mailbox_free(struct mailbox *m)
{
    buf_free(&m->name);
    buf_free(&m->addr);
}

/* Appends a display name: as encoded-words or as a quoted string. */
static void display_name(struct buf *out, const char *s, size_t column)
{
    if (!is_ascii_text(s) || strstr(s, "=?")) {
        encoded_words(out, s, column);
        return;
    }
    buf_addc(out, '"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            buf_addc(out, '\\');
        buf_addc(out, *s);
    }
    buf_addc(out, '"');
}

void mime_address_header(struct buf *out, const char *name, const struct mailbox *list, size_t n)
{
    buf_printf(out, "%s: ", name);
    for (size_t i = 0; i < n; i++) {
        if (i)
            buf_adds(out, ",\r\n ");
        if (list[i].name.len) {
            display_name(out, list[i].name.p, i ? 1 : strlen(name) + 2);
            const char *line = memrchr(out->p, '\n', out->len);
            size_t column = (size_t)(out->p + out->len - (line ? line + 1 : out->p));
            buf_printf(out, "%s <%s>", column + list[i].addr.len + 4 > LINE ? "\r\n" : "",
                       list[i].addr.p);
        } else {
            buf_adds(out, list[i].addr.p);
        }
    }
    buf_adds(out, "\r\n");
}

void mime_date_header(struct buf *out, wall_t t)
{
    /* strftime() is not used because it follows the locale. */
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    time_t s = (time_t)(t.ms / 1000);
    struct tm tm;
    gmtime_r(&s, &tm);
    buf_printf(out, "Date: %s, %d %s %04d %02d:%02d:%02d +0000\r\n", days[tm.tm_wday % 7],
               tm.tm_mday, months[tm.tm_mon % 12], tm.tm_year + 1900, tm.tm_hour, tm.tm_min,
               tm.tm_sec);
}

/* Quoted-printable is used because people can read it in a mail's source. */
void mime_quoted_printable(struct buf *out, const char *text, size_t len)
{
    size_t column = 0;
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        if (c == '\n') {
            buf_adds(out, "\r\n");
            column = 0;
            continue;
        }
        bool last = i + 1 == len || text[i + 1] == '\n';
        bool plain = (c > 0x20 && c < 0x7f && c != '=') || (c == ' ' && !last);
        size_t width = plain ? 1 : 3;
        /* One column is reserved for the "=" of a soft line break. */
        if (column + width > ENCODED_LINE - 1) {
            buf_adds(out, "=\r\n");
            column = 0;
        }
        if (plain)
            buf_addc(out, (char)c);
        else
            buf_printf(out, "=%02X", c);
        column += width;
    }
    if (column)
        buf_adds(out, "\r\n");
}
