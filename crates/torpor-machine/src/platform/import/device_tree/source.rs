// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Device tree sources (`.dts`, `.dtsi`): run through the C preprocessor and `dtc`, as the kernel's
//! build does.

use super::super::Failure;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// The largest tree of Linux 6.12 is a tenth of this.
const FILE_BYTES_MAX: u64 = 16 << 20;
/// As much of a tool's complaint as an error shows.
const SHOWN_LINES_MAX: usize = 3;

pub(super) fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ext| ext == "dts" || ext == "dtsi")
}

/// The bytes of a file.
pub(super) fn load(path: &Path) -> Result<Vec<u8>, Failure> {
    let unreadable = |reason: String| Failure {
        reason,
        hint: "give a .dts, a .dtb, or the machine's own /sys/firmware/fdt".to_owned(),
    };
    let size = std::fs::metadata(path).map_err(|error| unreadable(error.to_string()))?.len();
    if size > FILE_BYTES_MAX {
        return Err(unreadable(format!("{size} bytes are more than any device tree has")));
    }
    let mut bytes = Vec::new();
    let file = crate::units::open_input(path);
    let read = file.and_then(|file| file.take(FILE_BYTES_MAX).read_to_end(&mut bytes));
    read.map_err(|error| unreadable(error.to_string()))?;
    Ok(bytes)
}

/// The source as a `.dtb`.
pub(super) fn compile(path: &Path) -> Result<Vec<u8>, Failure> {
    load(path)?;
    let path = path.canonicalize().unwrap_or(path.to_owned());
    let mut source = String::new();
    // An include file has no version line; dtc wants one.
    if path.extension().is_some_and(|ext| ext == "dtsi") {
        source.push_str("/dts-v1/;\n");
    }
    source.push_str(&format!("#include \"{}\"\n", path.display()));
    let mut cpp = Command::new("cpp");
    cpp.args(["-nostdinc", "-undef", "-D__DTS__", "-x", "assembler-with-cpp"]);
    // Warnings are of the source's style and no business of a reader.
    let mut dtc = Command::new("dtc");
    dtc.args(["-I", "dts", "-O", "dtb", "-q", "-q", "-o", "-"]);
    for folder in include_folders(&path) {
        cpp.arg("-I").arg(&folder);
        // For dtc's own `/include/`.
        dtc.arg("-i").arg(&folder);
    }
    let preprocessed = run(cpp.arg("-"), source.as_bytes(), "cpp", "cpp")?;
    run(dtc.arg("-"), &preprocessed, "dtc", "device-tree-compiler")
}

/// The file's own folder, and the include folders of the kernel tree around it.
fn include_folders(path: &Path) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = path.parent().map(Path::to_owned).into_iter().collect();
    for ancestor in path.ancestors() {
        for below in ["scripts/dtc/include-prefixes", "include"] {
            let folder = ancestor.join(below);
            if folder.join("dt-bindings").is_dir() {
                folders.push(folder);
            }
        }
    }
    folders
}

/// The lines that say what is wrong. The chain of includes precedes them, and may be longer than
/// there is space for.
fn complaint(said: &str) -> Vec<&str> {
    let lines: Vec<&str> = said.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let is_error = |line: &&&str| line.to_ascii_lowercase().contains("error");
    let errors: Vec<&str> = lines.iter().filter(is_error).take(SHOWN_LINES_MAX).copied().collect();
    if errors.is_empty() {
        lines[lines.len().saturating_sub(SHOWN_LINES_MAX)..].to_vec()
    } else {
        errors
    }
}

/// A tool's output; `package` is Debian's that has it.
fn run(command: &mut Command, input: &[u8], tool: &str, package: &str) -> Result<Vec<u8>, Failure> {
    let failed = |reason: String, hint: String| Failure { reason, hint };
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let install = format!("install Debian's package `{package}`, or give the compiled .dtb");
    let mut child = command
        .spawn()
        .map_err(|error| failed(format!("`{tool}` cannot be run: {error}"), install))?;
    let stdin = child.stdin.take();
    // Both ends at once: a tool that writes before it has read all would wait for ever.
    let output: std::io::Result<Output> = std::thread::scope(|scope| {
        // A tool that stops reading early prints the reason itself.
        scope.spawn(move || stdin.map(|mut stdin| stdin.write_all(input)));
        child.wait_with_output()
    });
    let output = output.map_err(|error| failed(format!("`{tool}`: {error}"), String::new()))?;
    if output.status.success() {
        return Ok(output.stdout);
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(failed(
        format!("`{tool}` refuses it: {}", complaint(&said).join("; ")),
        "includes are searched in the folder of the file and in the kernel tree that contains it; \
         a .dtsi may need the board's .dts that includes it"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_shows_cause_without_path_steps() {
        let said = "In file included from a.dtsi:1,\n                 from b.dtsi:2,\n                 \
                    from c.dts:3,\n                 from <stdin>:1:\nnowhere.dtsi:9:10: fatal error: \
                    dt-bindings/x.h: No such file or directory\n    9 | #include <dt-bindings/x.h>\n\
                    compilation terminated.\n";
        let shown = complaint(said).join("; ");
        assert_eq!(
            shown,
            "nowhere.dtsi:9:10: fatal error: dt-bindings/x.h: No such file or directory"
        );
        assert_eq!(complaint("one\ntwo\n\nthree\nfour\n"), ["two", "three", "four"]);
    }
}
