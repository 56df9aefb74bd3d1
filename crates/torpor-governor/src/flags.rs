// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Compiler flags of governors. Used by the build script and at run time, so that a built-in and a
// foreign governor differ in nothing but their source.

/// For every translation unit that sees the kapi.
pub(crate) const KAPI: &[&str] = &[
    // The kernel's dialect and its promises to the optimiser: without them the same source may
    // decide differently where integers overflow or types are punned.
    "-std=gnu11",
    "-O2",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    "-fno-common",
    // Only the kapi's headers: what compiles here has a chance in a kernel.
    "-nostdinc",
    "-U_FORTIFY_SOURCE",
    "-D__KERNEL__",
    "-include",
    "linux/kconfig.h",
    "-Wall",
    "-Wno-unused-function",
    "-Werror=implicit-function-declaration",
    "-Werror=implicit-int",
    "-fPIC",
    "-fvisibility=hidden",
];

/// Signed integers wrap in a kernel. Left out only where an overflow is to be seen.
pub(crate) const WRAP: &str = "-fno-strict-overflow";

/// Makes an image of it: no library, and small, so that it loads fast: no unwind tables, no canary
/// (it lives in libc), two segments.
pub(crate) const IMAGE: &[&str] = &[
    "-nostdlib",
    "-shared",
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

/// All that an image is compiled with but its tick rate.
pub(crate) fn image() -> impl Iterator<Item = &'static str> {
    KAPI.iter().chain([&WRAP]).chain(IMAGE).copied()
}

pub(crate) fn hz_define(hz: u32) -> String {
    format!("-DCONFIG_HZ={hz}")
}
