// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! CPU lists as the kernel writes them: `0-3,7`.

use crate::units::CpuId;

/// The largest CPU number any kernel can be built for (x86 `NR_CPUS_RANGE_END` is 8192).
const CPU_MAX: u32 = 8191;

/// Parses `0-3,7`. The CPUs come back ascending; an overlap inside the list is an error.
///
/// The error is a sentence that says what is wrong with which part.
pub fn parse_cpu_list(text: &str) -> Result<Vec<CpuId>, String> {
    let mut cpus = Vec::new();
    for part in text.trim().split(',') {
        let part = part.trim();
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (parse_cpu(first)?, parse_cpu(last)?),
            None => (parse_cpu(part)?, parse_cpu(part)?),
        };
        if first > last {
            return Err(format!("`{part}` runs backwards"));
        }
        cpus.extend((first..=last).map(CpuId));
        if cpus.len().saturating_sub(1) > CPU_MAX as usize {
            return Err("it names CPUs twice".to_owned());
        }
    }
    cpus.sort();
    match cpus.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(format!("it names {} twice", pair[0])),
        None => Ok(cpus),
    }
}

fn parse_cpu(text: &str) -> Result<u32, String> {
    let text = text.trim();
    let number = if text.bytes().all(|b| b.is_ascii_digit()) { text.parse().ok() } else { None };
    match number {
        Some(cpu) if cpu <= CPU_MAX => Ok(cpu),
        Some(cpu) => Err(format!("CPU {cpu} is beyond the kernel's largest, {CPU_MAX}")),
        None => Err(format!("`{text}` is not a CPU number")),
    }
}

/// Writes ascending CPUs as the kernel does: runs of neighbours as `first-last`.
pub fn format_cpu_list(cpus: &[CpuId]) -> String {
    let mut parts: Vec<String> = Vec::new();
    let mut rest = cpus;
    while let Some(first) = rest.first() {
        let run =
            rest.iter().zip(first.0..).take_while(|(cpu, expected)| cpu.0 == *expected).count();
        let (neighbours, others) = rest.split_at(run);
        parts.push(match neighbours {
            [_, .., last] => format!("{}-{}", first.0, last.0),
            _ => first.0.to_string(),
        });
        rest = others;
    }
    parts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_survives_the_round_trip() {
        let cpus = parse_cpu_list("7, 0-3,5\n").unwrap();
        assert_eq!(cpus.len(), 6);
        assert_eq!(format_cpu_list(&cpus), "0-3,5,7");
    }

    #[test]
    fn bad_cpu_list_names_the_bad_part() {
        for (text, part) in
            [("0-3,x", "`x`"), ("3-1", "backwards"), ("0-2,2", "twice"), ("0-99999", "99999")]
        {
            let error = parse_cpu_list(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
