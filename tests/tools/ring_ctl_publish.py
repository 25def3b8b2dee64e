# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl publish: lines, keys, reports, and how it ends when something cannot be published."""

import os
import signal
import subprocess

from ring_ctl_lib import BIN, CANNOT_OPEN, NOTHING_DONE, PARTIAL, USAGE, RingCtlTest, main
from waiting_lib import eventually


class Lines(RingCtlTest):
    def payloads(self):
        """What was published, byte for byte: each message goes to a command that writes it in hexadecimal."""
        done = self.consume("check", "--exec", "od -An -v -tx1 | tr -d ' \\n'; echo .")
        return [bytes.fromhex(line[:-1]) for line in done.stdout.splitlines()]

    def test_what_a_line_is(self):
        self.create()
        self.publish(b"plain\nwith cr\r\n\n\0nul\0\n" + "häß\n".encode() + b"\xff\xfe\nlast without lf")
        self.assertEqual(
            self.payloads(), [b"plain", b"with cr\r", b"", b"\0nul\0", "häß".encode(), b"\xff\xfe", b"last without lf"]
        )

    def test_no_input_is_no_message_and_an_lf_is_an_empty_one(self):
        self.create()
        self.publish(b"")
        self.assertEqual(self.payloads(), [])
        self.publish(b"\n")
        self.assertEqual(self.payloads(), [b""])

    def test_raw_is_one_message(self):
        self.create()
        self.publish(b"one\ntwo\n\0", "--raw")
        self.publish(b"", "--raw")
        self.assertEqual(self.payloads(), [b"one\ntwo\n\0", b""])

    def test_long_lines_come_whole(self):
        self.ctl("create", self.queue, "--capacity", "16MiB", "--max-record", "2MiB")
        lines = [os.urandom(size).replace(b"\n", b"_") for size in (0, 1, 65535, 65536, 65537, 1 << 20, 3)]
        self.publish(b"\n".join(lines))
        self.assertEqual(self.payloads(), lines)

    def test_a_line_is_published_as_soon_as_it_is_complete(self):
        self.create()
        writer = self.start("publish", self.queue, "--report", stdin=subprocess.PIPE)
        seqs = []
        for line in (b"first\n", b"second\n"):
            writer.stdin.write(line)
            seqs.append(int(writer.stdout.readline()))  # although the input goes on
        self.assertLess(seqs[0], seqs[1])
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "2").stdout, "first\nsecond\n")
        writer.stdin.close()
        self.assertEqual(writer.wait(), 0)


class Options(RingCtlTest):
    def keys(self):
        return self.consume("check", "--exec", "echo \"<$RONDO_KEY>\"").stdout.splitlines()

    def test_key(self):
        self.create()
        self.publish("a\nb\n", "--key", "order 7")
        self.assertEqual(self.keys(), ["<order 7>"] * 2)
        self.publish("a\n", "--key", "k" * 255)
        self.assertEqual(self.keys(), ["<" + "k" * 255 + ">"])
        self.assertTrue(self.publish("a\n", "--key", "k" * 256, code=USAGE).stderr)

    def test_key_field(self):
        self.create()
        self.publish("alpha 1\n  beta\t2 x\ngamma\t\t3\n", "--key-field", "2")
        self.assertEqual(self.keys(), ["<1>", "<2>", "<3>"])
        self.publish("alpha 1\n", "--key-field", "1")
        self.assertEqual(self.keys(), ["<alpha>"])
        # A line without the field ends it, and is named.
        done = self.publish("a 1\nb\nc 3\n", "--key-field", "2", code=PARTIAL)
        self.assertIn("line 2", done.stderr)
        self.assertIn("1 published", done.stderr)
        self.publish("b\n", "--key-field", "2", code=USAGE)

    def test_report_prints_each_seq(self):
        self.create()
        seqs = [int(line) for line in self.publish("a\nb\nc\n", "--report").stdout.splitlines()]
        self.assertEqual(len(seqs), 3)
        self.assertEqual(seqs, sorted(set(seqs)))
        self.assertEqual(self.consume("g", "--exec", "echo $RONDO_SEQ").stdout.split(), [str(seq) for seq in seqs])

    def test_headers_and_type(self):
        self.create()
        self.publish("a\n", "--header", "trace=1=2", "--header", "empty=", "--type", "7")
        self.publish("a\n", *["--header=h=v"] * 32)
        self.assertTrue(self.publish("a\n", *["--header=h=v"] * 33, code=USAGE).stderr)
        self.publish("a\n", "--header", "no-value", code=USAGE)
        self.publish("a\n", "--header", "big=" + "x" * 5000, code=USAGE)

    def test_confirm_and_delay(self):
        self.create()
        self.publish("a\n", "--confirm", "accepted")
        for arguments in (["--confirm", "durable"], ["--delay", "10s"]):
            self.assertIn("not_supported", self.publish("a\n", *arguments, code=USAGE).stderr)
        for arguments in (["--confirm", "none"], ["--raw", "--key-field", "1"], ["--key", "k", "--key-field", "1"]):
            self.publish("a\n", *arguments, code=USAGE)
        for arguments in (["--key-field", "0"], ["--key-field", "-1"], ["--timeout", "1"], ["--timeout", "-1s"], ["--type", "x"]):
            self.publish("a\n", *arguments, code=USAGE)
        self.assertEqual(self.consume("g").stdout, "a\n")  # the first one, nothing else

    def test_names(self):
        self.create()
        self.publish("a\n", "--name", "A.b_c-1")
        for name in (".", "..", "a/b", "ä", "x" * 64, "a b"):
            self.publish("a\n", "--name", name, code=USAGE)


class Failures(RingCtlTest):
    def test_too_large(self):
        self.create()
        large = b"x" * 70000
        self.assertIn("too_large", self.publish(large, code=USAGE).stderr)
        self.assertIn("too_large", self.publish(large, "--raw", code=USAGE).stderr)
        done = self.publish(b"a\nb\n" + large + b"\nc\n", code=PARTIAL)
        self.assertIn("line 3", done.stderr)
        self.assertIn("2 published", done.stderr)
        self.assertEqual(self.consume("g").stdout, "a\nb\n")

    def test_a_payload_of_the_limit_fits_and_a_key_takes_of_it(self):
        self.create()
        limit = int(self.ctl("create", self.queue + "2", "--capacity", "256KiB").stdout.split(" up to ")[1].split()[0])
        self.publish(b"x" * limit, "--raw")
        self.publish(b"x" * (limit + 1), "--raw", code=USAGE)
        self.assertIn("too_large", self.publish(b"x" * limit, "--raw", "--key", "k" * 200, code=USAGE).stderr)

    def test_a_full_queue_without_waiting(self):
        self.create("--overflow", "fail")
        done = self.publish((b"x" * 3000 + b"\n") * 200, code=PARTIAL)
        self.assertIn("no_credit", done.stderr)
        self.assertIn("no_credit", self.publish(b"x" * 3000, code=NOTHING_DONE).stderr)

    def test_a_full_queue_with_a_time_limit(self):
        self.create()
        self.assertIn("line ", self.publish((b"x" * 3000 + b"\n") * 200, "--timeout", "100ms", code=PARTIAL).stderr)
        self.assertIn("timeout", self.publish(b"x" * 3000, "--timeout", "100ms", code=NOTHING_DONE).stderr)
        self.publish(b"x" * 3000, "--timeout", "0", code=NOTHING_DONE)

    def test_what_holds_a_full_queue_up_is_said_in_whole_sentences(self):
        full = (b"x" * 3000 + b"\n") * 200

        def cause(name, *arguments):
            self.queue = str(self.home / name)
            self.create("--overflow", "fail", *arguments)
            self.publish(full, code=PARTIAL)
            return self.publish(b"x" * 3000, code=NOTHING_DONE).stderr

        self.assertIn("; held up at 0 because there is no group: everything is kept", cause("kept"))
        self.assertRegex(cause("lonely", "--group", "g1"), r"; held up at 0 by group g1, which has no members(, for \d+ ms)? \(")

        for mode, whose in (("shared", "a consumer"), ("exclusive", "the owner")):
            self.queue = str(self.home / mode)
            self.create("--overflow", "fail", "--group", "g1", "--mode", mode)
            self.publish("in hand\n")
            holder = self.start("consume", self.queue, "--group", "g1", "--exec", "echo began; sleep 100")
            self.assertEqual(holder.stdout.readline(), b"began\n")
            self.publish(full, code=PARTIAL)
            holding = rf"; held up at 0 by a message in the hands of {whose} of group g1, process {holder.pid} \(ring-ctl\), running"
            self.assertRegex(self.publish(b"x" * 3000, code=NOTHING_DONE).stderr, holding)

        self.queue = str(self.home / "retry")
        self.create("--overflow", "fail", "--group", "g1", "--backoff-initial", "1h", "--backoff-max", "1h")
        self.publish("fails\n")
        self.ctl("consume", self.queue, "--group", "g1", "--exec", "exit 1", "--count", "1")
        self.publish(full, code=PARTIAL)
        self.assertIn("; held up at 0 by a message of group g1 that waits for its next attempt",
                      self.publish(b"x" * 3000, code=NOTHING_DONE).stderr)  # fmt: skip

        self.queue = str(self.home / "behind")
        self.create("--overflow", "fail", "--group", "g1", "--mode", "exclusive")
        active = self.start("consume", self.queue, "--group", "g1")
        eventually(lambda: self.dump("consumers"), "a consumer")
        active.send_signal(signal.SIGSTOP)
        eventually(lambda: self.dump("consumers")[0]["alive"] == "stopped", "stopped")
        self.publish(full, code=PARTIAL)
        self.assertRegex(self.publish(b"x" * 3000, code=NOTHING_DONE).stderr, r"; held up at 0 by group g1, which is behind\b")

    def test_time_limits_near_the_end_of_all_numbers(self):
        self.create()
        for text in ("forever", "9223372036854775807ns", "2562047h", "106751d"):
            self.publish("x\n", "--timeout", text, code=USAGE if text.endswith("d") else 0)
        for text in ("9223372036854775808ns", "2562048h", "99999999999999999999s"):
            self.publish("x\n", "--timeout", text, code=USAGE)
        self.assertEqual(self.consume("g").stdout, "x\n" * 3)

    def test_a_full_queue_goes_on_when_there_is_room(self):
        self.create("--group", "g")
        text = b"".join(b"%d %s\n" % (i, b"x" * 1000) for i in range(1000))
        with open(self.home / "output", "wb") as output:
            reader = self.start("consume", self.queue, "--group", "g", "--count", "1000", stdout=output)
        self.publish(text, "--timeout", "20s")
        self.finish(reader)
        self.assertEqual((self.home / "output").read_bytes(), text)

    def test_one_producer_only(self):
        self.create("--producers", "one")
        first = self.start("publish", self.queue, "--report", stdin=subprocess.PIPE)
        first.stdin.write(b"x\n")
        first.stdout.readline()
        self.assertIn("role_taken", self.publish("y\n", code=5).stderr)
        first.stdin.close()
        self.assertEqual(first.wait(), 0)
        self.publish("z\n")
        self.assertEqual(self.consume("g").stdout, "x\nz\n")

    def test_closed_standard_input(self):
        self.create()
        command = ["bash", "-c", 'exec "$@" <&-', "bash", BIN / "ring-ctl", "publish", self.queue]
        done = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(done.returncode, CANNOT_OPEN)
        self.assertIn(b"standard input", done.stderr)
        self.assertEqual(self.consume("g").stdout, "")

    def test_a_report_that_nobody_reads(self):
        self.create()
        reader, writer = os.pipe()
        os.close(reader)
        process = self.start("publish", self.queue, "--report", stdin=subprocess.PIPE, stdout=writer)
        os.close(writer)
        process.stdin.write(b"a\nb\n")
        process.stdin.close()
        self.assertEqual(process.wait(), CANNOT_OPEN)
        self.assertIn(b"1 published", process.stderr.read())
        self.assertEqual(self.consume("g").stdout, "a\n")


if __name__ == "__main__":
    main()
