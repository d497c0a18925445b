/* Header fields, quoted-printable, and mails given to a small scripted SMTP server. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "fake_clock.h"
#include "notify/alert.h"
#include "notify/mail.h"
#include "notify/mime.h"
#include "tiny_server.h"

#define PATIENCE 40000 /* milliseconds: a timeout that only a server that hangs reaches */
#define HANGS 60       /* seconds */

static void expect_header(const char *text, const char *expected)
{
    struct buf b = {0};
    mime_text_header(&b, "Subject", text);
    assert_string_equal(b.p, expected);
    buf_free(&b);
}

static void test_text_header(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"plain", "Subject: plain\r\n"},
        {"", "Subject: \r\n"},
        {"a\r\nBcc: x@example.org", "Subject: a??Bcc: x@example.org\r\n"},
        {"a blank at the end ", "Subject: a blank at the end\r\n"},
        {"=?UTF-8?Q?fake?=", "Subject: =?UTF-8?B?PT9VVEYtOD9RP2Zha2U/PQ==?=\r\n"},
        {"\xc3\xa4", "Subject: =?UTF-8?B?w6Q=?=\r\n"},
        {"\xff", "Subject: ?\r\n"},
        {"0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789 012345",
         "Subject: 0123456789 0123456789 0123456789 0123456789 0123456789 0123456789\r\n"
         " 0123456789 012345\r\n"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        expect_header(table[i][0], table[i][1]);
}

/* Every length and offset of 1 to 4 byte characters: lines of at most 76, whole characters in each
 * encoded-word, and the decoder of the base64 alphabet finds the text again. */
static void test_encoded_words(void **state)
{
    (void)state;
    static const char *const chars[] = {"\xc3\xa4", "\xe2\x82\xac", "\xf0\x9f\x8c\x8d"};
    for (size_t c = 0; c < 3; c++)
        for (size_t lead = 0; lead < 50; lead++) {
            struct buf text = {0}, out = {0};
            for (size_t i = 0; i < lead; i++)
                buf_addc(&text, 'a');
            for (int i = 0; i < 40; i++)
                buf_adds(&text, chars[c]);
            mime_text_header(&out, "Subject", text.p);
            char *save = NULL;
            for (char *line = strtok_r(out.p, "\n", &save); line;
                 line = strtok_r(NULL, "\n", &save)) {
                assert_in_range(strlen(line), 1, 77); /* with the \r */
                char *word = strstr(line, "=?UTF-8?B?");
                assert_non_null(word);
                word += 10;
                /* A word that began inside a character would begin with a byte 10xxxxxx: g to v. */
                assert_null(strchr("ghijklmnopqrstuv", word[0]));
                assert_int_equal(strcspn(word, "?") % 4, 0);
            }
            buf_free(&text);
            buf_free(&out);
        }
}

static void test_mailbox(void **state)
{
    (void)state;
    static const char *const good[][3] = {
        {"a@example.org", "", "a@example.org"},
        {" root ", "", "root"},
        {"Game Admin <a@example.org>", "Game Admin", "a@example.org"},
        {"\"Admin, the\" <a@example.org>", "Admin, the", "a@example.org"},
        {"<a@example.org>", "", "a@example.org"},
        {"J\xc3\xb6rg <a@example.org> ", "J\xc3\xb6rg", "a@example.org"},
    };
    static const char *const bad[] = {
        "",
        "<>",
        "a b",
        "a@",
        "@b",
        "x <a@b",
        "x <a@b> y",
        "a@b\r\nBcc: c@d",
        "a\xc3\xa4@b",
        "a@b,c@d",
        "x <a@b\r\n>",
        "a>@b",
    };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct mailbox m = {0};
        assert_int_equal(mime_mailbox(good[i][0], &m, NULL), 0);
        assert_string_equal(m.name.p, good[i][1]);
        assert_string_equal(m.addr.p, good[i][2]);
        mime_mailbox_free(&m);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct mailbox m = {0};
        struct err e = {0};
        assert_int_equal(mime_mailbox(bad[i], &m, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_null(strpbrk(e.text, "\r\n"));
        mime_mailbox_free(&m);
    }
}

static void test_address_header(void **state)
{
    (void)state;
    struct mailbox m[3] = {0};
    struct buf b = {0};
    assert_int_equal(mime_mailbox("a@example.org", &m[0], NULL), 0);
    assert_int_equal(mime_mailbox("The \"B\" <b@example.org>", &m[1], NULL), 0);
    assert_int_equal(mime_mailbox("\xc3\xa4 <c@example.org>", &m[2], NULL), 0);
    mime_address_header(&b, "To", m, 3);
    assert_string_equal(b.p, "To: a@example.org,\r\n \"The \\\"B\\\"\" <b@example.org>,\r\n"
                             " =?UTF-8?B?w6Q=?= <c@example.org>\r\n");
    buf_free(&b);
    for (int i = 0; i < 3; i++)
        mime_mailbox_free(&m[i]);
}

static void test_date(void **state)
{
    (void)state;
    struct buf b = {0};
    mime_date_header(&b, (wall_t){1769903999000});
    mime_date_header(&b, (wall_t){0});
    assert_string_equal(b.p, "Date: Sat, 31 Jan 2026 23:59:59 +0000\r\n"
                             "Date: Thu, 1 Jan 1970 00:00:00 +0000\r\n");
    buf_free(&b);
}

static void test_quoted_printable(void **state)
{
    (void)state;
    static const char *const table[][2] = {
        {"a\nb", "a\r\nb\r\n"},
        {"a=b\n", "a=3Db\r\n"},
        {"end \nx\n", "end=20\r\nx\r\n"},
        {"\xc3\xa4\r\t\n", "=C3=A4=0D=09\r\n"},
        {".\n..\n", ".\r\n..\r\n"},
        {"\n\n", "\r\n\r\n"},
        {"0123456789012345678901234567890123456789012345678901234567890123456789012345678\n",
         "012345678901234567890123456789012345678901234567890123456789012345678901234="
         "\r\n5678\r\n"},
        {"012345678901234567890123456789012345678901234567890123456789012345678901=2\n",
         "012345678901234567890123456789012345678901234567890123456789012345678901=3D=\r\n2\r\n"},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        struct buf b = {0};
        mime_quoted_printable(&b, table[i][0], strlen(table[i][0]));
        assert_string_equal(b.p, table[i][1]);
        buf_free(&b);
    }
}

/* A config that sends to the scripted server; three recipients. */
static char world[] = "s8", url[64], from[] = "Keeper <keeper@example.org>", user[] = "bob",
            secret_path[64];
static char to1[] = "a@example.org", to2[] = "b@example.org", to3[] = "c@example.org";
static char *to[] = {to1, to2, to3};
#define PASSWORD "CANARY-of-this-test"

static struct config config(const struct tiny *t)
{
    struct config c = {.name = world};
    snprintf(url, sizeof url, "smtp://127.0.0.1:%d", t->port);
    c.smtp.url = url;
    c.smtp.from = from;
    c.smtp.to.list = to;
    c.smtp.to.count = 3;
    c.smtp.starttls = STARTTLS_OFF;
    c.smtp.timeout = PATIENCE;
    return c;
}

static json_t *one(const struct config *c, const char *what)
{
    struct alert a = {.event = EVENT_DOWN, .what = what, .todo = "look at it"};
    return alert_compose(c, &a, (wall_t){1769903999000});
}

static void test_whole_mail(void **state)
{
    (void)state;
    struct tiny t = {0};
    struct config c = config(&t);
    struct buf b = {0}, start = {0};
    json_t *list = json_pack("[o]", one(&c, "DOWN: table 'x\r\n.\r\nQUIT' \xe2\x82\xac"));
    json_object_set_new(json_array_get(list, 0), "host", json_string("db-1.example.org"));
    const char *id = json_string_value(json_object_get(json_array_get(list, 0), "id"));
    struct message m = {list, 0, 0};
    assert_int_equal(mail_compose(&c, &m, &b, NULL), 0);
    buf_printf(&start,
               "Date: Sat, 31 Jan 2026 23:59:59 +0000\r\n"
               "Message-ID: <worldkeeper.%s@db-1.example.org>\r\n"
               "From: \"Keeper\" <keeper@example.org>\r\n"
               "To: a@example.org,\r\n b@example.org,\r\n c@example.org\r\n"
               "Subject: s8 DOWN\r\n"
               "List-Id: <s8.worldkeeper.db-1.example.org>\r\n"
               "X-Worldkeeper-World: s8\r\n"
               "X-Worldkeeper-Event: down\r\n"
               "X-Worldkeeper-Incident: %s\r\n"
               "Auto-Submitted: auto-generated\r\n"
               "MIME-Version: 1.0\r\n"
               "Content-Type: text/plain; charset=UTF-8\r\n"
               "Content-Transfer-Encoding: quoted-printable\r\n\r\n"
               "What happened  DOWN: table 'x  .  QUIT' =E2=82=AC\r\n",
               id, id);
    assert_true(text_starts(b.p, start.p));
    for (size_t i = 0; i < b.len; i++) {
        assert_true((unsigned char)b.p[i] < 0x7f);
        assert_int_equal(b.p[i] == '\n', i && b.p[i - 1] == '\r');
    }
    buf_free(&b);
    buf_free(&start);
    json_decref(list);
}

static json_t *of(const char *id, const char *incident)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s}", "id", id, "incident", incident, "world", "s8",
                     "host", "h", "what", "x");
}

static void expect_thread(json_t *list, const char *expected)
{
    struct tiny t = {0};
    struct config c = config(&t);
    struct buf b = {0};
    struct message m = {list, 0, 0};
    assert_int_equal(mail_compose(&c, &m, &b, NULL), 0);
    char *from_ = strstr(b.p, "Message-ID: "), *end = strstr(b.p, "From: ");
    assert_non_null(from_);
    *end = '\0';
    assert_string_equal(from_, expected);
    buf_free(&b);
    json_decref(list);
}

/* One thread for each incident: its first mail has its id, and the others answer to that. */
static void test_threads(void **state)
{
    (void)state;
    expect_thread(json_pack("[o]", of("a1", "a1")), "Message-ID: <worldkeeper.a1@h>\r\n");
    expect_thread(json_pack("[o]", of("a2", "a1")), "Message-ID: <worldkeeper.a2@h>\r\n"
                                                    "In-Reply-To: <worldkeeper.a1@h>\r\n"
                                                    "References: <worldkeeper.a1@h>\r\n");
    /* folded: those that follow name the same */
    expect_thread(json_pack("[o, o]", of("a1", "a1"), of("a2", "a1")),
                  "Message-ID: <worldkeeper.a2@h>\r\n"
                  "In-Reply-To: <worldkeeper.a1@h>\r\n"
                  "References: <worldkeeper.a1@h>\r\n");
    /* the end of one incident, and all of another */
    expect_thread(json_pack("[o, o]", of("a2", "a1"), of("b1", "b1")),
                  "Message-ID: <worldkeeper.b1@h>\r\n"
                  "In-Reply-To: <worldkeeper.a1@h>\r\n");
    expect_thread(json_pack("[o, o, o]", of("a2", "a1"), of("b2", "b1"), of("a3", "a1")),
                  "Message-ID: <worldkeeper.a3@h>\r\n"
                  "In-Reply-To: <worldkeeper.a1@h>\r\n <worldkeeper.b1@h>\r\n"
                  "References: <worldkeeper.a1@h>\r\n");
    /* of an older version, or edited */
    expect_thread(json_pack("[o]", of("a2", "x>\r\nBcc: y")), "Message-ID: <worldkeeper.a2@h>\r\n");
}

static unsigned slow_ms, signs; /* of the server; of life, by us */

/* The server: `mode` says what goes wrong. */
static void smtp_data(FILE *in, int conn, int log, const char *mode)
{
    char line[1200];
    tiny_say(conn, "354 go on\r\n");
    while (fgets(line, sizeof line, in) && strcmp(line, ".\r\n") != 0)
        tiny_log(log, line);
    if (strcmp(mode, "hang at end") == 0)
        sleep(HANGS);
    if (strcmp(mode, "slow at end") == 0)
        usleep(1000 * slow_ms);
    tiny_say(conn, strcmp(mode, "spam") == 0 ? "554 5.6.0 no\r\n" : "250 2.0.0 taken as 42\r\n");
}

static void smtp_serve(FILE *in, int conn, int log, const char *mode)
{
    char line[1200];
    if (strcmp(mode, "silent") == 0)
        sleep(HANGS);
    for (int i = 0; strcmp(mode, "tarpit") == 0; i++) {
        tiny_say(conn, i ? "x" : "220 ");
        usleep(100000);
    }
    tiny_say(conn, strcmp(mode, "busy") == 0 ? "421 4.3.2 too busy\r\n" : "220 tiny\r\n");
    while (fgets(line, sizeof line, in)) {
        tiny_log(log, line);
        if (strncmp(line, "EHLO", 4) == 0) {
            tiny_say(conn, "250-tiny\r\n250 AUTH PLAIN\r\n");
        } else if (strncmp(line, "AUTH", 4) == 0) {
            tiny_say(conn, "535 5.7.8 no: " PASSWORD " AGJvYgBDQU5BUlktb2YtdGhpcy10ZXN0\r\n");
        } else if (strncmp(line, "RCPT TO:<b@", 11) == 0 && strstr(mode, "refuse")) {
            tiny_say(conn, "550-5.1.1 no \x1b[31m such\r\n550 user\r\n");
        } else if (strncmp(line, "RCPT", 4) == 0 && strcmp(mode, "refuse all") == 0) {
            tiny_say(conn, "451 4.7.1 later\r\n");
        } else if (strncmp(line, "DATA", 4) == 0) {
            smtp_data(in, conn, log, mode);
        } else if (strncmp(line, "QUIT", 4) == 0) {
            if (strcmp(mode, "hang at quit") == 0)
                sleep(HANGS);
            tiny_say(conn, "221 bye\r\n");
            return;
        } else {
            tiny_say(conn, "250 ok\r\n");
        }
    }
}

struct outcome {
    int rc;
    bool accepted;
    char reply[200], *said;
    struct err e;
    double seconds;
};

static void note_life(void *arg, const json_t *recipients)
{
    (void)arg;
    signs += !recipients;
}

static struct outcome run_within(const char *mode, bool login, int64_t timeout)
{
    struct outcome o = {0};
    struct tiny t;
    struct request_result r = {0};
    struct timespec a, b;
    assert_int_equal(tiny_start(&t, smtp_serve, mode), 0);
    struct config c = config(&t);
    c.smtp.timeout = timeout;
    if (login) {
        c.smtp.user = user;
        c.smtp.password_file = secret_path;
    }
    json_t *list = json_pack("[o]", one(&c, "DOWN"));
    struct message m = {list, 0, 0};
    clock_gettime(CLOCK_MONOTONIC, &a);
    const struct request_progress p = {.recipients = note_life};
    signs = 0;
    o.rc = mail_request(&c, REQUEST_SEND, &m, &p, &r, &o.e);
    o.accepted = r.accepted;
    clock_gettime(CLOCK_MONOTONIC, &b);
    o.seconds = (double)(b.tv_sec - a.tv_sec) + (double)(b.tv_nsec - a.tv_nsec) / 1e9;
    snprintf(o.reply, sizeof o.reply, "%s", r.reply.p ? r.reply.p : "");
    o.said = tiny_stop(&t);
    /* The timeout has ended it, not the server; and no text has a secret. */
    assert_true(o.seconds < HANGS);
    assert_null(strstr(o.e.text, "CANARY"));
    assert_null(strstr(o.reply, "CANARY"));
    request_result_free(&r);
    json_decref(list);
    return o;
}

static struct outcome run(const char *mode, bool login)
{
    return run_within(mode, login, PATIENCE);
}

static void test_sent(void **state)
{
    (void)state;
    struct outcome o = run("", false);
    assert_int_equal(o.rc, 0);
    assert_true(o.accepted);
    assert_string_equal(o.reply, "250 2.0.0 taken as 42");
    assert_int_equal(tiny_count(o.said, "RCPT TO:<"), 3);
    assert_int_equal(tiny_count(o.said, "MAIL FROM:<keeper@example.org>"), 1);
    assert_non_null(strstr(o.said, "Subject: s8 DOWN\r\n"));
    free(o.said);
}

static void note_left(void *arg, const json_t *left)
{
    json_t *all = arg;
    if (left)
        json_array_append(all, (json_t *)(uintptr_t)left);
    signs += !left;
}

/* Sends two alerts, the first of which, or `both`, those in `received` have. Returns r.accepted;
 * *reported: who had the mail, and who was left, before each further mail. */
static bool send_two(const char *mode, json_t *received, bool both, int rc, json_t **reported)
{
    struct tiny t;
    struct request_result r = {0};
    struct err e = {0};
    assert_int_equal(tiny_start(&t, smtp_serve, mode), 0);
    struct config c = config(&t);
    json_auto_t *list = json_pack("[o, o]", one(&c, "DOWN"), one(&c, "BACK"));
    json_object_set(json_array_get(list, 0), ALERT_RECEIVED, received);
    if (both)
        json_object_set(json_array_get(list, 1), ALERT_RECEIVED, received);
    json_decref(received);
    struct message m = {list, 0, 0};
    *reported = json_array();
    signs = 0;
    const struct request_progress p = {.recipients = note_left, .arg = *reported};
    assert_int_equal(mail_request(&c, REQUEST_SEND, &m, &p, &r, &e), rc);
    const bool accepted = r.accepted;
    request_result_free(&r);
    free(tiny_stop(&t));
    return accepted;
}

/* Recipients who lack different alerts get a mail each, and what the first ones have is reported
 * before the next mail. That some had all before is no delivery. */
static void test_groups(void **state)
{
    (void)state;
    json_t *reported;
    json_auto_t *a_has = json_pack("[{s:[s], s:[s, s]}]", "received", "a@example.org", "left",
                                   "b@example.org", "c@example.org");
    assert_true(send_two("", json_pack("[s]", "a@example.org"), false, 0, &reported));
    assert_true(json_equal(reported, a_has));
    json_decref(reported);
    json_t *a_and_b = json_pack("[s, s]", "a@example.org", "b@example.org");
    assert_false(send_two("refuse all", a_and_b, true, -1, &reported));
    assert_int_equal(json_array_size(reported), 0);
    json_decref(reported);
}

/* The supervisor must know that the next mail begins, although nobody has the one before. */
static void test_groups_refused(void **state)
{
    (void)state;
    json_t *reported;
    assert_false(send_two("refuse all", json_pack("[s]", "a@example.org"), false, -1, &reported));
    assert_int_equal(json_array_size(reported), 0);
    assert_int_equal(signs, 1);
    json_decref(reported);
}

static void test_partly_refused(void **state)
{
    (void)state;
    struct outcome o = run("refuse one", false);
    assert_int_equal(o.rc, -1);
    assert_true(o.accepted);
    assert_non_null(strstr(o.e.text, ": sent to 2 of 3 recipients, refused: b@example.org "
                                     "(550-5.1.1 no ?[31m such)"));
    free(o.said);
    o = run("refuse all", false);
    assert_int_equal(o.rc, -1);
    assert_false(o.accepted);
    assert_int_equal(o.e.cls, ERR_DENIED);
    assert_non_null(strstr(o.e.text, "no recipient was accepted: a@example.org (451 4.7.1 later), "
                                     "b@example.org (550-5.1.1 no ?[31m such), c@example.org ("));
    assert_null(strstr(o.said, "DATA"));
    free(o.said);
}

static bool fails_within(const char *mode, int64_t timeout, enum err_class cls, const char *text)
{
    struct outcome o = run_within(mode, false, timeout);
    assert_int_equal(o.rc, -1);
    assert_false(o.accepted);
    assert_int_equal(o.e.cls, cls);
    free(o.said);
    if (strstr(o.e.text, text))
        return true;
    print_message("%s: %s\n", mode, o.e.text);
    return false;
}

static void test_failures(void **state)
{
    (void)state;
    assert_true(fails_within("busy", PATIENCE, ERR_UNREACHABLE,
                             ": refused the connection: 421 4.3.2 too busy"));
    assert_true(fails_within("spam", PATIENCE, ERR_DENIED, ": refused the message: 554 5.6.0 no"));
    assert_true(fails_within("silent", 800, ERR_STALLED, "timed out"));
    assert_true(fails_within("tarpit", 800, ERR_STALLED, "timed out"));
}

/* Does not return. The fault point applies to the child alone, whose process has read none yet. */
static void hang_at_end(unsigned timeout)
{
    char limit[60];
    snprintf(limit, sizeof limit, "alert.answer=%u", timeout);
    setenv("WORLDKEEPER_FAULT", limit, 1);
    _exit(fails_within("hang at end", timeout, ERR_STALLED, "(at the message)") ? 0 : 1);
}

/* A server that has the mail and never answers is given up. */
static void test_no_answer(void **state)
{
    (void)state;
    /* On a busy machine a short timeout ends an earlier step. */
    for (unsigned timeout = 800;; timeout *= 2) {
        int status = -1;
        assert_true(timeout < PATIENCE);
        pid_t pid = fork();
        if (pid == 0)
            hang_at_end(timeout);
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (status == 0)
            return;
    }
}

/* A server that needs longer than the timeout to answer has the mail: it is not sent again. During
 * the wait there are signs of life. */
static void test_late_answer(void **state)
{
    (void)state;
    for (unsigned timeout = 1000;; timeout *= 2) {
        assert_true(timeout < PATIENCE);
        slow_ms = timeout + 1500;
        struct outcome o = run_within("slow at end", false, timeout);
        free(o.said);
        if (!o.accepted)
            continue;
        assert_int_equal(o.rc, 0);
        assert_string_equal(o.reply, "250 2.0.0 taken as 42");
        assert_true(1000 * o.seconds >= slow_ms && signs >= 1);
        return;
    }
}

/* A server that never says goodbye has the mail all the same, and nobody waits for it. */
static void test_quit_hangs(void **state)
{
    (void)state;
    struct outcome o = run("hang at quit", false);
    assert_int_equal(o.rc, 0);
    assert_true(1000 * o.seconds < PATIENCE);
    free(o.said);
}

static void test_login_refused(void **state)
{
    (void)state;
    snprintf(secret_path, sizeof secret_path, "/tmp/wk-secret-XXXXXX");
    int fd = mkstemp(secret_path);
    assert_true(fd >= 0 && write(fd, PASSWORD "\n", sizeof PASSWORD) > 0);
    close(fd);
    struct outcome o = run("", true);
    assert_int_equal(o.rc, -1);
    assert_int_equal(o.e.cls, ERR_DENIED);
    assert_non_null(strstr(o.e.text, ": refused the login: 535"));
    assert_null(strstr(o.e.text, "AGJv"));
    assert_null(strstr(o.said, "MAIL FROM"));
    free(o.said);
    chmod(secret_path, 0644);
    o = run("", true);
    assert_int_equal(o.e.cls, ERR_CONFIG);
    assert_non_null(strstr(o.e.text, "is readable by other users"));
    assert_string_equal(o.said, ""); /* not even a connection */
    free(o.said);
    unlink(secret_path);
}

/* Without encryption there is no mail, and `preferred` gives no password away. */
static void test_no_starttls(void **state)
{
    (void)state;
    struct tiny t;
    struct err e = {0};
    struct request_result r = {0};
    assert_int_equal(tiny_start(&t, smtp_serve, ""), 0);
    struct config c = config(&t);
    c.smtp.starttls = STARTTLS_REQUIRED;
    assert_int_equal(alert_test(&c, ALERT_SMTP, &r, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    assert_int_equal(r.accepted, 0);
    request_result_free(&r);
    snprintf(secret_path, sizeof secret_path, "/tmp/wk-secret-XXXXXX");
    int fd = mkstemp(secret_path);
    assert_true(fd >= 0 && write(fd, PASSWORD "\n", sizeof PASSWORD) > 0);
    close(fd);
    c.smtp.starttls = STARTTLS_PREFERRED;
    c.smtp.user = user;
    c.smtp.password_file = secret_path;
    assert_int_equal(alert_test(&c, ALERT_SMTP, &r, &e), -1);
    assert_int_equal(e.cls, ERR_REFUSED);
    request_result_free(&r);
    c.smtp.user = NULL;
    assert_int_equal(alert_test(&c, ALERT_SMTP, &r, &e), 0);
    assert_int_equal(r.accepted, 1);
    char *said = tiny_stop(&t);
    assert_int_equal(tiny_count(said, "AUTH"), 0);
    assert_int_equal(tiny_count(said, "DATA"), 1);
    free(said);
    unlink(secret_path);
    request_result_free(&r);
}

static void test_check(void **state)
{
    (void)state;
    struct tiny t = {0};
    struct config c = config(&t);
    struct err e = {0};
    char with_login[] = "smtp://bob:CANARYCANARY@127.0.0.1/", wrong[] = "https://127.0.0.1/CANARY",
         none[] = "127.0.0.1/CANARY";
    assert_int_equal(alert_request(&c, ALERT_SMTP, REQUEST_CHECK, NULL, NULL, NULL, &e), 0);
    char *bad[] = {with_login, wrong, none};
    for (size_t i = 0; i < 3; i++) {
        c.smtp.url = bad[i];
        assert_int_equal(alert_request(&c, ALERT_SMTP, REQUEST_CHECK, NULL, NULL, NULL, &e), -1);
        assert_int_equal(e.cls, ERR_CONFIG);
        assert_true(text_starts(e.text, "[alert.smtp] url: "));
        assert_null(strstr(e.text, "CANARY"));
    }
    c = config(&t);
    c.smtp.to.count = 0;
    assert_int_equal(alert_request(&c, ALERT_SMTP, REQUEST_CHECK, NULL, NULL, NULL, &e), -1);
    c = config(&t);
    c.smtp.user = user;
    assert_int_equal(alert_request(&c, ALERT_SMTP, REQUEST_CHECK, NULL, NULL, NULL, &e), -1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_no_answer), /* the first one that sends */
        cmocka_unit_test(test_text_header),
        cmocka_unit_test(test_encoded_words),
        cmocka_unit_test(test_mailbox),
        cmocka_unit_test(test_address_header),
        cmocka_unit_test(test_date),
        cmocka_unit_test(test_threads),
        cmocka_unit_test(test_quoted_printable),
        cmocka_unit_test(test_whole_mail),
        cmocka_unit_test(test_sent),
        cmocka_unit_test(test_groups),
        cmocka_unit_test(test_groups_refused),
        cmocka_unit_test(test_partly_refused),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_late_answer),
        cmocka_unit_test(test_quit_hangs),
        cmocka_unit_test(test_login_refused),
        cmocka_unit_test(test_no_starttls),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
