"""Definitions of tables, as a restore parses and rewrites them (tests/tools/table_rewrite.c)."""
import os
import subprocess

from .keeper import BINARY, built


class Rewriter:
    """One process of the tool. It gets a definition, and returns the statement that would be sent or the reason of a refusal."""

    def __init__(self, mysql):
        built("tools", "table_rewrite")
        self.brand = "mysql" if mysql else "mariadb"
        path = os.path.join(os.path.dirname(BINARY), "tools", "table_rewrite")
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        assert self.process.wait() == 0
        self.process.stdout.close()

    def __call__(self, text, plain=False):
        """Returns (the statement, None) or (None, the reason of the refusal)."""
        statement, names = self.named(text, plain)
        return (statement, None) if statement else (None, names)

    def named(self, text, plain=False):
        """Returns (the statement, the names of its table and columns) or (None, the reason of the refusal)."""
        data = text if isinstance(text, bytes) else text.encode()
        self.process.stdin.write(b"%d %s%s\n" % (len(data), self.brand.encode(), b"-plain" if plain else b"") + data)
        self.process.stdin.flush()
        refused, length = map(int, self.process.stdout.readline().split())
        said = self.process.stdout.read(length).decode()
        if refused:
            return None, said
        statement, *names = said.split("\0")
        return statement, names[:-1]
