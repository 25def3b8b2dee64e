# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl groups-create and groups-delete."""

from ring_ctl_lib import NOT_FOUND, REFUSED, USAGE, RingCtlTest, main
from waiting_lib import eventually


class Groups(RingCtlTest):
    def test_create(self):
        self.create()
        self.publish("a\n")
        self.ctl("groups-create", self.queue, "--group", "early", "--mode", "exclusive")
        self.ctl("groups-create", self.queue, "--group", "late", "--start", "latest")
        self.publish("b\n")
        self.assertEqual(self.consume("early").stdout, "a\nb\n")
        self.assertEqual(self.consume("late").stdout, "b\n")
        self.assertEqual({row["group"]: row["mode"] for row in self.dump("groups")}, {"early": "exclusive", "late": "shared"})

    def test_a_group_is_made_once(self):
        self.create()
        self.ctl("groups-create", self.queue, "--group", "g")
        self.assertIn("exists", self.ctl("groups-create", self.queue, "--group", "g", code=REFUSED).stderr)
        for name in ("", ".", "..", "a/b", "ä", "x" * 64):
            self.ctl("groups-create", self.queue, "--group", name, code=USAGE)

    def test_max_groups(self):
        self.create("--max-groups", "2")
        for name in ("a", "b"):
            self.ctl("groups-create", self.queue, "--group", name)
        self.ctl("groups-create", self.queue, "--group", "c", code=REFUSED)
        self.ctl("groups-delete", self.queue, "--group", "a", "--execute")
        self.ctl("groups-create", self.queue, "--group", "c")

    def test_delete_is_a_dry_run_unless_told(self):
        self.create("--group", "g")
        self.publish("a\nb\n")
        done = self.ctl("groups-delete", self.queue, "--group", "g", code=REFUSED)
        self.assertIn("2 messages not settled", done.stdout)
        self.assertIn("--execute", done.stderr)
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "1").stdout, "a\n")
        self.ctl("groups-delete", self.queue, "--group", "g", "--execute")
        self.assertEqual(self.dump("groups"), [])
        for arguments in ([], ["--execute"]):
            self.assertIn("no_such_group", self.ctl("groups-delete", self.queue, "--group", "g", *arguments, code=NOT_FOUND).stderr)

    def test_delete_is_refused_while_it_has_members(self):
        self.create("--group", "g")
        reader = self.start("consume", self.queue, "--group", "g")
        eventually(lambda: self.dump("consumers"), "a consumer")
        self.assertIn("--force", self.ctl("groups-delete", self.queue, "--group", "g", code=REFUSED).stderr)
        self.assertIn("busy", self.ctl("groups-delete", self.queue, "--group", "g", "--execute", code=REFUSED).stderr)
        self.ctl("groups-delete", self.queue, "--group", "g", "--execute", "--force")
        self.finish(reader, code=NOT_FOUND)


if __name__ == "__main__":
    main()
