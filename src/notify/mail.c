#include "notify/mail.h"

#include "notify/alert.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fault.h"
#include "base/file.h"
#include "net/curl_request.h"
#include "notify/mime.h"

/* libcurl speaks SMTP; this program composes the mail (mime.h). libcurl's error codes do not tell
 * at which step or recipient a server refused, so its debug output is parsed for that. */

#define TEXT_MAX 65536  /* bytes of the text of one mail */
#define ANSWER_MAX 200  /* bytes of a server's line in messages */
#define REFUSED_MAX 600 /* bytes of the list of refused recipients */
/* A server that filters a mail before it answers may take this long (RFC 5321, 4.5.3.2.6), and
 * delivers the mail even if the client has left. */
#define MAIL_ANSWER_MS ((int64_t)fault_limit("alert.answer", 600000))
#define WAITS_MS 1000 /* between two signs of life during that wait */

enum rcpt_state { RCPT_WAITS, RCPT_TAKEN, RCPT_LATER, RCPT_REFUSED };

/* The addresses and, once composed, the text. */
struct mail {
    struct mailbox from, *to; /* owned, as parsed from the config */
    size_t to_count;
    enum rcpt_state *state; /* owned; one per recipient */
    bool *now;              /* owned; per recipient: does it get the current mail? */
    struct buf text;
    FILE *reader; /* libcurl reads `text` from it */
};

/* The SMTP transcript. Needed because libcurl reports only the last result, not one per
 * recipient. */
struct transcript {
    const char *step; /* purpose of the last command, for messages */
    bool login;       /* during the login, whose lines may repeat the password */
    bool answered;    /* the first line of the answer has arrived */
    bool over;        /* QUIT was sent; later answers do not matter */
    char answer[ANSWER_MAX + 8];
    char rcpt[256];                          /* the last recipient sent, or "" */
    unsigned taken, refused;                 /* number of recipients */
    struct mail *mail;                       /* the mail with these recipients */
    struct buf list;                         /* refused recipients with the server's answers */
    struct curl_request *request;            /* knows the secrets that messages must not contain */
    int64_t waits;                           /* ms of the session: next sign of life */
    const struct request_progress *progress; /* or NULL */
};

/* Parses the addresses of the config. */
static int mail_open(struct mail *l, const struct config_smtp *s, struct err *e)
{
    if (mime_mailbox(s->from ? s->from : "", &l->from, e) < 0)
        return err_step(e, "[alert.smtp] from");
    if (s->to.count == 0)
        return err_set(e, ERR_CONFIG, 0, "[alert.smtp] to: no recipient");
    l->to = xcalloc(s->to.count, sizeof *l->to);
    l->to_count = s->to.count;
    l->state = xcalloc(s->to.count, sizeof *l->state);
    l->now = xcalloc(s->to.count, sizeof *l->now);
    memset(l->now, true, s->to.count * sizeof *l->now);
    for (size_t i = 0; i < s->to.count; i++)
        if (mime_mailbox(s->to.list[i], &l->to[i], e) < 0)
            return err_step(e, "[alert.smtp] to");
    return 0;
}

static void mail_close(struct mail *l)
{
    mime_mailbox_free(&l->from);
    for (size_t i = 0; i < l->to_count; i++)
        mime_mailbox_free(&l->to[i]);
    free(l->to);
    free(l->state);
    free(l->now);
    if (l->reader)
        fclose(l->reader);
    buf_free(&l->text);
}

/* Appends the message's host if it is a valid name. */
static void add_host(struct buf *out, const struct message *m)
{
    const json_t *host = json_object_get(message_newest(m), "host");
    const char *s = json_is_string(host) ? json_string_value(host) : "";
    size_t before = out->len;
    for (size_t i = 0; i < 64 && s[i]; i++)
        if (isalnum((unsigned char)s[i]) ||
            (i && strchr("-.", s[i]) && isalnum((unsigned char)s[i + 1])))
            buf_addc(out, s[i]);
    if (out->len == before)
        buf_adds(out, "localhost");
}

static void add_message_id(struct buf *out, const struct message *m, const char *id)
{
    buf_printf(out, "<worldkeeper.%s@", id);
    add_host(out, m);
    buf_addc(out, '>');
}

/* A mail of several incidents names all of them in In-Reply-To, but only its lead's in References,
 * so that mail programs do not merge the threads. */
static void thread_headers(struct buf *out, const struct message *m)
{
    SCOPED(buf_free) struct buf id = {0}, all = {0}, incident = {0};
    message_id(&id, m);
    message_incident(&incident, message_lead(m));
    /* Adds the Message-IDs of the first mails of all incidents in this message: the lead's first,
     * each only once. If an incident's first alert was combined into another mail, that mail names
     * the same ID. */
    size_t n = json_array_size(m->alerts);
    for (size_t i = n + 1; i > 0; i--) {
        SCOPED(buf_free) struct buf other = {0}, its = {0};
        message_incident(&other, i > n ? message_lead(m) : json_array_get(m->alerts, i - 1));
        add_message_id(&its, m, other.p);
        if (other.len && strcmp(other.p, id.p) != 0 && (!all.len || !strstr(all.p, its.p)))
            buf_printf(&all, "%s%s", all.len ? "\r\n " : "", its.p);
    }
    buf_adds(out, "Message-ID: ");
    add_message_id(out, m, id.p);
    buf_adds(out, "\r\n");
    if (all.len)
        buf_printf(out, "In-Reply-To: %s\r\n", all.p);
    if (incident.len && strcmp(incident.p, id.p) != 0) {
        buf_adds(out, "References: ");
        add_message_id(out, m, incident.p);
        buf_adds(out, "\r\n");
    }
}

static void field_header(struct buf *out, const char *name, const json_t *alert, const char *key)
{
    SCOPED(buf_free) struct buf v = {0};
    message_field(&v, alert, key, 64);
    mime_text_header(out, name, v.p);
}

static void notify_mail_compose(struct mail *l, const struct message *m)
{
    SCOPED(buf_free) struct buf subject = {0}, text = {0}, world = {0};
    message_subject(&subject, m);
    message_text(&text, m, TEXT_MAX);
    message_field(&world, message_lead(m), "world", 64);
    mime_date_header(&l->text, message_time(m));
    thread_headers(&l->text, m);
    mime_address_header(&l->text, "From", &l->from, 1);
    mime_address_header(&l->text, "To", l->to, l->to_count);
    mime_text_header(&l->text, "Subject", subject.p);
    /* A List-Id header lets users filter by world, because no word occurs in every subject. */
    buf_adds(&l->text, "List-Id: <");
    for (const char *s = world.p; *s; s++)
        buf_addc(&l->text, isalnum((unsigned char)*s) || *s == '-' ? *s : '-');
    buf_adds(&l->text, ".worldkeeper.");
    add_host(&l->text, m);
    buf_adds(&l->text, ">\r\n");
    mime_text_header(&l->text, "X-Worldkeeper-World", world.p);
    field_header(&l->text, "X-Worldkeeper-Event", message_lead(m), "event");
    field_header(&l->text, "X-Worldkeeper-Incident", message_lead(m), "incident");
    buf_adds(&l->text, "Auto-Submitted: auto-generated\r\n"
                       "MIME-Version: 1.0\r\n"
                       "Content-Type: text/plain; charset=UTF-8\r\n"
                       "Content-Transfer-Encoding: quoted-printable\r\n\r\n");
    mime_quoted_printable(&l->text, text.p, text.len);
}

int mail_compose(const struct config *c, const struct message *m, struct buf *out, struct err *e)
{
    struct mail l = {0};
    int rc = mail_open(&l, &c->smtp, e);
    if (rc == 0) {
        notify_mail_compose(&l, m);
        buf_add(out, l.text.p, l.text.len);
    }
    mail_close(&l);
    return rc;
}

/* The transcript */

/* Follows the step of the SMTP session by the commands that libcurl sends. An unknown command is
 * taken as part of the login. */
static void transcript_command(struct transcript *t, const char *line)
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
    /* Registers the login as it was sent, mostly in base64, as a secret: a server may repeat it. */
    const char *s = line;
    if (text_starts(line, "AUTH ")) { /* the method's name is not a secret */
        s += strlen("AUTH ");
        s += strcspn(s, " \r\n");
    }
    s += strspn(s, " ");
    SCOPED(xfree) char *said = xstrndup(s, strcspn(s, "\r\n"));
    curl_request_secret(t->request, said);
    explicit_bzero(said, strlen(said));
}

/* Records the answer for one recipient. A 4xx answer is temporary (greylisting, for example); any
 * higher code is permanent. */
static void note_recipient(struct mail *l, const char *addr, char answer)
{
    for (size_t i = 0; i < l->to_count; i++)
        if (l->now[i] && strcmp(l->to[i].addr.p, addr) == 0)
            l->state[i] = answer < '4' ? RCPT_TAKEN : answer == '4' ? RCPT_LATER : RCPT_REFUSED;
}

static void transcript_answer(struct transcript *t, const char *line)
{
    /* After a 3xx a second answer follows without another command. */
    if (t->over || (t->answered && t->answer[0] != '3') || !isdigit((unsigned char)line[0]))
        return;
    SCOPED(buf_free) struct buf b = {0};
    SCOPED(xfree) char *copy = xstrndup(line, strcspn(line, "\r\n"));
    text_clean(&b, copy, ANSWER_MAX);
    if (t->login || curl_request_leaks(t->request, b.p)) /* keep the number only */
        b.p[strspn(b.p, "0123456789")] = '\0';
    snprintf(t->answer, sizeof t->answer, "%s", b.p);
    t->answered = true;
    if (!t->rcpt[0])
        return;
    note_recipient(t->mail, t->rcpt, t->answer[0]);
    if (t->answer[0] < '4') {
        t->taken++;
    } else {
        t->refused++;
        if (t->list.len < REFUSED_MAX)
            buf_printf(&t->list, "%s%s (%s)", t->list.len ? ", " : "", t->rcpt, t->answer);
        else if (!strstr(t->list.p, ", ..."))
            buf_adds(&t->list, ", ...");
    }
    t->rcpt[0] = '\0';
}

/* Receives libcurl's debug output, because the server's own words appear only there. */
static int on_debug(CURL *h, curl_infotype type, char *data, size_t size, void *arg)
{
    (void)h;
    if (type != CURLINFO_HEADER_OUT && type != CURLINFO_HEADER_IN)
        return 0;
    SCOPED(xfree) char *line = xstrndup(data, size);
    if (type == CURLINFO_HEADER_OUT)
        transcript_command(arg, line);
    else
        transcript_answer(arg, line);
    explicit_bzero(line, size);
    return 0;
}

/* The session */

/* Reads the password when it is needed, so that a new password needs no reload. It is wiped after
 * the request. */
static int mail_login(struct curl_request *w, const struct config_smtp *s, struct err *e)
{
    SCOPED(buf_free) struct buf password = {0};
    if (!s->user)
        return 0;
    if (!s->password_file)
        return err_set(e, ERR_CONFIG, 0, "[alert.smtp] user is set, but password_file is not");
    int rc = file_read_secret(s->password_file, &password, e);
    if (rc == 0) {
        CURL_SET(w, CURLOPT_USERNAME, s->user);
        CURL_SET(w, CURLOPT_PASSWORD, password.p);
        curl_request_secret(w, password.p);
    } else {
        err_step(e, "[alert.smtp] password_file");
    }
    return rc;
}

static int session_open(struct curl_request *w, const struct config_smtp *s, struct mail *l,
                        struct curl_slist **rcpt, struct err *e)
{
    const struct curl_target target = {.key = "[alert.smtp] url",
                                       .url = s->url,
                                       .protocols = "smtp,smtps",
                                       .tls_ca = s->tls_ca,
                                       .timeout = s->timeout,
                                       .no_login = true};
    if (curl_request_open(w, &target, e) < 0 || mail_login(w, s, e) < 0)
        return -1;
    /* With a password, `preferred` means required: otherwise an attacker who strips STARTTLS would
     * read the password. */
    CURL_SET(w, CURLOPT_USE_SSL,
             s->starttls == STARTTLS_OFF                     ? (long)CURLUSESSL_NONE
             : s->starttls == STARTTLS_PREFERRED && !s->user ? (long)CURLUSESSL_TRY
                                                             : (long)CURLUSESSL_ALL);
    CURL_SET(w, CURLOPT_MAIL_FROM, l->from.addr.p);
    for (size_t i = 0; i < l->to_count; i++) {
        if (!l->now[i])
            continue;
        struct curl_slist *more = w->api->slist_append(*rcpt, l->to[i].addr.p);
        if (!more)
            return err_set(e, ERR_SYSTEM, 0, "libcurl cannot allocate a list");
        *rcpt = more;
    }
    CURL_SET(w, CURLOPT_MAIL_RCPT, *rcpt);
    /* A recipient that no longer exists must not prevent delivery to the other recipients. */
    CURL_SET(w, CURLOPT_MAIL_RCPT_ALLLOWFAILS, 1L);
    CURL_SET(w, CURLOPT_UPLOAD, 1L);
    if (l->text.len) /* without text there is nothing to send */
        l->reader = fmemopen(l->text.p, l->text.len, "r");
    CURL_SET(w, CURLOPT_READDATA, l->reader);
    CURL_SET(w, CURLOPT_INFILESIZE_LARGE, (curl_off_t)l->text.len);
    return 0;
}

/* Ends the session at its timeout, until the whole text is sent. After that libcurl's limits on the
 * answer apply, and the wait is reported. */
static int on_transfer(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total,
                       curl_off_t up)
{
    struct transcript *t = arg;
    curl_off_t us = 0;
    (void)down_total, (void)down, (void)up_total;
    t->request->api->easy_getinfo(t->request->h, CURLINFO_TOTAL_TIME_T, &us);
    if (up < (curl_off_t)t->mail->text.len)
        return us / 1000 >= t->request->timeout;
    bool first = !t->waits, due = us / 1000 >= t->waits;
    if (t->progress && due && !first)
        t->progress->recipients(t->progress->arg, NULL);
    t->waits = due ? us / 1000 + WAITS_MS : t->waits;
    return 0;
}

/* Replaces the timeout of the whole session. */
static void session_limits(struct curl_request *w, struct transcript *t)
{
    int64_t answer = w->timeout > MAIL_ANSWER_MS ? w->timeout : MAIL_ANSWER_MS;
    CURL_SET(w, CURLOPT_TIMEOUT_MS, (long)(w->timeout + answer));
    CURL_SET(w, CURLOPT_SERVER_RESPONSE_TIMEOUT, (long)((answer + 999) / 1000));
    CURL_SET(w, CURLOPT_XFERINFOFUNCTION, on_transfer);
    CURL_SET(w, CURLOPT_XFERINFODATA, t);
    CURL_SET(w, CURLOPT_NOPROGRESS, 0L);
}

static CURLcode session_perform(struct curl_request *w, struct transcript *t)
{
    session_limits(w, t);
    CURLcode rc = curl_request_run(w);
    w->api->easy_setopt(w->h, CURLOPT_VERBOSE, 0L);
    if (rc != CURLE_ABORTED_BY_CALLBACK)
        return rc;
    snprintf(w->why, sizeof w->why, "timed out");
    return CURLE_OPERATION_TIMEDOUT;
}

static int session_run(struct curl_request *w, struct transcript *t, struct request_result *r,
                       struct err *e)
{
    CURL_SET(w, CURLOPT_DEBUGFUNCTION, on_debug);
    CURL_SET(w, CURLOPT_DEBUGDATA, t);
    CURL_SET(w, CURLOPT_VERBOSE, 1L);
    t->request = w;
    t->step = "the connection";
    CURLcode rc = session_perform(w, t);
    if (rc != CURLE_OK) {
        /* Names the recipient or the step at which the session failed, with the server's answer. */
        if (t->refused && !t->taken)
            return err_set(e, ERR_DENIED, (int)rc, "%s: no recipient was accepted: %s", w->host,
                           t->list.p);
        struct err known = {0};
        curl_request_fail(w, rc, &known);
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
    r->accepted = true;
    buf_adds(&r->reply, t->answer);
    if (t->refused)
        return err_set(e, ERR_DENIED, 0, "%s: sent to %u of %u recipients, refused: %s", w->host,
                       t->taken, t->taken + t->refused, t->list.p);
    return 0;
}

/* Sends one mail to the recipients marked in `now`. If m is NULL, no mail is sent. */
static int mail_send_one(const struct config *c, enum request_depth depth, const struct message *m,
                         struct mail *l, const struct request_progress *p, struct request_result *r,
                         struct err *e)
{
    /* Every request ends in curl_request_close(), even one that failed early. */
    struct curl_request w = {0};
    struct transcript t = {.mail = l, .progress = p};
    struct curl_slist *rcpt = NULL;
    buf_clear(&l->text);
    if (m)
        notify_mail_compose(l, m);
    int rc = session_open(&w, &c->smtp, l, &rcpt, e);
    if (rc == 0)
        rc = m ? session_run(&w, &t, r, e) : curl_request_try(&w, depth == REQUEST_CONNECT, e);
    curl_request_close(&w);
    if (rcpt)
        w.api->slist_free_all(rcpt);
    buf_free(&t.list);
    if (l->reader)
        fclose(l->reader);
    l->reader = NULL;
    return rc;
}

/* Returns whether this recipient still lacks the alert. */
static bool mail_lacks(const struct mail *l, size_t i, const json_t *alert)
{
    json_auto_t *address = json_string(l->to[i].addr.p);
    return message_lacks(alert, address);
}

/* Returns the alerts that this recipient lacks, or NULL if it has all of them. Sets *begun to true
 * if each of these alerts has already reached another recipient. */
static json_t *mail_lacked(const struct mail *l, size_t i, const json_t *alerts, bool *begun)
{
    json_t *list = json_array(), *a;
    size_t k;
    *begun = true;
    json_array_foreach(alerts, k, a)
    {
        if (!mail_lacks(l, i, a))
            continue;
        json_array_append(list, a);
        *begun &= json_is_array(json_object_get(a, ALERT_RECEIVED));
    }
    if (json_array_size(list) == 0) {
        json_decref(list);
        return NULL;
    }
    return list;
}

/* Sends the alerts that recipient `first` lacks, to all waiting recipients that lack the same
 * ones. */
static int send_group(const struct config *c, const struct message *m, struct mail *l, size_t first,
                      const struct request_progress *p, struct request_result *r, struct err *e)
{
    bool begun, taken = false, refused = true, unused;
    json_auto_t *alerts = mail_lacked(l, first, m->alerts, &begun);
    if (!alerts) { /* the recipient has all alerts already */
        l->state[first] = RCPT_TAKEN;
        return 0;
    }
    for (size_t i = 0; i < l->to_count; i++) {
        json_auto_t *its = l->state[i] == RCPT_WAITS ? mail_lacked(l, i, m->alerts, &unused) : NULL;
        l->now[i] = its && json_equal(its, alerts);
    }
    struct message part = {alerts, m->dropped, m->damaged};
    struct request_result sent = {0};
    r->unneeded = false;
    int rc = mail_send_one(c, REQUEST_SEND, &part, l, p, &sent, e);
    for (size_t i = 0; i < l->to_count; i++) {
        if (!l->now[i])
            continue;
        /* If the server did not accept the mail, it must be sent again, even to recipients whose
         * RCPT was accepted. */
        if (!sent.accepted && (l->state[i] == RCPT_TAKEN || l->state[i] == RCPT_WAITS))
            l->state[i] = RCPT_LATER;
        taken |= l->state[i] == RCPT_TAKEN;
        refused &= l->state[i] == RCPT_REFUSED;
    }
    /* If all recipients of this group were refused permanently and others have the alerts, these
     * count as delivered. Otherwise they would be kept forever. */
    r->accepted |= taken || (refused && begun);
    if (sent.reply.len && !r->reply.len)
        buf_add(&r->reply, sent.reply.p, sent.reply.len);
    request_result_free(&sent);
    return rc;
}

/* Returns the addresses that have their mail or refused it permanently, and those that wait for it
 * or are to be tried again. */
static json_t *mail_recipients(const struct mail *l)
{
    json_t *received = json_array(), *left = json_array();
    for (size_t i = 0; i < l->to_count; i++) {
        bool lacks = l->state[i] == RCPT_LATER || l->state[i] == RCPT_WAITS;
        json_array_append_new(lacks ? left : received, json_string(l->to[i].addr.p));
    }
    return json_pack("{s:o, s:o}", "received", received, "left", left);
}

/* Sends one mail to each group of recipients. Before the next mail, which may hang, what the
 * earlier groups have is reported, or that the work goes on. */
static int mail_send_all(const struct config *c, const struct message *m, struct mail *l,
                         const struct request_progress *p, struct request_result *r, struct err *e)
{
    struct err first = {0};
    r->unneeded = true;
    for (size_t i = 0; i < l->to_count; i++) {
        struct err why = {0};
        if (l->state[i] != RCPT_WAITS)
            continue;
        if (p && !r->unneeded) {
            json_auto_t *recipients = r->accepted ? mail_recipients(l) : NULL;
            p->recipients(p->arg, recipients);
        }
        if (send_group(c, m, l, i, p, r, &why) < 0 && first.cls == ERR_NONE)
            first = why;
    }
    if (first.cls == ERR_NONE)
        return 0;
    json_auto_t *recipients = mail_recipients(l);
    if (json_array_size(json_object_get(recipients, "left")))
        r->left = json_incref(recipients);
    return err_pass(e, &first);
}

int mail_request(const struct config *c, enum request_depth depth, const struct message *m,
                 const struct request_progress *p, struct request_result *r, struct err *e)
{
    struct mail l = {0};
    int rc = mail_open(&l, &c->smtp, e);
    if (rc == 0)
        rc = depth == REQUEST_SEND ? mail_send_all(c, m, &l, p, r, e)
                                   : mail_send_one(c, depth, NULL, &l, NULL, r, e);
    mail_close(&l);
    return rc;
}
