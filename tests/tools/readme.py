#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# ctest: TIMEOUT 180
"""The README's program compiles as it stands there, runs, and does what its comments say."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import json
from pathlib import Path

source = Path(os.environ["RONDO_SOURCE"])
binaries = Path(os.environ["RONDO_BIN"])
readme = (source / "README.md").read_text()

lines = readme.splitlines()
if len(lines) >= 200:
    sys.exit(f"README.md has {len(lines)} lines; it stays under 200")
program = re.search(r"```cpp\n(.*?)```", readme, re.S).group(1)
library = binaries.parent / "lib" / "librondo.a"

with tempfile.TemporaryDirectory(prefix="rondo-readme-") as work:
    queue = Path(tempfile.mkdtemp(prefix="rondo-readme-", dir="/dev/shm"))
    try:
        text = program.replace("/dev/shm/orders", str(queue / "orders"))
        assert text != program, "the program names another directory than this test expects"
        (Path(work) / "program.cpp").write_text(text)
        compiler = os.environ.get("CXX", "g++")
        subprocess.run([compiler, "-std=c++20", "-Wall", "-Wextra", "-Werror", f"-I{source / 'include'}",
                        "program.cpp", str(library), "-pthread", "-o", "program"], cwd=work, check=True)
        subprocess.run(["./program"], cwd=work, check=True, timeout=60)
        dumped = subprocess.run([binaries / "ring-dump", queue / "orders", "dlq", "-o", "json"], check=True,
                                capture_output=True, text=True, timeout=60)
        rows = json.loads(dumped.stdout)["rows"]
        assert len(rows) == 1 and rows[0]["error_code"] == "bad_order" and rows[0]["group"] == "billing", rows
        groups = subprocess.run([binaries / "ring-dump", queue / "orders", "groups", "-o", "json"], check=True,
                                capture_output=True, text=True, timeout=60)
        row = json.loads(groups.stdout)["rows"][0]
        assert row["lag"] == 0 and row["dead"] == 1, row
    finally:
        shutil.rmtree(queue, ignore_errors=True)
print("the README's program compiles, runs, and leaves one dead letter")
