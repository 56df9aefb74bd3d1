#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The load behind the demo recording: visitors of a web server, a journal, and a clock.

Visitors think for an exponentially distributed time between two requests, so that no idle period
is like the last; the journal waits for its disk now and then; the clock ticks every 20 ms, so that
there is something to predict.
"""

import argparse
import multiprocessing
import os
import random
import socket
import time

CLOCK_PERIOD_S = 0.020
JOURNAL_MEAN_S = 0.100


def visit(cpu: int, port: int, seed: int, think_mean_s: float, until: float) -> None:
    """One visitor: think, ask, read the whole answer; one connection for all requests."""
    os.sched_setaffinity(0, {cpu})
    rng = random.Random(seed)
    request = b"GET /page.html HTTP/1.1\r\nHost: localhost\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        while time.monotonic() < until:
            time.sleep(rng.expovariate(1 / think_mean_s))
            connection.sendall(request)
            read_answer(connection)


def read_answer(connection: socket.socket) -> None:
    answer = b""
    while b"\r\n\r\n" not in answer:
        answer += connection.recv(65536)
    head, _, body = answer.partition(b"\r\n\r\n")
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:])
    left = int(fields[b"Content-Length"]) - len(body)
    while left > 0:
        left -= len(connection.recv(65536))


def write_journal(cpu: int, path: str, seed: int, until: float) -> None:
    """Appends a block now and then, and waits until the disk has it."""
    os.sched_setaffinity(0, {cpu})
    rng = random.Random(seed)
    with open(path, "ab", buffering=0) as journal:
        while time.monotonic() < until:
            time.sleep(rng.expovariate(1 / JOURNAL_MEAN_S))
            journal.write(bytes(4096))
            os.fdatasync(journal.fileno())


def tick(cpu: int, until: float) -> None:
    """Wakes every 20 ms of absolute time and does a little."""
    os.sched_setaffinity(0, {cpu})
    wake = time.monotonic()
    while wake < until:
        wake += CLOCK_PERIOD_S
        time.sleep(max(0.0, wake - time.monotonic()))
        sum(range(1000))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--journal", required=True, help="file to append to")
    parser.add_argument("--near-cpu", type=int, default=0, help="CPU of the server")
    parser.add_argument("--far-cpu", type=int, default=1, help="CPU of most visitors")
    parser.add_argument("--think-mean-ms", type=float, default=10.0)
    parser.add_argument("--duration-s", type=float, default=14.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()

    until = time.monotonic() + args.duration_s
    near, far = args.near_cpu, args.far_cpu
    jobs = [(tick, (near, until)), (write_journal, (near, args.journal, args.seed, until))]
    for visitor, cpu in enumerate([near, far, far, far]):
        seed = args.seed * 1000 + visitor
        jobs.append((visit, (cpu, args.port, seed, args.think_mean_ms / 1e3, until)))
    processes = [multiprocessing.Process(target=job, args=arguments) for job, arguments in jobs]
    for process in processes:
        process.start()
    for process in processes:
        process.join()


if __name__ == "__main__":
    main()
