"""Disks in files: what is on a disk after a power cut, a disk without space behind it, and a small one. Only root may mount
them."""
import os
import shutil
import subprocess


class Disk:
    """An ext4 file system in a file, to which the kernel writes as late as it can. `backing` may be too small for it."""

    def __init__(self, where, at, size="24M", features=(), options="commit=600,noauto_da_alloc",
                 backing=None):
        os.makedirs(where, exist_ok=True)
        self.image, self.at, self.where, self.mounts = os.path.join(where, "image"), at, where, []
        if backing:
            self.mount("-t", "tmpfs", "-o", "size=" + backing, "tmpfs", where)
        run("truncate", "-s", size, self.image)
        run("mkfs.ext4", "-q", "-F", *features, self.image)
        self.mount("-o", "loop," + options, self.image, at)
        shutil.rmtree(os.path.join(at, "lost+found"))
        os.chmod(at, 0o700)

    def mount(self, *args):
        run("mount", *args)
        self.mounts.append(args[-1])

    def cut(self, at):
        """Simulates a power cut now: mounts what would be on the disk after it on `at`. The writing processes must be stopped."""
        image = self.image + ".cut"
        self.copy(image)
        os.makedirs(at, exist_ok=True)
        self.mount("-o", "loop", image, at)
        return at

    def copy(self, image, tries=100):
        """Copies the disk. The kernel may write to it between two pieces, so the copy is repeated until it equals the
        original."""
        for _ in range(tries):
            run("cp", "--sparse=always", self.image, image)
            if subprocess.run(["cmp", "-s", self.image, image]).returncode == 0:
                return
        raise AssertionError(f"{self.image} never stands still")

    def put_away(self, at):
        run("umount", at)
        self.mounts.remove(at)
        os.unlink(self.image + ".cut")

    def close(self):
        while self.mounts:
            run("umount", "-l", self.mounts.pop())


def run(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          errors="replace")
    assert done.returncode == 0, f"{' '.join(command)}: {done.stdout.strip()} (root only)"
