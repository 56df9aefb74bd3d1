# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Many questions at once: the product of governors, recordings, workloads, machines and settings.

A point is one governor in one scenario with one seed. Its name is a hash of everything that decides
its result, so a store never holds two answers to one question, and nothing runs twice.
"""
