// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a sched_ext scheduler's program as C, and does what its loader would: it tells the
//! kernel of the maps and of the `struct sched_ext_ops`, and makes a parameter of each constant.

use crate::kernel::KernelError;
use crate::kernel::btf::{Described, Parameter, Variable};
use crate::kernel::compile::{self, Job, execute, read, unreadable};
use crate::kernel::contents::Contents;
use crate::kernel::division::as_bpf_divides;
use crate::kernel::policy::{PolicyFiles, STAGED, done, join};
use crate::kernel::types::types;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Option of a kernel that has the class.
pub(crate) const OPTION: &str = "SCHED_CLASS_EXT";
/// File that has the class.
pub(crate) const CLASS: &str = "kernel/sched/build_policy.c";
/// File whose types a program sees, and the file of these types.
const TYPES: &str = "khost/bpf/types.h";
const VMLINUX: &str = "gen/bpf/vmlinux.h";

/// Flags that change the code as the kernel's do, and those for the types of the variables.
pub(crate) const FLAGS: &[&str] = &[
    "-std=gnu11",
    "-O2",
    "-fshort-wchar",
    "-fms-extensions",
    "-fno-common",
    "-fno-strict-aliasing",
    "-fno-strict-overflow",
    "-fno-delete-null-pointer-checks",
    "-fno-stack-protector",
    "-fno-asynchronous-unwind-tables",
    "-fno-omit-frame-pointer",
    "-ffunction-sections",
    "-fdata-sections",
    "-fPIC",
    "-nostdinc",
    "-gbtf",
    "-Werror=implicit-function-declaration",
    "-D__bpf__",
    "-D__BPF__",
    "-D__TARGET_ARCH_x86",
];
/// Text of the files that make parts of a program's object, which is made anew after a change.
pub(crate) const GENERATOR: [&[u8]; 4] = [
    include_bytes!("btf.rs"),
    include_bytes!("division.rs"),
    include_bytes!("scheduler.rs"),
    include_bytes!("types.rs"),
];
/// Section of the function that sets variables as the program's loader would.
const LOAD: &str = "torpor/load";
/// Type of a parameter that no program passes.
const ADDED: &str = "struct bpf_prog_aux";
/// Header before a program.
const FIRST: &str = "khost/bpf/first.h";

/// Makes the functions global that programs may call: BPF finds those of one file, too.
pub(crate) fn make_global(job: &Job<'_>, object: &str) -> Result<(), KernelError> {
    let mut command = Command::new(compile::tool(job.compiler, "objcopy"));
    command.args(["--wildcard", "--globalize-symbol=scx_bpf_*", object]);
    let ran = execute(job, command)?;
    match ran.status.success() {
        true => Ok(()),
        false => Err(KernelError::Image {
            kernel: job.kernel.to_owned(),
            reason: compile::shown(job, &ran.stderr),
        }),
    }
}

/// Returns the command that compiles a program to assembly with `-S`, or preprocesses it with `-E`.
pub(crate) fn program(job: &Job<'_>, folder: &Path, until: &str, output: &str) -> Command {
    let mut command = compiler(job, folder, until, &folder.join(STAGED), output);
    command.args(["-include", FIRST]);
    command
}

fn compiler(job: &Job<'_>, folder: &Path, until: &str, file: &Path, output: &str) -> Command {
    let mut command = Command::new(job.compiler);
    command.args(FLAGS).args(["-I", "gen/bpf", "-I", "khost/bpf", "-I"]).arg(folder);
    command.arg("-I").arg(folder.join("include"));
    command.arg("-I").arg(job.tree.join("include/uapi")).args(["-I", "gen/uapi"]);
    command.args(["-MMD", "-MF", &format!("{output}.d"), until]).arg(file).args(["-o", output]);
    command
}

/// Compiles a program to the policy's object; returns the files that the compiler read.
pub(crate) fn compile(
    job: &Job<'_>,
    contents: &Contents<'_>,
    policy: &PolicyFiles<'_>,
    folder: &Path,
    command: Command,
    assembly: &str,
) -> Result<BTreeSet<String>, KernelError> {
    let (vmlinux, kernels) = write_types(job, policy)?;
    done(job, policy, execute(job, command)?)?;
    let program = &assemble(job, policy, assembly)?;
    let described = read(job, program)?;
    let described = Described::read(&described).ok_or_else(|| KernelError::Image {
        kernel: job.kernel.to_owned(),
        reason: format!("the compiler's object of {} cannot be read", policy.label),
    })?;
    if !described.flavors.is_empty() {
        let seen = preprocessed(job, policy, folder)?;
        take_flavors(job, policy, &described, [&kernels, &seen], program)?;
    }
    let mut parts = vec![program.clone()];
    let mut add = |name: &str, text: String, is_kernels: bool| {
        let (file, part) = (folder.join(format!("{name}.c")), format!("policy-{name}.o"));
        let path = job.scratch.path().join(&file);
        fs::write(&path, text).map_err(|error| unreadable(job, &path, error))?;
        let command = match is_kernels {
            true => policy.compiler(job, &file, &part),
            false => compiler(job, folder, "-c", &file, &part),
        };
        done(job, policy, execute(job, command)?)?;
        parts.push(part);
        Ok::<(), KernelError>(())
    };
    let registration = registration(&described).map_err(|summary| KernelError::Governor {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        governor: policy.label.into(),
        summary,
        message: String::new(),
    })?;
    add("scheduler", registration, true)?;
    add("constants", constants(&described, &vmlinux), false)?;
    join(job, policy, &parts)?;
    let mut inputs = BTreeSet::new();
    let compiled = parts.iter().skip(1).map(String::as_str).chain([assembly, VMLINUX]);
    for part in compiled {
        let list = read(job, &format!("{part}.d"))?;
        inputs.extend(contents.listed(&String::from_utf8_lossy(&list)));
    }
    // These are made of the others.
    let is_made = |name: &str| name == VMLINUX || Path::new(name).starts_with(folder);
    inputs.retain(|name| !is_made(name));
    Ok(inputs)
}

/// Assembles a program, whose divisions are those of BPF; returns its object.
fn assemble(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    assembly: &str,
) -> Result<String, KernelError> {
    let path = job.scratch.path().join(assembly);
    let text = as_bpf_divides(&String::from_utf8_lossy(&read(job, assembly)?));
    fs::write(&path, text).map_err(|error| unreadable(job, &path, error))?;
    let object = format!("{assembly}.o");
    let mut command = Command::new(job.compiler);
    command.args(["-c", assembly, "-o", &object]);
    done(job, policy, execute(job, command)?)?;
    Ok(object)
}

/// Returns a program as the compiler sees it.
fn preprocessed(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    folder: &Path,
) -> Result<String, KernelError> {
    let output = "policy-program.i";
    let mut command = program(job, folder, "-E", output);
    command.arg("-P");
    done(job, policy, execute(job, command)?)?;
    Ok(String::from_utf8_lossy(&read(job, output)?).into_owned())
}

/// Takes functions `NAME___FLAVOR` for the kernel's `NAME` if they have as many parameters: a
/// program has several declarations of one that differs between releases, as libbpf knows them.
/// The others remain undefined, so that the program finds that they do not exist.
fn take_flavors(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    described: &Described,
    [kernels, programs]: [&str; 2],
    program: &str,
) -> Result<(), KernelError> {
    for name in &described.flavors {
        let plain = name.split("___").next().unwrap_or(name);
        let counts = (parameter_count(kernels, plain), parameter_count(programs, name));
        // One that the kernel's files do not declare is the host's.
        if matches!(counts, (Some(kernels), Some(programs)) if kernels != programs) {
            continue;
        }
        // Several in one command may not get the same name.
        let mut command = Command::new(compile::tool(job.compiler, "objcopy"));
        command.args([&format!("--redefine-sym={name}={plain}"), program]);
        done(job, policy, execute(job, command)?)?;
    }
    Ok(())
}

/// Returns the number of parameters in the first declaration of a function, without the program's own
/// data, which the kernel adds to a call.
fn parameter_count(text: &str, name: &str) -> Option<usize> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let declared = |(at, _): (usize, &str)| {
        let rest = text[at + name.len()..].trim_start().strip_prefix('(')?;
        (!text[..at].ends_with(is_part)).then_some(rest)
    };
    let list = text.match_indices(name).find_map(declared)?;
    let (mut depth, mut commas) = (0_usize, 0);
    for (at, sign) in list.char_indices() {
        match sign {
            '(' => depth += 1,
            ')' if depth == 0 => {
                let last = list[..at].rsplit(',').next().unwrap_or_default().trim();
                let is_added = last.is_empty() || last == "void" || last.contains(ADDED);
                return Some(commas + usize::from(!is_added));
            }
            ')' => depth -= 1,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    None
}

/// Writes the types of the kernel's own files; returns them, and the files as the compiler sees
/// them.
fn write_types(job: &Job<'_>, policy: &PolicyFiles<'_>) -> Result<(String, String), KernelError> {
    let path = job.scratch.path().join(VMLINUX);
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(|error| unreadable(job, &folder, error))?;
    let output = format!("{VMLINUX}.i");
    let mut command = compile::compiler(job, "types", "-E", Path::new(TYPES), &output);
    command.args(["-P", "-w", "-MF", &format!("{VMLINUX}.d"), "-MT", VMLINUX]);
    done(job, policy, execute(job, command)?)?;
    let seen = String::from_utf8_lossy(&read(job, &output)?).into_owned();
    let text = types(&seen);
    fs::write(&path, &text).map_err(|error| unreadable(job, &path, error))?;
    Ok((text, seen))
}

/// Returns the file that gives the kernel the program's maps and operations.
fn registration(described: &Described) -> Result<String, String> {
    let all = described.variables.iter();
    let ops: Vec<&Variable> = all.filter(|v| v.section.starts_with(".struct_ops")).collect();
    let [ops] = ops[..] else {
        return Err(match ops.is_empty() {
            true => "it has no struct sched_ext_ops in section .struct_ops.link".to_owned(),
            false => "it has several struct sched_ext_ops; one scheduler runs at a time".to_owned(),
        });
    };
    let (maps, map_names) = maps(described)?;
    let mut text = format!(
        "#include <linux/module.h>\n#include <linux/version.h>\n#include <khost/bpf.h>\n\
         #define LINUX_KERNEL_VERSION LINUX_VERSION_CODE\n{map_names}"
    );
    for (number, (variable, kind)) in parameters(described).enumerate() {
        let (name, Parameter { kind, len }) = (&variable.name, kind);
        let (array, end, more) = match len {
            Some(len) => ("_array", format!("[{len}]"), ", NULL"),
            None => ("", String::new(), ""),
        };
        text += &format!(
            "extern {} value_{number}{end} __asm__(\"{name}\");\n#undef {name}\n\
             module_param{array}_named({name}, value_{number}, {kind}{more}, 0444);\n",
            c_type(kind)
        );
    }
    for (number, name) in described.options.iter().enumerate() {
        text += &format!(
            "#ifndef {name}\n#define {name} 0\n#endif\n\
             const unsigned long option_{number} __asm__(\"{name}\") = {name};\n"
        );
    }
    let load = described.variables.iter().find(|function| function.section == LOAD);
    let load = load.map(|function| {
        let declaration = format!("void khost_load(void) __asm__(\"{}\");\n", function.name);
        (declaration, ".load = khost_load")
    });
    let (declaration, load) = load.unwrap_or_default();
    // Names that no program has.
    text += &format!(
        "extern char khost_ops[] __asm__(\"{}\");\n{declaration}\
         static struct khost_bpf_map khost_maps[] = {{\n{maps}}};\n\
         static const struct khost_scheduler khost_scheduler = {{\n\
         \t.ops = khost_ops, .maps = khost_maps, .map_count = ARRAY_SIZE(khost_maps), {load}\n}};\n\
         static int __init khost_register(void)\n{{\n\
         \treturn khost_load_scheduler(&khost_scheduler);\n}}\n\
         core_initcall(khost_register);\n",
        ops.name
    );
    Ok(text)
}

/// Returns the initializers of the program's maps, and the declarations that they need.
fn maps(described: &Described) -> Result<(String, String), String> {
    let (mut maps, mut names) = (String::new(), String::new());
    let all = described.variables.iter().filter(|variable| variable.section == ".maps");
    for (number, map) in all.enumerate() {
        let name = &map.name;
        let members = described.members(map);
        if members.is_empty() {
            return Err(format!("the type of its map {name} is not known: gcc 12 describes it"));
        }
        names += &format!("extern char map_{number}[] __asm__(\"{name}\");\n");
        maps += &format!("\t{{ .variable = map_{number}, .name = \"{name}\"");
        for member in members {
            let value = described.number(&member);
            maps += &match &*member.name {
                "type" | "key_size" | "value_size" | "max_entries" => {
                    format!(", .{} = {value}", member.name)
                }
                "key" | "value" => format!(", .{}_size = {value}", member.name),
                "values" => {
                    let at = u64::from(member.offset);
                    let count = map.bytes.saturating_sub(at) / 8;
                    format!(", .inner = (void **)(map_{number} + {at}), .inner_count = {count}")
                }
                _ => String::new(),
            };
        }
        maps += " },\n";
    }
    Ok((maps, names))
}

/// Returns the C type of a module's parameter.
fn c_type(kind: &str) -> &str {
    match kind {
        "byte" => "unsigned char",
        "ushort" => "unsigned short",
        "uint" => "unsigned int",
        "ulong" => "unsigned long",
        same => same,
    }
}

/// Returns the constants that a user can set. A loader sets the others: lengths of its buffers, and
/// numbers of the kernel's enumerations.
fn parameters(described: &Described) -> impl Iterator<Item = (&Variable, Parameter)> {
    let is_users = |name: &str| !name.starts_with("__") && !name.ends_with("_dump_len");
    let all = described.variables.iter().filter(move |variable| is_users(&variable.name));
    all.filter_map(|variable| Some((variable, described.parameter(variable)?)))
}

/// Returns the file with the numbers of the kernel's enumerations by which a program of several
/// releases reads them: weak constants `__NAME`.
fn constants(described: &Described, vmlinux: &str) -> String {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let known: BTreeSet<&str> = vmlinux.split(|c: char| !is_part(c)).collect();
    let mut text = "#include \"vmlinux.h\"\n".to_owned();
    for variable in described.variables.iter().filter(|variable| variable.is_weak) {
        let Some(name) = variable.name.strip_prefix("__") else { continue };
        if known.contains(name) && described.parameter(variable).is_some() {
            writeln!(text, "#undef {name}\nconst volatile u64 __{name} = {name};")
                .expect("a String");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::parameter_count;

    #[test]
    fn parameters_of_the_first_declaration_count() {
        let text = "int my_move(int a);\nbool move(u64 queue, int (*f)(int, int)) ;\n\
                    int none(void); int old (); int x = move(1, 2, 3);\n\
                    int new(int a, const struct bpf_prog_aux *aux);";
        let names = ["move", "my_move", "none", "old", "new", "nonesuch"];
        let counts = names.map(|name| parameter_count(text, name));
        assert_eq!(counts, [Some(2), Some(1), Some(0), Some(0), Some(1), None]);
    }
}
