// SPDX-License-Identifier: MIT OR GPL-2.0-only
// Compiler flags of governors. The build script and this crate share them, so that built-in and
// foreign governors are compiled alike.

/// For every translation unit that sees the kapi.
pub(crate) const KAPI: &[&str] = &[
    // The kernel's dialect and optimizer flags. Without them the same source could decide differently
    // on integer overflow or type punning.
    "-std=gnu11",
    "-O2",
    "-fno-strict-aliasing",
    "-fno-delete-null-pointer-checks",
    "-fno-common",
    // Only the kapi's headers: code that needs the C library would not compile in a kernel.
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

/// Makes signed integers wrap, as in a kernel. Left out only for the overflow sanitizer.
pub(crate) const WRAP: &str = "-fno-strict-overflow";

/// For an image's code: it has no library, so no stack protector, and is small, so that it loads fast:
/// no unwind tables.
pub(crate) const CODE: &[&str] = &["-fno-stack-protector", "-fno-asynchronous-unwind-tables"];

/// Makes an image of its code, in two segments.
pub(crate) const IMAGE: &[&str] = &[
    "-nostdlib",
    "-shared",
    "-Wl,-z,defs",
    "-Wl,-z,noexecstack",
    "-Wl,-z,norelro",
    "-Wl,-z,noseparate-code",
    "-Wl,-Bsymbolic",
    "-Wl,--build-id=none",
    "-Wl,--hash-style=gnu",
    "-s",
];

/// Returns all flags of an image except the tick rate.
pub(crate) fn image() -> impl Iterator<Item = &'static str> {
    KAPI.iter().chain([&WRAP]).chain(CODE).chain(IMAGE).copied()
}

pub(crate) fn hz_define(hz: u32) -> String {
    format!("-DCONFIG_HZ={hz}")
}
