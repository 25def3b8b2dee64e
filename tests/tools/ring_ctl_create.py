# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""ring-ctl create and destroy: options, sizes, refusals, dry runs; usage errors of all commands."""

import os
import pathlib
import shutil
import signal
import stat
import subprocess

from ring_ctl_lib import BIN, CANNOT_OPEN, NOT_FOUND, OK, REFUSED, USAGE, RingCtlTest, main
from waiting_lib import eventually


class Usage(RingCtlTest):
    def test_help_and_version_are_no_errors(self):
        self.assertIn("Exit codes", self.ctl("--help").stdout)
        for command in ("create publish consume redrive discard destroy groups-create groups-delete fence").split():
            text = self.ctl(command, "--help").stdout
            self.assertIn("DIR", text)
            self.assertIn("Exit codes: 0 done", text)
        self.assertRegex(self.ctl("--version").stdout, r"^ring-ctl \d+\.\d+\.\d+ \(format 1\)\n$")

    def test_one_name_for_one_thing(self):
        for command in ("create", "consume", "groups-create"):
            self.assertIn("--mode shared|exclusive", self.ctl(command, "--help").stdout)
        for command in ("create", "consume", "groups-create", "groups-delete", "redrive", "discard"):
            self.assertIn("-g,--group NAME", self.ctl(command, "--help").stdout)

    def test_help_offers_what_is_taken(self):
        text = self.ctl("create", "--help").stdout
        for option, later in (
            ("--overflow block|fail ", "drop_newest, drop_oldest"),
            ("--durability none ", "durable"),
            ("--kind durable ", "lossy"),
        ):
            line = next(line for line in text.splitlines() if option in line)
            self.assertIn(f"(not supported yet: {later})", line)
        self.assertRegex(text, r"--ring-dir PATH .*\(not supported yet\)")
        text = self.ctl("publish", "--help").stdout
        self.assertRegex(text, r"--confirm accepted .*\(not supported yet: durable, settled\)")
        self.assertRegex(text, r"--delay TIME .*\(not supported yet\)")

    def test_a_mistake_is_told_by_name_in_one_line(self):
        for arguments, complaint in (
            (["create", self.queue, "--nonsense"], "The following argument was not expected: --nonsense"),
            (["create", self.queue, "--overflow", "explode"], "--overflow: 'explode': expected one of block, fail"),
            (["create", self.queue, "--kind", "x"], "--kind: 'x': expected one of durable"),
            (["create", self.queue, "--capacity", "64MB"], "--capacity: '64MB': a size is"),
        ):
            errors = self.ctl(*arguments, code=USAGE).stderr
            self.assertTrue(errors.startswith(f"ring-ctl: {complaint}"), errors)
            self.assertEqual(errors.count("\n"), 1, errors)

    def test_what_is_not_understood_is_a_usage_error(self):
        for arguments in (
            [],
            ["explode"],
            ["create"],
            ["create", self.queue, "--nonsense"],
            ["consume", self.queue],
            ["groups-create", self.queue],
            ["groups-delete", self.queue],
            ["discard", self.queue],
            ["fence", self.queue],
            ["fence", self.queue, "--participant", "-1"],
            ["publish", self.queue, "extra"],
        ):
            self.ctl(*arguments, code=USAGE)

    def test_a_queue_that_is_not_there_is_not_found(self):
        for arguments in (
            ["publish", self.queue],
            ["consume", self.queue, "--group", "g"],
            ["redrive", self.queue],
            ["discard", self.queue, "--because", "test"],
            ["destroy", self.queue],
            ["destroy", self.queue, "--execute"],
            ["groups-create", self.queue, "--group", "g"],
            ["groups-delete", self.queue, "--group", "g"],
            ["fence", self.queue, "--participant", "1"],
        ):
            self.assertIn("not_found", self.ctl(*arguments, code=NOT_FOUND).stderr)
        os.mkdir(self.queue)  # a directory without a queue
        self.ctl("publish", self.queue, code=NOT_FOUND)
        self.ctl("destroy", self.queue, code=NOT_FOUND)

    def test_what_is_no_queue_cannot_be_opened(self):
        file = self.home / "file"
        file.write_text("text")
        self.ctl("publish", file, code=CANNOT_OPEN)
        self.create()
        os.symlink(self.queue, self.home / "link")
        self.ctl("publish", self.home / "link", code=CANNOT_OPEN)


class Create(RingCtlTest):
    def test_sizes(self):
        good = {"262144": 262144, "256KiB": 262144, "1MiB": 1 << 20, "300000": 524288, "65MiB": 128 << 20}
        for text, capacity in good.items():
            self.assertIn(f"{capacity} bytes", self.ctl("create", self.queue, "--capacity", text).stdout)
            self.ctl("destroy", self.queue, "--execute")
        bad = (
            ["0", "-1", "+262144", "64MB", "64kB", "64K", "64M", "1TiB", "64mib", "1.5MiB", "0x40000", "1e6", "", " 262144"]
            + ["262144 ", "64 MiB", "KiB", "9223372036854775808", "18446744073709551616", "17179869184GiB", "1000GiBB"]
            + ["262143", "2048GiB"]
        )
        for text in bad:
            self.assertTrue(self.ctl("create", self.queue, "--capacity", text, code=USAGE).stderr)
            self.assertFalse(os.path.exists(self.queue), text)

    def test_a_size_that_is_no_power_of_two_is_rounded_up(self):
        self.assertIn("524288 bytes", self.ctl("create", self.queue, "--capacity", "262145").stdout)

    def test_every_option_reaches_the_queue(self):
        self.create(
            *("--producers one --max-record 4KiB --dead-capacity 1MiB --retry-capacity 1MiB --max-groups 2").split(),
            *("--checksum xxh3 --timestamps exact --overflow fail --file-mode 0640 --durability none").split(),
            *("--group jobs --mode exclusive --max-deliveries 3").split(),
        )
        files = [entry for entry in pathlib.Path(self.queue).iterdir() if entry.suffix == ".ring"]
        self.assertGreaterEqual(len(files), 3)
        for file in files:
            self.assertEqual(stat.S_IMODE(file.stat().st_mode), 0o640, file)
        self.assertEqual(self.group_row("jobs")["mode"], "exclusive")
        # max-deliveries is stored: a difference is refused, the same value is not.
        self.ctl("consume", self.queue, "--group", "jobs", "--max-deliveries", "4", "--count", "0", code=REFUSED)
        self.ctl("consume", self.queue, "--group", "jobs", "--max-deliveries", "3", "--count", "0")
        self.ctl("groups-create", self.queue, "--group", "second")
        self.ctl("groups-create", self.queue, "--group", "third", code=REFUSED)

    def test_bad_options_leave_nothing_behind(self):
        for arguments in (
            ["--max-record", "255"],
            ["--max-record", "0"],
            ["--capacity", "256KiB", "--max-record", "33KiB"],
            ["--max-groups", "0"],
            ["--max-groups", "65"],
            ["--dead-capacity", "4096"],
            ["--retry-capacity", "4096"],
            ["--file-mode", "0644"],
            ["--file-mode", "0666"],
            ["--file-mode", "rw"],
            ["--producers", "two"],
            ["--overflow", "drop_oldest"],
            ["--overflow", "drop_newest"],
            ["--durability", "durable"],
            ["--ring-dir", "/dev/shm"],
            ["--checksum", "crc"],
            ["--timestamps", "fine"],
            ["--max-deliveries", "3"],  # whose?
            ["--mode", "shared"],
            ["--kind", "lossy"],
            ["--start", "latest"],
            ["--gid", "-1"],
            ["--group", "g", "--max-deliveries", "0"],
        ):
            self.assertTrue(self.ctl("create", self.queue, *arguments, code=USAGE).stderr)
            # The last one fails after the queue was made.
            if "--group" not in arguments:
                self.assertFalse(os.path.exists(self.queue), arguments)

    def test_what_is_not_offered_yet_says_so(self):
        for arguments in (["--durability", "durable"], ["--ring-dir", "/dev/shm"], ["--overflow", "drop_oldest"],
                          ["--group", "g", "--kind", "lossy"]):  # fmt: skip
            self.assertIn("not_supported", self.ctl("create", self.queue, *arguments, code=USAGE).stderr)

    def test_an_existing_queue_is_not_replaced(self):
        self.create()
        self.publish("kept\n")
        self.assertIn("exists", self.ctl("create", self.queue, code=REFUSED).stderr)
        self.assertEqual(self.consume("g").stdout, "kept\n")

    def test_of_many_at_once_one_makes_it(self):
        processes = [self.start("create", self.queue, "--capacity", "256KiB") for _ in range(8)]
        codes = sorted(process.wait() for process in processes)
        self.assertEqual(codes, [OK] + [REFUSED] * 7)
        self.publish("x\n")
        processes = [self.start("groups-create", self.queue, "--group", "g", "--max-deliveries", str(n)) for n in range(1, 9)]
        codes = sorted(process.wait() for process in processes)
        self.assertEqual(codes, [OK] + [REFUSED] * 7)
        self.assertEqual(self.consume("g").stdout, "x\n")

    def test_a_copy_of_a_queue_in_use_is_refused(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        self.publish("x\n")
        self.assertEqual(reader.stdout.readline(), b"x\n")
        shutil.copytree(self.queue, self.queue + "-copy")
        self.assertIn("busy", self.ctl("publish", self.queue + "-copy", code=REFUSED).stderr)
        self.publish("y\n")
        self.assertEqual(reader.stdout.readline(), b"y\n")

    def test_a_queue_whose_files_were_removed_is_gone_for_newcomers_only(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        self.publish("x\n")
        self.assertEqual(reader.stdout.readline(), b"x\n")
        shutil.rmtree(self.queue)
        self.ctl("publish", self.queue, code=NOT_FOUND)
        self.create()
        self.publish("y\n")
        self.assertEqual(self.consume("g").stdout, "y\n")
        reader.send_signal(signal.SIGTERM)
        self.assertEqual(self.finish(reader)[0], b"")

    def test_places_where_no_queue_can_be(self):
        file = self.home / "file"
        file.write_text("text")
        self.ctl("create", file, code=USAGE)
        (self.home / "real").mkdir()
        os.symlink(self.home / "real", self.home / "link")
        self.ctl("create", self.home / "link", code=USAGE)
        self.ctl("create", self.home / "no" / "such" / "parent", code=NOT_FOUND)
        self.ctl("create", self.home / ("x" * 4096), code=USAGE)
        self.ctl("create", "", code=USAGE)
        open_to_all = self.home / "open"
        open_to_all.mkdir()
        open_to_all.chmod(0o777)
        self.assertTrue(self.ctl("create", open_to_all, code=CANNOT_OPEN).stderr)

    def test_more_than_there_is(self):
        self.assertIn("no_space", self.ctl("create", self.queue, "--capacity", "1024GiB", code=CANNOT_OPEN).stderr)
        self.assertFalse(os.path.exists(self.queue))

    def test_a_file_size_limit_is_no_space_and_no_signal(self):
        command = ["bash", "-c", 'ulimit -f 64; exec "$@"', "bash", BIN / "ring-ctl", "create", self.queue]
        done = subprocess.run(command, capture_output=True, check=False)
        self.assertEqual(done.returncode, CANNOT_OPEN, done.stderr)
        self.assertIn(b"no_space", done.stderr)


class Destroy(RingCtlTest):
    def test_is_a_dry_run_unless_told(self):
        self.create()
        done = self.ctl("destroy", self.queue, code=REFUSED)
        self.assertIn("would destroy", done.stdout)
        self.assertIn("--execute", done.stderr)
        self.publish("still there\n")
        self.assertEqual(f"destroyed {self.queue}\n", self.ctl("destroy", self.queue, "--execute").stdout)
        self.ctl("publish", self.queue, code=NOT_FOUND)
        self.assertEqual(list(self.home.glob("queue/*")), [])

    def test_a_directory_with_other_files_stays_and_that_is_told(self):
        self.create()
        own = len(os.listdir(self.queue))
        notes = pathlib.Path(self.queue) / "notes\x1b.txt"
        notes.write_text("not of the queue")
        dry = self.ctl("destroy", self.queue, code=REFUSED).stdout
        self.assertIn(f": {own} files, ", dry)
        self.assertIn("the directory would stay: 1 other file in it (notes\\x1b.txt)\n", dry)
        done = self.ctl("destroy", self.queue, "--execute").stdout
        self.assertIn("the directory stays: there is 1 other file in it (notes\\x1b.txt)\n", done)
        self.assertEqual(os.listdir(self.queue), [notes.name])

    def test_a_directory_that_cannot_be_removed_is_told(self):
        self.create()
        done = self.ctl("destroy", ".", "--execute", cwd=self.queue).stdout  # rmdir refuses this name
        self.assertIn("the directory stays: it is empty, but cannot be removed\n", done)

    def test_is_refused_while_somebody_has_it_open(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        self.wait_for_consumer()
        done = self.ctl("destroy", self.queue, code=REFUSED)
        self.assertIn(f"process {reader.pid} (ring-ctl), uid {os.geteuid()}, running\n", done.stdout)
        self.assertIn("--force", done.stderr)
        self.assertIn("busy", self.ctl("destroy", self.queue, "--execute", code=REFUSED).stderr)
        self.publish("x\n")
        self.assertEqual(reader.stdout.readline(), b"x\n")
        self.ctl("destroy", self.queue, "--execute", "--force")
        self.assertIn("closed", self.finish(reader, code=7)[1])

    def test_the_dead_do_not_count(self):
        self.create()
        reader = self.start("consume", self.queue, "--group", "g")
        self.wait_for_consumer()
        reader.send_signal(signal.SIGKILL)
        reader.wait()
        self.ctl("destroy", self.queue, "--execute")

    def wait_for_consumer(self):
        eventually(lambda: self.dump("consumers"), "a consumer")


if __name__ == "__main__":
    main()
