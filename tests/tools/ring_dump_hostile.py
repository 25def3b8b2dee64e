# SPDX-License-Identifier: MIT
# Copyright the rondo authors
# ctest: TIMEOUT 300
"""ring-dump on files that are cut, zeroed, flipped, foreign or of another version: a clear error or a partial answer,
never a crash, never a hang, and no byte changed."""

import os
import random
import shutil
import struct
import time

from ring_dump_lib import CANNOT_OPEN, DAMAGE, NOT_FOUND, OK, USAGE, VIEWS, RingDumpTest, main

FLIPS = 2000
PAGE = 4096
MAIN = "lane-00.ring"


class Hostile(RingDumpTest):
    def setUp(self):
        super().setUp()
        self.create("--checksum", "xxh3")
        self.ctl("groups-create", self.queue, "--group", "shared", "--backoff-initial", "1h", "--max-deliveries", "2")
        self.ctl("groups-create", self.queue, "--group", "ordered", "--mode", "exclusive")
        for i in range(40):
            self.ctl("publish", self.queue, "--key", f"k{i}", stdin="m" * (i * 37) + "\n")
        run = ("consume", self.queue, "--idle-exit", "0.2", "--group")
        self.ctl(*run, "shared", "--count", "10", "--exec", "exit 65")
        self.ctl(*run, "shared", "--count", "5", "--exec", "exit 1")
        self.ctl(*run, "shared", "--count", "5")
        self.ctl(*run, "ordered", "--count", "7")
        seed = int(os.environ.get("RONDO_SEED", "0")) or random.SystemRandom().getrandbits(32)
        print(f"seed: RONDO_SEED={seed}")
        self.random = random.Random(seed)
        self.names = [file.name for file in sorted(self.queue.iterdir())]
        self.content = {name: (self.queue / name).read_bytes() for name in self.names}

    def run_dump(self, *arguments, **options):
        done = super().run_dump(*arguments, **options)
        self.assertNotEqual(done.returncode, USAGE, done.stderr)  # also how a sanitizer ends a program
        return done

    def restore(self, name):
        (self.queue / name).write_bytes(self.content[name])

    def test_the_queue_is_sound_to_begin_with(self):
        for view in VIEWS:
            self.dump(view)

    def test_cut_at_any_length(self):
        for name in self.names:
            whole = len(self.content[name])
            lengths = {0, 1, 8, 71, 72, 359, 360, 361, PAGE - 1, PAGE, PAGE + 1, whole - 1, whole - 64, whole - PAGE}
            lengths |= {self.random.randrange(whole) for _ in range(15)}
            lengths |= {self.random.randrange(whole) // PAGE * PAGE for _ in range(15)}
            for length in sorted(lengths):
                with self.subTest(name=name, length=length):
                    os.truncate(self.queue / name, length)
                    before = self.hashes()
                    expected = CANNOT_OPEN if name == MAIN and length < PAGE // 4 else DAMAGE
                    done = self.run_dump("verify")
                    if length < 360 and name == MAIN:
                        self.assertEqual(done.returncode, CANNOT_OPEN)
                    else:
                        self.assertIn(done.returncode, (expected, CANNOT_OPEN, DAMAGE))
                        self.assertNotEqual(done.returncode, OK)
                    self.assertIn(name, (done.stdout + done.stderr).decode())
                    self.run_dump(self.random.choice(VIEWS))
                    self.assertEqual(self.hashes(), before)
                    self.restore(name)

    def test_pages_of_zeros(self):
        for name in self.names:
            pages = len(self.content[name]) // PAGE
            wanted = {0, 1, 2, pages - 1} | {self.random.randrange(pages) for _ in range(20)}
            for page in sorted(wanted):
                with self.subTest(name=name, page=page):
                    with open(self.queue / name, "r+b", buffering=0) as file:
                        file.seek(page * PAGE)
                        file.write(bytes(PAGE))
                    for view in ("verify", self.random.choice(VIEWS)):
                        self.run_dump(view)
                    self.restore(name)
            (self.queue / name).write_bytes(bytes(len(self.content[name])))
            with self.subTest(name=name, page="all"):
                done = self.run_dump("verify")
                self.assertEqual(done.returncode, CANNOT_OPEN if name == MAIN else DAMAGE)
            self.restore(name)

    def test_flipped_bits(self):
        hits = 0
        slowest = 0.0
        # Nine of ten flips near something that is not zero: most of a young queue is.
        used = {name: [at for at, byte in enumerate(content) if byte] for name, content in self.content.items()}

        def spot(name):
            size = len(self.content[name])
            at = self.random.randrange(size) if self.random.random() < 0.1 else self.random.choice(used[name])
            return min(size - 1, max(0, at + self.random.randrange(-8, 9))), 1 << self.random.randrange(8)

        for _ in range(FLIPS):
            name = self.random.choice(self.names)
            spots = [spot(name) for _ in range(self.random.choice((1, 1, 3, 10)))]
            with open(self.queue / name, "r+b", buffering=0) as file:
                for at, bit in spots:
                    file.seek(at)
                    file.write(bytes([self.content[name][at] ^ bit]))
                started = time.monotonic()
                done = self.run_dump(self.random.choice(VIEWS), "-o", self.random.choice(("table", "json", "csv")))
                slowest = max(slowest, time.monotonic() - started)
                hits += done.returncode != OK
                for at, _ in spots:
                    file.seek(at)
                    file.write(self.content[name][at : at + 1])
        print(f"{FLIPS} rounds, {hits} noticed, the slowest took {slowest * 1000:.0f} ms")
        self.assertGreater(hits, FLIPS // 20)
        self.assertEqual({name: (self.queue / name).read_bytes() for name in self.names}, self.content)

    def test_words_of_ones(self):
        """R84: 0xff in every offset, index and length of the header and the registry."""
        for name in self.names:
            words = [*range(0, 360, 8), *(self.random.randrange(len(self.content[name]) // 8) * 8 for _ in range(60))]
            for at in words:
                with self.subTest(name=name, at=at):
                    with open(self.queue / name, "r+b", buffering=0) as file:
                        file.seek(at)
                        file.write(b"\xff" * 8)
                        self.run_dump(self.random.choice(VIEWS))
                        done = self.run_dump("verify")
                        if at < 360 and name == MAIN:
                            self.assertEqual(done.returncode, CANNOT_OPEN)
                        file.seek(at)
                        file.write(self.content[name][at : at + 8])

    def test_a_payload_that_changed_is_found(self):
        records = self.rows("records")
        record = next(row for row in records if row["bytes"] > 1000)
        at = self.content[MAIN].index(b"m" * record["bytes"], len(self.content[MAIN]) // 8)
        with open(self.queue / MAIN, "r+b", buffering=0) as file:
            file.seek(at + 5)
            file.write(b"X")
        row = next(row for row in self.rows("verify", code=DAMAGE) if row["ring"] == MAIN)
        self.assertEqual((row["result"], row["bad"], row["first_bad_seq"]), ("damaged", 1, row["first_bad_seq"]))
        bad = [r["seq"] for r in self.rows("records", code=DAMAGE) if r["crc"] == "bad"]
        self.assertEqual(bad, [row["first_bad_seq"]])
        dead = next(row for row in self.rows("verify", code=DAMAGE) if row["ring"] == "dead.ring")
        self.assertEqual(dead["result"], "ok")

    def test_a_dead_letter_that_changed_is_found_and_the_others_shown(self):
        ids = [row["dlq_id"] for row in self.rows("dlq")]
        at = self.content["dead.ring"].index(b"RDLE", len(self.content["dead.ring"]) // 8)
        with open(self.queue / "dead.ring", "r+b", buffering=0) as file:
            file.seek(at + 100)
            file.write(b"\xaa\xbb")
        left = [row["dlq_id"] for row in self.rows("dlq", code=DAMAGE)]
        self.assertEqual(left, ids[1:])
        self.assertIn(f"dead letter {ids[0]}", self.run_dump("dlq").stderr.decode())

    def test_foreign_files(self):
        noise = self.home / "noise"
        noise.write_bytes(self.random.randbytes(1 << 20))
        self.assertIn("not a rondo ring", self.error(path=noise, code=CANNOT_OPEN))
        text = self.home / "text"
        text.write_text("hello\n")
        self.error(path=text, code=CANNOT_OPEN)
        empty = self.home / "empty"
        empty.touch()
        self.assertIn("empty", self.error(path=empty, code=CANNOT_OPEN))
        fifo = self.home / "fifo"
        os.mkfifo(fifo)
        self.error(path=fifo, code=CANNOT_OPEN)
        self.error(path="/dev/null", code=CANNOT_OPEN)
        nothing = self.home / "nothing"
        nothing.mkdir()
        self.assertIn("no queue", self.error(path=nothing, code=NOT_FOUND))
        self.error(path=self.queue / "lease-0-1.tab", code=CANNOT_OPEN)
        sparse = self.home / "sparse"
        with open(sparse, "wb") as file:
            file.truncate(1 << 42)
        self.error(path=sparse, code=CANNOT_OPEN)
        self.error(path="/" + "x" * 5000, code=CANNOT_OPEN)

    def test_another_version_names_both(self):
        """R35."""
        with open(self.queue / MAIN, "r+b", buffering=0) as file:
            file.seek(8)
            file.write(struct.pack("<I", 7))
        message = self.error(code=CANNOT_OPEN)
        self.assertIn("format version 7", message)
        self.assertIn("reads version 1", message)
        with open(self.queue / MAIN, "r+b", buffering=0) as file:
            file.write(self.content[MAIN][:8] + struct.pack(">II", 1, 0x01020304))
        self.assertIn("byte order", self.error(code=CANNOT_OPEN))

    def test_a_missing_or_foreign_part_is_told_and_the_rest_shown(self):
        other = self.home / "other"
        self.ctl("create", other, "--capacity", "256KiB")
        for name in ("dead.ring", "retry.ring"):
            with self.subTest(name=name):
                os.unlink(self.queue / name)
                self.assertEqual(len(self.rows("groups", code=DAMAGE)), 2)
                self.assertIn(name, self.run_dump().stderr.decode())
                shutil.copy(other / name, self.queue / name)
                self.assertIn("another queue", self.run_dump().stderr.decode())
                self.rows("verify", code=DAMAGE)
                self.restore(name)
        os.unlink(self.queue / "lease-0-1.tab")
        row = next(row for row in self.rows("groups") if row["group"] == "shared")
        self.assertIs(row["complete"], False)
        self.dump("verify", code=DAMAGE)


if __name__ == "__main__":
    main()
