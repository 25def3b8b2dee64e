# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 120
"""ring-ctl consume --exec: what becomes of a message by how its command ends, and what the command finds."""

import os
import signal
import time

from ring_ctl_lib import USAGE, RingCtlTest, main
from waiting_lib import eventually, went_on_waiting

FAST = ["--backoff-initial", "1ms", "--backoff-max", "5ms", "--jitter", "none"]


class Outcomes(RingCtlTest):
    def execute(self, command, *arguments, **options):
        return self.consume("g", "--exec", command, *FAST, *arguments, **options)

    def the_dead(self):
        """The one dead letter, whole."""
        rows = self.dump("dlq")
        self.assertEqual(len(rows), 1)
        return self.dump("dlq", str(rows[0]["dlq_id"]))[0]

    def test_exit_0_acknowledges(self):
        self.create()
        self.publish("a\nb\n")
        self.assertEqual(self.execute("cat; echo").stdout, "a\nb\n")
        self.assertEqual(self.execute("cat; echo").stdout, "")
        self.assertEqual(self.dump("dlq"), [])

    def test_exit_65_rejects(self):
        self.create()
        self.publish("bad\n", "--key", "k")
        self.assertEqual(self.execute("echo once; echo no such order >&2; exit 65").stdout, "once\n")
        dead = self.the_dead()
        self.assertEqual((dead["reason"], dead["error_code"], dead["delivery_count"]), ("rejected", "exit_65", 1))
        self.assertEqual(dead["error_message"].strip(), "no such order")
        self.assertEqual((dead["key"], dead["group"]), ("k", "g"))

    def test_any_other_exit_code_tries_again_until_it_is_dead(self):
        self.create()
        self.publish("x\n")
        done = self.execute('echo "$RONDO_DELIVERY_COUNT"; echo busy >&2; exit 3', "--max-deliveries", "4")
        self.assertEqual(done.stdout, "1\n2\n3\n4\n")
        dead = self.the_dead()
        self.assertEqual((dead["reason"], dead["error_code"], dead["delivery_count"]), ("max_deliveries", "exit_3", 4))

    def test_it_may_succeed_later(self):
        self.create()
        self.publish("x\n")
        self.assertEqual(self.execute('echo try; [ "$RONDO_DELIVERY_COUNT" = 3 ]').stdout, "try\n" * 3)
        self.assertEqual(self.dump("dlq"), [])
        self.assertEqual(self.group_row("g")["lag"], 0)

    def test_death_by_a_signal(self):
        self.create()
        self.publish("x\n")
        self.execute("kill -SEGV $$", "--max-deliveries", "2")
        self.assertEqual(self.the_dead()["error_code"], f"signal_{int(signal.SIGSEGV)}")

    def test_a_command_that_cannot_be_run(self):
        self.create()
        self.publish("x\n")
        self.execute("/no/such/program", "--max-deliveries", "1")
        dead = self.the_dead()
        self.assertEqual(dead["error_code"], "exit_127")
        self.assertIn("/no/such/program", dead["error_message"])

    def test_standard_error_is_passed_on_and_its_first_kib_kept(self):
        self.create("--group", "g", *FAST)
        self.publish("x\n")
        done = self.execute("head -c 5000 /dev/zero | tr '\\0' e >&2; exit 65")
        self.assertEqual(done.stderr, "e" * 5000)
        message = self.the_dead()["error_message"]
        self.assertEqual(set(message), {"e"})
        self.assertIn(len(message), range(512, 1025))  # the story may keep less than it is given

    def test_a_message_is_cut_between_characters(self):
        self.create()
        self.publish("x\n")
        self.execute("for i in 1 2 3 4 5 6 7 8 9 10 11 12; do printf '" + "ä€" * 40 + "' >&2; done; exit 65")
        self.assertRegex(self.the_dead()["error_message"], "^[ä€]+$")

    def test_count_counts_tries(self):
        self.create()
        self.publish("a\nb\n")
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "1", "--exec", "cat").stdout, "a")


class Surroundings(RingCtlTest):
    def execute(self, command, *arguments, **options):
        return self.consume("g", "--exec", command, *FAST, *arguments, **options)

    def test_input_that_is_not_read_is_no_error(self):
        self.ctl("create", self.queue, "--capacity", "16MiB", "--max-record", "2MiB")
        self.publish(b"x" * (1 << 20), "--raw")
        self.publish(b"y" * (1 << 20), "--raw")
        self.assertEqual(self.execute("head -c 1; exec 0<&-; echo").stdout, "x\ny\n")
        self.assertEqual(self.dump("dlq"), [])

    def test_large_input_arrives_whole(self):
        self.ctl("create", self.queue, "--capacity", "16MiB", "--max-record", "2MiB")
        payload = os.urandom(1 << 20)
        self.publish(payload, "--raw")
        self.assertEqual(self.execute("cat").raw, payload)

    def test_output_and_errors_larger_than_a_pipe(self):
        self.create("--group", "g", *FAST)
        self.publish("x\n")
        done = self.execute("head -c 300000 /dev/zero | tr '\\0' o; head -c 300000 /dev/zero | tr '\\0' e >&2")
        self.assertEqual((done.stdout, done.stderr), ("o" * 300000, "e" * 300000))

    def test_environment(self):
        self.create()
        seq = self.publish("x\n", "--key", "a key", "--report").stdout.strip()
        done = self.execute('echo "$RONDO_GROUP|$RONDO_SEQ|$RONDO_KEY|$RONDO_DELIVERY_COUNT|$RONDO_REDRIVE_COUNT"')
        self.assertEqual(done.stdout, f"g|{seq}|a key|1|0\n")

    def test_no_descriptor_of_ours_and_no_signal_setting(self):
        self.create()
        self.publish("x\n")
        look = "exec cat /proc/self/status; true"
        status = dict(line.split(":", 1) for line in self.execute(look).stdout.splitlines() if ":" in line)
        self.assertEqual(int(status["SigBlk"], 16), 0)
        self.assertEqual(int(status["SigIgn"], 16) & 0x7FFFFFFF, 0)  # glibc keeps two for itself above the 31
        self.publish("x\n")
        descriptors = self.execute("ls -l /proc/self/fd | sed -n 's/.* \\([0-9]*\\) -> .*/\\1/p'").stdout.split()
        self.assertLessEqual(set(descriptors), {"0", "1", "2", "3"})  # 3 is ls looking at the directory

    def test_the_command_is_not_a_participant(self):
        self.create()
        self.publish("x\n")
        reader = self.start("consume", self.queue, "--group", "g", "--exec", "echo in hand; sleep 1")
        self.assertEqual(reader.stdout.readline(), b"in hand\n")
        reader.kill()
        reader.wait()
        # Its lock is free although its child still runs: the message comes again at once.
        begin = time.monotonic()
        self.assertEqual(self.ctl("consume", self.queue, "--group", "g", "--count", "1").stdout, "x\n")
        self.assertLess(time.monotonic() - begin, 20)

    def test_somebody_who_keeps_standard_error_open_is_not_waited_for(self):
        self.create()
        self.publish("a\nb\n")
        begin = time.monotonic()
        self.assertEqual(self.execute("sleep 5 > /dev/null & cat; echo").stdout.split(), ["a", "b"])
        self.assertLess(time.monotonic() - begin, 5)

    def test_an_empty_command_reads_nothing_and_succeeds(self):
        self.create()
        self.publish("x\n")
        self.execute("")
        self.assertEqual(self.group_row("g")["lag"], 0)
        self.consume("g", "--exec", code=USAGE)


class Time(RingCtlTest):
    def test_the_lease_is_extended_while_the_command_runs(self):
        self.create()
        self.publish("x\n")
        slow = self.start("consume", self.queue, "--group", "g", "--lease-timeout", "200ms", "--count", "1",
                          "--exec", "echo began; sleep 1.5; echo ended")  # fmt: skip
        self.assertEqual(slow.stdout.readline(), b"began\n")
        other = self.start("consume", self.queue, "--group", "g", "--idle-exit", "2.5")
        self.assertEqual(self.finish(slow)[0], b"ended\n")
        self.assertEqual(self.finish(other)[0], b"")
        self.assertEqual(self.group_row("g")["redelivered"], 0)

    def test_a_command_is_killed_with_all_its_children_after_max_lease_total(self):
        self.create()
        self.publish("x\n")
        begin = time.monotonic()
        done = self.consume("g", "--exec", "echo $$; sleep 100 & echo $!; echo slow >&2; wait", "--lease-timeout", "100ms",
                            "--max-lease-total", "600ms", "--max-deliveries", "1")  # fmt: skip
        self.assertLess(time.monotonic() - begin, 15)
        for pid in done.stdout.split():
            eventually(lambda: not self.runs(int(pid)), f"the end of {pid}")
        rows = self.dump("dlq")
        self.assertEqual(len(rows), 1)
        dead = self.dump("dlq", str(rows[0]["dlq_id"]))[0]
        self.assertEqual((dead["error_code"], dead["error_type"]), ("signal_9", "max_lease_total"))
        self.assertEqual((dead["reason"], dead["error_message"].strip()), ("max_deliveries", "slow"))

    @staticmethod
    def runs(pid):
        try:
            with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
                return file.read().rsplit(")", 1)[1].split()[0] != "Z"
        except FileNotFoundError:
            return False

    def test_a_leases_of_an_exclusive_group_has_no_end(self):
        self.create()
        self.publish("x\n")
        done = self.consume("g", "--mode", "exclusive", "--lease-timeout", "100ms", "--max-lease-total", "300ms",
                            "--exec", "sleep 1; echo ended")  # fmt: skip
        self.assertEqual(done.stdout, "ended\n")


class Signals(RingCtlTest):
    def test_the_message_in_hand_is_finished(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=number):
                self.queue = str(self.home / f"queue-{int(number)}")
                self.create()
                self.publish("a\nb\n")
                go_on = self.home / f"go-on-{int(number)}"
                os.mkfifo(go_on)
                reader = self.start("consume", self.queue, "--group", "g", "--exec", f"echo began; read x < {go_on}; echo ended")
                self.assertEqual(reader.stdout.readline(), b"began\n")
                reader.send_signal(number)
                eventually(lambda: went_on_waiting(reader), "the signal is taken")
                go_on.write_text("x\n")
                self.assertEqual(self.finish(reader)[0], b"ended\n")
                self.assertEqual(self.consume("g", "--exec", "echo $RONDO_DELIVERY_COUNT; cat").stdout, "1\nb")

    def test_ctrl_c_does_not_reach_the_command(self):
        self.create()
        self.publish("a\n")
        go_on = self.home / "go-on"
        os.mkfifo(go_on)
        # Apart from this test, so that its whole foreground group can be signalled as a terminal does it.
        reader = self.start("consume", self.queue, "--group", "g", "--exec", f"echo began; read x < {go_on}; echo ended",
                            start_new_session=True)  # fmt: skip
        self.assertEqual(reader.stdout.readline(), b"began\n")
        os.killpg(reader.pid, signal.SIGINT)
        eventually(lambda: went_on_waiting(reader), "the signal is taken")
        go_on.write_text("x\n")
        self.assertEqual(self.finish(reader)[0], b"ended\n")
        self.assertEqual(self.group_row("g")["lag"], 0)

    def test_a_second_signal_kills_the_command(self):
        deaf = "trap '' INT TERM; echo began; while :; do sleep 100; done"
        for number, name, command in (
            (signal.SIGTERM, "plain", "echo began; sleep 100"),
            (signal.SIGINT, "deaf", deaf),
            (signal.SIGINT, "stopped", "echo began; kill -STOP $$"),
        ):
            with self.subTest(command=name):
                self.queue = str(self.home / name)
                self.create()
                self.publish("a\n")
                reader = self.start("consume", self.queue, "--group", "g", "--exec", command, "--max-deliveries", "1")
                self.assertEqual(reader.stdout.readline(), b"began\n")
                if name == "stopped":
                    eventually(lambda: "T" in self.states_of_children(reader.pid), "a stopped command")
                reader.send_signal(number)
                eventually(lambda: went_on_waiting(reader), "the first signal is taken")
                reader.send_signal(number)
                self.finish(reader)
                # It was tried, and failed.
                self.assertEqual(self.dump("dlq")[0]["error_code"], "signal_9")

    @staticmethod
    def states_of_children(pid):
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            children = file.read().split()
        states = []
        for child in children:
            with open(f"/proc/{child}/stat", encoding="ascii", errors="replace") as file:
                states.append(file.read().rsplit(")", 1)[1].split()[0])
        return states


if __name__ == "__main__":
    main()
