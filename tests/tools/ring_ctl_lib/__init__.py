# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""What the tests of ring-ctl share: a queue in a directory of its own, the programs, and a watchdog.

Each test file calls main() at its end. Processes and directories go with the test, however it ends.
"""

import faulthandler
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from waiting_lib import WAIT_S

SOURCE = pathlib.Path(os.environ.get("RONDO_SOURCE", pathlib.Path(__file__).resolve().parents[3]))
BIN = pathlib.Path(os.environ.get("RONDO_BIN", SOURCE / "build" / "bin"))

OK, USAGE, NOT_FOUND, CANNOT_OPEN, CORRUPT, REFUSED, PARTIAL, NOTHING_DONE = range(8)


class RingCtlTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"rondo-test-{os.getpid()}-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.queue = str(self.home / "queue")

    def ctl(self, *arguments, code=OK, stdin=b"", **options):
        """Runs ring-ctl to its end and checks its exit code. The result has stdout and stderr as text."""
        if isinstance(stdin, str):
            stdin = stdin.encode()
        done = subprocess.run(
            [BIN / "ring-ctl", *arguments], input=stdin, capture_output=True, timeout=WAIT_S, check=False, **options
        )
        done.raw = done.stdout
        done.stdout, done.stderr = done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, code, f"ring-ctl {arguments}: {done.stdout}{done.stderr}")
        if code != OK and code != PARTIAL:
            self.assertTrue(done.stderr, f"ring-ctl {arguments}: fails with {code} and says nothing")
        return done

    def start(self, *arguments, **options):
        """ring-ctl in the background, with pipes. Unbuffered: communicate() would not see what readline() took."""
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "bufsize": 0}
        process = subprocess.Popen([BIN / "ring-ctl", *arguments], **{**pipes, **options})
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.send_signal(signal.SIGCONT)
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()

    def finish(self, process, code=OK):
        """Waits for a process of start(); its output."""
        output, errors = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, code, f"{output} {errors}")
        return output, errors.decode(errors="replace")

    def create(self, *arguments):
        self.ctl("create", self.queue, "--capacity", "256KiB", *arguments)

    def publish(self, text, *arguments, **options):
        return self.ctl("publish", self.queue, *arguments, stdin=text, **options)

    def consume(self, group, /, *arguments, **options):
        """Everything that comes until nothing more does."""
        return self.ctl("consume", self.queue, "--group", group, "--idle-exit", "0.2", *arguments, **options)

    def dump(self, view, *arguments):
        """The rows of a view of ring-dump."""
        done = subprocess.run(
            [BIN / "ring-dump", self.queue, view, *arguments, "-o", "json"], capture_output=True, timeout=WAIT_S, check=True
        )
        return json.loads(done.stdout)["rows"]

    def group_row(self, group):
        return next(row for row in self.dump("groups") if row["group"] == group)


def main():
    seconds = int(os.environ.get("RONDO_WATCHDOG_S", "0"))
    if seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    if not (BIN / "ring-ctl").exists():
        print(f"{BIN}/ring-ctl is not built")
        sys.exit(77)
    unittest.main(verbosity=2)
