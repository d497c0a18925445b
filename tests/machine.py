#!/usr/bin/python3
"""What some tests need and this machine may not allow: found out once, reported before the tests begin. The tests
that need it are skipped, with the reason, and never counted as failed.

    tests/machine.py [NAME...]    prints a line for each thing that is lacking (default: of all)
    tests/machine.py --way-out    where no test can run: says why and what to do, and fails
"""
import os
import shutil
import subprocess
import sys
import tempfile

# scripts/test.sh counts tests that were skipped for this reason as skipped, any other ones as failed.
REASON = "this machine: "
KNOWN = "WK_MACHINE"
GALERA = "/usr/lib/galera/libgalera_smm.so"


def works(*command, **kw):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=60, **kw).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def mounts(where):
    """Returns whether a small file system can be mounted: by root, or by another user in a namespace of its own."""
    mount = ["mount", "-t", "tmpfs", "-o", "size=400k", "tmpfs", where]
    if os.geteuid() == 0:
        return works(*mount) and works("umount", "-l", where)
    return works("unshare", "-Urm", *mount)


def loops(where):
    """Returns whether a file can be mounted as a disk."""
    image, at = os.path.join(where, "image"), os.path.join(where, "at")
    os.mkdir(at)
    return (works("truncate", "-s", "1M", image) and works("mkfs.ext4", "-q", "-F", image)
            and works("mount", "-o", "loop", image, at) and works("umount", "-l", at))


def traces(where):
    """Returns whether strace can read the memory of a process that denies access to it (PR_SET_DUMPABLE), as worldkeeper
    does. A tracer without that privilege sees no paths."""
    trace, path = os.path.join(where, "trace"), os.path.join(where, "named")
    program = f"import ctypes, os; ctypes.CDLL(None).prctl(4, 0); os.access({path!r}, 0); os.getppid()"
    if not works("strace", "-f", "-o", trace, "-e", "trace=access,faccessat,faccessat2,getppid", "-e",
                 "inject=getppid:error=EPERM", sys.executable, "-c", program):
        return False
    with open(trace, errors="replace") as f:
        told = f.read()
    return path in told and "(INJECTED)" in told


def closed():
    """Returns the first directory that keeps an unprivileged user from root's temporary files; None: there is none, or we
    are not root."""
    def enters(path):
        return works("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--", "test", "-x", path, cwd="/")
    if os.geteuid() != 0 or enters(tempfile.gettempdir()):
        return None
    parts = os.path.realpath(tempfile.gettempdir()).split("/")[1:]
    return next((path for path in ["/", *("/" + "/".join(parts[:i + 1]) for i in range(len(parts)))]
                 if not os.stat(path).st_mode & 1), "/")


def replicates(where):
    """Returns whether the library can be loaded that makes MariaDB's servers a Galera cluster (Debian's galera-4)."""
    return works(sys.executable, "-c", f"import ctypes; ctypes.CDLL({GALERA!r})")


def browses(where):
    """Returns whether Debian's chromium runs as wk/browser.py starts it."""
    return works("chromium", "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                 f"--user-data-dir={where}/chromium", "--dump-dom", "about:blank")


def monitors(where):
    """Returns whether Debian's Prometheus, node_exporter and Alertmanager are installed."""
    return all(shutil.which(name) for name in ("prometheus", "promtool", "prometheus-node-exporter", "prometheus-alertmanager"))


SERVERS = os.environ.get("WORLDKEEPER_SERVERS", "/var/cache/worldkeeper/servers")
STORES = os.path.join(SERVERS, "stores")
LOCK_LIST = "metadata_lock_info.so"  # MariaDB's list of who holds which lock
# Debian's package mariadb-server has it, if that is installed or was fetched.
PLUGINS = ("/usr/lib/mysql/plugin", os.path.join(SERVERS, "mariadb-plugins/usr/lib/mysql/plugin"))


def plugins():
    """Returns the directory that has LOCK_LIST, or None."""
    return next((path for path in PLUGINS if os.path.exists(os.path.join(path, LOCK_LIST))), None)


def there(*programs):
    """Returns a function that tells whether all these programs are installed, or unpacked in the directory STORES, where
    wk/stores.py looks for them."""
    return lambda where: all(any(os.access(os.path.join(root, "usr", way, name), os.X_OK)
                                 for root in ("/", STORES) for way in ("sbin", "bin")) for name in programs)


# name: what is not possible without it, how to find out
NEEDS = {
    "mount": ("no file system may be mounted here: no disk can be made full", mounts),
    "loop": ("no file can be mounted as a disk here: no power cut, no disk that breaks", loops),
    "strace": ("no process may look into another here: no system call can be made to fail, no memory is measured", traces),
    "processors": ("one processor: nothing is done side by side", lambda where: (os.cpu_count() or 1) > 1),
    "galera": ("no library galera-4: no server is a node of a cluster", replicates),
    "lock list": ("no metadata_lock_info of MariaDB (scripts/servers.sh fetch mariadb-plugins): no server lists its locks",
                  lambda where: plugins() is not None),
    "chromium": ("no Chromium that runs here without a screen (Debian's chromium): the pages are looked at by nobody", browses),
    "prometheus": ("no Prometheus (Debian's prometheus, prometheus-node-exporter, prometheus-alertmanager): nobody scrapes the"
                   " metrics, no rule fires", monitors),
    "mydumper": ("no mydumper, which Debian 13 has no package of: no file of it is restored", there("mydumper")),
    "sshd": ("no sshd, neither installed nor unpacked: nothing is stored by SFTP", there("sshd")),
    "dav": ("no apache2: nothing is stored by WebDAV", there("apache2")),
    "radosgw": ("no Ceph, neither installed nor unpacked: nothing is stored in a real S3",
                there("radosgw", "ceph-mon", "ceph-osd")),
    "radosgw-new": ("no radosgw of Debian sid (scripts/servers.sh fetch radosgw): nothing is stored in another real S3",
                    lambda where: os.path.exists(os.path.join(SERVERS, "radosgw/.complete"))),
    "root": ("neither root nor sudo: nothing that only root may do",
             lambda where: os.geteuid() == 0 or works("sudo", "-n", "true")),
    "chroot": ("no directory may be made the root here: nothing can be built with Oracle's client library",
               lambda where: works(*([] if os.geteuid() == 0 else ["sudo", "-n"]), "chroot", "/", "true")),
}


def lacking():
    """Returns the names of what this machine lacks. It is determined once; child processes inherit the answer."""
    if KNOWN not in os.environ:
        where = tempfile.mkdtemp(prefix="wkmachine")
        try:
            os.environ[KNOWN] = " ".join(name for name, (_, tries) in NEEDS.items() if not tries(where))
        finally:
            shutil.rmtree(where, ignore_errors=True)
    return os.environ[KNOWN].split()


def why_not(name):
    """Returns the reason to skip a test that needs `name`, or None if the machine has it."""
    return REASON + NEEDS[name][0] if name in lacking() else None


def way_out():
    """Returns a line that says what to do if no test can run on this machine, or ""."""
    at = closed()
    if not at:
        return ""
    elsewhere = "" if at == "/" else ", or set TMPDIR to a directory that others can enter"
    return f"tests: the servers run as a user without rights, who cannot enter {at}: chmod o+x {at}{elsewhere}"


if __name__ == "__main__":
    if sys.argv[1:] == ["--way-out"]:
        sys.exit(way_out() or 0)  # to standard error
    for lacks in lacking():
        if lacks in (sys.argv[1:] or NEEDS):
            print(f"{lacks}: {NEEDS[lacks][0]}")
