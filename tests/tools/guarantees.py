#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# ctest: TIMEOUT 60
"""Every promise of docs/guarantees.md names a test case that exists."""
import os
import re
import sys
from pathlib import Path

source = Path(os.environ["RONDO_SOURCE"])
rows = re.findall(r"^\|.*\| (\w+/\w+): (.*) \|$", (source / "docs/guarantees.md").read_text(), re.M)
missing = []
for where, case in rows:
    path = source / "tests" / (where + ".cpp")
    text = path.read_text() if path.exists() else ""
    text = re.sub(r'"\s*\n\s*"', "", text)  # literals that are continued on the next line
    if f'TEST_CASE({case}' not in text:
        missing.append(f"{where}: {case}")
if len(rows) < 30:
    sys.exit(f"only {len(rows)} promises were found: the table's form has changed")
for line in missing:
    print("no such test:", line)
print(f"{len(rows)} promises, {len(missing)} without a test")
sys.exit(1 if missing else 0)
