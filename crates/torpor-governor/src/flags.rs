// SPDX-License-Identifier: MIT OR GPL-2.0-only
// How a governor's image is compiled. Used by the build script and at run time, so that a
// built-in and a foreign governor differ in nothing but their source.

pub const COMPILE: &[&str] = &[
    // The kernel's dialect and its promises to the optimiser: without them the same source may
    // decide differently where integers overflow or types are punned.
    "-std=gnu11",
    "-O2",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-fno-common",
    // Only the kapi's headers, and no library: what compiles here has a chance in a kernel.
    "-nostdinc",
    "-nostdlib",
    "-U_FORTIFY_SOURCE",
    "-D__KERNEL__",
    "-include",
    "linux/kconfig.h",
    "-Wall",
    "-Wno-unused-function",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    // A small image that loads fast: no unwind tables, no canary (it lives in libc), two segments.
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-Wl,-z,defs",
    "-Wl,-z,noexecstack",
    "-Wl,-z,norelro",
    "-Wl,-z,noseparate-code",
    "-Wl,-Bsymbolic",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=gnu",
    "-s",
];

pub fn hz_define(hz: u32) -> String {
    format!("-DCONFIG_HZ={hz}")
}
