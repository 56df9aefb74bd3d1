// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Command lines and job files as their authors write them.

use crate::support::{count, machine, request};
use torpor_machine::platform::Platform;
use torpor_machine::units::Duration;
use torpor_sim::workload::{
    self, IoWait, Op, Step, TransferKind, from_document, from_toml, of_job_file,
};
use torpor_sim::{SimError, Workload};

fn command(text: &str) -> Workload {
    workload::resolve(text).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(text: &str) -> String {
    match workload::resolve(text) {
        Err(error @ SimError::Workload { .. }) => error.to_string(),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("`{text}` is taken"),
    }
}

#[test]
fn fio_command_line_makes_same_job_as_toml() {
    let load = command(
        "fio --filename=/dev/nvme0n1 --rw=randread --bs=4k --ioengine=io_uring --iodepth=4 \
         --numjobs=6 --direct=1 --runtime=30 --time_based --cpus_allowed=0-3 --thinktime=20 \
         --rate_iops=1000 --group_reporting --ramp_time=5 --name=io_uring6x4",
    );
    let made = from_toml(
        "by hand",
        "name = \"fio\"\ntitle = \"t\"\nsource = \"s\"\n[[fio]]\nname = \"io_uring6x4\"\n\
         device = \"nvme\"\nioengine = \"io_uring\"\nrw = \"randread\"\nbs = \"4k\"\niodepth = 4\n\
         numjobs = 6\nruntime = 30\ncpus_allowed = \"0-3\"\nthinktime_us = 20\nrate_iops = 1000\n",
    )
    .unwrap();
    assert_eq!(load.tasks, made.tasks);
    let notes = load.notes.join("\n");
    assert!(notes.contains("without meaning here: group_reporting"), "{notes}");
    assert!(notes.contains("not simulated: ramp_time"), "{notes}");
    assert!(!notes.contains("page cache"), "{notes}");
}

#[test]
fn buffered_libaio_waits_in_its_submission() {
    let line = |direct: &str| {
        format!("fio --name=a --filename=nvme --ioengine=libaio --iodepth=8 --rw=randread{direct}")
    };
    for (direct, wait, depth) in
        [("", IoWait::IoSchedule, 1), (" --direct=1", IoWait::ReadEvents, 8)]
    {
        let load = command(&line(direct));
        let waits = |step: &Step| if let Op::IoWait(wait) = step.op { Some(wait) } else { None };
        let program = &load.tasks[0].program;
        assert_eq!(program.iter().find_map(waits), Some(wait), "{direct}");
        let fills = |step: &Step| {
            if let Op::IoFill { iodepth, .. } = step.op { Some(iodepth) } else { None }
        };
        assert_eq!(program.iter().find_map(fills), Some(depth), "{direct}");
        assert_eq!(load.notes.join(" ").contains("io_submit()"), direct.is_empty());
    }
}

#[test]
fn job_file_has_global_and_job_sections() {
    let text = "; random reads, then writes\n[global]\nioengine=libaio\ndirect=1\nfilename=ufs\nbs=8k\n\
                runtime=2\n\n[reads]\nrw=randread\niodepth=32\n\n[writes]\nstonewall\nrw=randwrite\n\
                iodepth=1\nfsync=8\nsize=1m\n";
    let load = from_document(&of_job_file("job.fio", text).unwrap()).unwrap();
    assert_eq!(load.name, "job");
    let [reads, writes] = &load.tasks[..] else { panic!("{:?}", load.tasks) };
    let fill = |task: &torpor_sim::workload::TaskKind| match task.program[0].op {
        Op::IoFill { iodepth, runtime, number_ios, .. } => (iodepth, runtime, number_ios),
        _ => panic!("a job begins by looking at how much is under way"),
    };
    assert_eq!(fill(reads), (32, Some(Duration(2_000_000_000)), None));
    assert_eq!(fill(writes), (1, Some(Duration(2_000_000_000)), Some(128)), "1 MiB of 8 KiB");
    assert_eq!((reads.start, writes.start), (Duration::ZERO, Duration(2_000_000_000)));
    let flushes = |step: &torpor_sim::workload::Step| matches!(step.op, Op::IoSubmit { transfer, .. } if transfer.kind == TransferKind::Flush);
    assert_eq!(writes.program.iter().filter(|s| flushes(s)).count(), 1);
}

#[test]
fn unknown_fio_option_is_reported_at_its_place() {
    let error = refused("fio --name=a --filename=nvme --iodeph=4");
    assert!(error.contains("did you mean `iodepth`?"), "{error}");
    assert!(error.contains("^^^^^^^^^^"), "{error}");
    for (line, words) in [
        ("fio --name=a --filename=nvme --rw=trim", "not simulated"),
        ("fio --name=a --filename=nvme --ioengine=rdma", "psync, sync"),
        ("fio --name=a --filename=nvme --bs=x", "not a size"),
        ("fio --name=a --filename=nvme --runtime=forever", "not a time"),
        ("fio --name=a --filename=nvme --iodepth=0", "from 1 to"),
        ("fio 'unfinished", "quote is not closed"),
        ("fio there-is-no-such.fio", "cannot be read"),
        ("perf bench sched pip", "did you mean `pipe`?"),
        ("perf stat ls", "only `perf bench sched`"),
        ("perf bench sched pipe -l 0", "from 1 to"),
        ("turbostat -i", "not such a number"),
        ("periodic --threads 12 --thread 73", "did you mean `--threads`?"),
        ("cyclictest -t 4", "there is no such command"),
    ] {
        let error = refused(line);
        assert!(error.contains(words), "{line}\n{error}");
    }
}

#[test]
fn every_command_is_a_workload_that_runs() {
    for line in [
        "fio --name=a --filename=nvme --rw=randrw --rwmixread=70 --iodepth=8 --ioengine=libaio --direct=1",
        "fio --filename nvme --rw write --bs 128k --rate 10m --direct 1",
        "perf bench sched pipe -l 100",
        "perf bench -f simple sched messaging -g 2 -l 10",
        "perf bench sched seccomp-notify --loop 50 --sync-mode",
        "turbostat -i 0.1 -n 3",
        "idle_predict -t 4 -l 10 -d 20",
        "idle_predict",
        "periodic --threads 12 --hz 73",
    ] {
        let counted =
            count(&request(Platform::resolve("i5-10600k").unwrap(), command(line), &["menu"], 400));
        let counted = counted.unwrap_or_else(|e| panic!("{line}: {e}"));
        assert!(counted.kinds.iter().all(|k| k.wakeups > 0 || k.ios > 0), "{line}");
    }
}

/// Files as most published jobs have them: by name, in a folder, on a mount, unnamed.
#[test]
fn files_are_on_the_chosen_device() {
    let jobs = "[global]\nrw=randread\ndirect=1\n[a]\nfilename=testfile\n[b]\ndirectory=/mnt/x\n\
                [c]\nfilename=/mnt/x/file:other\n[d]\nfilename=/dev/md0\n[e]\n[f]\nfilename=nvme\n";
    let workload = from_document(&of_job_file("job.fio", jobs).unwrap()).unwrap();
    let resolved = |platform: &str, device: Option<&str>| {
        let platform = Platform::resolve(platform).unwrap();
        let mut request = request(platform, workload.clone(), &["menu"], 100);
        request.options.device = device.map(str::to_owned);
        request.resolved().map(|request| request.workload)
    };
    let placed = resolved("i5-10600k", Some("nvme")).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = placed.devices.iter().map(workload::DeviceRef::name).collect();
    assert_eq!(names, ["nvme"], "one device serves them all");
    assert!(placed.notes.iter().any(|n| n.contains("`testfile`, `/mnt/x/b.0.0`")));
    // Only job f names a device.
    let placed = resolved("i5-10600k", Some("ufs")).unwrap_or_else(|e| panic!("{e}"));
    let names: Vec<&str> = placed.devices.iter().map(workload::DeviceRef::name).collect();
    assert_eq!(names, ["ufs", "nvme"]);
    let counted = request(Platform::resolve("i5-10600k").unwrap(), placed, &["menu"], 100);
    let counted = count(&counted).unwrap_or_else(|e| panic!("{e}"));
    assert!(counted.kinds.iter().all(|kind| kind.ios > 0));
    // The platform's only device, if it has one alone.
    let only = resolved("apple-m1", None).unwrap_or_else(|e| panic!("{e}"));
    assert!(only.notes.iter().any(|n| n.contains("the platform's only device")));
    for (platform, device, part) in [
        ("i5-10600k", None, "`testfile`; `i5-10600k` has 0 devices"),
        ("rk3399", None, "has 3 devices"),
        ("rk3399", Some("nvmee"), "`nvmee`"),
    ] {
        let error = resolved(platform, device).expect_err(part).to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn device_without_files_is_refused() {
    let platform = Platform::resolve("i5-10600k").unwrap();
    let mut request = request(platform, command("frames"), &["menu"], 100);
    request.options.device = Some("nvme".to_owned());
    assert!(request.resolved().unwrap_err().to_string().contains("names no file"));
}

#[test]
fn names_and_files_come_before_commands() {
    assert_eq!(command("periodic").title, "One task that works 0.5 ms every 10 ms");
    for (text, is_command) in [
        ("periodic", false),
        ("periodic --hz 5", true),
        ("turbostat", true),
        ("frames", false),
        ("my load.toml", false),
        ("fio my.toml", true),
        ("cyclictest -t", true),
    ] {
        assert_eq!(workload::is_command(text), is_command, "{text}");
    }
}

#[test]
fn a_pipe_ends_after_its_loops() {
    let counted =
        count(&request(machine(2, ""), command("perf bench sched pipe -l 100"), &["menu"], 100));
    let counted = counted.unwrap();
    let ended: Vec<(u64, u64)> = counted.kinds.iter().map(|k| (k.passes, k.ended)).collect();
    assert_eq!(ended, [(100, 1), (100, 1)]);
}

#[test]
fn turbostat_reads_registers_of_every_cpu() {
    let load = command("turbostat -i 0.1 --gap_us 300");
    let counted = count(&request(machine(4, ""), load, &["menu"], 1_000)).unwrap();
    for (number, cpu) in counted.cpus.iter().enumerate() {
        // Nine rounds of ten reads, and the task's own wake-ups on one of them.
        let wakeups = cpu.totals.decisions;
        assert!(wakeups >= 90, "CPU {number}: {wakeups}");
    }
}

/// 1000 a second are 100 in 0.1 s, whatever the drive could do.
#[test]
fn fio_rate_is_kept() {
    let line = "fio --name=a --filename=nvme --rw=randread --rate_iops=1000 --direct=1";
    let counted = count(&request(machine(2, ""), command(line), &["menu"], 100)).unwrap();
    assert!((99..=101).contains(&counted.kinds[0].ios), "{}", counted.kinds[0].ios);
    let line = "fio --name=a --filename=nvme --rw=randread --number_ios=7 --direct=1";
    let counted = count(&request(machine(2, ""), command(line), &["menu"], 100)).unwrap();
    assert_eq!((counted.kinds[0].ios, counted.kinds[0].ended), (7, 1));
}

/// What is shown for a file, read as one, is the same workload: the printer leaves nothing out.
#[test]
fn shown_file_is_the_same_workload() {
    for line in [
        "perf bench sched messaging -g 3 -l 5",
        "fio --filename nvme --rw write --bs 128k --rate 10m --direct 1",
        "turbostat -i 0.1 -n 3",
        "idle_predict -t 4 -l 10 -d 20",
        "frames,task.ui.period_us=8000",
    ] {
        let text = workload::document(line).unwrap_or_else(|e| panic!("{e}"));
        let text = text.to_toml();
        let shown = from_toml("x", &text).unwrap_or_else(|e| panic!("{text}\n{e}"));
        let read = command(line);
        // A device has the place in its own text, for an error.
        let (name, devices) = (shown.name.clone(), shown.devices.clone());
        assert_eq!(devices.len(), read.devices.len());
        assert_eq!(shown, Workload { name, devices, ..read }, "{text}");
    }
}

#[test]
fn unreadable_job_file_is_one_error() {
    let error = refused("fio missing.fio");
    assert_eq!(error.matches("missing.fio: ").count(), 1, "{error}");
    assert!(error.contains("cannot be read"), "{error}");
}

#[test]
fn error_in_a_job_file_names_its_line() {
    let file = tempfile::Builder::new().suffix(".fio").tempfile().unwrap();
    std::fs::write(file.path(), "[a]\nfilename=nvme\niodepth=2\ncpus_allowed=3-1\n").unwrap();
    let path = file.path().to_str().unwrap();
    for line in [path.to_owned(), format!("fio {path}")] {
        let error = refused(&line);
        assert!(error.contains("cpus_allowed = 3-1"), "{error}");
        assert!(error.contains(&format!("{path}:4:14")), "{error}");
    }
}
