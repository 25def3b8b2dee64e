#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# ctest: TIMEOUT 60
"""The faults of tests/mutants/faults.json can still be made: each text stands once in its file, each test and case
exists, and tests/mutants.md has the row."""
import fnmatch
import json
import os
import re
import sys
from pathlib import Path

source = Path(os.environ["RONDO_SOURCE"])
faults = json.loads((source / "tests/mutants/faults.json").read_text())
rows = (source / "tests/mutants.md").read_text()
wrong = []
for fault in faults:
    name, label, stem = fault["name"], *fault["test"].split("_", 1)
    found = (source / fault["file"]).read_text().count(fault["old"])
    if found != 1:
        wrong.append(f"{name}: its text stands {found} times in {fault['file']}")
    program = source / "tests" / label / f"{stem}.cpp"
    text = re.sub(r'"\s*\n\s*"', "", program.read_text()) if program.exists() else ""
    if not any(fnmatch.fnmatchcase(case, fault["case"] or "*") for case in re.findall(r'TEST_CASE\("([^"]*)"', text)):
        wrong.append(f"{name}: {program} has no case {fault['case']!r}")
    if f"| {name} | {fault['what']} | `{fault['file']}` | `{fault['test']}` |" not in rows:
        wrong.append(f"{name}: tests/mutants.md has no such row")
for line in wrong:
    print(line)
print(f"{len(faults)} faults, {len(wrong)} things wrong")
sys.exit(1 if wrong or len(faults) < 19 else 0)
