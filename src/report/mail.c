#include "report/mail.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/file.h"
#include "report/mime.h"
#include "report/wire.h"

#define TEXT_MAX 65536  /* bytes of the text of one mail */
#define ANSWER_MAX 200  /* bytes of a server's line in our texts */
#define REFUSED_MAX 600 /* bytes of the list of refused recipients */

/* The addresses and, once composed, the text. */
struct letter {
    struct mailbox from, *to;
    size_t to_count;
    struct buf text;
    size_t read; /* of text, by libcurl */
};

/* What was said: libcurl tells only the last result, we want each recipient's. */
struct talk {
    const char *step; /* what the last command was about, for texts */
    bool login;       /* inside the login: its lines may repeat the password */
    bool answered;    /* the first line of the answer is there */
    bool over;        /* QUIT was said: what follows is nobody's news */
    char answer[ANSWER_MAX + 8];
    char rcpt[256];          /* the last recipient told, or "" */
    unsigned taken, refused; /* recipients */
    struct buf list;         /* the refused ones with the answers */
    struct wire *wire;
};

static int letter_open(struct letter *l, const struct config_smtp *s, struct err *e)
{
    if (mime_mailbox(s->from ? s->from : "", &l->from, e) < 0) {
        err_step(e, "[alert.smtp] from");
        return -1;
    }
    if (s->to_count == 0)
        return err_set(e, ERR_CONFIG, 0, "[alert.smtp] to: no recipient");
    l->to = xcalloc(s->to_count, sizeof *l->to);
    l->to_count = s->to_count;
    for (size_t i = 0; i < s->to_count; i++)
        if (mime_mailbox(s->to[i], &l->to[i], e) < 0) {
            err_step(e, "[alert.smtp] to");
            return -1;
        }
    return 0;
}

static void letter_close(struct letter *l)
{
    mime_mailbox_free(&l->from);
    for (size_t i = 0; i < l->to_count; i++)
        mime_mailbox_free(&l->to[i]);
    free(l->to);
    buf_free(&l->text);
}

/* "<id@host>"; the host of the alert, as far as it is a name. */
static void message_id_header(struct buf *out, const struct message *m)
{
    const json_t *host = json_object_get(message_newest(m), "host");
    const char *s = json_is_string(host) ? json_string_value(host) : "";
    buf_adds(out, "Message-ID: <worldkeeper.");
    message_id(out, m);
    buf_addc(out, '@');
    size_t before = out->len;
    for (size_t i = 0; i < 64 && s[i]; i++)
        if (isalnum((unsigned char)s[i]) ||
            (i && strchr("-.", s[i]) && isalnum((unsigned char)s[i + 1])))
            buf_addc(out, s[i]);
    buf_adds(out, out->len == before ? "localhost>\r\n" : ">\r\n");
}

static void field_header(struct buf *out, const char *name, const json_t *alert, const char *key)
{
    struct buf v = {0};
    message_field(&v, alert, key, 64);
    mime_text_header(out, name, v.p);
    buf_free(&v);
}

static void compose(struct letter *l, const struct message *m)
{
    struct buf subject = {0}, text = {0};
    message_subject(&subject, m);
    message_text(&text, m, TEXT_MAX);
    mime_date_header(&l->text, message_time(m));
    message_id_header(&l->text, m);
    mime_address_header(&l->text, "From", &l->from, 1);
    mime_address_header(&l->text, "To", l->to, l->to_count);
    mime_text_header(&l->text, "Subject", subject.p);
    field_header(&l->text, "X-Worldkeeper-World", message_newest(m), "world");
    field_header(&l->text, "X-Worldkeeper-Event", message_newest(m), "event");
    buf_adds(&l->text, "Auto-Submitted: auto-generated\r\n"
                       "MIME-Version: 1.0\r\n"
                       "Content-Type: text/plain; charset=UTF-8\r\n"
                       "Content-Transfer-Encoding: quoted-printable\r\n\r\n");
    mime_quoted_printable(&l->text, text.p, text.len);
    buf_free(&subject);
    buf_free(&text);
}

int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e)
{
    struct letter l = {0};
    int rc = letter_open(&l, &c->smtp, e);
    if (rc == 0) {
        compose(&l, m);
        buf_add(out, l.text.p, l.text.len);
    }
    letter_close(&l);
    return rc;
}

/* The talk */

/* The password as it went over the line, in base64 mostly: a server may repeat that, too. */
static void login_line(struct talk *t, const char *line)
{
    const char *s = line;
    if (text_starts(line, "AUTH ")) { /* the name of a method is no secret */
        s += strlen("AUTH ");
        s += strcspn(s, " \r\n");
    }
    s += strspn(s, " ");
    char *said = xstrndup(s, strcspn(s, "\r\n"));
    wire_secret(t->wire, said);
    explicit_bzero(said, strlen(said));
    free(said);
}

static void talk_command(struct talk *t, const char *line)
{
    static const struct {
        const char *command, *step;
    } steps[] = {
        {"EHLO", "the greeting"},     {"HELO", "the greeting"}, {"STARTTLS", "STARTTLS"},
        {"MAIL FROM:", "the sender"}, {"DATA", "the message"},
    };
    if (text_starts(line, "QUIT"))
        t->over = true;
    if (t->over)
        return;
    t->answered = false;
    t->answer[0] = t->rcpt[0] = '\0';
    if (text_starts(line, "RCPT TO:")) {
        const char *addr = line + strcspn(line, "<");
        snprintf(t->rcpt, sizeof t->rcpt, "%.*s", (int)strcspn(addr, ">\r\n"),
                 *addr ? addr + 1 : "");
        t->rcpt[strcspn(t->rcpt, ">\r\n")] = '\0';
        t->login = false;
        t->step = "a recipient";
        return;
    }
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (text_starts(line, steps[i].command)) {
            t->step = steps[i].step;
            t->login = false;
            return;
        }
    t->step = "the login";
    t->login = true;
    login_line(t, line);
}

static void talk_recipient(struct talk *t)
{
    if (t->answer[0] < '4') {
        t->taken++;
    } else {
        t->refused++;
        if (t->list.len < REFUSED_MAX)
            buf_printf(&t->list, "%s%s (%s)", t->list.len ? ", " : "", t->rcpt, t->answer);
        else if (!t->list.p || !strstr(t->list.p, ", ..."))
            buf_adds(&t->list, ", ...");
    }
    t->rcpt[0] = '\0';
}

static void talk_answer(struct talk *t, const char *line)
{
    /* After a 3xx a second answer comes without another command of ours. */
    if (t->over || (t->answered && t->answer[0] != '3') || !isdigit((unsigned char)line[0]))
        return;
    struct buf b = {0};
    char *copy = xstrndup(line, strcspn(line, "\r\n"));
    text_clean(&b, copy, ANSWER_MAX);
    if (t->login || wire_leaks(t->wire, b.p)) /* the number only */
        b.p[strspn(b.p, "0123456789")] = '\0';
    snprintf(t->answer, sizeof t->answer, "%s", b.p);
    t->answered = true;
    free(copy);
    buf_free(&b);
    if (t->rcpt[0])
        talk_recipient(t);
}

static int on_debug(CURL *h, curl_infotype type, char *data, size_t size, void *arg)
{
    (void)h;
    if (type != CURLINFO_HEADER_OUT && type != CURLINFO_HEADER_IN)
        return 0;
    char *line = xstrndup(data, size);
    if (type == CURLINFO_HEADER_OUT)
        talk_command(arg, line);
    else
        talk_answer(arg, line);
    explicit_bzero(line, size);
    free(line);
    return 0;
}

static size_t on_read(char *out, size_t size, size_t n, void *arg)
{
    struct letter *l = arg;
    size_t left = l->text.len - l->read, take = size * n < left ? size * n : left;
    memcpy(out, l->text.p + l->read, take);
    l->read += take;
    return take;
}

/* The session */

static int login(struct wire *w, const struct config_smtp *s, struct err *e)
{
    struct buf password = {0};
    if (!s->user)
        return 0;
    if (!s->password_file)
        return err_set(e, ERR_CONFIG, 0, "[alert.smtp] user is given, password_file is not");
    int rc = file_read_secret(s->password_file, &password, e);
    if (rc == 0) {
        WIRE_SET(w, CURLOPT_USERNAME, s->user);
        WIRE_SET(w, CURLOPT_PASSWORD, password.p);
        wire_secret(w, password.p);
    } else {
        err_step(e, "[alert.smtp] password_file");
    }
    if (password.p)
        explicit_bzero(password.p, password.cap);
    buf_free(&password);
    return rc;
}

/* `preferred` never gives a password away: who hides the server's STARTTLS would read it. */
static long tls_wanted(const struct config_smtp *s)
{
    if (s->starttls == STARTTLS_OFF)
        return CURLUSESSL_NONE;
    return s->starttls == STARTTLS_PREFERRED && !s->user ? CURLUSESSL_TRY : CURLUSESSL_ALL;
}

static int session_open(struct wire *w, const struct config_smtp *s, struct letter *l,
                        struct curl_slist **rcpt, struct err *e)
{
    const struct wire_target target = {.key = "[alert.smtp] url",
                                       .url = s->url,
                                       .protocols = "smtp,smtps",
                                       .tls_ca = s->tls_ca,
                                       .timeout = s->timeout,
                                       .no_login = true};
    if (wire_open(w, &target, e) < 0 || login(w, s, e) < 0)
        return -1;
    WIRE_SET(w, CURLOPT_USE_SSL, tls_wanted(s));
    WIRE_SET(w, CURLOPT_MAIL_FROM, l->from.addr.p);
    for (size_t i = 0; i < l->to_count; i++) {
        struct curl_slist *more = w->api->slist_append(*rcpt, l->to[i].addr.p);
        if (!more)
            return err_set(e, ERR_SYSTEM, 0, "libcurl cannot make a list");
        *rcpt = more;
    }
    WIRE_SET(w, CURLOPT_MAIL_RCPT, *rcpt);
    /* One address that is gone must not keep the mail from the others. */
    WIRE_SET(w, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
    WIRE_SET(w, CURLOPT_UPLOAD, 1L);
    WIRE_SET(w, CURLOPT_READFUNCTION, on_read);
    WIRE_SET(w, CURLOPT_READDATA, l);
    WIRE_SET(w, CURLOPT_INFILESIZE_LARGE, (curl_off_t)l->text.len);
    return 0;
}

static int refused_by(const struct wire *w, CURLcode rc, const struct talk *t, struct err *e)
{
    if (t->refused && !t->taken)
        return err_set(e, ERR_DENIED, (int)rc, "%s: no recipient was accepted: %s", w->host,
                       t->list.p);
    struct err known = {0};
    wire_fail(w, rc, &known);
    if (rc == CURLE_OPERATION_TIMEDOUT || t->answer[0] < '4') {
        err_set(e, known.cls, (int)rc, "%s (at %s)", known.text, t->step);
    } else {
        if (known.cls == ERR_UNREACHABLE && t->answer[0] == '5')
            known.cls = ERR_DENIED;
        err_set(e, known.cls, (int)rc, "%s: refused %s: %s", w->host, t->step, t->answer);
    }
    if (known.hint[0])
        err_hint(e, "%s", known.hint);
    return -1;
}

static int session_run(struct wire *w, struct talk *t, bool *accepted, struct buf *reply,
                       struct err *e)
{
    WIRE_SET(w, CURLOPT_DEBUGFUNCTION, on_debug);
    WIRE_SET(w, CURLOPT_DEBUGDATA, t);
    WIRE_SET(w, CURLOPT_VERBOSE, 1L);
    t->wire = w;
    t->step = "the connection";
    CURLcode rc = wire_run(w);
    w->api->easy_setopt(w->h, CURLOPT_VERBOSE, 0L);
    if (rc != CURLE_OK)
        return refused_by(w, rc, t, e);
    *accepted = true;
    buf_adds(reply, t->answer);
    if (t->refused)
        return err_set(e, ERR_DENIED, 0, "%s: sent to %u of %u recipients, refused: %s", w->host,
                       t->taken, t->taken + t->refused, t->list.p);
    return 0;
}

int mail_send(const struct config *c, const struct message *m, bool *accepted, struct buf *reply,
              struct err *e)
{
    struct wire w = {0};
    struct letter l = {0};
    struct talk t = {0};
    struct curl_slist *rcpt = NULL;
    *accepted = false;
    int rc = letter_open(&l, &c->smtp, e);
    if (rc == 0) {
        compose(&l, m);
        rc = session_open(&w, &c->smtp, &l, &rcpt, e);
    }
    if (rc == 0)
        rc = session_run(&w, &t, accepted, reply, e);
    wire_close(&w);
    if (rcpt)
        w.api->slist_free_all(rcpt);
    buf_free(&t.list);
    letter_close(&l);
    return rc;
}

int mail_check(const struct config *c, struct err *e)
{
    struct wire w = {0};
    struct letter l = {0};
    struct curl_slist *rcpt = NULL;
    int rc = letter_open(&l, &c->smtp, e);
    if (rc == 0)
        rc = session_open(&w, &c->smtp, &l, &rcpt, e);
    if (rc == 0 && w.refused != CURLE_OK)
        rc = wire_fail(&w, w.refused, e);
    wire_close(&w);
    if (rcpt)
        w.api->slist_free_all(rcpt);
    letter_close(&l);
    return rc;
}
