"""Threads and tasks that wait for everything that they can wait for; argument: which of it."""
import asyncio
import collections
import functools
import os
import queue
import socket
import subprocess
import sys
import threading
import time

A, B, R = threading.Lock(), threading.Lock(), threading.RLock()


def both(first, second):
    with first:
        time.sleep(0.1)
        with second:
            pass


class Account:
    def __init__(self):
        self.changed = threading.Condition()
        self.balance = 0

    def hold(self):
        with self.changed:
            try:
                time.sleep(3600)
            finally:
                self.balance += 1

    def want(self):
        with self.changed:
            self.balance += 1


def hold(lock):
    with lock:
        time.sleep(3600)


def used(lock):
    with lock:
        pass
    time.sleep(3600)


def want(lock):
    time.sleep(0.2)
    with lock:
        pass


def takes_by_hand(lock):
    lock.acquire()
    time.sleep(3600)


def generator(n):
    if n == 0:
        time.sleep(3600)
    yield from generator(n - 1)


def recursive(n):
    if n:
        return recursive(n - 1)
    return [list(generator(3)) for _ in range(1)]


def with_key():
    return sorted([3, 1, 2], key=lambda value: time.sleep(3600))


def decorated(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        result = function(
            *args,
            **kwargs,
        )
        return result

    return inner


@decorated
def many_lines(
    first,
    second=(
        1,
        2,
    ),
):
    """Text

    over many lines.
    """
    x = [
        first,
        second,
    ]
    try:
        raise ValueError(
            "one"
        )
    except ValueError:
        for value in x:
            if value:
                time.sleep(
                    3600
                )


class Meta(type):
    def __call__(cls, *args):
        return super().__call__(*args)


class Made(metaclass=Meta):
    def __init__(self):
        self.wait()

    @property
    def slow(self):
        return time.sleep(3600)

    def wait(self):
        return self.slow


def spin():
    n = 0
    while True:
        n += 1


def start(function, *args, name=None):
    thread = threading.Thread(target=function, args=args, name=name or getattr(function, "__name__", "?"), daemon=True)
    thread.start()
    return thread


async def awaits(tasks, name):
    await asyncio.sleep(0.01)
    await tasks[name]


async def ring():
    tasks = {}
    for name, other in (("x", "y"), ("y", "z"), ("z", "x")):
        tasks[name] = asyncio.create_task(awaits(tasks, other), name=name)
    future = asyncio.get_running_loop().create_future()

    async def never():
        await future

    async def outer():
        await never()

    tasks["n"] = asyncio.create_task(outer(), name="n")
    await asyncio.sleep(0.1)
    ready()
    await asyncio.sleep(3600)


async def in_order(first, second):
    async with first:
        await asyncio.sleep(0.05)
        async with second:
            pass


async def locks():
    one, other, third = asyncio.Lock(), asyncio.Lock(), asyncio.Lock()

    async def twice():
        async with third:
            await in_order(asyncio.Lock(), third)

    tasks = [
        asyncio.create_task(in_order(one, other), name="ab"),
        asyncio.create_task(in_order(other, one), name="ba"),
        asyncio.create_task(twice(), name="own"),
    ]
    await asyncio.sleep(0.3)
    ready()
    await asyncio.gather(*tasks)


def nested(first, between, second):
    with first:
        with between:
            time.sleep(0.05)
            with second:
                pass


def ready():
    print("READY", os.getpid(), flush=True)


def main():
    mode = sys.argv[1] if len(sys.argv) > 1 else "all"
    if mode == "abba":
        start(both, A, B, name="ab")
        start(both, B, A, name="ba")
    elif mode == "rlock":
        S = threading.RLock()
        start(both, R, S, name="ab")
        start(both, S, R, name="ba")
    elif mode == "self":
        start(both, A, A, name="aa")
    elif mode == "holder":
        start(used, A)
        start(used, A)
        time.sleep(0.1)
        start(hold, A)
        start(want, A)
        start(want, A)
        account = Account()
        start(account.hold, name="account-holder")
        time.sleep(0.1)
        start(account.want, name="account-waiter")
    elif mode == "hand":
        start(used, A)
        time.sleep(0.1)
        start(takes_by_hand, A)
        start(want, A)
    elif mode == "join":
        worker = start(want, A, name="worker")

        def joins():
            with A:
                worker.join()

        start(joins)
    elif mode == "ring":
        asyncio.run(ring())
    elif mode == "locks":
        asyncio.run(locks())
    elif mode == "nested":
        start(nested, A, threading.Lock(), B, name="ab")
        start(nested, B, threading.Lock(), A, name="ba")
    elif mode == "spin":
        start(spin)
        start(spin)
    else:
        start(recursive, 30)
        start(with_key)
        start(many_lines, 1)
        start(Made, name="Made")
        start(queue.Queue().get, name="queue")
        start(threading.Event().wait, name="event")
        start(lambda: socket.create_server(("127.0.0.1", 0)).accept(), name="accept")
        start(subprocess.run, ["sleep", "120"], name="child")
        start(collections.deque, (time.sleep(3600) for _ in range(1)), name="deque")
    if mode not in ("ring", "locks"):
        time.sleep(1)
        ready()
        sys.stdin.readline()


main()
