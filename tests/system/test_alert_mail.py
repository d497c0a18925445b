"""Alerts by mail: transport, login, headers, refusals."""
import asyncio
import email.utils
import json
import os
import re
import signal

import pytest
from wk.follow import crash
from wk.util import CANARY, wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.any_server

TEXT_LINE = 998  # RFC 5322: no line of a mail is longer


@pytest.mark.quick
def test_mail_reaches_every_recipient(keeper, smtp):
    """--test-alert sends one mail to all recipients and prints the server's answer."""
    keeper.configure(smtp.settings(to="one@example.com, two@example.org"))
    done = keeper.ok("--test-alert")
    (mail,) = smtp.wait()
    assert sorted(mail.to) == ["one@example.com", "two@example.org"]
    assert mail.sender == "keeper@example.com"
    assert "250" in done.out + done.err, done


@pytest.mark.parametrize("tls", ["starttls", "smtps"])
def test_encrypted_with_login(keeper, make_smtp, tls):
    """A mail is sent over STARTTLS and over SMTPS with a login from a password file; the certificate is verified."""
    sink = make_smtp(tls=tls, login="bot")
    keeper.configure(sink.settings(user="bot", password_file=keeper.secret("mailpw", CANARY)))
    keeper.ok("--test-alert")
    (mail,) = sink.wait()
    assert mail.tls and mail.login == "bot"


def test_starttls_is_never_stripped(keeper, smtp):
    """If STARTTLS is required and the server does not offer it, no mail is sent."""
    keeper.configure(smtp.settings(starttls="required"))
    done = keeper.run("--test-alert")
    assert done.rc != 0, done
    assert not smtp.mails


def test_a_wrong_certificate_is_refused(keeper, make_smtp):
    """If the configured authority did not sign the certificate, --test-alert fails and no mail is sent."""
    sink = make_smtp(tls="smtps", login="bot")
    keeper.configure(sink.settings(user="bot", password_file=keeper.secret("mailpw", CANARY),
                                   tls_ca=None))
    done = keeper.run("--test-alert")
    assert done.rc != 0 and "cert" in (done.err + done.out).lower(), done
    assert not sink.mails


def test_a_wrong_password_is_said(keeper, make_smtp):
    """If the server rejects the login, --test-alert fails and its output does not contain the password."""
    sink = make_smtp(tls="smtps", login="bot")
    keeper.configure(sink.settings(user="bot", password_file=keeper.secret("mailpw", CANARY + "no")))
    done = keeper.run("--test-alert")
    assert done.rc != 0 and CANARY not in done.out + done.err, done
    assert not sink.mails


def test_headers_are_those_of_a_good_mail(doomed, victim, smtp):
    """Each required header is present once and well formed, lines end in CRLF, and no line is too long."""
    doomed.configure(smtp.settings(to="one@example.com, two@example.org"))
    doomed.dump()
    doomed.start()
    victim.kill9()
    mail = smtp.wait(lambda m: "w1" in m.subject and "down" in (m.subject + m.text).lower()
                     or "UNREACHABLE" in m.text)[0]
    for name in ("Date", "Message-ID", "From", "To", "Subject", "MIME-Version", "Content-Type"):
        assert len(mail.message.get_all(name, [])) == 1, name
    assert email.utils.parsedate_to_datetime(mail.message["Date"]).tzinfo is not None
    assert re.fullmatch(r"<[^<>@\s]+@[^<>@\s]+>", mail.message["Message-ID"])
    assert {a for _, a in email.utils.getaddresses(mail.message.get_all("To"))} == {
        "one@example.com", "two@example.org"}
    assert "auto" in (mail.message["Auto-Submitted"] or "auto").lower()
    lines = mail.raw.split(b"\n")
    assert all(line.endswith(b"\r") for line in lines[:-1]) and max(map(len, lines)) < TEXT_LINE
    assert "w1" in mail.text


def test_text_in_any_alphabet(make_world, make_keeper, smtp):
    """A table name with foreign letters, quotes and line breaks appears correctly in subject and body of an alert, and it cannot
    inject a header."""
    world = make_world()
    name = "Ő★ tábla\r\nBcc: victim@example.com\r\n\r\nx"
    world.sql(f"CREATE TABLE `{name}` (id INT) ENGINE=MEMORY",
              f"INSERT INTO `{name}` SELECT seq FROM seq_1_to_100")
    keeper = make_keeper(world, {"dump": {"shrink_action": "reject"}, **smtp.settings()}).init()
    keeper.dump()
    world.sql(f"DELETE FROM `{name}`")
    keeper.start()
    keeper.run("--dump")
    mail = smtp.wait(lambda m: "tábla" in m.subject + m.text)[0]
    assert "Bcc" not in mail.message and mail.to == ["admin@example.com"]
    assert mail.message["Subject"].isascii() and b"\xc5\x90" not in mail.raw.split(b"\r\n\r\n")[0]
    assert "Ő★" in mail.subject + mail.text


@pytest.mark.parametrize("mode", ["421 closing", "450 later", "550 never"])
def test_a_refusal_is_kept_and_sent_later(doomed, victim, smtp, mode):
    """A mail that the server rejects stays queued, the status shows the error, and the mail is sent when the server accepts mail
    again."""
    doomed.configure(smtp.settings())
    doomed.dump()
    smtp.mode = mode
    doomed.start()
    victim.kill9()
    doomed.expect("the refusal", alerts=lambda alerts: mode[:3] in alerts["channels"]["smtp"]["last_error"]
                  and alerts["waiting"] >= 1)
    assert smtp.refused
    smtp.mode = "ok"
    smtp.wait(lambda m: "down" in json.dumps([m.subject, m.text]).lower()
              or "UNREACHABLE" in m.text)


def test_a_dead_and_a_tarpitting_server_do_not_stall(doomed, victim, tarpit, http):
    """While the mail server hangs and the webhook is dead, the world is still restored quickly."""
    doomed.configure({"alert.smtp": {"url": f"smtp://127.0.0.1:{tarpit.port}", "timeout": "60s",
                                     "from": "k@example.com", "to": "a@example.com",
                                     "starttls": "off"}, **http.settings()})
    http.stop()
    doomed.dump()
    before = doomed.world.snapshot()
    with Lateness() as lateness:
        doomed.start()
        crash(doomed)
        doomed.probes_pass("A", 8)
        lateness.assert_quick(doomed)
    doomed.world.assert_is(before)
    doomed.expect("alerts that wait", alerts=lambda alerts: alerts["waiting"] >= 2)
    doomed.wait(lambda: tarpit.held, "a delivery that hangs")


def test_one_channel_does_not_wait_for_the_other(doomed, victim, tarpit, http):
    """The webhook receives its message while the mail server hangs."""
    doomed.configure({"alert.smtp": {"url": f"smtp://127.0.0.1:{tarpit.port}", "timeout": "60s",
                                     "from": "k@example.com", "to": "a@example.com",
                                     "starttls": "off"}, **http.settings()})
    doomed.dump()
    doomed.start()
    victim.kill9()
    http.wait_event("down")


def test_who_refuses_for_now_is_tried_again_alone(doomed, victim, smtp):
    """If one recipient is greylisted, the mail is sent again to that recipient only, also after the supervisor was killed in
    between. A recipient that is rejected permanently keeps no message in the queue."""
    a, b, gone = "a@example.com", "b@example.com", "gone@example.com"
    doomed.configure(smtp.settings(to=f"{a}, {b}, {gone}"))
    doomed.dump()
    smtp.mode = {b: "450 4.7.1 greylisted", gone: "550 5.1.1 no such user"}
    doomed.start()
    queue = os.path.join(doomed.dumps_dir, "alerts")
    smtp.wait(lambda m: m.to == [a])
    wait_for(lambda: any(f'"{a}"' in open(os.path.join(queue, name), encoding="utf-8").read()
                         for name in os.listdir(queue) if name.endswith(".json")), "who has it, on the disk")
    assert "greylisted" in json.dumps(doomed.expect("the failure", alerts=lambda al: al["channels"]["smtp"]["last_error"])["alerts"])
    doomed.kill9()
    smtp.mode = {gone: "550 5.1.1 no such user"}
    doomed.start()
    late = smtp.wait(lambda m: "supervisor started" in m.subject + m.text and m.to == [b])[0]
    assert "supervisor started" in late.subject + late.text
    wait_for(lambda: not [n for n in os.listdir(queue) if n.endswith(".json")], "all to be delivered")
    ids = {to: [m.message["Message-ID"] for m in smtp.mails if m.to and to in m.to] for to in (a, b)}
    assert all(len(set(each)) == len(each) for each in ids.values()), smtp.mails
    first = next(m for m in smtp.mails if m.to == [a])
    assert len([m for m in smtp.mails if a in m.to and m.message["Message-ID"] == first.message["Message-ID"]]) == 1


@pytest.mark.parametrize("how", ["replaced", "removed"])
def test_who_refuses_for_now_leaves_the_config(doomed, victim, smtp, how):
    """If the recipient that lacks an alert is replaced in the config, the new one gets it, and the others do not get it again.
    If it is removed, the alert is not sent any more, and this counts as no delivery."""
    a, b, c = "a@example.com", "b@example.com", "c@example.com"
    doomed.configure(smtp.settings(to=f"{a}, {b}"))
    doomed.dump()
    smtp.mode = {b: "450 4.2.2 mailbox full"}
    doomed.start()
    smtp.wait(lambda m: m.to == [a])
    doomed.expect("the failure", alerts=lambda al: "mailbox full" in (al["channels"]["smtp"]["last_error"] or ""))
    doomed.reload(smtp.settings(to=f"{a}, {c}" if how == "replaced" else a))
    doomed.expect("nothing waits", alerts=lambda al: al["waiting"] == 0 and not al["channels"]["smtp"]["last_error"])
    if how == "replaced":
        late = smtp.wait(lambda m: m.to == [c])[0]
        assert late.message["Message-ID"] == smtp.mails[0].message["Message-ID"]
    else:
        assert "delivered again" not in doomed.log() and "all present recipients have them" in doomed.log()
    assert len([m for m in smtp.mails if a in m.to]) == 1, smtp.mails


def test_a_server_that_answers_late_gets_a_mail_once(doomed, victim, smtp, http):
    """A server that filters a mail before it answers may take longer than the timeout for that (RFC 5321 allows ten minutes). The
    mail is not sent again, its delivery is not killed, and the webhook does not wait."""
    doomed.configure({**smtp.settings(timeout="4s"), **http.settings()})
    doomed.dump()
    took, late = smtp.handle_DATA, []

    async def filters(server, session, envelope):
        answer = await took(server, session, envelope)
        if not late and "DOWN" in smtp.mails[-1].subject:
            late.append(smtp.mails[-1].message["Message-ID"])
            await asyncio.sleep(8)
            while not [m for m in http.messages() if m["event"] == "down"]:
                await asyncio.sleep(0.1)
            late.append("answered")
        return answer
    smtp.handle_DATA = filters
    doomed.start(fault="alert.extra=1000")
    victim.kill9()
    smtp.wait(lambda m: "DOWN" in m.subject)

    def copies():
        return [m.message["Message-ID"] for m in smtp.mails].count(late[0])
    wait_for(lambda: len(late) == 2 or copies() > 1, "the late answer")
    doomed.expect("nothing waits", alerts=lambda al: al["waiting"] == 0)
    assert copies() == 1, smtp.mails


def test_a_mail_that_hangs_repeats_no_other(doomed, victim, smtp):
    """Recipients that lack different alerts get a mail each. If the delivery hangs in the second mail, it is killed, and the
    recipient of the first mail does not get it again."""
    a, b = "a@example.com", "b@example.com"
    doomed.configure(smtp.settings(to=f"{a}, {b}", timeout="4s"))
    doomed.dump()
    smtp.mode = {b: "450 4.7.1 greylisted"}
    doomed.start(fault="alert.extra=1000")
    doomed.expect("the failure", alerts=lambda al: "greylisted" in al["channels"]["smtp"]["last_error"])
    took, stopped = smtp.handle_RCPT, []

    async def hangs(server, session, envelope, address, options):
        if address == b and [m for m in smtp.mails if "DOWN" in m.subject] and not stopped:
            stopped.append(doomed.worker("smtp"))
            os.kill(stopped[0], signal.SIGSTOP)
        return await took(server, session, envelope, address, options)
    smtp.handle_RCPT = hangs
    victim.kill9()
    doomed.wait_log("its worker does not end and was killed")
    smtp.mode = "ok"
    smtp.wait(lambda m: "DOWN" in m.subject and m.to == [b])
    doomed.expect("nothing waits", alerts=lambda al: al["waiting"] == 0)
    ids = [m.message["Message-ID"] for m in smtp.mails if a in m.to]
    assert len(set(ids)) == len(ids), smtp.mails
