# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 180
"""rondo-demo: its books balance, it notices when it cannot, and it leaves nothing behind."""

import os
import pathlib
import signal
import subprocess
import tempfile
import unittest

from ring_ctl_lib import BIN, main
from waiting_lib import eventually


def leftovers():
    return set(pathlib.Path("/dev/shm").glob("rondo-demo-*"))


def package(number):
    return (
        f"Package: pack-{number}\nStatus: install ok installed\nInstalled-Size: {number}\n"
        f"Depends: pack-{number // 2} (>= 1.0), pack-{number + 1} | virtual-thing:any,\n pack-3\n"
        f"Description: number {number}\n continued\n .\n end\n"
    )


class Demo(unittest.TestCase):
    def setUp(self):
        self.before = leftovers()

    def run_demo(self, *arguments, code=0):
        done = subprocess.run([BIN / "rondo-demo", *arguments], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(leftovers(), self.before)
        return done

    def file_of(self, text):
        file = tempfile.NamedTemporaryFile(prefix="rondo-test-", mode="w")
        self.addCleanup(file.close)
        file.write(text)
        file.flush()
        return file.name

    @unittest.skipUnless(os.path.exists("/var/lib/dpkg/status"), "no package database here")
    def test_the_books_balance_on_the_real_file(self):
        done = self.run_demo()
        self.assertNotIn("BAD", done.stdout)
        self.assertIn("the books balance", done.stdout)
        self.assertIn("handed over exactly 4 times", done.stdout)
        self.assertIn("1 killed from outside, 4 crashed", done.stdout)

    def test_the_books_balance_on_another_file(self):
        text = "\n".join(package(number) for number in range(500)) + "\nNo colon here\n"
        done = self.run_demo(self.file_of(text))
        self.assertIn("500 packages", done.stdout)
        self.assertIn("6 malformed", done.stdout)
        self.assertIn("the books balance", done.stdout)

    def test_it_holds_many_times(self):
        path = self.file_of("\n".join(package(number) for number in range(60)))
        for _ in range(10):
            self.run_demo(path)

    def test_bad_input(self):
        self.assertIn("no-such-file", self.run_demo("/no-such-file", code=1).stderr)
        self.run_demo(self.file_of(""), code=1)
        self.run_demo("/dev/shm", code=1)
        self.run_demo("a", "b", code=2)
        self.run_demo("--nonsense", code=2)
        self.assertIn("usage", self.run_demo("--help").stdout)

    def test_a_reader_that_goes_away_leaves_nothing_behind(self):
        subprocess.run(["bash", "-c", f"{BIN}/rondo-demo | head -n 3 > /dev/null"], timeout=60, check=False)
        self.assertEqual(leftovers(), self.before)

    def test_an_interrupt_leaves_nothing_behind(self):
        process = subprocess.Popen(
            [BIN / "rondo-demo"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        try:
            eventually(lambda: leftovers() - self.before or process.poll() is not None, "the queue")
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=30)
        finally:
            process.kill()
        self.assertEqual(leftovers(), self.before)
        with self.assertRaises(ProcessLookupError):  # all its children are gone too
            os.killpg(process.pid, 0)


if __name__ == "__main__":
    main()
