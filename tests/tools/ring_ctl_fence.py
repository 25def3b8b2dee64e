# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl fence: ends exactly the participant that was meant, and gives back what it held."""

import os
import signal
import subprocess
import unittest

from ring_ctl_lib import BIN, NOT_FOUND, REFUSED, RingCtlTest, main
from waiting_lib import eventually


class Fence(RingCtlTest):
    def participant_of(self, process, view):
        def find():
            return [row for row in self.dump(view) if row["pid"] == process.pid]

        return str(eventually(find, f"process {process.pid} in the {view}")[0]["participant"])

    def stopped_owner(self, *arguments):
        """An exclusive group whose owner is stopped with a message in hand."""
        self.publish("in hand\n")
        command = "echo began; while kill -0 $PPID 2>/dev/null; do sleep 0.02; done"
        owner = self.start("consume", self.queue, "--group", "g", "--mode", "exclusive", "--exec", command, *arguments)
        self.assertEqual(owner.stdout.readline(), b"began\n")
        owner.send_signal(signal.SIGSTOP)
        eventually(lambda: [row["alive"] for row in self.dump("consumers")] == ["stopped"], "a stopped owner")
        return owner

    def test_a_dry_run_kills_nobody(self):
        self.create()
        owner = self.stopped_owner()
        done = self.ctl("fence", self.queue, "--participant", self.participant_of(owner, "consumers"), code=REFUSED)
        self.assertIn(f"process {owner.pid} (ring-ctl), uid {os.geteuid()}, stopped\n", done.stdout)
        self.assertIn("would kill", done.stdout)
        self.assertIn("--execute", done.stderr)
        self.assertIsNone(owner.poll())

    def test_a_stopped_owner_is_killed_and_another_goes_on(self):
        self.create()
        owner = self.stopped_owner()
        number = self.participant_of(owner, "consumers")
        self.assertEqual(self.consume("g").stdout, "")  # it blocks its group
        done = self.ctl("fence", self.queue, "--participant", number, "--execute")
        self.assertIn("killed", done.stdout)
        self.assertIn("repaired", done.stdout)
        self.assertEqual(owner.wait(), -signal.SIGKILL)
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "1").stdout, "in hand\n")
        self.ctl("fence", self.queue, "--participant", number, "--execute", code=NOT_FOUND)

    def test_one_that_is_dead_already_is_only_repaired(self):
        self.create()
        owner = self.stopped_owner()
        number = self.participant_of(owner, "consumers")
        owner.kill()
        owner.wait()
        self.assertIn(", dead, not repaired yet\n",
                      self.ctl("fence", self.queue, "--participant", number, code=REFUSED).stdout)  # fmt: skip
        done = self.ctl("fence", self.queue, "--participant", number, "--execute")
        self.assertNotIn("killed", done.stdout)
        self.assertIn("repaired", done.stdout)

    def test_who_runs_is_called_running(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        number = self.participant_of(reader, "consumers")
        self.assertIn(", running\n", self.ctl("fence", self.queue, "--participant", number, code=REFUSED).stdout)

    def test_tables_show_the_number(self):
        self.create()
        owner = self.stopped_owner()
        number = self.participant_of(owner, "consumers")
        for view in ("consumers", "inflight", "overview"):
            table = subprocess.run([BIN / "ring-dump", self.queue, view], capture_output=True, text=True, check=True).stdout
            head = next(line for line in table.splitlines() if "PARTICIPANT" in line).split()
            row = next(line for line in table.splitlines() if f" {owner.pid} " in line).split()
            at_end = head.index("PID") - len(head)  # cells before it may be empty
            self.assertEqual((row[at_end], head[at_end - 1], row[at_end - 1]), (str(owner.pid), "PARTICIPANT", number), view)

    def test_who_is_not_there(self):
        self.create()
        for number in ("0", "1", "500", "1023", "1024", "4294967295"):
            self.assertIn("not_found", self.ctl("fence", self.queue, "--participant", number, code=NOT_FOUND).stderr)

    @unittest.skipUnless(os.geteuid() == 0, "needs root for a pid namespace")
    def test_another_pid_namespace_is_only_explained(self):
        self.create()
        unshare = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
        if subprocess.run([*unshare, "true"], check=False, capture_output=True).returncode != 0:
            self.skipTest("no pid namespaces here")
        inside = subprocess.Popen([*unshare, BIN / "ring-ctl", "consume", self.queue, "--group", "g"],
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # fmt: skip
        self.addCleanup(self.end, inside)
        number = str(eventually(lambda: self.dump("consumers"), "a consumer")[0]["participant"])
        done = self.ctl("fence", self.queue, "--participant", number, "--execute", code=REFUSED)
        self.assertIn("pid namespace", done.stderr)
        self.publish("x\n")
        self.assertEqual(inside.stdout.readline(), b"x\n")  # it lives


if __name__ == "__main__":
    main()
