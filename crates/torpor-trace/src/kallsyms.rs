// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of kernel functions, from a copy of `/proc/kallsyms`.

#[derive(Debug, Default)]
pub(crate) struct Kallsyms {
    text: String,
    /// Address, and offset and length of the name in `text`, sorted by address.
    symbols: Vec<(u64, u32, u32)>,
}

impl Kallsyms {
    /// Parses lines such as `ffffffff8112b9c0 t tick_nohz_handler`, perhaps with a module in
    /// brackets. The kernel prints hidden addresses (`kernel.kptr_restrict`) as 0.
    pub(crate) fn parse(text: &[u8]) -> Kallsyms {
        // Offsets are 32-bit; no kernel has 4 GB of symbols.
        let text = &text[..text.len().min(u32::MAX as usize)];
        let text = String::from_utf8_lossy(text).into_owned();
        let place =
            |name: &str| (name.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize) as u32;
        let mut symbols: Vec<(u64, u32, u32)> = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                let name = words.nth(1)?;
                (address != 0).then(|| (address, place(name), name.len() as u32))
            })
            .collect();
        // The sort is stable: the first name of an address wins.
        symbols.sort_by_key(|(address, ..)| *address);
        Kallsyms { text, symbols }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.symbols.is_empty()
    }

    fn name(&self, start: u32, length: u32) -> &str {
        self.text.get(start as usize..start.saturating_add(length) as usize).unwrap_or_default()
    }

    /// Iterates over the symbols: start, start of the next one, name.
    pub(crate) fn functions(&self) -> impl Iterator<Item = (u64, u64, &str)> {
        let (mut end, mut last) = (u64::MAX, u64::MAX);
        self.symbols.iter().rev().map(move |&(start, name, length)| {
            if start != last {
                (end, last) = (last, start);
            }
            (start, end, self.name(name, length))
        })
    }

    /// Returns the function that starts at `address`, as function pointers of timers do.
    pub(crate) fn symbol(&self, address: u64) -> Option<&str> {
        let index = self.symbols.partition_point(|(start, ..)| *start < address);
        match self.symbols.get(index) {
            Some(&(start, name, length)) if start == address => Some(self.name(name, length)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_start() {
        let text =
            b"0000000000000000 A hidden\nff10 t tick_nohz_handler\nff00 T first [mod]\nbad\n";
        let kallsyms = Kallsyms::parse(text);
        assert_eq!(kallsyms.symbol(0xff10), Some("tick_nohz_handler"));
        assert_eq!(kallsyms.symbol(0xff11), None);
        assert_eq!(kallsyms.symbol(0), None);
    }

    /// Two names of one address have the same end.
    #[test]
    fn a_function_ends_where_the_next_one_starts() {
        let kallsyms = Kallsyms::parse(b"20 t last\n10 T first\n10 T alias\n");
        let functions: Vec<_> = kallsyms.functions().collect();
        assert_eq!(
            functions,
            [(0x20, u64::MAX, "last"), (0x10, 0x20, "alias"), (0x10, 0x20, "first")]
        );
    }
}
