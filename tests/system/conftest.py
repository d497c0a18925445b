"""Fixtures of the system tests: servers, worlds, keepers and sinks."""
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import zlib
from collections import defaultdict
from types import SimpleNamespace

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.dirname(HERE)]

import machine  # noqa: E402
from wk.follow import LOG  # noqa: E402
from wk.keeper import BINARY, Keeper, built  # noqa: E402
from wk.pool import Pool  # noqa: E402
from wk.segments import Segments  # noqa: E402
from wk.server import KIND, MYSQL, Server, server_user, use_memory, version  # noqa: E402
from wk.sinks import Http, Smtp, Tarpit  # noqa: E402
from wk.stores import Liar  # noqa: E402
from wk.util import end_process, tail, wait_for  # noqa: E402
from wk.world import World  # noqa: E402


def pytest_addoption(parser):
    parser.addoption("--share", action="store_true", help="what the other kind of server runs with --share is left out: "
                     "of each test's cases some, and on MySQL what is the same on every kind")
    parser.addoption("--sweep", action="store_true", help="only each n-th case of a sweep(n); included in --share")


def pytest_configure(config):
    """Creates one short directory for all files of this run; xdist's workers share the
    controller's."""
    machine.lacking()
    # Inherited by what a test starts: a shell without job control ignores it for what runs in its background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput"):
        if machine.way_out():
            raise pytest.UsageError(machine.way_out())
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # clean up as after Ctrl-C
        config.wk_base = tempfile.mkdtemp(prefix="wk")
        os.chmod(config.wk_base, 0o755)
        config.wk_memory = use_memory(config.wk_base)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node):
    node.workerinput["wk_base"] = node.config.wk_base


def pytest_unconfigure(config):
    if hasattr(config, "wk_base"):
        for made in filter(None, (config.wk_memory, config.wk_base)):
            shutil.rmtree(made, ignore_errors=True)


FIXTURES_NEED = {"small_disk": "mount", "make_disk": "loop"}  # see machine.py


def pytest_collection_modifyitems(config, items):
    """Deselects tests that do not apply to this kind of server, so that they do not count as
    skipped. Skips tests that this machine cannot run."""
    others = set()
    if config.getoption("share"):
        others = of_the_other_kind(items)
    elif config.getoption("sweep"):
        others = thin_sweeps(by_test(items))

    def fits(since):
        return MYSQL or not since or version() >= since

    def meant(item):
        return item not in others and all(KIND.partition("-")[0] in mark.args and fits(mark.kwargs.get("since"))
                                          for mark in item.iter_markers("only"))
    out = [item for item in items if not meant(item)]
    if out:
        config.hook.pytest_deselected(items=out)
        items[:] = [item for item in items if meant(item)]
    for item in items:
        needs = [name for mark in item.iter_markers("needs") for name in mark.args]
        needs += [name for fixture, name in FIXTURES_NEED.items() if fixture in item.fixturenames]
        for reason in filter(None, map(machine.why_not, needs)):
            item.add_marker(pytest.mark.skip(reason=reason))
    items[:] = spread([item for item in items if item.get_closest_marker("slow")],
                      [item for item in items if not item.get_closest_marker("slow")])


def of_the_other_kind(items):
    """Returns the tests and cases that only the other kind of server runs. By default each test
    runs on both kinds, but each case of a parametrized test on one of them, always the same: a
    quarter on MySQL, which takes nearly twice as long as MariaDB and the sanitizers. In a file
    marked either_server MySQL runs an eighth of the tests, and in one marked third_on_mysql a
    third; the other tests run on MariaDB only, with all their cases. Of those that MySQL runs,
    MariaDB shares the cases, and runs the tests without cases of a third_on_mysql as well. Tests
    marked each_server run with all cases on both kinds, any_server on MariaDB only. Tests that
    state something about the kind of server (MYSQL) are shared by default. Of the cases of a
    sweep(n), only every n-th is distributed; the others run on neither kind."""
    tests, files = by_test(items), defaultdict(list)
    out = thin_sweeps(tests)
    for name, cases in tests.items():
        files[name.partition("::")[0], sharing(cases[0])].append(name)
    for (file, how), names in files.items():
        on_mysql = every({"either_server": 8, "third_on_mysql": 3}.get(how, 1), file, names)
        for name in names:
            cases = tests[name]
            if how == "any_server" or name not in on_mysql:
                out.update(cases if MYSQL else ())
            elif hasattr(cases[0], "callspec"):
                out.update(left_to_the_other(4, name, cases))
            elif how == "either_server" and len(names) > 1 and not MYSQL:
                out.update(cases)
    return out


def by_test(items):
    """Returns {test: its cases} of the tests whose cases can be shared."""
    tests = defaultdict(list)
    for item in items:
        if not item.get_closest_marker("each_server") and not item.get_closest_marker("only"):
            tests[item.nodeid.partition("[")[0]].append(item)
    return tests


def thin_sweeps(tests):
    """Removes from `tests`, as by_test() returns them, all but every n-th case of each sweep(n). Returns the removed cases."""
    out = set()
    for name, cases in tests.items():
        if sweep := cases[0].get_closest_marker("sweep"):
            tests[name] = sorted(every(sweep.args[0], name, cases), key=lambda item: item.nodeid)
            out.update(set(cases) - set(tests[name]))
    return out


def sharing(item):
    """Returns the marker by which a test's file is shared between the kinds of server, or None."""
    if item.get_closest_marker("any_server"):
        return "any_server"
    if "MYSQL" in item.function.__code__.co_names:
        return None
    return next((name for name in ("either_server", "third_on_mysql") if item.get_closest_marker(name)), None)


def left_to_the_other(nth, name, items):
    """Returns the cases that the other kind runs: MySQL runs every n-th, MariaDB the others. A
    single case runs on both."""
    if len(items) < 2:
        return set()
    on_mysql = every(nth, name, items)
    return set(items) - on_mysql if MYSQL else on_mysql


def every(nth, name, items):
    """Returns every n-th of these cases or names, at least one, always the same ones."""
    nth = min(nth, len(items))
    mixed = sorted(items, key=lambda item: zlib.crc32(getattr(item, "nodeid", item).encode()))
    return set(mixed[zlib.crc32(name.encode()) % nth::nth])


def spread(slow, others):
    """Distributes slow tests over the chunks with which pytest-xdist's workers begin (a quarter of
    each worker's share), so that none is left for the end and no worker has all of them."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    size = max((len(slow) + len(others)) // workers // 4, 2)
    dealt, others = [], list(others)
    for i in range(workers):
        first = slow[i::workers]
        room = max(size - len(first), 0)
        dealt += first + others[:room]
        others = others[room:]
    return dealt + others


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """Adds the end of the daemon's log to the report of a failed test."""
    report = (yield).get_result()
    if report.failed:
        for keeper in getattr(item, "wk_keepers", []):
            report.sections.append((f"log of {keeper.name}", tail(keeper.log_path, 80)))


@pytest.fixture(scope="session")
def base(request):
    config = request.config
    return getattr(config, "wk_base", None) or config.workerinput["wk_base"]


@pytest.fixture
def tmp(base):
    """A directory for this test alone."""
    return tempfile.mkdtemp(dir=base, prefix="t")


@pytest.fixture
def small_disk(tmp):
    """A tmpfs of a few hundred KiB: (its path for the daemon, its path for us, how to run the
    daemon). Root mounts it; other users do so in their own namespace."""
    path = os.path.join(tmp, "disk")
    os.mkdir(path)
    mount = "mount -t tmpfs -o size=400k,mode=0700 tmpfs "
    if os.geteuid() == 0:
        subprocess.run([*mount.split(), path], check=True)
        yield path, path, []
        subprocess.run(["umount", "-l", path], check=True)
        return
    holder = subprocess.Popen(["unshare", "-Urm", "sh", "-c", f"{mount} {path} && exec sleep 600"])
    seen = f"/proc/{holder.pid}/root{path}"
    wait_for(lambda: os.path.exists(seen) and os.statvfs(seen).f_blocks < 1000, "the small disk")
    yield path, seen, ["nsenter", f"--target={holder.pid}", "--user", "--mount",
                       "--preserve-credentials", "--"]
    end_process(holder)


@pytest.fixture
def store(tmp):
    """A mounted directory for off-site copies, and an age key pair."""
    path = os.path.join(tmp, "store")
    key = os.path.join(tmp, "identity")
    os.mkdir(path, 0o700)
    subprocess.run(["age-keygen", "-o", key], check=True, capture_output=True)
    public = subprocess.run(["age-keygen", "-y", key], check=True, capture_output=True, text=True).stdout.strip()
    return SimpleNamespace(path=path, key=key, recipient=public,
                           settings={"offsite": {"url": f"file://{path}/", "recipient": public}})


@pytest.fixture(scope="session")
def shared_server(base):
    """A server that no test stops or reconfigures, one for each worker."""
    server = Server(base).start()
    yield server
    server.destroy()


@pytest.fixture(scope="session")
def victim_server(base):
    server = Server(base)
    yield server
    server.destroy()


@pytest.fixture
def server(shared_server):
    return shared_server


@pytest.fixture
def victim(victim_server):
    """A server that the test may kill, stop and restart; it runs again for the next test."""
    if victim_server.process is None:
        victim_server.start()
    yield victim_server
    if victim_server.process is not None:
        victim_server.sigcont()
        if victim_server.process.poll() is not None:
            victim_server.process = None


@pytest.fixture
def liar(base):
    """A store that fails on request."""
    one = Liar(base)
    yield one
    one.stop()


@pytest.fixture(scope="session")
def pool(base):
    pool = Pool(base)
    yield pool
    pool.destroy()


@pytest.fixture
def make_server(base, pool):
    """make_server(...) -> a server with its own options, for one test, which may kill, stop and
    restart it."""
    made = []

    def make(*options, wrapper=(), **kind):
        if wrapper:
            made.append(Server(base, *options, **kind))
            made[-1].wrapper = list(wrapper)
            return made[-1].start()
        made.append(pool.take(*options, **kind))
        return made[-1]
    yield make
    for server in made:
        pool.put_back(server)


@pytest.fixture
def log_keys(tmp):
    """Options with which a server can encrypt its binary log; adding LOG_ENCRYPTED + "ON" encrypts
    it."""
    os.chmod(tmp, 0o755)
    if MYSQL:
        keys = os.path.join(tmp, "keys")
        os.mkdir(keys)
        if os.geteuid() == 0:
            shutil.chown(keys, server_user())
        return ["--keys=" + keys]
    shutil.copy(built("tools", "log_keys.so"), tmp)
    return ["--plugin-dir=" + tmp, "--plugin-load-add=log_keys"]


@pytest.fixture
def make_world(request):
    """make_world(kind, server) -> World, which is dropped at the end."""
    made = []

    def make(kind="small", on=None, schema=None):
        on = on or request.getfixturevalue("server")
        made.append(World(on, kind, schema))
        return made[-1]
    yield make
    for world in made:
        server = world.server
        if not server.pooled and server.process is not None and server.process.poll() is None:
            world.drop()


@pytest.fixture
def make_keeper(request, base):
    """make_keeper(world, settings) -> Keeper with its own directories."""
    made = []
    request.node.wk_keepers = made
    shorter = request.node.get_closest_marker("waits")

    def make(world, settings=None, name="w1", where=None, **more):
        where = where or tempfile.mkdtemp(dir=base, prefix="k")
        os.chmod(where, 0o755)
        made.append(Keeper(where, world, name, settings, **more))
        if shorter:
            made[-1].waits = shorter.args[0]
        return made[-1]
    yield make
    for keeper in reversed(made):
        keeper.destroy()


@pytest.fixture
def world(make_world):
    """A small world on the shared server."""
    return make_world()


@pytest.fixture
def keeper(make_keeper, world):
    """A keeper of that world, with a sentinel."""
    return make_keeper(world).init()


@pytest.fixture
def make_followed(make_world, make_keeper, make_server):
    """make_followed(kind, settings) -> a keeper that writes segments, and also restores on a new
    server."""
    def make(kind="small", settings=None, tables=(), seen=None, prefix=(), options=()):
        world = make_world(kind, make_server(*LOG, *options))
        if tables:
            world.sql(*tables)
        mine = {"journal": {"mode": "follow"}, "restore": {"new_server": "yes"},
                "probe": {"interval": "100ms"}}
        for section, values in (settings or {}).items():
            mine.setdefault(section, {}).update(values)
        keeper = make_keeper(world, mine)
        keeper.prefix = list(prefix)
        keeper.segments = Segments(keeper, seen or mine["journal"].get("dir"))
        return keeper.init()
    return make


@pytest.fixture
def doomed(make_world, make_keeper, victim):
    """A keeper of a small world whose server the test may kill."""
    return make_keeper(make_world(on=victim)).init()


@pytest.fixture
def lost(doomed, victim):
    """A keeper whose world was dumped and then lost; no supervisor is running."""
    doomed.dump()
    doomed.before = doomed.world.snapshot()
    victim.crash()
    return doomed


@pytest.fixture
def http():
    sink = Http().start()
    yield sink
    sink.stop()


@pytest.fixture
def make_smtp(tmp):
    """make_smtp(tls=…, login=…) -> running Smtp."""
    made = []

    def make(**kw):
        made.append(Smtp(tmp, **kw).start())
        return made[-1]
    yield make
    for sink in made:
        sink.stop()


@pytest.fixture
def smtp(make_smtp):
    return make_smtp()


@pytest.fixture
def tarpit():
    pit = Tarpit()
    yield pit
    pit.stop()


def pytest_report_header(config):
    return f"worldkeeper: {BINARY} on {KIND}" + ("" if os.access(BINARY, os.X_OK) else " (not built)")
