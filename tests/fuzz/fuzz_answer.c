/* Fuzzing of what servers answer to alerts, as far as it reaches us: a libcurl that carries nothing
 * and gives out pieces of the input instead. The first byte chooses the channel, the second how the
 * request ends; then two bytes of status, eight of Retry-After, and lines: of an SMTP server, or of
 * the body of an HTTP answer.
 *
 * Nothing that we repeat holds a piece of a secret; it is one line, and short; a wait has a limit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_curl.h"
#include "notify/alert.h"
#include "scratch.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char password[] = "SEKRITpass0rd",
            hook[] = "http://chat.example.org:80/hooks/T0CANARY1/xxCANARYxx2?key=CANARY4",
            mail_url[] = "smtp://mail.example.org:25", user[] = "keeper", from[] = "wk@example.org",
            to_a[] = "a@example.org", to_b[] = "b@example.net";
/* In base64 the login goes over the line. */
static const char login[] = "AGtlZXBlcgBTRUtSSVRwYXNzMHJk";
/* What each channel must not tell: mail, webhook, heartbeat. */
static const char *const secrets[][2] = {{password, login},
                                         {"/hooks/T0CANARY1/xxCANARYxx2", "key=CANARY4"},
                                         {"/hooks/T0CANARY1/xxCANARYxx2", "key=CANARY4"}};

/* ---- what servers say ---- */

/* The next line of the server with its end, "" when it says no more. */
static size_t next_line(const char **line)
{
    const char *nl = memchr(f.rest, '\n', (size_t)(f.end - f.rest));
    size_t len = (size_t)((nl ? nl + 1 : f.end) - f.rest);
    *line = f.rest;
    f.rest += len;
    return len;
}

static bool guessed; /* a piece of the login before we sent that: no leak of ours */

static void debug(curl_infotype type, const char *s, size_t len)
{
    char *copy = scratch_copy(s, len);
    f.debug((CURL *)&handle, type, copy, len, f.debug_arg);
    free(copy);
}

/* We say something; the server answers with lines up to one that has no '-' behind its number. */
static void say(const char *command)
{
    const char *line;
    size_t len;
    if (command)
        debug(CURLINFO_HEADER_OUT, command, strlen(command));
    do {
        len = next_line(&line);
        if (len)
            debug(CURLINFO_HEADER_IN, line, len);
    } while (len > 3 && line[3] == '-');
}

/* Eight characters of a secret in a row are a leak. */
static bool holds_piece(const char *text, size_t len, const char *secret)
{
    for (const char *s = secret; strlen(s) >= 8; s++)
        if (memmem(text, len, s, 8))
            return true;
    return false;
}

static void talk_smtp(void)
{
    static const char *const commands[] = {NULL, "EHLO host\r\n", "STARTTLS\r\n", "EHLO host\r\n",
                                           "AUTH PLAIN\r\n"};
    char letter[256], auth[64];
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++)
        say(commands[i]);
    snprintf(auth, sizeof auth, "%s\r\n", login);
    guessed = holds_piece(f.all, (size_t)(f.rest - f.all), login);
    say(auth);
    say("MAIL FROM:<wk@example.org>\r\n");
    say("RCPT TO:<a@example.org>\r\n");
    say("RCPT TO:<b@example.net>\r\n");
    say("DATA\r\n");
    while ((f.read ? f.read(letter, 1, sizeof letter, f.read_arg) /* libcurl's default: a stream */
                   : fread(letter, 1, sizeof letter, f.read_arg)) > 0)
        ;
    say(NULL);
    say("QUIT\r\n");
}

static CURLcode talk_http(void)
{
    while (f.rest < f.end) {
        const char *piece;
        size_t len = next_line(&piece);
        char *copy = scratch_copy(piece, len);
        size_t took = f.body(copy, 1, len, f.body_arg);
        free(copy);
        if (took != len)
            return CURLE_WRITE_ERROR;
    }
    return f.ends;
}

static CURLcode easy_perform(CURL *h)
{
    (void)h;
    if (f.ends != CURLE_OK && f.why)
        snprintf(f.why, CURL_ERROR_SIZE, "%s", f.said);
    if (!f.debug)
        return talk_http();
    talk_smtp();
    return f.ends;
}

/* ---- what is told of it ---- */

static bool leaks(const char *text, unsigned channel)
{
    for (size_t i = 0; i < 2; i++)
        if (!(guessed && secrets[channel][i] == login) &&
            holds_piece(text, strlen(text), secrets[channel][i]))
            return true;
    return false;
}

static void judge_text(const char *text, size_t max, unsigned channel)
{
    demand(strlen(text) <= max && !leaks(text, channel) && text_utf8_valid(text, strlen(text)));
    for (const char *s = text; *s; s++)
        demand((unsigned char)*s >= 0x20 && *s != 0x7f);
}

static struct config config(void)
{
    static char name[] = "w", *to[] = {to_a, to_b}, secret[48];
    struct config c = {.name = name, .alert_events = EVENT_ALL};
    if (!secret[0]) {
        scratch_put("password", password, strlen(password));
        snprintf(secret, sizeof secret, "/proc/self/fd/%d/password", scratch_dir());
    }
    c.webhooks[0].url = c.heartbeat_url = hook;
    c.webhooks[0].timeout = c.heartbeat_timeout = c.smtp.timeout = 1000;
    c.smtp.url = mail_url;
    c.smtp.from = from;
    c.smtp.to.list = to;
    c.smtp.to.count = 2;
    c.smtp.user = user;
    c.smtp.password_file = secret;
    c.smtp.starttls = STARTTLS_REQUIRED;
    return c;
}

static void send_one(const struct config *c, unsigned channel)
{
    struct request_result r = {0};
    struct err e = {0};
    int rc = channel == 2 ? alert_request(c, ALERT_HEARTBEAT, REQUEST_SEND, NULL, NULL, &r, &e)
                          : alert_test(c, channel ? ALERT_WEBHOOK : ALERT_SMTP, &r, &e);
    demand(rc == 0 || e.cls != ERR_NONE);
    judge_text(e.text, sizeof e.text - 1, channel);
    judge_text(e.hint, sizeof e.hint - 1, channel);
    judge_text(r.reply.p ? r.reply.p : "", 300, channel);
    demand(r.retry_after >= 0 && r.retry_after <= REQUEST_RETRY_AFTER_MAX);
    if (channel == 1 && rc == 0)
        demand(f.status >= 200 && f.status <= 299);
    request_result_free(&r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const CURLcode ends[] = {CURLE_OK,
                                    CURLE_OK,
                                    CURLE_OK,
                                    CURLE_OK,
                                    CURLE_OPERATION_TIMEDOUT,
                                    CURLE_LOGIN_DENIED,
                                    CURLE_WEIRD_SERVER_REPLY,
                                    CURLE_RECV_ERROR};
    uint64_t retry = 0;
    if (size < 12)
        return 0;
    for (size_t i = 0; i < 8; i++)
        retry = retry << 8 | data[4 + i];
    guessed = false;
    f = (struct fake){.status = (data[2] << 8 | data[3]) % 1000,
                      .retry = (curl_off_t)retry,
                      .ends = ends[data[1] % 8]};
    char *rest = scratch_copy(data + 12, size - 12);
    f.all = f.rest = rest;
    f.end = rest + size - 12;
    if (data[1] & 8) { /* libcurl's own words begin with the first line */
        const char *why;
        size_t len = next_line(&why);
        snprintf(f.said, sizeof f.said, "%.*s", (int)len, why);
    }
    struct config c = config();
    send_one(&c, data[0] % 3);
    free(rest);
    return 0;
}
