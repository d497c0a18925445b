"""Definitions of tables, as a restore reads them and writes them anew (tests/tools/table_rewrite.c)."""
import os
import subprocess

from .keeper import BINARY, built


class Rewriter:
    """One process of the tool: text in, what would be sent or why it is refused."""

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
        """(the statement, None) or (None, why it is refused)."""
        statement, names = self.named(text, plain)
        return (statement, None) if statement else (None, names)

    def named(self, text, plain=False):
        """(the statement, the names of its table and columns) or (None, why it is refused)."""
        data = text if isinstance(text, bytes) else text.encode()
        self.process.stdin.write(b"%d %s%s\n" % (len(data), self.brand.encode(), b"-plain" if plain else b"") + data)
        self.process.stdin.flush()
        refused, length = map(int, self.process.stdout.readline().split())
        said = self.process.stdout.read(length).decode()
        if refused:
            return None, said
        statement, *names = said.split("\0")
        return statement, names[:-1]
