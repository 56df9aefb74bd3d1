// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Takes the types out of a preprocessed C file: what `vmlinux.h` is to a BPF program. Functions and
//! variables stay away, so that a program may use their names, and macros have been replaced.

/// A length in a type may be an expression with calls that a constant never makes.
/// A program may ask by its macro whether it has been included.
const BEGIN: &str = "#pragma once\n#define __VMLINUX_H__\n#pragma GCC diagnostic push\n\
                     #pragma GCC diagnostic ignored \"-Wimplicit-function-declaration\"\n";
const END: &str = "#pragma GCC diagnostic pop\n";

/// A declaration at the outermost level.
#[derive(Default)]
struct Item<'a> {
    start: Option<usize>,
    /// Its words and signs outside of brackets, and outer brackets.
    top: Vec<&'a str>,
    /// End of its first `{...}`.
    body_end: Option<usize>,
}

/// Returns the definitions of types in the text, each once, in their order.
pub(crate) fn types(text: &str) -> String {
    let mut found = BEGIN.to_owned();
    let (mut item, mut depth, mut at) = (Item::default(), 0_usize, 0);
    while at < text.len() {
        let word = word(&text[at..]);
        let (start, end) = (at, at + word.len());
        at = end;
        match word.as_bytes()[0] {
            byte if byte.is_ascii_whitespace() => continue,
            b'#' => {
                if depth == 0 && word.starts_with("#pragma pack") {
                    found += word;
                    found.push('\n');
                }
                continue;
            }
            _ => {}
        }
        item.start.get_or_insert(start);
        match word {
            "(" | "[" | "{" => {
                if depth == 0 {
                    item.top.push(word);
                }
                depth += 1;
            }
            ")" | "]" | "}" => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    item.top.push(word);
                }
                if depth == 0 && word == "}" {
                    item.body_end.get_or_insert(end);
                    if item.is_function() {
                        item = Item::default();
                    }
                }
            }
            _ if depth == 0 => {
                item.top.push(word);
                if word == ";" {
                    if let Some(end) = item.end_of_type(end) {
                        found += &text[item.start.unwrap_or(end)..end];
                        found += if found.ends_with(';') { "\n" } else { ";\n" };
                    }
                    item = Item::default();
                }
            }
            _ => {}
        }
    }
    found + END
}

/// Returns the first word of a text: a name or a number, a literal, a directive, spaces, or a sign.
fn word(text: &str) -> &str {
    let bytes = text.as_bytes();
    let run = |is: fn(&u8) -> bool| bytes.iter().position(|byte| !is(byte)).unwrap_or(bytes.len());
    let is_part: fn(&u8) -> bool = |byte| byte.is_ascii_alphanumeric() || *byte == b'_';
    let len = match bytes[0] {
        quote @ (b'"' | b'\'') => {
            let mut is_escaped = false;
            let ends = |byte: &u8| {
                let ends = *byte == quote && !is_escaped;
                is_escaped = *byte == b'\\' && !is_escaped;
                ends
            };
            bytes[1..].iter().position(ends).map_or(bytes.len(), |at| at + 2)
        }
        b'#' => run(|byte| *byte != b'\n'),
        byte if byte.is_ascii_whitespace() => run(u8::is_ascii_whitespace),
        byte if is_part(&byte) => run(is_part),
        _ => text.chars().next().map_or(1, char::len_utf8),
    };
    &text[..len]
}

impl Item<'_> {
    /// Returns its words without attributes and `__extension__`.
    fn plain(&self) -> Vec<&str> {
        let mut plain = Vec::new();
        let mut words = self.top.iter().copied().peekable();
        while let Some(word) = words.next() {
            match word {
                "__extension__" => {}
                "__attribute__" | "__attribute" => {
                    words.next_if(|next| *next == "(");
                    words.next_if(|next| *next == ")");
                }
                _ => plain.push(word),
            }
        }
        plain
    }

    fn is_function(&self) -> bool {
        let plain = self.plain();
        let has_arguments = plain.windows(2).any(|pair| pair == ["(", ")"]);
        has_arguments && plain[0] != "typedef" && !plain.contains(&"=")
    }

    /// Returns the end of the type that it defines, if any; of a type with a variable, without it.
    fn end_of_type(&self, end: usize) -> Option<usize> {
        let plain = self.plain();
        let (first, rest) = plain.split_first()?;
        match *first {
            "typedef" => Some(end),
            "struct" | "union" | "enum" => {
                let is_name =
                    |word: &str| word.starts_with(|c: char| c.is_alphabetic() || c == '_');
                let (is_named, rest) = match rest {
                    [name, rest @ ..] if is_name(name) => (true, rest),
                    rest => (false, rest),
                };
                match rest {
                    [";"] | ["{", "}", ";"] => Some(end),
                    ["{", "}", ..] if is_named || *first == "enum" => self.body_end,
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_alone_remain() {
        let text = "__extension__ typedef unsigned long long u64;\n\
                    #pragma GCC visibility push(hidden)\n\
                    struct a { u64 x; char c[sizeof(\"};{\")]; } __attribute__((aligned(8)));\n\
                    static inline int f(struct a *a) { struct inner { int i; } in; return ';'; }\n\
                    extern struct a variable; int g(void) __attribute__((const));\n\
                    enum { ONE = 1ULL << 40, }; struct ops { int (*call)(void); } table = { f };\n\
                    struct __attribute__((packed)) p { char c; u64 x; }; struct later;\n\
                    static struct { int i; } nameless; struct a *h(int x) { return 0; }\n\
                    typedef struct { int i; } named_t; union u { int i; };\n";
        let expected = "__extension__ typedef unsigned long long u64;\n\
                        struct a { u64 x; char c[sizeof(\"};{\")]; } __attribute__((aligned(8)));\n\
                        enum { ONE = 1ULL << 40, };\n\
                        struct ops { int (*call)(void); };\n\
                        struct __attribute__((packed)) p { char c; u64 x; };\n\
                        struct later;\n\
                        typedef struct { int i; } named_t;\n\
                        union u { int i; };\n";
        assert_eq!(types(text), format!("{BEGIN}{expected}{END}"));
    }
}
