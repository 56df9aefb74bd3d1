// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads what an object says of its variables: the section that it puts each in, and, as a loader of
//! BPF programs does, the types that its BTF describes.

use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol};
use std::collections::BTreeMap;

const MAGIC: u16 = 0xeb9f;
/// Steps from a type to the one that it names, so that a loop of damaged BTF ends.
const STEPS: usize = 64;

/// A global variable or function of an object.
#[derive(Clone, Debug)]
pub(crate) struct Variable {
    pub name: String,
    pub section: String,
    pub bytes: u64,
    pub is_weak: bool,
    /// Its type's number, if BTF describes it.
    kind: Option<u32>,
}

/// A type of BTF.
#[derive(Debug)]
struct Type {
    name: u32,
    kind: u32,
    /// Size, or the type that it names.
    of: u32,
    /// Numbers that follow it.
    more: Vec<u32>,
    is_signed: bool,
}

/// Types and variables of an object.
pub(crate) struct Described {
    pub variables: Vec<Variable>,
    /// Options of the kernel's configuration that the program reads.
    pub options: Vec<String>,
    /// Names with a flavor, `NAME___FLAVOR`, that it does not define.
    pub flavors: Vec<String>,
    types: Vec<Type>,
    names: Vec<u8>,
}

/// A member of a structure.
pub(crate) struct Member {
    pub name: String,
    pub offset: u32,
    kind: u32,
}

/// Type of a parameter as modules know it, and its numbers if it is an array.
#[derive(Clone, Copy)]
pub(crate) struct Parameter {
    pub kind: &'static str,
    pub len: Option<u32>,
}

const INT: u32 = 1;
const POINTER: u32 = 2;
const ARRAY: u32 = 3;
const STRUCT: u32 = 4;
const ENUM: u32 = 6;
const VOLATILE: u32 = 9;
const CONST: u32 = 10;
const VAR: u32 = 14;

/// Whether libbpf sets a variable of this name by the kernel's configuration and version.
fn is_option(name: &str) -> bool {
    name.starts_with("CONFIG_") || name == "LINUX_KERNEL_VERSION"
}

impl Described {
    /// Reads an object; without BTF, its variables have no types.
    pub(crate) fn read(bytes: &[u8]) -> Option<Described> {
        let file = ElfFile64::<object::Endianness>::parse(bytes).ok()?;
        let missing = file.symbols().filter(|symbol| symbol.is_undefined());
        let missing: Vec<String> =
            missing.filter_map(|symbol| symbol.name().ok().map(str::to_owned)).collect();
        let (flavors, others): (Vec<_>, Vec<_>) =
            missing.into_iter().partition(|name| name.find("___").is_some_and(|at| at > 0));
        let mut described = Described {
            variables: Vec::new(),
            options: others.into_iter().filter(|name| is_option(name)).collect(),
            flavors,
            types: Vec::new(),
            names: Vec::new(),
        };
        let section = file.section_by_name(".BTF").and_then(|section| section.data().ok());
        section.and_then(|section| described.read_types(section));
        let types = described.types.iter().filter(|t| t.kind == VAR);
        let types: BTreeMap<String, u32> =
            types.map(|t| (described.text(t.name).to_owned(), t.of)).collect();
        let section = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            let section = file.section_by_index(symbol.section_index()?).ok()?;
            section.name().ok().map(str::to_owned)
        };
        for symbol in file.symbols().filter(|symbol| symbol.is_global()) {
            let (Ok(name), Some(section)) = (symbol.name(), section(&symbol)) else { continue };
            described.variables.push(Variable {
                name: name.to_owned(),
                section,
                bytes: symbol.size(),
                is_weak: symbol.is_weak(),
                kind: types.get(name).copied(),
            });
        }
        described.variables.sort_by(|a, b| a.name.cmp(&b.name));
        Some(described)
    }

    fn read_types(&mut self, bytes: &[u8]) -> Option<()> {
        let at = |offset: usize| {
            let word: [u8; 4] = bytes.get(offset..offset + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(word))
        };
        if at(0)? & 0xffff != u32::from(MAGIC) {
            return None;
        }
        let header = at(4)? as usize;
        let (from, to) = (header + at(8)? as usize, header + at(8)? as usize + at(12)? as usize);
        let names = header + at(16)? as usize;
        self.names = bytes.get(names..names + at(20)? as usize)?.to_vec();
        // Type 0 is void.
        self.types.push(Type { name: 0, kind: 0, of: 0, more: Vec::new(), is_signed: false });
        let mut place = from;
        while place < to {
            let info = at(place + 4)?;
            let (kind, count) = (info >> 24 & 0x1f, (info & 0xffff) as usize);
            let words = match kind {
                INT | VAR | 17 => 1,
                ARRAY => 3,
                STRUCT | 5 | 15 | 19 => 3 * count,
                ENUM | 13 => 2 * count,
                _ => 0,
            };
            let more =
                (0..words).map(|word| at(place + 12 + 4 * word)).collect::<Option<Vec<_>>>()?;
            let is_signed = kind == INT && more[0] >> 24 & 1 == 1;
            let (name, of) = (at(place)?, at(place + 8)?);
            self.types.push(Type { name, kind, of, more, is_signed });
            place += 12 + 4 * words;
        }
        Some(())
    }

    fn text(&self, at: u32) -> &str {
        let rest = self.names.get(at as usize..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    /// Returns a type without names and qualifiers, and whether it is `const volatile`.
    fn plain(&self, mut kind: u32) -> (Option<&Type>, bool) {
        let (mut is_const, mut is_volatile) = (false, false);
        for _ in 0..STEPS {
            let Some(found) = self.types.get(kind as usize) else { break };
            match found.kind {
                CONST => is_const = true,
                VOLATILE => is_volatile = true,
                // A typedef, restrict, a tag.
                8 | 11 | 18 => {}
                _ => return (Some(found), is_const && is_volatile),
            }
            kind = found.of;
        }
        (None, false)
    }

    fn bytes_of(&self, kind: u32) -> u32 {
        match self.plain(kind).0 {
            Some(Type { kind: POINTER, .. }) => 8,
            Some(Type { kind: ARRAY, more, .. }) if more[0] != kind => {
                self.bytes_of(more[0]).saturating_mul(more[2])
            }
            Some(found) => found.of,
            None => 0,
        }
    }

    /// Returns the type of the module's parameter for a variable that a loader sets before the
    /// start: a `const volatile` number, or an array of numbers.
    pub(crate) fn parameter(&self, variable: &Variable) -> Option<Parameter> {
        match self.plain(variable.kind?) {
            (Some(Type { kind: ARRAY, more, .. }), _) => {
                let (number, is_constant) = self.plain(more[0]);
                let kind = self.number_type(number.filter(|_| is_constant)?)?;
                Some(Parameter { kind, len: Some(more[2]) })
            }
            (number, is_constant) => {
                let kind = self.number_type(number.filter(|_| is_constant)?)?;
                Some(Parameter { kind, len: None })
            }
        }
    }

    /// Returns the name that parameters of modules have for a type.
    fn number_type(&self, found: &Type) -> Option<&'static str> {
        if ![INT, ENUM].contains(&found.kind) {
            return None;
        }
        let is_bool = found.kind == INT && found.more[0] >> 24 & 4 != 0;
        Some(match (found.of, found.is_signed) {
            (1, _) if is_bool || self.text(found.name) == "_Bool" => "bool",
            (1, _) => "byte",
            (2, true) => "short",
            (2, false) => "ushort",
            (4, true) => "int",
            (4, false) => "uint",
            (8, true) => "long",
            (8, false) => "ulong",
            _ => return None,
        })
    }

    /// Returns the members of a variable's structure.
    pub(crate) fn members(&self, variable: &Variable) -> Vec<Member> {
        let Some(found) = variable.kind.and_then(|kind| self.plain(kind).0) else {
            return Vec::new();
        };
        if found.kind != STRUCT {
            return Vec::new();
        }
        let member = |words: &[u32]| Member {
            name: self.text(words[0]).to_owned(),
            kind: words[1],
            offset: words[2] / 8,
        };
        found.more.chunks_exact(3).map(member).collect()
    }

    /// Returns the number that a member of a map's definition has by its type: the length of the
    /// array that it points to, or the size of another type.
    pub(crate) fn number(&self, member: &Member) -> u32 {
        let Some(Type { kind: POINTER, of, .. }) = self.plain(member.kind).0 else { return 0 };
        let is_count = !["key", "value"].contains(&&*member.name);
        match self.plain(*of).0 {
            Some(Type { kind: ARRAY, more, .. }) if is_count => more[2],
            _ => self.bytes_of(*of),
        }
    }
}
