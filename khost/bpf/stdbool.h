/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/* vmlinux.h has the type and its values. */
