// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Names of functions in an image, for backtraces, and how an object refers to names.

use object::read::elf::ElfFile64;
use object::{
    Architecture, Object, ObjectSection, ObjectSymbol, RelocationFlags, RelocationTarget,
    SymbolKind, elf,
};
use std::collections::BTreeSet;

/// Returns the functions of `addresses`, where known. Addresses are relative to `anchor`, a symbol
/// of the image.
pub(crate) fn name(image: &[u8], anchor: &str, addresses: &[i64]) -> Vec<String> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(image) else { return Vec::new() };
    let Some(base) = file.symbols().find(|symbol| symbol.name() == Ok(anchor)) else {
        return Vec::new();
    };
    let base = base.address() as i64;
    let of = |offset: &i64| {
        // A return address follows its call, which may be a function's last instruction.
        let at = base.checked_add(*offset)?.checked_sub(1)? as u64;
        let has = |symbol: &object::read::elf::ElfSymbol64<'_, '_>| {
            symbol.kind() == SymbolKind::Text && at.wrapping_sub(symbol.address()) < symbol.size()
        };
        file.symbols().find(has)?.name().ok().map(str::to_owned)
    };
    addresses.iter().map_while(of).collect()
}

/// Returns the functions that an object defines.
pub(crate) fn functions(object: &[u8]) -> Vec<String> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(object) else { return Vec::new() };
    let defined = file.symbols().filter(|s| s.kind() == SymbolKind::Text && !s.is_undefined());
    let mut names: Vec<String> = defined.filter_map(|s| Some(s.name().ok()?.to_owned())).collect();
    names.sort();
    names
}

/// Returns which of `names` an object refers to other than by calls and jumps, as it does to
/// variables.
pub(crate) fn not_called(object: &[u8], names: &BTreeSet<String>) -> BTreeSet<String> {
    let Ok(file) = ElfFile64::<object::Endianness>::parse(object) else { return names.clone() };
    let relocations = file.sections().flat_map(|section| section.relocations());
    let others =
        relocations.filter(|(_, relocation)| !is_call(relocation.flags(), file.architecture()));
    let named = others.filter_map(|(_, relocation)| match relocation.target() {
        RelocationTarget::Symbol(index) => file.symbol_by_index(index).ok()?.name().ok(),
        _ => None,
    });
    named.filter(|name| names.contains(*name)).map(str::to_owned).collect()
}

fn is_call(flags: RelocationFlags, architecture: Architecture) -> bool {
    let RelocationFlags::Elf { r_type } = flags else { return false };
    match architecture {
        Architecture::Aarch64 => [elf::R_AARCH64_CALL26, elf::R_AARCH64_JUMP26].contains(&r_type),
        _ => r_type == elf::R_X86_64_PLT32,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_symbol_that_is_read_is_a_variable() {
        let folder = tempfile::tempdir().unwrap();
        let (source, object) = (folder.path().join("a.c"), folder.path().join("a.o"));
        let text = "void called(void); extern int counter; void kept(void);\n\
                    void (*pointer)(void) = kept;\n\
                    int user(void) { called(); return counter; }\n";
        std::fs::write(&source, text).unwrap();
        let mut compiler = Command::new("gcc");
        compiler.args(["-c", "-fPIC", "-o"]).args([&object, &source]);
        assert!(compiler.status().unwrap().success());
        let names = ["called", "counter", "kept"].map(str::to_owned).into();
        let object = std::fs::read(object).unwrap();
        assert_eq!(Vec::from_iter(not_called(&object, &names)), ["counter", "kept"]);
    }
}
