"""Stands in known functions: one thread computes, one waits, one comes back again and again, and a process that was forked computes too."""
import os
import sys
import threading
import time


def count_up(n):
    total = 0
    for number in range(n):
        total += number * number % 7
    return total


def through_native(n):
    return max(map(count_up, [n, n]))


def compute():
    parent = os.getppid()
    while os.getppid() == parent:
        through_native(2000)


def wait_for_nothing():
    threading.Event().wait()


def recurse(depth):
    return recurse(depth - 1) if depth else count_up(20_000)


threading.Thread(target=wait_for_nothing, daemon=True).start()
if "deep" in sys.argv:
    sys.setrecursionlimit(5000)
    threading.stack_size(256 << 20)

    def deep():
        while True:
            recurse(3000)

    threading.Thread(target=deep, daemon=True).start()
elif "fork" in sys.argv:

    def fork():
        # Its recording has begun by then, and sees it being made.
        time.sleep(1)
        if os.fork() == 0:
            compute()
            os._exit(0)
        wait_for_nothing()

    threading.Thread(target=fork, daemon=True).start()
else:
    threading.Thread(target=compute, daemon=True).start()
print("READY", flush=True)
sys.stdin.read()
