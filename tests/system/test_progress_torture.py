"""Tests in which game servers that are killed, stopped, resumed and cut off share one central store: after a takeover the old
holder can change nothing, and every acknowledged save stays until the next one. The check itself detects violations."""
import os
import shutil
import time

import pytest

from wk import progress
from wk.central import Central, schema_sql
from wk.sites import Site, Sites
from wk.torture import Torture

pytestmark = pytest.mark.slow
ROUNDS = int(os.environ.get("WK_PROGRESS_ROUNDS", "1"))
SEED = os.environ.get("WK_PROGRESS_SEED") or str(time.time_ns())


def test_torture(victim, tmp):
    """Runs a share of `make progress-torture`."""
    saves = takeovers = 0
    for n in range(ROUNDS):
        os.mkdir(f"{tmp}/{n}")
        central = Central(victim)
        check = Torture(central, f"{tmp}/{n}", f"{SEED}/{n}").run(6 if ROUNDS == 1 else 30).check()
        assert not check.wrong, f"seed {SEED}/{n}: {len(check.wrong)}: {check.wrong[:8]}"
        assert check.counts["saves"] > 20, check.counts
        saves, takeovers = saves + check.counts["saves"], takeovers + check.counts["takeovers"]
        print(f"round {n + 1}: {saves} saves, {takeovers} takeovers", flush=True)
        central.close()
        shutil.rmtree(f"{tmp}/{n}")


OURS = """           AND (SELECT lock_id = p_lock_id AND lock_seq = p_lock_seq AND (account IS NULL OR account = USER())
                  FROM wk_lock WHERE lock_key = p_lock_key LOCK IN SHARE MODE);"""
IN_SAVE = """         WHERE blob_key = p_blob_key AND lock_key = p_lock_key AND lock_seq = p_lock_seq AND seq < p_seq
"""
# {mistake: [(original text, its replacement)]}
MISTAKES = {
    "no check of lock_seq at save": [
        (IN_SAVE + OURS, IN_SAVE.replace(" AND lock_seq = p_lock_seq", "") + OURS.replace(" AND lock_seq = p_lock_seq", "")),
        ("     WHERE lock_key = p_lock_key AND lock_id = p_lock_id AND lock_seq = p_lock_seq FOR UPDATE;",
         "     WHERE lock_key = p_lock_key AND lock_id = p_lock_id FOR UPDATE;"),
        ("CASE WHEN lock_key <> p_lock_key OR lock_seq <> p_lock_seq THEN", "CASE WHEN lock_key <> p_lock_key THEN"),
        ("IF(wk_blob.lock_key = p_lock_key AND wk_blob.lock_seq = p_lock_seq, wk_blob.blob_key, NULL)", "wk_blob.blob_key")],
    "no raise at acquire": [("SET lock_seq = GREATEST(lock_seq, v_stamp) + 1, lock_id", "SET lock_id"),
                            ("SET v_seq = GREATEST(v_seq, v_stamp) + 1, v_held", "SET v_held")],
    "release without check": [
        ("         WHERE lock_key = p_lock_key AND lock_id = p_lock_id AND lock_seq = p_lock_seq;\n        IF ROW_COUNT() = 1 THEN\n"
         "            SET v_outcome = 'released'",
         "         WHERE lock_key = p_lock_key;\n        IF ROW_COUNT() = 1 THEN\n            SET v_outcome = 'released'")],
    "stamp left out": [("        UPDATE wk_blob SET lock_seq = p_lock_seq\n         WHERE lock_key = p_lock_key AND lock_seq <> p_lock_seq\n",
                        "        UPDATE wk_blob SET lock_seq = p_lock_seq\n         WHERE lock_key = p_lock_key AND FALSE\n")],
    "write-back without check": [
        ("         WHERE l.lock_id = p_lock_id AND l.lock_seq = s.lock_seq\n        ON DUPLICATE KEY", "        ON DUPLICATE KEY"),
        ("`blob` = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq AND wk_blob.seq < s.seq,", "`blob` = IF(TRUE,"),
        ("seq = IF(wk_blob.lock_key = s.lock_key AND wk_blob.lock_seq = s.lock_seq AND wk_blob.seq < s.seq, s.seq,", "seq = IF(TRUE, s.seq,")],
    "sequence ignored": [(IN_SAVE, IN_SAVE.replace(" AND seq < p_seq", "")), ("WHEN seq < p_seq THEN 'saved'", "WHEN TRUE THEN 'saved'")],
    "two statements where one belongs": [
        ("             WHERE lock_key = p_lock_key AND lock_seq = v_seq AND lock_id <=> v_holder;",
         "             WHERE lock_key = p_lock_key;")],
}


# The crowds that reveal a mistake soonest, where the usual one does not.
CROWDS = {
    "two statements where one belongs": {"count": 8, "players": 1, "takeover_ms": 1},
    "sequence ignored": {"count": 3, "players": 12, "takeover_ms": 500},
}


@pytest.mark.sweep(3)
@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_check_sees(victim, tmp, mistake):
    sql, wrong = schema_sql(MISTAKES[mistake]), []
    for n in range(20):
        os.mkdir(f"{tmp}/{n}")
        central = Central(victim, sql=sql)
        crowd = CROWDS.get(mistake, {})
        wrong = Torture(central, f"{tmp}/{n}", f"{SEED}/{n}", **crowd).run(3).check().wrong
        central.close()
        if wrong:
            print(mistake, n, wrong[:3])
            return
    raise AssertionError(f"seed {SEED}: not seen: {mistake}")


@pytest.fixture
def sites(server, make_server, make_world, make_keeper):
    """Returns sites(seed, …), which lets three game servers with their own worlds play, loses one machine, and returns the
    check."""
    def played(seed, seconds, changes=(), **more):
        central, made = progress.Central(server, changes), []
        for i in range(3):
            own = make_server("--log-bin=log", "--binlog-format=ROW")
            made.append(Site(i, own, make_keeper(make_world(on=own), name=f"w{i}"), central))
        check = Sites(made, seed, **more).run(seconds).check()
        for site in made[1:]:
            assert site.keeper.stop() == 0
        for site in made:
            site.server.destroy()
        return check
    return played


def test_local_stores(sites):
    """Local stores survive lost and restored worlds, killed and stopped supervisors, interrupted lines to the central store,
    and a lost machine. This is a share of `make progress-torture`."""
    for n in range(ROUNDS):
        check = sites(f"{SEED}/{n}", 6 if ROUNDS == 1 else 30)
        assert not check.wrong, f"seed {SEED}/{n}: {len(check.wrong)}: {check.wrong[:8]}"
        assert check.counts["saves"] > 20 and check.counts["of the burnt"] > 0, check.counts
        print(f"round {n + 1}: {dict(check.counts)}", flush=True)


@pytest.mark.any_server
def test_the_check_of_local_stores_sees(sites):
    """The check detects a central store that accepts any sender's blobs."""
    for n in range(20):
        if wrong := sites(f"{SEED}/{n}", 5, MISTAKES["write-back without check"], players=3).wrong:
            break
    print(f"after {n + 1} rounds")
    assert any("of an older one" in w for w in wrong), wrong
