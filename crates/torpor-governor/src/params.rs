// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Module parameters: their types, and their values as text.

use crate::abi::{KapiParam, KernelParam};
use crate::guard;
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, CString};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ParamType {
    Byte,
    Short,
    Ushort,
    Int,
    Uint,
    Hexint,
    Long,
    Ulong,
    Ullong,
    Bool,
    Invbool,
    /// `module_param_cb()`: the governor's own functions set and get it.
    Callback,
}

struct TypeInfo {
    name: &'static str,
    kind: ParamType,
    size: usize,
    least: i128,
    most: i128,
}

/// Returns the entry of a type with the values of the integer type `$int`.
macro_rules! integer {
    ($name:literal, $kind:ident, $int:ty) => {
        TypeInfo {
            name: $name,
            kind: ParamType::$kind,
            size: size_of::<$int>(),
            least: <$int>::MIN as i128,
            most: <$int>::MAX as i128,
        }
    };
}

const TYPES: [TypeInfo; 12] = [
    integer!("byte", Byte, u8),
    integer!("short", Short, i16),
    integer!("ushort", Ushort, u16),
    integer!("int", Int, i32),
    integer!("uint", Uint, u32),
    integer!("hexint", Hexint, u32),
    integer!("long", Long, i64),
    integer!("ulong", Ulong, u64),
    integer!("ullong", Ullong, u64),
    TypeInfo { name: "bool", kind: ParamType::Bool, size: 1, least: 0, most: 1 },
    TypeInfo { name: "invbool", kind: ParamType::Invbool, size: 1, least: 0, most: 1 },
    TypeInfo { name: "callback", kind: ParamType::Callback, size: 0, least: 0, most: 0 },
];

impl ParamType {
    fn from_name(name: &str) -> Option<ParamType> {
        TYPES.iter().find(|info| info.name == name).map(|info| info.kind)
    }

    fn info(self) -> &'static TypeInfo {
        TYPES.iter().find(|info| info.kind == self).expect("every type is listed")
    }

    pub fn name(self) -> &'static str {
        self.info().name
    }

    pub(crate) fn size(self) -> usize {
        self.info().size
    }

    fn is_signed(self) -> bool {
        self.info().least < 0
    }

    /// Returns the allowed values, for errors.
    fn expected(self) -> String {
        match self {
            ParamType::Bool | ParamType::Invbool => "y or n (1, 0, on, off)".to_owned(),
            _ => format!("{} from {} to {}", self.name(), self.info().least, self.info().most),
        }
    }

    /// Returns the variable's value, in the low bytes, or `None` if the text is no value of the type.
    pub(crate) fn parse(self, text: &str) -> Option<u64> {
        if matches!(self, ParamType::Bool | ParamType::Invbool) {
            let value = match text.to_ascii_lowercase().as_str() {
                "y" | "yes" | "1" | "on" | "t" | "true" => 1,
                "n" | "no" | "0" | "off" | "f" | "false" => 0,
                _ => return None,
            };
            return Some(if self == ParamType::Invbool { 1 - value } else { value });
        }
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        // As the kernel determines the base: 0x is 16, a leading 0 is 8.
        let magnitude = if let Some(hex) = digits.strip_prefix("0x").or(digits.strip_prefix("0X")) {
            parse_digits(hex, 16)?
        } else if digits.len() > 1 && digits.starts_with('0') {
            parse_digits(&digits[1..], 8)?
        } else {
            parse_digits(digits, 10)?
        };
        let value = if negative { -magnitude } else { magnitude };
        (self.info().least..=self.info().most).contains(&value).then_some(value as u64)
    }

    /// Returns the value as sysfs prints it.
    fn format(self, raw: u64) -> String {
        match self {
            ParamType::Bool => if raw & 0xff != 0 { "Y" } else { "N" }.to_owned(),
            ParamType::Invbool => if raw & 0xff != 0 { "N" } else { "Y" }.to_owned(),
            ParamType::Hexint => format!("{raw:#x}"),
            _ if self.is_signed() => {
                let shift = 64 - 8 * self.size() as u32;
                (((raw << shift) as i64) >> shift).to_string()
            }
            _ => raw.to_string(),
        }
    }
}

fn parse_digits(digits: &str, base: u32) -> Option<i128> {
    // `from_str_radix` would accept another sign.
    let plain = digits.chars().all(|c| c.is_digit(base));
    (plain && !digits.is_empty() && digits.len() <= 30)
        .then(|| i128::from_str_radix(digits, base).ok())
        .flatten()
}

/// A module parameter of a governor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Param {
    pub name: String,
    pub kind: ParamType,
    /// Default value, as sysfs prints it.
    pub default: String,
    /// Text of `MODULE_PARM_DESC`, or empty.
    pub description: String,
}

/// A parameter of one loaded image.
#[derive(Clone)]
pub(crate) struct ParamPlace {
    pub name: String,
    pub kind: ParamType,
    pub description: String,
    pub value: *mut u8,
}

impl ParamPlace {
    /// Returns the value as sysfs prints it.
    pub(crate) fn show(&self) -> String {
        match self.kind {
            ParamType::Callback => self.show_by_callback(),
            kind => kind.format(self.read()),
        }
    }

    /// Writes a value, like sysfs. The error lists the allowed values.
    pub(crate) fn store(&self, text: &str) -> Result<(), String> {
        if self.kind == ParamType::Callback {
            return self.store_by_callback(text);
        }
        let raw = self.kind.parse(text).ok_or_else(|| self.kind.expected())?.to_le_bytes();
        // SAFETY: `value` points to a variable of `kind` in the image that owns this.
        unsafe { self.value.copy_from_nonoverlapping(raw.as_ptr(), self.kind.size()) };
        Ok(())
    }

    fn read(&self) -> u64 {
        let mut raw = [0; 8];
        // SAFETY: as for `store`.
        unsafe { self.value.copy_to_nonoverlapping(raw.as_mut_ptr(), self.kind.size()) };
        u64::from_le_bytes(raw)
    }

    fn show_by_callback(&self) -> String {
        let kernel_param = self.value.cast::<KernelParam>();
        // SAFETY: a callback's descriptor points to a `struct kernel_param` of the image, which
        // points to operations in the image.
        let Some(get) = (unsafe { (*(*kernel_param).ops).get }) else { return String::new() };
        // The kernel passes one page. The second one catches a function that writes more.
        let mut page = vec![0u8; 2 * PAGE];
        // SAFETY: as above.
        match unsafe { guard::call(get, page.as_mut_ptr().cast(), kernel_param.cast()) } {
            Ok(len) => {
                let len = usize::try_from(len).unwrap_or(0).min(PAGE);
                String::from_utf8_lossy(&page[..len]).trim_end().to_owned()
            }
            Err(_) => String::new(),
        }
    }

    fn store_by_callback(&self, text: &str) -> Result<(), String> {
        let kernel_param = self.value.cast::<KernelParam>();
        // SAFETY: as for `show_by_callback`.
        let set = unsafe { (*(*kernel_param).ops).set };
        let set = set.ok_or_else(|| "nothing: it cannot be written".to_owned())?;
        let expected = |why: &str| match self.description.as_str() {
            "" => format!("values that its own set() accepts, which {why}"),
            described => described.to_owned(),
        };
        let text = CString::new(text).map_err(|_| expected("ends at a NUL"))?;
        // SAFETY: as for `show_by_callback`.
        match unsafe { guard::call(set, text.as_ptr().cast_mut().cast(), kernel_param.cast()) } {
            Ok(code) if code >= 0 => Ok(()),
            Ok(code) => Err(expected(&format!("returned {code}"))),
            Err(caught) => Err(expected(&format!("ended in signal {}", caught.signo))),
        }
    }
}

const PAGE: usize = 4096;

/// Reads the descriptors that `module_param` and `MODULE_PARM_DESC` create in an image.
///
/// # Safety
/// The range is the image's descriptor table, with NUL-terminated strings.
pub(crate) unsafe fn read_descriptors(
    start: *const KapiParam,
    end: *const KapiParam,
) -> Result<Vec<ParamPlace>, String> {
    let count = (end as usize).saturating_sub(start as usize) / size_of::<KapiParam>();
    // SAFETY: the caller's range.
    let table = unsafe { std::slice::from_raw_parts(start, count) };
    // SAFETY: the caller's strings.
    let text = |p| unsafe { CStr::from_ptr(p) }.to_string_lossy().into_owned();
    let mut places = Vec::new();
    let mut table: Vec<&KapiParam> = table.iter().collect();
    table.sort_by_key(|entry| entry.line);
    for entry in table.iter().filter(|e| !e.name.is_null() && !e.type_name.is_null()) {
        let (name, type_name) = (text(entry.name), text(entry.type_name));
        let kind = ParamType::from_name(&type_name)
            .ok_or_else(|| format!("parameter {name} has the unknown type {type_name}"))?;
        let value = entry.value.cast();
        places.push(ParamPlace { name, kind, description: String::new(), value });
    }
    for entry in table.iter().filter(|e| !e.name.is_null() && e.type_name.is_null()) {
        let name = text(entry.name);
        if let Some(place) = places.iter_mut().find(|p| p.name == name) {
            place.description = text(entry.value.cast());
        }
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_parsed_like_the_kernel_does() {
        assert_eq!(ParamType::Uint.parse("200000"), Some(200_000));
        assert_eq!(ParamType::Uint.parse("0x10"), Some(16));
        assert_eq!(ParamType::Uint.parse("010"), Some(8));
        assert_eq!(ParamType::Uint.parse("-1"), None);
        assert_eq!(ParamType::Uint.parse("4294967296"), None);
        assert_eq!(ParamType::Int.parse("-1").map(|v| ParamType::Int.format(v)), Some("-1".into()));
        assert_eq!(ParamType::Bool.parse("off"), Some(0));
        assert_eq!(ParamType::Bool.parse("2"), None);
        for junk in ["", "-", "+-1", "0x", "0x+1", "1e3", "99999999999999999999999999999999999999"]
        {
            assert_eq!(ParamType::Ullong.parse(junk), None, "{junk}");
        }
    }
}
