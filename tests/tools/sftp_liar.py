"""An SFTP server (version 3, on standard input and output) that lies as the file that it is given says.

endless: a directory has no end; names: a name is longer than a packet may be; huge: an answer announces 2 GiB and
never ends; silent; drip: three bytes a second."""
import struct
import sys
import time

INIT, CLOSE, READ, OPENDIR, READDIR, REALPATH, VERSION = 1, 4, 5, 11, 12, 16, 2
OPEN, STATUS, HANDLE, DATA, NAME, ATTRS = 3, 101, 102, 103, 104, 105
OK = 0
NO_ATTRS = struct.pack(">I", 0)
LINE = b"-rw-------    1 user   group     15926 Nov 23 10:58 "
requests, answers = sys.stdin.buffer, sys.stdout.buffer


def text(data):
    return struct.pack(">I", len(data)) + data


def answer(kind, number, data):
    answers.write(struct.pack(">IBI", len(data) + 5, kind, number) + data)
    answers.flush()


def without_end(piece, pause=0):
    answers.write(struct.pack(">IB", 0x7fffffff if not pause else 100000, NAME))
    while True:
        answers.write(piece)
        answers.flush()
        time.sleep(pause)


def listed(mode):
    name, count = (b"a" * 200000, 1) if mode == "names" else (b"abcdefgh", 100)
    return struct.pack(">I", count) + (text(name) + text(LINE + name) + NO_ATTRS) * count


def lie(mode, kind, number, data):
    if mode == "huge":
        without_end(b"x" * 65536)
    elif mode == "drip":
        without_end(b"x", 0.3)
    elif mode == "silent":
        requests.read()  # until he goes
    elif kind == REALPATH:
        answer(NAME, number, struct.pack(">I", 1) + text(b"/") * 2 + NO_ATTRS)
    elif kind in (OPEN, OPENDIR):
        answer(HANDLE, number, text(b"h"))
    elif kind == READ:
        answer(DATA, number, text(b"y" * min(struct.unpack(">I", data[-4:])[0], 30000)))
    elif kind == READDIR:
        answer(NAME, number, listed(mode))
    elif kind == CLOSE:
        answer(STATUS, number, struct.pack(">I", OK) + text(b"") * 2)
    else:  # of attributes nothing is said
        answer(ATTRS, number, NO_ATTRS)


def main():
    with open(sys.argv[1]) as f:
        mode = f.read()
    while len(head := requests.read(5)) == 5:
        size, kind = struct.unpack(">IB", head)
        data = requests.read(size - 1)
        if kind == INIT:
            answers.write(struct.pack(">IBI", 5, VERSION, 3))
            answers.flush()
        else:
            lie(mode, kind, struct.unpack(">I", data[:4])[0], data[4:])


main()
