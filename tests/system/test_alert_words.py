"""The texts of alerts as an operator reads them: subjects, mail threads, wording, and the report that the supervisor was not
running."""
import os
import re
import time

import pytest
from wk.crash import go_on, wait_stopped
from wk.keeper import IMPATIENT, USER
from wk.util import wait_for
from wk.watch import Lateness

pytestmark = pytest.mark.any_server

QUICK = 40  # seconds; well below the minute for which a message without urgency is held back
MINUTE = 60  # seconds that a restore may take, with waits(1), before its beginning is mailed


@pytest.fixture
def mailed(doomed, smtp):
    """Returns a supervised world that has a dump and sends mail."""
    doomed.configure(smtp.settings())
    doomed.dump()
    doomed.start()
    smtp.wait(lambda m: m.subject == "w1 supervisor started")
    return doomed


def down(mail):
    return re.fullmatch(r"w1 DOWN( \(\+\d+ earlier\))?", mail.subject)


def back(mail):
    return mail.subject.startswith("w1 BACK, ")


def thread(mail):
    """Returns the Message-ID of the first mail of this mail's thread."""
    return mail.message["References"] or mail.message["Message-ID"]


@pytest.mark.waits(1)
def test_a_loss_is_two_mails_in_one_thread(mailed, victim, smtp):
    """A loss sends the mail DOWN, then BACK with what is lost. A restore that takes less than a minute sends no mail of its
    own."""
    victim.kill9()
    first = smtp.wait(down)[0]
    assert first.text.startswith("What happened") and "To do" in first.text.splitlines()[1]
    assert "    systemctl status mariadb mysql" in first.text.splitlines(), first.text
    assert first.message["References"] is None and first.message["In-Reply-To"] is None
    began = time.monotonic()
    victim.start()
    last = smtp.wait(back)[0]
    took = time.monotonic() - began
    assert re.fullmatch(r"w1 BACK, (nothing lost|at most .+ lost|loss unknown)", last.subject)
    assert thread(last) == last.message["In-Reply-To"] == first.message["Message-ID"]
    assert "restored" in last.text
    assert took >= MINUTE or "Before" in last.text, last.text
    assert [m.subject for m in smtp.mails if took < MINUTE or not m.subject.startswith("w1 RESTORING")] == [
        "w1 supervisor started", "w1 DOWN", last.subject]
    assert thread(smtp.mails[0]) != thread(first)
    for mail in smtp.mails:
        assert not re.search(r"SUSPECT|see the reason|\[dump\] dir", mail.text), mail.text
        assert mail.message["List-Id"].startswith("<w1.worldkeeper.")


@pytest.mark.waits(1)
def test_bad_news_is_never_held_back(mailed, victim, smtp):
    """The third loss in a row and its end are mailed immediately, although the message limit is reached; the order is kept."""
    with Lateness() as lateness:
        for n in range(1, 4):
            victim.kill9()
            began = time.monotonic()
            smtp.wait(lambda m: "DOWN" in m.subject, n=n)
            took = time.monotonic() - began
            victim.start()
            mailed.wait_state("UP")
            began = time.monotonic()
            smtp.wait(lambda m: "BACK" in m.subject, n=n)
            took = max(took, time.monotonic() - began)
    assert took < QUICK + lateness.worst_ms / 1000
    subjects = [m.subject for m in smtp.mails]
    # An earlier message that was held back is appended to this mail. On a slow machine none was held back.
    last = [m for m in smtp.mails if "DOWN" in m.subject][2]
    assert last.subject in ("w1 DOWN", "w1 DOWN (+1 earlier)"), subjects
    if "earlier" in last.subject:
        assert last.text.index("is not running") < last.text.index("--- 1 earlier")
    firsts = [thread(m) for m in smtp.mails if "DOWN" in m.subject]
    assert len(set(firsts)) == 3


def test_a_thread_outlives_the_supervisor(mailed, victim, smtp):
    """If the supervisor is killed while the world is down, the next one reports that and continues the same mail thread."""
    victim.kill9()
    first = smtp.wait(down)[0]
    mailed.kill9()
    died = mailed.status()["updated"]
    mailed.start(state="WAITING")
    again = smtp.wait(lambda m: m.subject.startswith("w1 DOWN"), n=2)[1]
    told = smtp.wait(lambda m: " died" in m.subject + m.text)[0]
    assert thread(again) == thread(first)
    if " died" in told.subject:  # messages that are queued together are sent as one mail
        assert thread(told) != thread(first)
        seen = re.search(r"last sign of life was at (\S+)T(\S+)Z", told.text)
        assert seen and f"{seen[1]}T{seen[2]}Z" >= died, told.text
    victim.start()
    assert thread(smtp.wait(back)[0]) == thread(first)


def test_what_a_killed_supervisor_has_reported_is_over(doomed, victim, smtp, tmp):
    """If the world came back while no supervisor ran, the next supervisor mails BACK in the thread of the earlier mail."""
    doomed.configure({**smtp.settings(), **IMPATIENT})
    doomed.dump()
    doomed.start()
    victim.sigstop()
    first = smtp.wait(lambda m: m.subject.startswith("w1 NOT ANSWERING"))[0]
    doomed.kill9()
    victim.sigcont()
    doomed.start()
    last = smtp.wait(back)[0]
    assert last.subject.startswith("w1 BACK, nothing lost") and thread(last) == thread(first)


@pytest.mark.waits(10)
def test_an_orderly_end(mailed, smtp):
    """After an orderly stop the flag is WAITING and the status STOPPED. The next start is not reported as a death."""
    assert mailed.stop() == 0
    assert mailed.flag() == "WAITING" and mailed.status()["state"] == "STOPPED"
    smtp.mails.clear()
    mailed.start()
    mailed.wait(lambda: mailed.flag() == "UP", "the flag UP")
    smtp.wait(lambda m: m.subject.startswith("w1 supervisor started"))  # may also contain the report of the stop
    assert not [m for m in smtp.mails if "died" in m.text]


def test_a_restore_by_hand_is_one_mail(mailed, smtp):
    """A manual restore sends one mail, which names the time of the restored dump."""
    dump = mailed.dump()
    smtp.mails.clear()
    mailed.ok(f"--restore={dump['name']}", "--force")
    mail = smtp.wait(lambda m: "hand" in m.subject)[0]
    moment = dump["at"]
    assert mail.subject == f"w1 RESTORED by hand to {moment}" and moment in mail.text
    mailed.dump()
    assert [m.subject for m in smtp.mails] == [mail.subject]


@pytest.mark.each_server
def test_the_mail_of_a_failed_restore_has_the_way_out(mailed, victim, smtp):
    """If a restore fails because DROP was revoked, the mail contains the GRANT for this account, and pasting it lets the restore
    succeed."""
    schema = mailed.world.schema.replace("_", "\\_")
    mailed.kill9()
    victim.kill9()
    victim.start()
    victim.sql(f"REVOKE DROP ON `{schema}`.* FROM keeper@localhost")
    mailed.start(state="WAITING")
    mail = smtp.wait(lambda m: m.subject.startswith("w1 DOWN, the restore failed"))[0]
    lines = mail.text.splitlines()
    grant = [line.strip() for line in lines if re.fullmatch(r" +GRANT DROP ON `[^;]+;", line)]
    assert grant, mail.text
    assert f"    worldkeeper --config {mailed.config_path} --list" in lines, mail.text
    victim.sql(grant[0])
    smtp.wait(back)


def test_a_world_behind_a_refusal_was_never_away(mailed, victim, smtp):
    """If a privilege is revoked and granted again, the mail says PROTECTED again, in the same thread; no mail says BACK or
    DOWN."""
    schema = mailed.world.schema
    granted = schema.replace("_", "\\_")
    victim.sql(f"REVOKE ALL ON `{granted}`.* FROM {USER}@localhost")
    victim.end_sessions(user=USER)
    first = smtp.wait(lambda m: m.subject.startswith("w1 NOT PROTECTED"))[0]
    lines = first.text.splitlines()
    assert f"    worldkeeper --config {mailed.config_path} --check" in lines, first.text
    victim.account(USER, [schema])
    last = smtp.wait(lambda m: m.subject.startswith("w1 PROTECTED again"))[0]
    assert thread(last) == thread(first) and "the world stayed up" in last.text
    assert not [m for m in smtp.mails if back(m) or down(m)]


@pytest.mark.waits(6)
def test_a_long_restore_is_told_when_it_has_begun(doomed, victim, smtp):
    """If a restore takes longer than a minute (here: ten seconds), a mail in the same thread says so before it ends."""
    doomed.configure(smtp.settings())
    doomed.dump()
    doomed.start(fault="restore.checked=stop")
    victim.kill9()
    first = smtp.wait(down)[0]
    victim.start()
    begun = smtp.wait(lambda m: m.subject.startswith("w1 RESTORING"))[0]
    doomed.wait_state("RESTORING")
    assert thread(begun) == thread(first)
    go_on(wait_stopped(doomed, "restore.checked"))
    last = smtp.wait(back)[0]
    assert thread(last) == thread(first) and "Before" not in last.text


def test_a_delivery_that_hangs_holds_up_no_other(doomed, victim, http):
    """If a worker hangs after it has sent its message, later messages are still sent, and this one is not sent again."""
    doomed.configure(http.settings())
    doomed.dump()
    doomed.start(fault="alert.sent=sleep:600000")
    http.wait_event("started")
    victim.kill9()
    http.wait_event("down")
    victim.start()
    http.wait_event("restored")
    assert http.events().count("started") == http.events().count("down") == 1


@pytest.mark.parametrize("mode", ["huge", "short", "headers"])
def test_an_answer_that_breaks_behind_its_200(doomed, http, mode):
    """A message that the server accepted with 200 counts as delivered even if the rest of the answer is broken; it is not sent
    again."""
    http.mode = mode
    doomed.configure(http.settings())
    doomed.dump()
    doomed.start()
    http.wait_event("started")
    queue = os.path.join(doomed.dumps_dir, "alerts")
    wait_for(lambda: not [f for f in os.listdir(queue) if f.endswith("1.json")], "its mark on the disk")
    doomed.expect("no error", alerts=lambda alerts: alerts["channels"]["webhook"]["last_error"] == "")
    assert http.events().count("started") == 1
