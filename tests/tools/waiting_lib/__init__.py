# SPDX-License-Identifier: MIT
# Copyright the rondo authors
"""Waiting for something to be so, instead of for some time."""
import time

WAIT_S = 20  # of a test that fails; nothing here waits so long when all is well


def eventually(condition, what):
    """Waits until condition() is true; its value."""
    deadline = time.monotonic() + WAIT_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {WAIT_S} s: {what}")
        time.sleep(0.005)  # between two looks


def went_on_waiting(process):
    """It has taken every signal that was sent to it, and waits all the same. For a process that must not end by them."""
    assert process.poll() is None, "it ended"
    with open(f"/proc/{process.pid}/status", encoding="ascii") as file:
        status = dict(line.split(":", 1) for line in file)
    pending = int(status["SigPnd"], 16) | int(status["ShdPnd"], 16)
    return pending == 0 and status["State"].split()[0] == "S"
