# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 120
"""Publishers and consumers that are killed at random: what publish reported comes out of consume, at least once."""

import os
import random
import signal
import subprocess
import time

from ring_ctl_lib import BIN, RingCtlTest, main
from waiting_lib import WAIT_S

SECONDS = 5
PUBLISHERS = 3
CONSUMERS = 3


class Storm(RingCtlTest):
    def setUp(self):
        super().setUp()
        seed = int(os.environ.get("RONDO_SEED", random.randrange(1 << 32)))
        print(f"RONDO_SEED={seed}")
        self.random = random.Random(seed)
        self.files = 0

    def new_file(self, kind):
        self.files += 1
        return self.home / f"{kind}-{self.files}"

    def publisher(self):
        """Publishes numbered lines, a file of them; reports into another."""
        text = self.new_file("input")
        lines = [f"{text.name}.{i}" + "." * self.random.choice([0] * 10 + [300, 3000]) for i in range(1000)]
        text.write_text("\n".join(lines))
        with open(text, "rb") as source, open(self.new_file("report"), "wb") as report:
            process = self.start("publish", self.queue, "--report", "--timeout", "20s", stdin=source, stdout=report,
                                 stderr=subprocess.DEVNULL)  # fmt: skip
        self.runs.append((lines, report.name))
        return process

    def consumer(self, group):
        with open(self.new_file(f"output-{group}"), "wb") as output:
            return self.start("consume", self.queue, "--group", group, stdout=output, stderr=subprocess.DEVNULL)

    def storm(self, groups):
        self.runs = []
        parts = [self.publisher for _ in range(PUBLISHERS)]
        parts += [lambda g=group: self.consumer(g) for group in groups for _ in range(CONSUMERS)]
        running = [start() for start in parts]
        end = time.monotonic() + SECONDS
        kills = 0
        while time.monotonic() < end:
            time.sleep(self.random.uniform(0, 0.02))  # the random moment of the kill is what is tried
            i = self.random.randrange(len(parts))
            if running[i].poll() is None:
                running[i].kill()
                kills += 1
            running[i].wait()
            running[i] = parts[i]()
        for process in running:
            process.send_signal(signal.SIGTERM)
            self.assertIn(process.wait(timeout=WAIT_S), (0, -signal.SIGTERM))
        for group in groups:
            with open(self.new_file(f"output-{group}"), "wb") as output:
                command = [BIN / "ring-ctl", "consume", self.queue, "--group", group, "--idle-exit", "1"]
                subprocess.run(command, stdout=output, timeout=60, check=True)
        return kills

    def test_storm(self):
        self.create("--max-record", "4KiB")
        options = ["--max-deliveries", "1000", "--backoff-initial", "1ms", "--backoff-max", "10ms"]
        self.ctl("groups-create", self.queue, "--group", "shared", *options)
        self.ctl("groups-create", self.queue, "--group", "ordered", "--mode", "exclusive", *options)
        kills = self.storm(["shared", "ordered"])
        sent, reported = set(), set()
        for lines, report in self.runs:
            with open(report, encoding="ascii") as file:
                count = file.read().count("\n")
            sent.update(lines)
            reported.update(lines[:count])
        for group in ("shared", "ordered"):
            got = []
            for file in self.home.glob(f"output-{group}-*"):
                got += file.read_text().split("\n")[:-1]
            with self.subTest(group=group):
                print(f"{group}: {kills} kills, {len(reported)} reported, {len(got)} received, {len(got) - len(set(got))} twice")
                self.assertGreater(len(reported), 1000)
                self.assertEqual(sorted(reported - set(got))[:5], [], "lost")
                self.assertEqual(sorted(set(got) - sent)[:5], [], "invented")
        self.assertEqual(self.dump("dlq"), [])
        self.assertEqual([row["lag"] for row in self.dump("groups")], [0, 0])


if __name__ == "__main__":
    main()
