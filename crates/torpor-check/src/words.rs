// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Reads reports of sanitizers.

use crate::kinds::Kind;

/// Errors of UndefinedBehaviorSanitizer that concern memory.
const UBSAN_MEMORY: &[&str] =
    &["out of bounds", "null pointer", "misaligned", "insufficient space", "pointer index"];

/// Returns the kind of breach, the lines to show, and a signature that is the same for every
/// occurrence at one place.
pub(crate) fn read(said: &str) -> Option<(Kind, String, String)> {
    let lines: Vec<String> = said.lines().map(plain).collect();
    if let Some(line) = lines.iter().find(|line| line.contains("runtime error: ")) {
        let is_memory = UBSAN_MEMORY.iter().any(|text| line.contains(text));
        let kind = if is_memory { Kind::Memory } else { Kind::Arithmetic };
        let place = line.split(": runtime error").next().unwrap_or(line);
        return Some((kind, line.clone(), place.to_owned()));
    }
    let at = lines.iter().position(|line| line.starts_with("ERROR: AddressSanitizer: "))?;
    let summary = lines.iter().find_map(|line| line.strip_prefix("SUMMARY: ")).unwrap_or("");
    let kind = if lines[at].contains(": FPE") { Kind::Arithmetic } else { Kind::Memory };
    let access = |line: &&String| line.starts_with("READ of") || line.starts_with("WRITE of");
    // Frames of the driver have no line number: the governor's calls end there.
    let frames = (lines[at..].iter().filter(|line| line.starts_with('#')))
        .take_while(|line| line.contains(".c:"));
    let region = lines[at..].iter().find(|line| line.contains("is located"));
    let shown: Vec<&str> = [summary.strip_prefix("AddressSanitizer: ").unwrap_or(&lines[at])]
        .into_iter()
        .chain(lines[at..].iter().find(access).map(String::as_str))
        .chain(frames.take(3).map(String::as_str))
        .chain(region.map(String::as_str))
        .collect();
    // One flaw gives several types of error, by how far the access misses: only the place
    // identifies it.
    let place = summary.splitn(3, ' ').nth(2).unwrap_or(summary);
    Some((kind, shown.join("\n"), place.to_owned()))
}

/// Removes what differs from run to run: process ids, addresses, the folder of the sources.
fn plain(line: &str) -> String {
    let mut words = Vec::new();
    for word in line.split_whitespace() {
        // `==123==ERROR:`, or `==123==` alone.
        let word = match word.strip_prefix("==").and_then(|rest| rest.split_once("==")) {
            Some((_, rest)) => rest,
            None => word,
        };
        let is_address = word.trim_start_matches(['[', '(']).starts_with("0x");
        match word {
            "" => {}
            _ if is_address => {
                // "on address 0x…", "at pc 0x… bp 0x… sp 0x…": the words before go with them.
                if words.ends_with(&["on", "address"]) {
                    words.truncate(words.len() - 2);
                }
                while matches!(words.last(), Some(&("at" | "pc" | "bp" | "sp"))) {
                    words.pop();
                }
            }
            _ => words.push(word),
        }
    }
    words.into_iter().map(file_name).collect::<Vec<_>>().join(" ")
}

/// Removes the folder from a source's name; other words stay.
pub(crate) fn file_name(word: &str) -> String {
    if word.contains(".c:") || word.contains(".h:") || word.ends_with(".c") || word.ends_with(".h")
    {
        return word.rsplit('/').next().unwrap_or(word).to_owned();
    }
    word.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn undefined_operation_is_identified_by_place() {
        let said = "x.c:12:9: runtime error: division by zero\n";
        let (kind, words, signature) = read(said).expect("it is an error");
        assert_eq!((kind, signature.as_str()), (Kind::Arithmetic, "x.c:12:9"));
        assert_eq!(words, "x.c:12:9: runtime error: division by zero");
        let said = "/a/b/x.c:3:1: runtime error: index 10 out of bounds for type 'int [10]'";
        let (kind, _, signature) = read(said).expect("it is an error");
        assert_eq!((kind, signature.as_str()), (Kind::Memory, "x.c:3:1"));
    }

    #[test]
    fn bad_access_report_is_deterministic() {
        let said = "=====\n==77==ERROR: AddressSanitizer: heap-buffer-overflow on address \
                    0x602000000018 at pc 0x55d bp 0x7ffd sp 0x7ffc\nWRITE of size 8 at \
                    0x602000000018 thread T0\n    #0 0x55d0 in late /tmp/s-1-2/bad.c:9\n    \
                    #1 0x55d1 in idle /tmp/s-1-2/driver_calls.c:300\n\
                    SUMMARY: AddressSanitizer: heap-buffer-overflow /tmp/s-1-2/bad.c:9 in late\n";
        let (kind, words, signature) = read(said).expect("it is an error");
        assert_eq!(kind, Kind::Memory);
        assert_eq!(signature, "bad.c:9 in late");
        assert_eq!(
            words,
            "heap-buffer-overflow bad.c:9 in late\nWRITE of size 8 thread T0\n\
             #0 in late bad.c:9\n#1 in idle driver_calls.c:300"
        );
    }

    #[test]
    fn other_noise_is_no_error() {
        assert!(read("no memory\n").is_none());
    }
}
