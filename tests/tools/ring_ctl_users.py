# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl with two users: modes decide who may use a queue, and an error says who owns it."""

import os
import sys

from ring_ctl_lib import CANNOT_OPEN, RingCtlTest, main

SECOND_USER = 65534  # nobody
SHARED_GROUP = 65534  # nogroup


class Users(RingCtlTest):
    def setUp(self):
        super().setUp()
        self.home.chmod(0o755)

    @staticmethod
    def as_second(groups=()):
        return {"user": SECOND_USER, "group": SHARED_GROUP, "extra_groups": list(groups)}

    def test_a_queue_of_mode_0600_is_its_owners(self):
        self.create()
        done = self.ctl("publish", self.queue, code=CANNOT_OPEN, **self.as_second())
        self.assertIn("permission", done.stderr)
        self.assertIn(self.queue, done.stderr)
        self.ctl("destroy", self.queue, "--execute", "--force", code=CANNOT_OPEN, **self.as_second())
        self.publish("still\n")
        self.assertEqual(self.consume("g").stdout, "still\n")

    def test_a_queue_of_mode_0660_is_the_groups(self):
        self.create("--file-mode", "0660", "--gid", str(SHARED_GROUP))
        self.publish("from root\n")
        self.publish("from nobody\n", **self.as_second())
        self.assertEqual(self.consume("g", **self.as_second()).stdout, "from root\nfrom nobody\n")
        self.publish("again\n")
        self.assertEqual(self.consume("g").stdout, "again\n")

    def test_a_queue_of_mode_0640_may_be_read_only(self):
        self.create("--file-mode", "0640", "--gid", str(SHARED_GROUP))
        self.assertIn("permission", self.ctl("publish", self.queue, code=CANNOT_OPEN, **self.as_second()).stderr)

    def test_the_second_user_owns_what_it_makes(self):
        theirs = self.home / "theirs"
        theirs.mkdir()
        os.chown(theirs, SECOND_USER, SHARED_GROUP)
        self.ctl("create", theirs / "queue", "--capacity", "256KiB", **self.as_second())
        self.ctl("publish", theirs / "queue", stdin="x\n", **self.as_second())
        self.ctl("publish", theirs / "queue", stdin="y\n")  # root may
        got = self.ctl("consume", theirs / "queue", "--group", "g", "--idle-exit", "0.1", **self.as_second()).stdout
        self.assertEqual(got, "x\ny\n")

    def test_the_second_user_makes_none_in_the_directory_of_another(self):
        (self.home / "mine").mkdir(0o777)
        self.assertTrue(self.ctl("create", self.home / "mine", code=CANNOT_OPEN, **self.as_second()).stderr)

    def test_fence_needs_the_right_to_kill(self):
        self.create("--file-mode", "0660", "--gid", str(SHARED_GROUP))
        reader = self.start("consume", self.queue, "--group", "g")
        self.publish("x\n")
        self.assertEqual(reader.stdout.readline(), b"x\n")
        number = str(self.dump("consumers")[0]["participant"])
        done = self.ctl("fence", self.queue, "--participant", number, "--execute", code=CANNOT_OPEN, **self.as_second())
        self.assertIn("permission", done.stderr)
        self.assertIsNone(reader.poll())


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("needs root to act as two users")
        sys.exit(77)
    main()
