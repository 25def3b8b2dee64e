# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 120
"""R63: ring-dump needs no right but reading, changes no byte, and takes no lock."""

import fcntl
import os
import shutil
import struct
import subprocess
import unittest

from ring_dump_lib import BIN, CANNOT_OPEN, FORMS, VIEWS, RingDumpTest, main

SECOND_USER = 65534
needs_root = unittest.skipUnless(os.geteuid() == 0, "only root can play another user or mount")


class ReadOnly(RingDumpTest):
    def setUp(self):
        super().setUp()
        self.home.chmod(0o755)
        self.create()
        self.ctl("publish", self.queue, "--key", "k", stdin="a\nb\nc\n")
        self.ctl("consume", self.queue, "--group", "g", "--count", "1", "--exec", "exit 65")
        self.ctl("consume", self.queue, "--group", "g", "--count", "1", "--exec", "exit 1")

    def all_views(self, **options):
        for view in VIEWS:
            for form in FORMS:
                self.dump(view, "-o", form, **options)
        self.dump("dlq", "0", "--payload", "hex", **options)

    def test_no_byte_changes(self):
        before = self.hashes()
        inodes = {f.name: (f.stat().st_ino, f.stat().st_mtime_ns, f.stat().st_size) for f in self.queue.iterdir()}
        self.all_views()
        self.assertEqual(self.hashes(), before)
        self.assertEqual({f.name: (f.stat().st_ino, f.stat().st_mtime_ns, f.stat().st_size) for f in self.queue.iterdir()}, inodes)

    def test_nothing_is_opened_for_writing_or_locked(self):
        if shutil.which("strace") is None:
            self.skipTest("no strace")
        trace = self.home / "trace"
        for view in VIEWS:
            done = subprocess.run(
                ["strace", "-f", "-o", trace, "-e", "trace=openat,open,mmap,fcntl,flock", BIN / "ring-dump", self.queue, view],
                capture_output=True,
                check=False,
            )
            if done.returncode != 0:
                self.skipTest("strace does not work here")
            for line in trace.read_text().splitlines():
                if ".ring" in line or ".tab" in line or str(self.queue) in line:
                    self.assertNotRegex(line, "O_RDWR|O_WRONLY|O_CREAT")
                if "MAP_SHARED" in line:
                    self.assertNotIn("PROT_WRITE", line)
                self.assertNotRegex(line, "F_OFD_SETLK|F_SETLK|flock")

    @needs_root
    def test_files_of_mode_0444_of_another_user(self):
        for file in self.queue.iterdir():
            file.chmod(0o444)
        self.queue.chmod(0o555)
        before = self.hashes()
        self.all_views(user=SECOND_USER, group=SECOND_USER, extra_groups=[])
        self.assertEqual(self.hashes(), before)
        self.queue.chmod(0o755)

    @needs_root
    def test_a_read_only_mount(self):
        script = f'mount --bind "{self.queue}" "{self.queue}" && mount -o remount,bind,ro "{self.queue}" && '
        check = f'! touch "{self.queue}/x" 2>/dev/null && '
        probe = subprocess.run(["unshare", "-m", "sh", "-c", script + "true"], capture_output=True, check=False)
        if probe.returncode != 0:
            self.skipTest("no mount namespaces here")
        for view in VIEWS:
            done = subprocess.run(
                ["unshare", "-m", "sh", "-c", script + check + f'"{BIN}/ring-dump" "{self.queue}" {view}'],
                capture_output=True,
                check=False,
            )
            self.assertEqual(done.returncode, 0, done.stderr)

    @needs_root
    def test_without_the_right_to_read_it_says_whose_it_is(self):
        options = {"user": SECOND_USER, "group": SECOND_USER, "extra_groups": [], "code": CANNOT_OPEN}
        for what, path in (("directory", self.queue), ("file", self.queue / "lane-00.ring")):
            with self.subTest(what=what):
                message = self.error(path=path, **options)
                self.assertIn(str(self.queue), message)
                self.assertIn("permission denied", message)
                self.assertIn("uid 0 (root)", message)
                self.assertIn("mode 0700", message)
                self.assertIn(f"this is uid {SECOND_USER}", message)
        self.queue.chmod(0o755)
        message = self.error(**options)
        self.assertIn("lane-00.ring", message)
        self.assertIn("mode 0600", message)

    @needs_root
    def test_a_part_that_may_not_be_read_is_told_and_the_rest_shown(self):
        self.queue.chmod(0o755)
        for file in self.queue.iterdir():
            file.chmod(0o444 if file.name != "dead.ring" else 0o600)
        as_second = {"user": SECOND_USER, "group": SECOND_USER, "extra_groups": []}
        done = self.run_dump("groups", **as_second)
        self.assertEqual(done.returncode, CANNOT_OPEN)
        self.assertIn(b"dead.ring", done.stderr)
        self.assertIn(b"g  ", done.stdout)

    def test_the_admin_lock_of_another_process_does_not_matter(self):
        """R03: whoever holds whichever lock, inspection answers."""
        with open(self.queue / "lane-00.ring", "r+b") as file:
            for byte in (1, 5, 1023, 4096):
                lock = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, byte, 1, 0)
                fcntl.fcntl(file, 37, lock)  # F_OFD_SETLK
            self.all_views()


if __name__ == "__main__":
    main()
