# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 120
"""Every view of a quiet queue, as text and as JSON, against files; what options do; what is refused."""

import csv
import io
import json
import os
import re

from ring_dump_lib import DAMAGE, FORMS, NOT_FOUND, OK, USAGE, VIEWS, RingDumpTest, main
from waiting_lib import eventually


class Quiet(RingDumpTest):
    """A queue with something of everything, and nobody in it."""

    def setUp(self):
        super().setUp()
        self.create()
        group = ("--group", "billing", "--max-deliveries", "2", "--backoff-initial", "1ms", "--jitter", "none")
        self.ctl("groups-create", self.queue, *group)
        self.ctl("groups-create", self.queue, "--group", "ship", "--mode", "exclusive", "--backoff-initial", "1h")
        # Holds everything back: when the floor moves is otherwise a matter of time.
        self.ctl("groups-create", self.queue, "--group", "audit")
        self.ctl("publish", self.queue, "--key", "k-1", stdin="one\ntwo\n")
        self.ctl("publish", self.queue, "--key", "k-2", "--header", "trace=abc", stdin="three\n")
        self.ctl("publish", self.queue, stdin="x" * 200 + "\n")
        run = ("consume", self.queue, "--idle-exit", "0.2", "--group")
        self.ctl(*run, "billing", "--count", "1", "--exec", "echo no such customer >&2; exit 65")
        self.ctl(*run, "billing", "--count", "2")
        self.ctl(*run, "billing", "--exec", "echo timeout >&2; exit 9")  # twice: dead as well
        self.ctl(*run, "ship", "--count", "1")
        self.ctl(*run, "ship", "--count", "1", "--exec", "exit 3")

    def test_text(self):
        for view in VIEWS:
            with self.subTest(view=view):
                self.golden(f"{view}.txt", self.masked(self.dump(view)))
        first = self.rows("dlq")[0]["dlq_id"]
        self.golden("dlq-entry.txt", self.masked(self.dump("dlq", first, "--payload", "text")))

    def test_json(self):
        for view in VIEWS:
            with self.subTest(view=view):
                text = json.dumps(self.json(view), indent=1)
                self.golden(f"{view}.json", self.masked(text))

    def test_numbers_agree_in_every_form(self):
        for view in VIEWS:
            with self.subTest(view=view):
                document = self.json(view)
                self.assertEqual(document["rondo"]["format"], 1)
                self.assertEqual((document["view"], document["queue"]), (view, str(self.queue)))
                self.assertIs(document["live"], False)
                lines = [json.loads(line) for line in self.dump(view, "-o", "jsonl").splitlines()]
                table = list(csv.DictReader(io.StringIO(self.dump(view, "-o", "csv"))))
                self.assertEqual(len(lines), len(document["rows"]))
                self.assertEqual(len(table), len(lines))
                for row, line, fields in zip(document["rows"], lines, table):
                    steady = [key for key in row if not key.endswith("_seconds")]
                    self.assertEqual([row[key] for key in steady], [line[key] for key in steady])
                    self.assertEqual(list(fields), list(row))
                    for key in steady:
                        if isinstance(row[key], int) and not isinstance(row[key], bool):
                            self.assertEqual(fields[key], str(row[key]))

    def test_the_counts_are_right(self):
        rows = {row["group"]: row for row in self.rows("groups")}
        billing, ship = rows["billing"], rows["ship"]
        self.assertEqual((billing["lag"], billing["ready"], billing["dead"]), (0, 0, 2))
        self.assertEqual((ship["lag"], ship["ready"], ship["sched_retry"]), (3, 2, 1))
        self.assertEqual(ship["blocked_by"], "retry")
        self.assertEqual((rows["audit"]["lag"], rows["audit"]["state"]), (4, "empty-no-members"))
        for row in rows.values():
            self.assertEqual(row["lag"], row["ready"] + row["in_flight"] + row["sched_retry"] + row["dead_pending"])
        summary = self.rows("dlq-summary")
        self.assertEqual(sorted(row["reason"] for row in summary), ["max_deliveries", "rejected"])
        self.assertEqual([row["count"] for row in summary], [1, 1])
        scheduled = self.rows("scheduled")
        self.assertEqual([(row["group"], row["deliveries"], row["last_error_code"]) for row in scheduled], [("ship", 1, "exit_3")])
        self.assertGreater(scheduled[0]["due_in_seconds"], 1000)

    def test_one_dead_letter_tells_all(self):
        for row in self.rows("dlq"):
            entry = self.rows("dlq", row["dlq_id"], "--payload", "text")[0]
            self.assertEqual(entry["fingerprint"], row["fingerprint"])
            self.assertEqual(entry["group"], "billing")
            self.assertEqual(len(entry["attempts"]), entry["delivery_count"])
            self.assertEqual(entry["payload_bytes"], row["bytes"])
            self.assertIs(entry["payload_damaged"], False)
        self.assertEqual(self.rows("dlq", self.rows("dlq")[0]["dlq_id"], "--payload", "text")[0]["payload"], "one")

    def test_filters(self):
        self.assertEqual([row["key"] for row in self.rows("records", "--key", "k-1")], ["k-1", "k-1"])
        seqs = [row["seq"] for row in self.rows("records")]
        self.assertEqual([row["seq"] for row in self.rows("records", "--seq", f"{seqs[1]}..{seqs[2]}")], seqs[1:3])
        self.assertEqual([row["seq"] for row in self.rows("records", "--seq", f"{seqs[1]}..")], seqs[1:])
        self.assertEqual([row["seq"] for row in self.rows("records", "--seq", str(seqs[0]))], seqs[:1])
        self.assertEqual(len(self.rows("records", "--limit", "2")), 2)
        self.assertIn("more records", self.run_dump("records", "--limit", "2").stderr.decode())
        self.assertEqual(len(self.rows("records", "--limit", "0")), len(seqs))
        self.assertEqual([row["group"] for row in self.rows("groups", "-g", "ship")], ["ship"])
        self.assertEqual(self.rows("dlq", "-g", "audit"), [])
        self.assertEqual(self.rows("dlq-summary", "-g", "audit"), [])

    def test_payloads_are_shown_when_asked_for_only(self):
        self.assertNotIn("payload", self.rows("records")[0])
        self.assertEqual(self.rows("records", "--payload", "text")[0]["payload"], "one")
        self.assertEqual(self.rows("records", "--payload", "hex")[0]["payload"], "6f6e65")
        self.assertEqual(self.rows("records", "--payload", "base64")[0]["payload"], "b25l")
        self.assertEqual(self.rows("records", "--payload", "text", "--max-payload", "2")[0]["payload"], "on")
        self.assertEqual(len(self.rows("records", "--payload", "text", "--max-payload", "0")[3]["payload"]), 200)
        self.assertNotIn("three", self.dump("records", "-o", "csv"))

    def test_headers_and_raw(self):
        self.assertNotIn("RING", self.dump("verify", "--no-headers"))
        self.assertFalse(self.dump("groups", "-o", "csv", "--no-headers").startswith("queue,"))
        self.assertRegex(self.dump("records", "--raw"), r"\s\d{19}\s")

    def test_a_ring_file_alone(self):
        dead = self.queue / "dead.ring"
        self.assertEqual([row["ring"] for row in self.rows(path=dead)], ["dead.ring"])
        self.assertEqual(len(self.rows("dlq", path=dead)), 2)
        self.assertEqual(len(self.rows("records", path=dead)), 2)
        self.assertEqual(len(self.rows("records", path=self.queue / "lane-00.ring")), 4)
        alone = self.home / "alone.ring"
        alone.write_bytes((self.queue / "lane-00.ring").read_bytes())
        self.assertIs(self.json(path=alone)["live"], False)
        row = next(row for row in self.rows("groups", path=alone) if row["group"] == "ship")
        self.assertEqual(row["lag"], 3)
        self.assertIsNone(row["dead"])
        self.error("dlq", code=NOT_FOUND, path=alone)

    def test_a_copied_directory(self):
        copy = self.home / "copy"
        copy.mkdir()
        for file in self.queue.iterdir():
            (copy / file.name).write_bytes(file.read_bytes())
        self.assertIn(": a copy", self.dump(path=copy))
        self.assertEqual(self.rows("groups", path=copy)[0]["lag"], self.rows("groups")[0]["lag"])
        self.dump("verify", path=copy)

    def test_a_symbolic_link_to_the_queue(self):
        link = self.home / "link"
        link.symlink_to(self.queue)
        self.assertEqual(len(self.rows(path=link)), 3)

    def test_wrong_use_is_a_usage_error(self):
        for arguments in (
            ("nonsense",),
            ("overview", "-o", "yaml"),
            ("--bad-option",),
            ("groups", "12"),
            ("dlq", "first"),
            ("records", "--seq", "9..3"),
            ("records", "--seq", "a..b"),
            ("records", "--limit", "-1"),
            ("records", "--payload", "xml"),
            ("records", "--max-payload", "1MB"),
            ("inflight", "--idle", "10"),
            ("inflight", "--idle", "-1s"),
            ("groups", "--idle", "1s"),
            ("producers", "-g", "billing"),
            ("overview", "--payload", "text"),
            ("records", "--limit", ""),
        ):
            with self.subTest(arguments=arguments):
                self.error(*arguments, code=USAGE)

    def test_sizes_and_durations(self):
        for text in ("0", "250us", "3ms", "1h30m", "2h5m3s", "forever", "1000000h"):
            self.dump("inflight", "--idle", text)
        for text in ("", "1", "1x", "1.5s", "1s1h", "1s1s", "s", "-1s", "1 s", "9999999999h", "99999999999999999999s"):
            self.error("inflight", f"--idle={text}", code=USAGE)
        for text in ("0", "17", "1KiB", "2MiB", "3GiB"):
            self.dump("records", "--payload", "hex", "--max-payload", text)
        for text in ("", "1MB", "1kib", "1.5MiB", "-1", "+1", "KiB", "0x10", "99999999999GiB", "99999999999999999999"):
            self.error("records", f"--max-payload={text}", code=USAGE)

    def test_keys_follow_the_rules(self):
        names = {"billing", "ship", "audit"}
        for view in (*VIEWS, "dlq-entry"):
            arguments = ("dlq", "0") if view == "dlq-entry" else (view,)
            for row in self.rows(*arguments):
                for key, value in row.items():
                    if key.removesuffix("_state") in names:
                        continue
                    self.assertRegex(key, r"^[a-z][a-z0-9_]*$")
                    if key.endswith("_at") or key in ("first_seen", "last_seen", "last_ack", "not_before"):
                        self.assertTrue(value is None or re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", value), key)
                    if key.endswith("_seconds"):
                        self.assertTrue(value is None or isinstance(value, float), key)
                    if key.endswith("bytes"):
                        self.assertIsInstance(value, int)
                    self.assertNotIn("head", key.split("_"))
                    self.assertNotEqual(key, "pending")

    def test_what_is_not_there(self):
        self.error("groups", "-g", "nobody", code=NOT_FOUND)
        self.error("groups", "-g", "", code=NOT_FOUND)
        for view in ("dlq", "dlq-summary", "records", "inflight", "scheduled", "consumers"):
            self.assertIn("no such group: nobody", self.error(view, "-g", "nobody", code=NOT_FOUND))
        self.error("dlq", "999999", code=NOT_FOUND)
        self.error(path=self.home / "nothing", code=NOT_FOUND)
        self.error(path=self.home, code=NOT_FOUND)  # a directory without a queue

    def test_help_and_version(self):
        text = self.dump("--help")
        self.assertIn("verify", text)
        self.assertRegex(text, r"--output table\|json\|jsonl\|csv\s+default table\n")
        self.assertRegex(text, r"--payload none\|text\|hex\|base64\s+default none\n")
        self.assertRegex(self.dump("--version"), r"^ring-dump \d+\.\d+\.\d+ \(format 1\)\n$")

    def test_a_mistake_is_told_by_name_in_one_line(self):
        for arguments, complaint in (
            (("--json",), "The following argument was not expected: --json"),
            (("-o", "xml"), "--output: 'xml': expected one of table, json, jsonl, csv"),
            (("records", "--payload", "xml"), "--payload: 'xml': expected one of none, text, hex, base64"),
            (("inflight", "--idle", "5"), "--idle: '5': a duration is"),
            (("dlq", "first"), "ID: 'first': not a whole number"),
            (("nonsense",), "no such view: nonsense"),
        ):
            errors = self.error(*arguments, code=USAGE)
            self.assertTrue(errors.startswith(f"ring-dump: {complaint}"), errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def test_a_deleted_group_is_known_by_its_dead_letters(self):
        self.ctl("groups-delete", self.queue, "--group", "billing", "--execute")
        self.error("groups", "-g", "billing", code=NOT_FOUND)
        self.assertEqual(len(self.rows("dlq", "-g", "billing")), 2)
        self.assertEqual(len(self.rows("dlq-summary", "-g", "billing")), 2)
        # dead.ring by itself does not know which groups there are.
        alone = self.home / "alone"
        alone.mkdir()
        (alone / "dead.ring").write_bytes((self.queue / "dead.ring").read_bytes())
        self.assertEqual(self.rows("dlq", "-g", "nobody", path=alone / "dead.ring"), [])

    def test_lists_in_csv(self):
        line = list(csv.DictReader(io.StringIO(self.dump("verify", "-o", "csv"))))[0]
        self.assertEqual((line["ring"], line["problem_count"], line["problems"]), ("lane-00.ring", "0", ""))
        with open(self.queue / "lane-00.ring", "r+b") as file:
            file.truncate(file.seek(0, io.SEEK_END) - 4096)
        row = self.rows("verify", code=DAMAGE)[0]
        line = list(csv.DictReader(io.StringIO(self.dump("verify", "-o", "csv", code=DAMAGE))))[0]
        self.assertGreater(len(row["problems"]), 0)
        self.assertEqual(line["problems"], "; ".join(row["problems"]))

    def test_a_full_disk_behind_the_output_is_told(self):
        with open("/dev/full", "wb") as full:
            import subprocess

            from ring_dump_lib import BIN, CANNOT_OPEN

            done = subprocess.run([BIN / "ring-dump", self.queue], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, CANNOT_OPEN)
        self.assertIn(b"cannot be written", done.stderr)


class Unfriendly(RingDumpTest):
    def test_control_characters_do_not_reach_the_terminal(self):
        self.create()
        self.ctl("publish", self.queue, "--key", "a\x1b[31m\x07b", stdin=b"\x1b]0;owned\x07 \xff\xfe \xc2\x9b \\ \xe2\x82\xac\n")
        text = self.dump("records", "--payload", "text")
        self.assertNotRegex(text, "[\x00-\x09\x0b-\x1f\x7f-\x9f]")
        self.assertIn(r"a\x1b[31m\x07b", text)
        self.assertIn(r"\x1b]0;owned\x07 \xff\xfe \xc2\x9b \\ €", text)
        row = self.rows("records", "--payload", "text")[0]
        self.assertEqual(row["key"], "a\x1b[31m\x07b")
        self.assertIn("\ufffd", row["payload"])
        self.assertEqual(self.rows("records", "--payload", "hex")[0]["payload"][:8], "1b5d303b")

    def test_a_queue_with_nothing_in_it(self):
        self.create()
        for view in VIEWS:
            for form in FORMS:
                self.dump(view, "-o", form)
        self.assertIn("no groups", self.dump("groups"))

    def test_a_closed_output_kills_quietly(self):
        self.create()
        import subprocess

        from ring_dump_lib import BIN

        done = subprocess.run(f"{BIN}/ring-dump {self.queue} records | true", shell=True, capture_output=True, check=False)
        self.assertEqual(done.stderr, b"")


class Options(RingDumpTest):
    """What a queue and its groups were made with is shown."""

    def test_of_groups(self):
        self.create()
        given = ["--lease-timeout", "5s", "--max-lease-total", "1m", "--max-deliveries", "7", "--backoff-initial", "10ms"]
        given += ["--backoff-multiplier", "1.25", "--backoff-max", "2s", "--jitter", "none", "--retry-max-age", "1h"]
        given += ["--max-in-flight", "10", "--max-in-flight-group", "100", "--max-dead-pending", "5", "--start", "seq:0"]
        self.ctl("groups-create", self.queue, "--group", "g", *given)
        self.ctl("groups-create", self.queue, "-g", "h", "--max-deliveries", "-1", "--retry-max-age", "forever", "--start", "latest")
        g, h = self.rows("groups")
        wanted = {
            "kind": "durable", "start": "seq:0", "lease_timeout_seconds": 5.0, "max_lease_total_seconds": 60.0,
            "max_deliveries": 7, "backoff_initial_seconds": 0.01, "backoff_multiplier": 1.25, "backoff_max_seconds": 2.0,
            "jitter": "none", "retry_max_age_seconds": 3600.0, "max_in_flight": 10, "max_in_flight_group": 100,
            "max_dead_pending": 5,
        }  # fmt: skip
        self.assertEqual({key: g[key] for key in wanted}, wanted)
        self.assertEqual((h["max_deliveries"], h["start"], h["jitter"], h["backoff_multiplier"]), (-1, "latest", "equal", 2.0))
        lines = dict(line.split(None, 1) for line in self.dump("groups", "-g", "g").splitlines()[3:])
        self.assertEqual((lines["lease_timeout"], lines["max_deliveries"], lines["start"]), ("5.0s", "7", "seq:0"))
        self.assertEqual((lines["backoff_multiplier"], lines["retry_max_age"]), ("1.25", "1h00m"))
        lines = dict(line.split(None, 1) for line in self.dump("groups", "-g", "h").splitlines()[3:])
        self.assertEqual((lines["max_deliveries"], lines["retry_max_age"]), ("-1", "forever"))
        self.assertNotIn("lease_timeout", self.dump("groups"))

    def test_of_the_queue(self):
        self.create(
            *("--producers one --max-record 8KiB --retry-capacity 1MiB --dead-capacity 2MiB --max-groups 3").split(),
            *("--checksum xxh3 --timestamps exact --overflow fail --file-mode 0640").split(),
        )
        found = self.json()["properties"]
        wanted = {
            "capacity_bytes": 256 << 10, "max_record_bytes": 8 << 10, "retry_capacity_bytes": 1 << 20,
            "dead_capacity_bytes": 2 << 20, "producers": "one", "durability": "none", "checksum": "xxh3",
            "timestamps": "exact", "overflow": "fail", "max_groups": 3, "participants": 0, "max_participants": 1023,
            "file_mode": "0640", "uid": os.geteuid(), "gid": os.getegid(),
        }  # fmt: skip
        self.assertEqual({key: found[key] for key in wanted}, wanted)
        text = self.dump()
        self.assertIn("retry 1.0MiB  dead 2.0MiB  max groups 3  participants 0 of 1023\n", text)
        self.assertIn("overflow fail  durability none  checksum xxh3  timestamps exact  files 0640, uid", text)
        self.assertEqual(self.json(path=self.queue / "dead.ring")["properties"]["overflow"], "fail")
        alone = self.home / "alone.ring"
        alone.write_bytes((self.queue / "dead.ring").read_bytes())
        self.assertNotIn("properties", self.json(path=alone))


class Verify(RingDumpTest):
    def test_checksums_are_counted_once_a_record(self):
        for checksum, of_main in (("none", 0), ("xxh3", 4)):
            with self.subTest(checksum=checksum):
                self.queue = self.home / checksum
                self.create("--checksum", checksum, "--group", "g")
                self.ctl("groups-create", self.queue, "--group", "keeper")
                self.ctl("publish", self.queue, stdin="a\nb\nc\nd\n")
                self.ctl("consume", self.queue, "--group", "g", "--count", "4", "--exec", "exit 65")
                rows = {row["ring"]: row for row in self.rows("verify")}
                main, dead = rows["lane-00.ring"], rows["dead.ring"]
                self.assertEqual((main["records"], main["crc_checked"]), (4, of_main))
                self.assertEqual((dead["records"], dead["crc_checked"]), (4, 4))  # entries have their own


class InUse(RingDumpTest):
    def holding(self, mode):
        """A consumer that holds a message for as long as the test lasts."""
        self.create()
        self.ctl("publish", self.queue, "--key", "k", stdin="a\nb\nc\n")
        process = self.start("consume", self.queue, "--group", "g", "--mode", mode, "--name", "worker", "--exec", "sleep 1000")
        rows = eventually(lambda: self.rows("inflight"), "a message in flight")
        return process, rows

    def test_who_has_which_message(self):
        for mode in ("shared", "exclusive"):
            with self.subTest(mode=mode):
                self.queue = self.home / mode
                process, rows = self.holding(mode)
                self.assertEqual(len(rows), 1)
                row = rows[0]
                self.assertEqual((row["seq"], row["key"], row["consumer"], row["pid"]), (0, "k", "worker", process.pid))
                self.assertEqual(row["participant"], 1)
                self.assertEqual((row["alive"], row["deliveries"], row["handed_over"]), ("running", 1, True))
                self.assertEqual(row["group"], "g")
                if mode == "shared":
                    self.assertGreaterEqual(row["leased_age_seconds"], 0)
                    self.assertLess(row["lease_left_seconds"], 30.1)
                self.assertIs(self.json()["live"], True)
                blocker = self.json()["blockers"][0]
                self.assertEqual((blocker["group"], blocker["name"], blocker["pid"]), ("g", "worker", process.pid))
                consumer = self.rows("consumers")[0]
                self.assertEqual((consumer["consumer"], consumer["in_flight"], consumer["alive"]), ("worker", 1, "running"))
                group = self.rows("groups")[0]
                self.assertEqual((group["state"], group["members"], group["in_flight"]), ("active", 1, 1))
                self.assertIn(f"worker (pid {process.pid}, running)", group["blocked_by"])

    def test_idle_shows_old_leases_only(self):
        self.holding("shared")
        self.assertEqual(self.rows("inflight", "--idle", "1h"), [])
        self.assertEqual(len(self.rows("inflight", "--idle", "0")), 1)

    def test_a_stopped_process_is_called_stopped_and_a_killed_one_dead(self):
        process, _ = self.holding("exclusive")
        process.send_signal(19)  # SIGSTOP
        eventually(lambda: self.rows("inflight")[0]["alive"] == "stopped", "stopped")
        self.assertEqual(self.json()["blockers"][0]["process"], "stopped")
        self.assertRegex(self.rows("groups")[0]["blocked_by"], "stopped")
        process.kill()
        process.wait()
        eventually(lambda: self.rows("inflight")[0]["alive"] == "dead", "dead")
        self.assertIs(self.json()["live"], False)
        self.assertEqual(self.rows("groups")[0]["members"], 0)

    def test_numbers_in_text_and_json_agree(self):
        self.holding("shared")
        text = self.dump("groups", "--no-headers")
        row = self.rows("groups")[0]
        self.assertRegex(text, re.compile(rf"g +active +shared +1 +{row['ack_floor']} +{row['tail_seq']} +{row['lag']} "))


if __name__ == "__main__":
    assert OK == 0
    main()
