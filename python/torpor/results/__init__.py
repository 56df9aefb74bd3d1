# SPDX-License-Identifier: MIT OR GPL-2.0-only
"""Results: records, schemas, comparisons, tables and sentences; nothing here runs or draws."""
