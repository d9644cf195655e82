# SPDX-License-Identifier: Apache-2.0
"""
The keel command on a pseudo-terminal, as a person has it.

    with Terminal(keel, keel.db) as terminal:      # keel DB
        terminal.expect(PROMPT)
        terminal.type("get hello\\n")
        terminal.expect("world")
        assert terminal.leave() == 0

expect waits for a text in what was printed since the last one was found (escape sequences taken out) and fails after TIMEOUT_SECONDS, which is no
measure of anything: it ends a test that hangs.
"""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import termios
import time

TIMEOUT_SECONDS = 300

PROMPT, IN_TRANSACTION = "keel> ", "keel*> "
TAB, CONTROL_C, CONTROL_D, CONTROL_P, UP = "\t", "\x03", "\x04", "\x10", "\x1b[A"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[()][A-Z0-9]|\x1b[=>78]|[\x00\x07]")


class Terminal:
    def __init__(self, keel, *args, columns=200):
        self.unread, self.everything, self.code = "", "", None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(keel.directory)
            os.execve(keel.binary, [keel.binary, *args], keel.environment)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        if self.code is None:
            try:
                os.kill(self.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            os.waitpid(self.pid, 0)
        os.close(self.fd)

    def type(self, text):
        os.write(self.fd, text.encode())

    def read(self, seconds):
        """What there is within that time; None at the end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return ""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return None
        return data.decode("utf-8", "replace") if data else None

    def expect(self, text):
        """Waits for the text and returns what came before it."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while True:
            shown = ESCAPES.sub("", self.unread)
            if text in shown:
                before, _, self.unread = shown.partition(text)
                return before
            data = self.read(1)
            assert data is not None, f"{text!r} was expected, the program ended: {self.everything[-3000:]!r}"
            self.unread += data
            self.everything += data
            assert time.monotonic() < deadline, f"{text!r} was expected: {self.everything[-3000:]!r}"

    def command(self, line, prompt=PROMPT):
        """Types a line and returns what it printed, up to the next prompt. A line typed before the editor listens is echoed twice."""
        self.type(line + "\n")
        self.expect(line)
        return self.expect(prompt).replace("\r", "").strip("\n").removeprefix(line).lstrip("\n")

    def interrupt(self):
        self.type(CONTROL_C)

    def leave(self):
        """Ctrl-D, and the exit code. Typed before the editor listens it is lost, as for anybody, so it is typed again."""
        self.type(CONTROL_D)
        return self.end(CONTROL_D)

    def end(self, again=""):
        """The exit code, once the program has ended; `again` is typed while it has not."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (data := self.read(1)) is not None:
            self.everything += data
            self.unread += data
            assert time.monotonic() < deadline, f"the program does not end: {self.everything[-3000:]!r}"
            if not data and again:
                self.type(again)
        _, status = os.waitpid(self.pid, 0)
        self.code = os.waitstatus_to_exitcode(status)
        return self.code
