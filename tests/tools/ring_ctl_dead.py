# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl redrive and discard: filters, dry runs, what comes back and how."""

from ring_ctl_lib import NOT_FOUND, OK, REFUSED, USAGE, RingCtlTest, main


class Dead(RingCtlTest):
    def setUp(self):
        super().setUp()
        self.create()
        # Five dead letters: three rejected in g, one failed twice in g, one rejected in h.
        self.ctl("groups-create", self.queue, "--group", "g", "--max-deliveries", "2", "--backoff-initial", "1ms")
        self.ctl("groups-create", self.queue, "--group", "h", "--start", "latest")
        self.publish("one\ntwo\n", "--key", "a")
        self.publish("three\n", "--key", "b")
        self.consume("g", "--exec", "echo cause of it >&2; exit 65")
        self.publish("four\n", "--key", "b")
        self.consume("g", "--exec", "exit 9")
        self.consume("h", "--exec", '[ "$RONDO_KEY" = a ] || exit 65', "--count", "3")
        self.consume("h")

    def open_ids(self, **wanted):
        return [row["dlq_id"] for row in self.dump("dlq")
                if row["state"] == "open" and all(row[key] == value for key, value in wanted.items())]  # fmt: skip

    def test_the_five_are_there(self):
        self.assertEqual((len(self.open_ids(group="g")), len(self.open_ids(group="h"))), (4, 1))

    def test_a_dry_run_changes_nothing(self):
        before = self.dump("dlq")
        done = self.ctl("redrive", self.queue, code=REFUSED)
        self.assertRegex(done.stdout, r"would redrive 5 messages, \d+ bytes")
        self.assertIn("--execute", done.stderr)
        self.assertIn("would discard 5", self.ctl("discard", self.queue, "--because", "x", code=REFUSED).stdout)
        after = self.dump("dlq")
        for rows in (before, after):
            for row in rows:
                for column in list(row):
                    if column.endswith("_seconds"):
                        del row[column]
        self.assertEqual(before, after)
        self.assertEqual(self.consume("g").stdout, "")

    def test_filters_count_what_matches(self):
        fingerprint = self.dump("dlq-summary")[0]["fingerprint"]
        one = self.open_ids(group="g")[0]
        for arguments, count in (
            (["--group", "g"], 4),
            (["-g", "h"], 1),
            (["--reason", "rejected"], 4),
            (["--reason", "max_deliveries"], 1),
            (["--code", "exit_9"], 1),
            (["--key", "a"], 2),
            (["--key", "a", "--code", "exit_9"], 0),
            (["--id", str(one)], 1),
            (["--max", "2"], 2),
            (["--max", "0"], 0),
            (["--code", "nothing_of_the_kind"], 0),
            (["--fingerprint", "0"], 0),
        ):
            done = self.ctl("redrive", self.queue, *arguments, code=REFUSED if count else OK)
            self.assertIn(f"would redrive {count} message", done.stdout, arguments)
        self.assertNotIn(" 0 messages", self.ctl("redrive", self.queue, "--fingerprint", fingerprint, code=REFUSED).stdout)

    def test_max_counts_open_ones_only(self):
        second = self.open_ids()[1]
        self.ctl("discard", self.queue, "--id", str(second), "--because", "test", "--execute")
        self.assertIn("would redrive 2 messages", self.ctl("redrive", self.queue, "--max", "2", code=REFUSED).stdout)

    def test_bad_filters(self):
        for arguments in (["--reason", "because"], ["--id", "x"], ["--fingerprint", "xyz"], ["--max", "-1"]):
            self.ctl("redrive", self.queue, *arguments, code=USAGE)
        for name in ("--group", "--code", "--key"):  # an empty one would choose all
            self.assertIn("empty", self.ctl("redrive", self.queue, name, "", "--execute", code=USAGE).stderr)
        self.ctl("discard", self.queue, "--execute", code=USAGE)
        self.ctl("discard", self.queue, "--because", "", "--execute", code=USAGE)

    def test_what_is_named_must_be_there(self):
        for command in (["redrive"], ["discard", "--because", "x"]):
            for execute in ([], ["--execute"]):
                done = self.ctl(*command, self.queue, "--id", "999999", *execute, code=NOT_FOUND)
                self.assertIn("not_found", done.stderr)
                done = self.ctl(*command, self.queue, "--group", "nobody", *execute, code=NOT_FOUND)
                self.assertIn("no_such_group: there is no group nobody", done.stderr)
                self.assertEqual(done.stdout, "")
        self.ctl("groups-create", self.queue, "--group", "no-dead-letters")
        self.assertIn(" 0 messages", self.ctl("redrive", self.queue, "--group", "no-dead-letters").stdout)

    def test_nothing_to_do_is_no_refusal(self):
        for command in (["redrive"], ["discard", "--because", "x"]):
            for execute in ([], ["--execute"]):
                done = self.ctl(*command, self.queue, "--code", "nothing_of_the_kind", *execute)
                self.assertIn(" 0 messages", done.stdout)
                self.assertEqual(done.stderr, "")
            self.assertIn("the exit code is 5 if there is something to do", self.ctl(command[0], "--help").stdout)

    def test_redrive(self):
        done = self.ctl("redrive", self.queue, "--reason", "rejected", "--execute")
        self.assertIn("redrove 4 messages", done.stdout)
        # Only to the group that failed, as new messages that know their history.
        look = 'echo "$RONDO_KEY $RONDO_DELIVERY_COUNT $RONDO_REDRIVE_COUNT $(cat)"'
        self.assertEqual(self.consume("g", "--exec", look).stdout, "a 1 1 one\na 1 1 two\nb 1 1 three\n")
        self.assertEqual(self.consume("h", "--exec", look).stdout, "b 1 1 three\n")
        self.assertEqual(len(self.open_ids()), 1)
        self.assertIn(" 1 message,", self.ctl("redrive", self.queue, "--execute").stdout)
        self.assertIn(" 0 messages", self.ctl("redrive", self.queue, "--execute").stdout)

    def test_redrive_of_one(self):
        one = self.open_ids(group="g", key="b")[0]
        self.ctl("redrive", self.queue, "--id", str(one), "--execute")
        self.assertEqual(self.consume("g").stdout, "three\n")
        self.assertNotIn(one, self.open_ids())

    def test_a_redriven_message_may_die_again(self):
        self.ctl("redrive", self.queue, "--code", "exit_9", "--execute")
        self.consume("g", "--exec", "exit 65")
        self.assertEqual(len(self.open_ids()), 5)
        self.assertEqual(max(row["redrives"] for row in self.dump("dlq")), 1)

    def test_who_closed_it_when_and_why(self):
        first, second = self.open_ids(group="g")[:2]
        self.ctl("discard", self.queue, "--id", str(first), "--because", "customer cancelled", "--execute")
        self.ctl("redrive", self.queue, "--id", str(second), "--execute")
        for dlq_id, state, note in ((first, "discarded", "customer cancelled"), (second, "redriven", None)):
            row = self.dump("dlq", str(dlq_id))[0]
            self.assertEqual((row["state"], row["state_by"], row["state_note"]), (state, "ring-ctl", note))
            self.assertGreaterEqual(row["state_at"], row["dead_lettered_at"])
            self.assertEqual([r["dlq_id"] for r in self.dump("dlq", "--state", state)], [dlq_id])
        self.assertEqual([r["dlq_id"] for r in self.dump("dlq", "--state", "open")], self.open_ids())

    def test_discard(self):
        done = self.ctl("discard", self.queue, "--key", "a", "--because", "customer cancelled", "--execute")
        self.assertIn("discarded 2 messages", done.stdout)
        self.assertEqual(len(self.open_ids()), 3)
        self.assertEqual(self.consume("g").stdout, "")
        self.ctl("redrive", self.queue, "--key", "a", "--execute")
        self.assertEqual(self.consume("g").stdout, "")

    def test_a_group_that_is_gone_is_skipped(self):
        self.ctl("groups-delete", self.queue, "--group", "h", "--execute")
        done = self.ctl("redrive", self.queue, "--execute", code=6)
        self.assertIn("redrove 4 messages", done.stdout)
        self.assertIn("1 skipped", done.stdout)
        # Its dead letters still have its name.
        self.assertIn("discard 1 message,", self.ctl("discard", self.queue, "-g", "h", "--because", "x", code=REFUSED).stdout)
        self.assertIn(" 0 messages", self.ctl("redrive", self.queue, "-g", "h", "--code", "nothing_of_the_kind").stdout)


if __name__ == "__main__":
    main()
