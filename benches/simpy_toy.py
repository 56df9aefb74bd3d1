# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""The queueing loop of the benchmark in SimPy: tasks run on one of the CPUs, then sleep."""

import random
import time

import simpy

CPUS, TASKS, WORK_US, DURATION_US = 8, 100, 200.0, 300_000.0


def task(env: simpy.Environment, cpus: simpy.Resource, draw: random.Random) -> object:
    sleep_us = WORK_US * (2 * TASKS / CPUS - 1)
    while True:
        with cpus.request() as cpu:
            yield cpu
            yield env.timeout(draw.expovariate(1 / WORK_US))
        yield env.timeout(draw.expovariate(1 / sleep_us))


def main() -> None:
    env = simpy.Environment()
    cpus = simpy.Resource(env, capacity=CPUS)
    for number in range(TASKS):
        env.process(task(env, cpus, random.Random(number)))
    events = 0
    begin = time.perf_counter()
    while env.peek() < DURATION_US:
        env.step()
        events += 1
    rate = events / (time.perf_counter() - begin) / 1e6
    name = f"simpy {simpy.__version__}: {CPUS} CPUs, {TASKS} tasks"
    print(f"{name:<34} {events:>12} {rate:>10.2} {1e3 / rate:>10.0f}")


if __name__ == "__main__":
    main()
