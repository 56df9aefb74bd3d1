// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of kernel functions, from a copy of `/proc/kallsyms`.

use crate::model::{Name, Names};

#[derive(Debug, Default)]
pub(crate) struct Kallsyms<'a> {
    /// Sorted by address.
    symbols: Vec<(u64, &'a str)>,
}

impl<'a> Kallsyms<'a> {
    /// Lines such as `ffffffff8112b9c0 t tick_nohz_handler`, perhaps with a module in brackets.
    /// An address of 0 is one the kernel hid (`kernel.kptr_restrict`).
    pub(crate) fn parse(text: &'a [u8]) -> Kallsyms<'a> {
        let mut symbols: Vec<(u64, &str)> = text
            .split(|&byte| byte == b'\n')
            .filter_map(|line| {
                let mut words = std::str::from_utf8(line).ok()?.split_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let name = words.nth(1)?;
                (address != 0).then_some((address, name))
            })
            .collect();
        // Of the names of one address, the first listed stands.
        symbols.sort_by_key(|(address, _)| *address);
        Kallsyms { symbols }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    /// The function that starts at `address`. Timers hold nothing but starts of functions.
    pub(crate) fn symbol(&self, address: u64, names: &mut Names) -> Option<Name> {
        let index = self.symbols.partition_point(|(start, _)| *start < address);
        match self.symbols.get(index) {
            Some((start, name)) if *start == address => Some(names.intern(name)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_by_where_it_starts() {
        let text =
            b"0000000000000000 A hidden\nff10 t tick_nohz_handler\nff00 T first [mod]\nbad\n";
        let kallsyms = Kallsyms::parse(text);
        let mut names = Names::default();
        let name = kallsyms.symbol(0xff10, &mut names).unwrap();
        assert_eq!(names.text(name), "tick_nohz_handler");
        assert_eq!(kallsyms.symbol(0xff11, &mut names), None);
        assert_eq!(kallsyms.symbol(0, &mut names), None);
    }
}
