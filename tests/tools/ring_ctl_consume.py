# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl consume without --exec: where it begins, when it ends, and what is acknowledged when it does."""

import array
import fcntl
import os
import signal
import subprocess
import termios
import time

from ring_ctl_lib import BIN, CANNOT_OPEN, NOT_FOUND, PARTIAL, REFUSED, USAGE, RingCtlTest, main
from waiting_lib import eventually, went_on_waiting


def bytes_in(pipe):
    """Written and not yet read."""
    count = array.array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


class Ends(RingCtlTest):
    def test_count(self):
        self.create()
        self.publish("a\nb\nc\nd\n")
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "2").stdout, "a\nb\n")
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "1").stdout, "c\n")
        self.assertEqual(self.consume("g").stdout, "d\n")

    def test_count_0_only_makes_the_group(self):
        self.create()
        self.publish("before\n")
        done = self.ctl("consume", self.queue, "--group", "g", "--count", "0", "--start", "latest")
        self.assertEqual(done.stdout, "")
        self.publish("after\n")
        self.assertEqual(self.consume("g").stdout, "after\n")
        self.ctl("consume", self.queue, "--group", "g", "--count", "0")

    def test_a_group_that_is_made_is_told_once(self):
        self.create("--group", "known")
        self.assertEqual(self.consume("known").stderr, "")
        self.assertEqual(self.consume("typo").stderr, "ring-ctl consume: created group typo at earliest\n")
        self.assertEqual(self.consume("typo").stderr, "")
        for start, shown in (("latest", "latest"), ("seq:0", "seq:0"), ("time:@0", "time:@0"),
                             ("time:2025-01-31T13:00:00+01:00", "time:2025-01-31T12:00:00.000Z")):  # fmt: skip
            name = start.replace(":", "-").replace("@", "").replace("+", "")
            self.assertIn(f"created group {name} at {shown}\n", self.consume(name, "--start", start).stderr)

    def test_existing_makes_no_group(self):
        self.create("--group", "known")
        self.publish("a\n")
        self.assertEqual(self.consume("known", "--existing").stdout, "a\n")
        self.assertIn("no_such_group", self.consume("typo", "--existing", code=NOT_FOUND).stderr)
        self.assertEqual([row["group"] for row in self.dump("groups")], ["known"])
        # Options of a group that is not to be made would be ignored.
        self.assertIn("excludes", self.consume("known", "--existing", "--max-deliveries", "3", code=USAGE).stderr)

    def test_idle_exit(self):
        self.create()
        begin = time.monotonic()
        self.ctl("consume", self.queue, "--group", "g", "--idle-exit", "0.3")
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        self.publish("a\n")
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--idle-exit", "0").stdout, "a\n")
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--idle-exit", "50ms").stdout, "")
        for text in ("-1", "x", "1.", ".5", "1e3", "1.0000000001", ""):
            self.ctl("consume", self.queue, "--group", "g", "--idle-exit", text, code=USAGE)

    def test_signals_end_it_well(self):
        self.create()
        for number in (signal.SIGINT, signal.SIGTERM):
            self.publish("x\n")
            reader = self.start("consume", self.queue, "--group", "g")
            self.assertEqual(reader.stdout.readline(), b"x\n")
            reader.send_signal(number)
            self.finish(reader)
        row = self.group_row("g")
        self.assertEqual((row["lag"], row["members"]), (0, 0))

    def test_an_ignored_sigint_is_heard_too(self):
        # A shell without job control ignores it for what it starts in the background.
        self.create()
        command = ["bash", "-c", 'trap "" INT; exec "$@"', "bash", BIN / "ring-ctl", "consume", self.queue, "--group", "g"]
        reader = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(self.end, reader)
        eventually(lambda: self.dump("consumers"), "a consumer")
        reader.send_signal(signal.SIGINT)
        self.finish(reader)

    def test_a_killed_one_is_followed_by_another(self):
        self.create()
        self.publish("a\nb\n")
        command = "echo in hand; while kill -0 $PPID 2>/dev/null; do sleep 0.02; done"
        reader = self.start("consume", self.queue, "--group", "g", "--exec", command)
        self.assertEqual(reader.stdout.readline(), b"in hand\n")
        reader.kill()
        reader.wait()
        got = self.ctl("consume", self.queue, "--group", "g", "--count", "2", "--idle-exit", "10").stdout
        self.assertEqual(sorted(got.split()), ["a", "b"])


class Starts(RingCtlTest):
    def test_where_a_new_group_begins(self):
        self.create()
        self.ctl("groups-create", self.queue, "--group", "keeper")  # or what all have settled would be gone
        seqs = self.publish("a\nb\nc\n", "--report").stdout.split()
        self.assertEqual(self.consume("all").stdout, "a\nb\nc\n")
        self.assertEqual(self.consume("none", "--start", "latest").stdout, "")
        self.assertEqual(self.consume("some", "--start", f"seq:{seqs[1]}").stdout, "b\nc\n")
        self.assertEqual(self.consume("past", "--start", "time:1999-12-31T23:59:59.5-01:00").stdout, "a\nb\nc\n")
        self.assertEqual(self.consume("epoch", "--start", "time:@0").stdout, "a\nb\nc\n")
        self.assertEqual(self.consume("future", "--start", "time:2200-01-01T00:00:00Z").stdout, "")
        self.publish("d\n")
        self.assertEqual(self.consume("future").stdout, "d\n")

    def test_what_is_gone_is_told(self):
        self.create("--group", "g")
        self.publish("a\nb\n")
        self.consume("g")
        self.publish("c\n")
        done = self.consume("late", "--start", "seq:0", code=PARTIAL)
        self.assertIn("gap", done.stderr)
        self.assertEqual(done.stdout, "c\n")

    def test_a_start_is_not_applied_again(self):
        self.create()
        self.publish("a\nb\n")
        self.ctl("consume", self.queue, "--group", "g", "--count", "1")
        self.assertEqual(self.consume("g", "--start", "latest").stdout, "b\n")

    def test_bad_starts(self):
        self.create()
        self.publish("a\n")
        for text in ("", "first", "seq:", "seq:-1", "seq:x", "time:", "time:now", "time:2025-02-30T00:00:00Z", "time:12:00"):
            self.consume("g", "--start", text, code=USAGE)
        for text in ("time:2025-01-01T00:00:00", "time:2263-01-01T00:00:00Z", "time:1969-12-31T23:59:59Z", "seq:1000000"):
            self.consume("g", "--start", text, code=USAGE)
        self.assertEqual(self.consume("g").stdout, "a\n")  # none of them made the group


class Groups(RingCtlTest):
    def test_other_options_than_the_stored_ones_are_refused(self):
        self.create()
        given = ["--lease-timeout", "5s", "--max-lease-total", "1m", "--max-deliveries", "7", "--backoff-initial", "10ms"]
        given += ["--backoff-multiplier", "1.5", "--backoff-max", "2s", "--jitter", "none", "--retry-max-age", "1h"]
        given += ["--max-in-flight", "10", "--max-in-flight-group", "100", "--max-dead-pending", "5", "--mode", "shared"]
        self.consume("g", *given)
        self.consume("g", *given)
        self.consume("g")
        for flag, value in (
            ("--mode", "exclusive"),
            ("--lease-timeout", "6s"),
            ("--max-lease-total", "2m"),
            ("--max-deliveries", "-1"),
            ("--backoff-initial", "11ms"),
            ("--backoff-multiplier", "2"),
            ("--backoff-max", "3s"),
            ("--jitter", "full"),
            ("--retry-max-age", "forever"),
            ("--max-in-flight", "11"),
            ("--max-in-flight-group", "101"),
            ("--max-dead-pending", "6"),
        ):
            self.assertIn("option_mismatch", self.consume("g", flag, value, code=REFUSED).stderr, flag)

    def test_values_out_of_range(self):
        self.create()
        for flag, value in (
            ("--max-deliveries", "0"),
            ("--max-deliveries", "-2"),
            ("--max-deliveries", "1001"),
            ("--lease-timeout", "0"),
            ("--lease-timeout", "9ms"),
            ("--lease-timeout", "25h"),
            ("--lease-timeout", "30"),
            ("--max-lease-total", "0"),
            ("--max-lease-total", "169h"),
            ("--backoff-multiplier", "0.5"),
            ("--backoff-multiplier", "11"),
            ("--backoff-multiplier", "nan"),
            ("--jitter", "some"),
            ("--mode", "both"),
            ("--kind", "lossy"),
            ("--max-in-flight", "0"),
        ):
            self.consume("g", flag, value, code=USAGE)
        for name in ("", ".", "..", "a/b", "ä", "x" * 64, "a b"):
            self.consume(name, code=USAGE)
        self.assertEqual(self.dump("groups"), [])
        self.consume("x" * 63)

    def test_an_exclusive_group_keeps_the_order_and_has_one_reader(self):
        self.create()
        lines = [f"{i}" for i in range(500)]
        self.publish("\n".join(lines))
        first = self.start("consume", self.queue, "--group", "g", "--mode", "exclusive")
        self.assertEqual(first.stdout.readline(), b"0\n")
        second = self.start("consume", self.queue, "--group", "g", "--idle-exit", "0.5")
        self.assertEqual(self.finish(second)[0], b"")
        first.send_signal(signal.SIGTERM)
        output, _ = self.finish(first)
        self.assertEqual(output.decode().split(), lines[1:])

    def test_a_group_that_is_deleted_ends_its_readers(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        eventually(lambda: self.dump("consumers"), "a consumer")
        self.ctl("groups-delete", self.queue, "--group", "g", "--execute", "--force")
        self.assertIn("no_such_group", self.finish(reader, code=NOT_FOUND)[1])


class Output(RingCtlTest):
    def test_each_message_is_out_before_the_next_is_waited_for(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        for line in ("one\n", "two\n"):
            self.publish(line)
            self.assertEqual(reader.stdout.readline().decode(), line)

    def test_what_nobody_reads_is_not_acknowledged(self):
        self.create()
        self.publish("a\nb\n")
        for redirect in (">&-", "> /dev/full"):
            command = f'exec "$@" {redirect}'
            done = subprocess.run(
                ["bash", "-c", command, "bash", BIN / "ring-ctl", "consume", self.queue, "--group", "g", "--idle-exit", "5"],
                capture_output=True,
                check=False,
            )
            self.assertEqual(done.returncode, CANNOT_OPEN, redirect)
            self.assertIn(b"not acknowledged", done.stderr)
        self.assertEqual(self.consume("g").stdout, "a\nb\n")

    def test_a_closed_pipe(self):
        self.create()
        self.publish("a\nb\n")
        reader, writer = os.pipe()
        os.close(reader)
        process = self.start("consume", self.queue, "--group", "g", "--idle-exit", "5", stdout=writer)
        os.close(writer)
        self.assertEqual(process.wait(), CANNOT_OPEN)
        # Not charged either: nobody has seen it.
        self.assertEqual(self.consume("g", "--exec", "echo $RONDO_DELIVERY_COUNT").stdout, "1\n1\n")

    def test_a_reader_that_does_not_read_holds_it_up_until_the_second_signal(self):
        self.create("--group", "g")
        lines = [f"{i} " + "x" * 1000 for i in range(150)]
        seqs = self.publish("\n".join(lines), "--report").stdout.split()
        process = self.start("consume", self.queue, "--group", "g")
        eventually(lambda: self.group_row("g")["in_flight"] == 1, "a message in hand")
        eventually(lambda: bytes_in(process.stdout) > 60_000 and went_on_waiting(process), "a full pipe")
        process.send_signal(signal.SIGTERM)
        eventually(lambda: went_on_waiting(process), "the first signal is taken")
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(), CANNOT_OPEN)
        errors = process.stderr.read().decode()
        whole = process.stdout.read().decode().split("\n")[:-1]
        self.assertEqual(whole, lines[: len(whole)])
        self.assertRegex(errors, rf"told to stop twice, .*\(seq {seqs[len(whole)]} is not acknowledged; \d+ of its bytes")
        # What was written only in part, or not at all, comes again, and the next one.
        self.assertEqual(self.consume("g").stdout.split("\n")[:-1], lines[len(whole) :])

    def test_a_message_larger_than_a_pipe(self):
        self.ctl("create", self.queue, "--capacity", "16MiB", "--max-record", "2MiB")
        payload = os.urandom(1 << 20)
        self.publish(payload, "--raw")
        self.assertEqual(self.consume("g").raw, payload + b"\n")


if __name__ == "__main__":
    main()
