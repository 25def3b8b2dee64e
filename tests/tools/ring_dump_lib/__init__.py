# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""What the tests of ring-dump share. Queues are made with ring-ctl; each test has a directory of its own."""

import faulthandler
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from waiting_lib import WAIT_S

SOURCE = pathlib.Path(os.environ.get("RONDO_SOURCE", pathlib.Path(__file__).resolve().parents[3]))
BIN = pathlib.Path(os.environ.get("RONDO_BIN", SOURCE / "build" / "bin"))
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"

OK, USAGE, NOT_FOUND, CANNOT_OPEN, DAMAGE = range(5)
VIEWS = ("overview", "records", "groups", "inflight", "scheduled", "consumers", "producers", "dlq", "dlq-summary", "verify")
FORMS = ("table", "json", "jsonl", "csv")


class RingDumpTest(unittest.TestCase):
    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix=f"rondo-test-{os.getpid()}-", dir="/dev/shm"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        self.queue = self.home / "queue"

    def ctl(self, *arguments, code=OK, stdin=b"", **options):
        done = subprocess.run(
            [BIN / "ring-ctl", *map(str, arguments)],
            input=stdin if isinstance(stdin, bytes) else stdin.encode(),
            capture_output=True,
            timeout=WAIT_S,
            check=False,
            **options,
        )
        self.assertEqual(done.returncode, code, f"ring-ctl {arguments}: {done.stdout} {done.stderr}")
        return done.stdout

    def create(self, *arguments):
        self.ctl("create", self.queue, "--capacity", "256KiB", *arguments)

    def start(self, *arguments):
        """ring-ctl in the background."""
        process = subprocess.Popen(
            [BIN / "ring-ctl", *map(str, arguments)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

        def end():
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

        self.addCleanup(end)
        return process

    def run_dump(self, *arguments, path=None, **options):
        """ring-dump to its end, whatever comes of it; never by a signal."""
        done = subprocess.run(
            [BIN / "ring-dump", str(path or self.queue), *map(str, arguments)],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=WAIT_S,
            check=False,
            **options,
        )
        self.assertGreaterEqual(done.returncode, 0, f"ring-dump {arguments}: killed by {-done.returncode}: {done.stderr}")
        self.assertIn(done.returncode, range(5), done.stderr)
        if done.returncode in (USAGE, NOT_FOUND, CANNOT_OPEN) and not done.stdout:
            self.assertTrue(done.stderr, f"ring-dump {arguments}: fails with {done.returncode} and says nothing")
        return done

    def dump(self, *arguments, code=OK, path=None, **options):
        done = self.run_dump(*arguments, path=path, **options)
        self.assertEqual(done.returncode, code, f"ring-dump {arguments}: {done.stdout} {done.stderr}")
        return done.stdout.decode()

    def json(self, *arguments, **options):
        return json.loads(self.dump(*arguments, "-o", "json", **options))

    def rows(self, *arguments, **options):
        return self.json(*arguments, **options)["rows"]

    def error(self, *arguments, code, **options):
        """The message of a run that must fail."""
        done = self.run_dump(*arguments, **options)
        self.assertEqual(done.returncode, code, f"ring-dump {arguments}: {done.stdout} {done.stderr}")
        text = done.stderr.decode()
        self.assertTrue(text, "a failure says nothing")
        return text

    def hashes(self, directory=None):
        directory = directory or self.queue
        return {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in sorted(directory.iterdir())}

    def masked(self, text):
        """Text without what differs from run to run: paths, ids, times, ages. Blanks between columns become two."""
        text = text.replace(str(self.queue), "QUEUE")
        text = re.sub(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}", "UUID", text)
        text = re.sub(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", "TIME", text)
        text = re.sub(r"\(\d[\w.]* ago\)", "(AGE ago)", text)
        text = re.sub(r"(?<= )-?\d+(\.\d)?(ns|us|ms|s)\b|(?<= )\d+(m\d\ds|h\d\dm|d\d\dh)", "AGE", text)
        text = re.sub(r'("\w+_seconds": )-?[\d.e-]+', r"\1SECONDS", text)
        text = re.sub(r'("pid": )\d+', r"\1PID", text)
        text = re.sub(r"uid \d+, gid \d+", "uid UID, gid GID", re.sub(r'("[ug]id": )\d+', r"\1ID", text))
        text = re.sub(r"(?m)^(pid +)\d+", r"\1PID", text)
        text = re.sub(r"(ring-ctl +)\d+(?= )", r"\1PID", text)
        return re.sub(r"(?m)(?<=\S) {2,}", "  ", re.sub(r"(?m)^ +", "", text))

    def golden(self, name, text):
        """Compares with a file; RONDO_UPDATE_GOLDEN=1 writes it instead."""
        path = GOLDEN / name
        if os.environ.get("RONDO_UPDATE_GOLDEN"):
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        self.maxDiff = None
        self.assertEqual(path.read_text(), text, name)


def main():
    seconds = int(os.environ.get("RONDO_WATCHDOG_S", "0"))
    if seconds:
        faulthandler.dump_traceback_later(seconds, exit=True)
    for program in ("ring-dump", "ring-ctl"):
        if not (BIN / program).exists():
            print(f"{BIN}/{program} is not built")
            sys.exit(77)
    unittest.main(verbosity=2)
