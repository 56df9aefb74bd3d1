// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A compiling process leaves no files or processes, however it ends; processes can share a cache.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use torpor_governor::{Catalog, CatalogOptions, CpuSetup, GovernorError, Inputs, Setup, StateDesc};
use torpor_machine::units::{CpuId, Hz};

/// Returns an empty folder for a test.
fn folder(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("compiling").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).unwrap();
    dir
}

/// Writes a governor that selects state `number`.
fn governor(dir: &Path, number: u32) -> PathBuf {
    let path = dir.join(format!("g{number}.c"));
    let text = format!(
        "#include <linux/cpuidle.h>\n\
         static int pick(struct cpuidle_driver *drv, struct cpuidle_device *dev, bool *stop)\n\
         {{ return {number}; }}\n\
         static struct cpuidle_governor gov = {{ .name = \"mine\", .select = pick }};\n\
         static int __init start(void) {{ return cpuidle_register_governor(&gov); }}\n\
         postcore_initcall(start);\n"
    );
    fs::write(&path, text).unwrap();
    path
}

/// Writes a compiler that starts another process and never ends.
fn endless_compiler(dir: &Path) -> PathBuf {
    let path = dir.join("endless-cc");
    let text = format!(
        "#!/bin/sh\ncase $* in *--version*) echo 1; exit;; esac\n\
         touch \"$TMPDIR/left\"\nsleep 1000 &\necho $! > '{}/pid'\nwait\n",
        dir.display()
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn options(dir: &Path) -> CatalogOptions {
    CatalogOptions {
        cache_dir: Some(dir.join("cache")),
        compiler: Some(endless_compiler(dir).into()),
        ..Default::default()
    }
}

fn resolve(options: CatalogOptions, path: &Path) -> Result<i32, GovernorError> {
    let governor = Catalog::new(options).resolve(&path.to_str().unwrap().parse()?, Hz::H250)?;
    let zero = torpor_machine::units::Duration::ZERO;
    let state = |_| StateDesc {
        name: "C".into(),
        exit_latency: zero,
        target_residency: zero,
        is_polling: false,
        is_disabled: false,
    };
    let states: Vec<StateDesc> = (0..10).map(state).collect();
    let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
    Ok(governor.instantiate(&setup)?.select(0, &Inputs::default())?.state)
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(60), "not so after a minute: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn is_running(dir: &Path) -> bool {
    let pid = fs::read_to_string(dir.join("pid")).expect("the compiler wrote it");
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}

fn nothing_is_left(dir: &Path) {
    wait_until("the compiler's process has ended", || !is_running(dir));
    wait_until("its folder is gone", || {
        fs::read_dir(dir.join("cache/scratch")).unwrap().next().is_none()
    });
}

#[test]
fn a_compiler_has_a_time_limit() {
    let dir = folder("limit");
    let limit = Some(Duration::from_secs(2));
    let options = CatalogOptions { compile_limit: limit, ..options(&dir) };
    let text = resolve(options, &governor(&dir, 1)).expect_err("it never ends").to_string();
    assert!(text.contains("g1.c` is not compiled after 2 s"), "{text}");
    nothing_is_left(&dir);
}

#[test]
fn user_can_stop_the_compiler() {
    let dir = folder("stop");
    let stop = Arc::new(AtomicBool::new(false));
    let options = CatalogOptions { stop: Some(stop.clone()), ..options(&dir) };
    let path = governor(&dir, 1);
    let compiling = std::thread::spawn(move || resolve(options, &path));
    wait_until("the compiler runs", || dir.join("pid").exists());
    stop.store(true, Ordering::Relaxed);
    let error = compiling.join().unwrap().expect_err("it was stopped");
    assert!(matches!(error, GovernorError::Interrupted), "{error}");
    nothing_is_left(&dir);
}

/// Not a test: the tests below run this in other processes.
#[test]
fn compile_as_a_process() {
    let Some(dir) = std::env::var_os("TORPOR_TEST_COMPILE").map(PathBuf::from) else { return };
    if dir.join("endless-cc").exists() {
        let _ = resolve(options(&dir), &governor(&dir, 1));
        return;
    }
    let options = || CatalogOptions { cache_dir: Some(dir.join("cache")), ..Default::default() };
    for number in 0..4 {
        let path = dir.join(format!("g{number}.c"));
        assert_eq!(resolve(options(), &path).unwrap_or_else(|e| panic!("{e}")), number);
    }
}

fn this_test(dir: &Path, wrapper: &[&str]) -> Command {
    let exe = std::env::current_exe().unwrap();
    let mut line: Vec<&std::ffi::OsStr> = wrapper.iter().map(std::ffi::OsStr::new).collect();
    line.push(exe.as_os_str());
    let mut command = Command::new(line[0]);
    command.args(&line[1..]).args(["--exact", "compile_as_a_process"]);
    command.env("TORPOR_TEST_COMPILE", dir).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

#[test]
fn a_killed_process_leaves_nothing() {
    for (name, signal) in [("term", libc::SIGTERM), ("kill", libc::SIGKILL), ("int", libc::SIGINT)]
    {
        let dir = folder(name);
        endless_compiler(&dir);
        let mut command = this_test(&dir, &[]);
        // Background jobs of a shell ignore SIGINT, and so do their children.
        // SAFETY: the one call is async-signal-safe.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGINT, libc::SIG_DFL);
                Ok(())
            })
        };
        let mut process = command.process_group(0).spawn().unwrap();
        wait_until("the compiler runs", || {
            fs::read_to_string(dir.join("pid")).is_ok_and(|pid| pid.ends_with('\n'))
        });
        assert!(is_running(&dir));
        // SAFETY: a child of this process, which has not been waited for.
        unsafe { libc::kill(process.id() as i32, signal) };
        process.wait().unwrap();
        nothing_is_left(&dir);
    }
}

/// Folder names must not depend on PIDs, which can be equal in two namespaces.
#[test]
fn two_pid_namespaces_share_a_cache() {
    let dir = folder("namespaces");
    (0..4).for_each(|number| drop(governor(&dir, number)));
    let mut wrapper: &[&str] = &["unshare", "--pid", "--fork"];
    let possible = Command::new(wrapper[0]).args(&wrapper[1..]).arg("true").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        eprintln!("not run: in namespaces of their own: unshare is not allowed here");
        wrapper = &[];
    }
    for _ in 0..2 {
        let _ = fs::remove_dir_all(dir.join("cache"));
        let all: Vec<_> = (0..4).map(|_| this_test(&dir, wrapper).spawn().unwrap()).collect();
        for mut process in all {
            assert!(process.wait().unwrap().success(), "it got another's governor, or none");
        }
    }
    assert_eq!(fs::read_dir(dir.join("cache/scratch")).unwrap().count(), 0);
}

#[test]
fn files_of_other_users_are_not_loaded() {
    let dir = folder("homeless");
    (0..4).for_each(|number| drop(governor(&dir, number)));
    let temporary = dir.join("tmp");
    fs::create_dir(&temporary).unwrap();
    // File that another user could have put there.
    let planted = temporary.join("torpor");
    fs::create_dir(&planted).unwrap();
    let exe = std::env::current_exe().unwrap();
    let homeless = |dir: &Path| {
        let mut command = Command::new(&exe);
        command.args(["--exact", "resolve_without_a_home"]).env("TORPOR_TEST_HOMELESS", dir);
        command.env_remove("HOME").env_remove("XDG_CACHE_HOME").env("TMPDIR", &temporary);
        command
    };
    let output = homeless(&dir).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    let left: Vec<_> = fs::read_dir(&temporary).unwrap().map(|e| e.unwrap().path()).collect();
    assert_eq!(left, std::slice::from_ref(&planted), "its folder is gone");
    assert_eq!(fs::read_dir(&planted).unwrap().count(), 0, "the planted one is not used");
    // If others may write to the cache in a home, it is not used.
    let cache = dir.join("home/.cache/torpor");
    fs::create_dir_all(&cache).unwrap();
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o777)).unwrap();
    let output = homeless(&dir).env("HOME", dir.join("home")).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(fs::read_dir(&cache).unwrap().count(), 0);
}

/// Not a test: the test above runs this in another process.
#[test]
fn resolve_without_a_home() {
    let Some(dir) = std::env::var_os("TORPOR_TEST_HOMELESS").map(PathBuf::from) else { return };
    for number in 0..2 {
        let path = dir.join(format!("g{number}.c"));
        let catalog = Catalog::new(CatalogOptions::default());
        catalog.resolve(&path.to_str().unwrap().parse().unwrap(), Hz::H250).unwrap();
        let notes = catalog.take_notes();
        let has_home = std::env::var_os("HOME").is_some();
        assert_eq!(notes.len(), usize::from(has_home), "{notes:?}");
        assert!(notes.iter().all(|n| n.contains("others may write to it")), "{notes:?}");
    }
}
