#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""Puts each fault of faults.json into a copy of its source file, links it with the test that should notice, runs that.

    tests/mutants/run.py [BUILD_DIR] [NAME...]

Needs a finished Release build. Nothing in the source tree or the build is changed. Ends with 1 if a fault went
unnoticed, or if its text does not stand in its file exactly once any more.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
SECONDS = 90  # a test that hangs has noticed


def compile_command(build: pathlib.Path, source: pathlib.Path, mutated: pathlib.Path, to: pathlib.Path) -> str:
    for entry in json.loads((build / "compile_commands.json").read_text()):
        if pathlib.Path(entry["file"]) == source:
            command = entry["command"].replace(str(source), str(mutated))
            return re.sub(r"-o \S+", f"-o {to}", command)
    sys.exit(f"{source}: not in compile_commands.json")


def link_command(build: pathlib.Path, test: str, extra: pathlib.Path, to: pathlib.Path) -> str:
    lines = subprocess.check_output(["ninja", "-C", build, "-t", "commands", f"tests/bin/{test}"], text=True)
    command = [line for line in lines.splitlines() if f"-o tests/bin/{test}" in line][-1]
    command = command.removeprefix(": && ").removesuffix(" && :")
    # Before the library, so that the linker takes this object and not the library's own.
    return command.replace(f"-o tests/bin/{test}", f"{extra} -o {to}")


def passes(build: pathlib.Path, program: pathlib.Path, fault: dict) -> bool:
    run = [program, f"-tc={fault['case']}"] if fault["case"] else [program]
    try:
        ended = subprocess.run(run, cwd=build, timeout=SECONDS, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return False
    return ended.returncode == 0 and not re.search(rb"test cases: +0 ", ended.stdout)


def verdict(build: pathlib.Path, fault: dict, work: pathlib.Path) -> str:
    source = ROOT / fault["file"]
    text = source.read_text()
    if text.count(fault["old"]) != 1:
        return f"STALE: the text stands {text.count(fault['old'])} times in {fault['file']}"
    # Some tests look at the name of their program.
    mutated, built, program = work / source.name, work / "mutant.o", work / fault["test"]
    if not passes(build, build / "tests/bin" / fault["test"], fault):
        return "STALE: the test fails without the fault, or has no such case"
    mutated.write_text(text.replace(fault["old"], fault["new"]))
    # Its own includes are found as if it lay in its place.
    command = compile_command(build, source, mutated, built) + f" -Wno-error -iquote {source.parent}"
    subprocess.run(command, shell=True, cwd=build, check=True, capture_output=True)
    subprocess.run(link_command(build, fault["test"], built, program), shell=True, cwd=build, check=True)
    return "UNNOTICED" if passes(build, program, fault) else "noticed"


def main() -> int:
    arguments = sys.argv[1:]
    build = pathlib.Path(arguments.pop(0) if arguments and pathlib.Path(arguments[0]).is_dir() else ROOT / "build")
    faults = json.loads((pathlib.Path(__file__).parent / "faults.json").read_text())
    bad = 0
    for fault in faults:
        if arguments and fault["name"] not in arguments:
            continue
        with tempfile.TemporaryDirectory() as work:
            result = verdict(build.resolve(), fault, pathlib.Path(work))
        bad += not result.startswith("noticed")
        print(f"{result}: {fault['name']} ({fault['test']})", flush=True)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
