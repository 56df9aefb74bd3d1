// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Compiles a sched_ext scheduler's program as C, and does what its loader would: it tells the
//! kernel of the maps and of the `struct sched_ext_ops`, and makes a parameter of each constant.

use crate::kernel::KernelError;
use crate::kernel::btf::{Described, Variable};
use crate::kernel::compile::{self, Job, execute, read, unreadable};
use crate::kernel::contents::Contents;
use crate::kernel::policy::{PolicyFiles, done, join};
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
const FLAGS: &[&str] = &[
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
    "-D__TARGET_ARCH_x86",
    "-include",
    "khost/bpf/first.h",
];

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

/// Returns the command that compiles a program.
pub(crate) fn compiler(job: &Job<'_>, folder: &Path, file: &Path, object: &str) -> Command {
    let mut command = Command::new(job.compiler);
    command.args(FLAGS).args(["-I", "gen/bpf", "-I", "khost/bpf", "-I"]).arg(folder);
    command.arg("-I").arg(folder.join("include"));
    command.arg("-I").arg(job.tree.join("include/uapi")).args(["-I", "gen/uapi"]);
    command.args(["-MMD", "-MF", &format!("{object}.d"), "-c"]).arg(file).args(["-o", object]);
    command
}

/// Compiles a program to the policy's object; returns the files that the compiler read.
pub(crate) fn compile(
    job: &Job<'_>,
    contents: &Contents<'_>,
    policy: &PolicyFiles<'_>,
    folder: &Path,
    command: Command,
    program: &str,
) -> Result<BTreeSet<String>, KernelError> {
    let vmlinux = write_types(job, policy)?;
    done(job, policy, execute(job, command)?)?;
    let described = read(job, program)?;
    let described = Described::read(&described).ok_or_else(|| KernelError::Image {
        kernel: job.kernel.to_owned(),
        reason: format!("the compiler's object of {} cannot be read", policy.label),
    })?;
    let mut parts = vec![program.to_owned()];
    let mut add = |name: &str, text: String, is_kernels: bool| {
        let (file, part) = (folder.join(format!("{name}.c")), format!("policy-{name}.o"));
        let path = job.scratch.path().join(&file);
        fs::write(&path, text).map_err(|error| unreadable(job, &path, error))?;
        let command = match is_kernels {
            true => policy.compiler(job, &file, &part),
            false => compiler(job, folder, &file, &part),
        };
        done(job, policy, execute(job, command)?)?;
        parts.push(part);
        Ok::<(), KernelError>(())
    };
    add("scheduler", registration(job, policy, &described)?, true)?;
    add("constants", constants(&described, &vmlinux), false)?;
    join(job, policy, &parts)?;
    let mut inputs = BTreeSet::new();
    for part in parts.iter().map(String::as_str).chain([VMLINUX]) {
        let list = read(job, &format!("{part}.d"))?;
        inputs.extend(contents.listed(&String::from_utf8_lossy(&list)));
    }
    // These are made of the others.
    let is_made = |name: &str| name == VMLINUX || Path::new(name).starts_with(folder);
    inputs.retain(|name| !is_made(name));
    Ok(inputs)
}

/// Writes the types of the kernel's own files; returns them.
fn write_types(job: &Job<'_>, policy: &PolicyFiles<'_>) -> Result<String, KernelError> {
    let path = job.scratch.path().join(VMLINUX);
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    fs::create_dir_all(&folder).map_err(|error| unreadable(job, &folder, error))?;
    let output = format!("{VMLINUX}.i");
    let mut command = compile::compiler(job, "types", "-E", Path::new(TYPES), &output);
    command.args(["-P", "-w", "-MF", &format!("{VMLINUX}.d"), "-MT", VMLINUX]);
    done(job, policy, execute(job, command)?)?;
    let text = types(&String::from_utf8_lossy(&read(job, &output)?));
    fs::write(&path, &text).map_err(|error| unreadable(job, &path, error))?;
    Ok(text)
}

/// Returns the file that gives the kernel the program's maps and operations.
fn registration(
    job: &Job<'_>,
    policy: &PolicyFiles<'_>,
    described: &Described,
) -> Result<String, KernelError> {
    let refuse = |summary: &str| KernelError::Governor {
        kernel: job.kernel.to_owned(),
        release: job.release.to_string().into(),
        governor: policy.label.into(),
        summary: summary.to_owned(),
        message: String::new(),
    };
    let of = |section: &'static str| {
        described.variables.iter().filter(move |variable| variable.section == section)
    };
    let ops: Vec<&Variable> = of(".struct_ops.link").chain(of(".struct_ops")).collect();
    let [ops] = ops[..] else {
        return Err(refuse(match ops.is_empty() {
            true => "it has no struct sched_ext_ops in section .struct_ops.link",
            false => "it has several struct sched_ext_ops, and one scheduler runs at a time",
        }));
    };
    let mut text = "#include <linux/module.h>\n#include <khost/bpf.h>\n".to_owned();
    let mut maps = String::new();
    for (number, map) in of(".maps").enumerate() {
        let name = &map.name;
        if map.bytes < 8 {
            return Err(refuse(&format!("its map {name} has no definition")));
        }
        writeln!(text, "extern char map_{number}[] __asm__(\"{name}\");").expect("a String");
        maps += &format!("\t{{ .variable = map_{number}, .name = \"{name}\"");
        for member in described.members(map) {
            let number_of = described.number(&member);
            maps += &match &*member.name {
                "type" | "key_size" | "value_size" | "max_entries" => {
                    format!(", .{} = {number_of}", member.name)
                }
                "key" | "value" => format!(", .{}_size = {number_of}", member.name),
                "values" => {
                    let (at, count) = (member.offset, (map.bytes - u64::from(member.offset)) / 8);
                    format!(", .inner = (void **)(map_{number} + {at}), .inner_count = {count}")
                }
                _ => String::new(),
            };
        }
        maps += " },\n";
    }
    for (number, (variable, kind)) in parameters(described).enumerate() {
        let name = &variable.name;
        let c_type = match kind {
            "bool" => "bool",
            "byte" => "unsigned char",
            "ushort" => "unsigned short",
            "uint" => "unsigned int",
            "ulong" => "unsigned long",
            signed => signed,
        };
        writeln!(text, "extern {c_type} value_{number} __asm__(\"{name}\");\n#undef {name}")
            .and_then(|()| {
                writeln!(text, "module_param_named({name}, value_{number}, {kind}, 0444);")
            })
            .expect("a String");
    }
    write!(
        text,
        "extern char ops[] __asm__(\"{}\");\n\
         static struct khost_bpf_map maps[] = {{\n{maps}}};\n\
         static const struct khost_scheduler scheduler = {{\n\
         \t.ops = ops, .maps = maps, .map_count = ARRAY_SIZE(maps),\n}};\n\
         static int __init load(void)\n{{\n\treturn khost_load_scheduler(&scheduler);\n}}\n\
         core_initcall(load);\n",
        ops.name
    )
    .expect("a String");
    Ok(text)
}

/// Returns the constants that a user can set. A loader sets the others: lengths of its buffers, and
/// numbers of the kernel's enumerations.
fn parameters(described: &Described) -> impl Iterator<Item = (&Variable, &'static str)> {
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
