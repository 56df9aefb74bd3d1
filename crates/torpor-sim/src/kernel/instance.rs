// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A started kernel, and the calls into it. Each call returns, whatever the kernel does.

use crate::kernel::abi::{self, Call, Cpu, Usage};
use crate::kernel::error::{Kind, TroubleDetail};
use crate::kernel::files::{Files, Found, Write};
use crate::kernel::image::Image;
use crate::kernel::region::{LINE, Region, Stacks};
use crate::kernel::task::{Attributes, TaskSetup};
use crate::kernel::{Hardware, Kernel, KernelError, Trouble, policy, symbols};
use std::collections::VecDeque;
use std::ffi::{CStr, CString, c_char, c_ulong, c_void};
use std::ptr::NonNull;
use torpor_governor::hosting;
use torpor_machine::platform::PollLoop;
use torpor_machine::units::{CpuId, Duration, Instant, closest};

/// Symbol that addresses in an image are relative to.
const ANCHOR: &str = "khost_calls";
/// Beginning of what the class of sched_ext schedulers says in the log.
const SCHED_EXT: &str = "sched_ext: ";
/// Lines of the kernel's log to show in a trouble.
const LOG_LINES: usize = 8;

/// A running kernel. Any thread may use it, one at a time.
pub struct Instance {
    kernel: Kernel,
    image: Image,
    host: Box<HostSide>,
    cpus: usize,
    trouble: Option<Trouble>,
    /// State of the kernel's files that the host knows.
    generation: Option<u32>,
}

/// End of a sched_ext scheduler, by its own wish or by the kernel's.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Ejection {
    pub at: Instant,
    /// What the kernel says of it.
    pub reason: String,
}

/// What the kernel's shell is to do.
#[derive(Clone, Debug)]
pub(crate) enum Order {
    Write(Write),
    Change(TaskHandle, Attributes),
}

enum Due {
    Write(Found),
    Change(TaskHandle, Attributes),
}

struct Written {
    write: abi::Write,
    /// Path and value, or the change.
    _texts: [CString; 2],
    change: Option<abi::Change>,
}

/// Why a write cannot be made.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum WriteError {
    #[error("{0}")]
    NoFile(String),
    #[error(transparent)]
    Kernel(#[from] Trouble),
}

/// Kernel's handle of a simulated task, invalid after the task exits.
#[derive(Clone, Copy, Debug)]
pub struct TaskHandle(NonNull<c_void>);

/// Host's side of the interface. It must not move, since the kernel has its address.
struct HostSide {
    table: abi::Host,
    regions: Vec<Region>,
    stacks: Vec<Stacks>,
    log: VecDeque<String>,
    /// Time of the kernel.
    now_ns: *const u64,
    /// When and why the kernel ejected its scheduler.
    ejection: Option<Ejection>,
    traced: Vec<abi::Event>,
    trouble: Option<(u32, String, Vec<i64>)>,
    anchor: i64,
    clusters: Vec<abi::Cluster>,
    /// Number of idle states of each CPU.
    states: Vec<usize>,
    /// Poll loop of each CPU's polling state.
    poll_loops: Vec<Option<PollLoop>>,
    machine: Option<Box<abi::Machine>>,
    command_line: CString,
    /// Paths of control groups, and the table that points to them.
    texts: Vec<CString>,
    groups: Vec<*const c_char>,
    files: Files,
    /// Writes of the start, until the kernel's files are known; then those that are due.
    settings: Option<Hardware>,
    due: VecDeque<Due>,
    /// What the kernel does of it now, with what this points to.
    written: Option<Box<Written>>,
    /// All that was due has been done, since this was last asked.
    is_done: bool,
    /// Why a write of the start names no file.
    refused: Option<String>,
    /// Events since they were last taken, if recorded.
    rejects: Option<Rejects>,
}

/// Returns the time of a refused attempt of a CPU to enter an idle state, if the driver refuses it.
pub type Rejects = Box<dyn FnMut(usize, usize) -> Option<Duration> + Send>;

// SAFETY: the kernel's memory is its own, and all calls into it take `&mut self`.
unsafe impl Send for Instance {}

impl Kernel {
    /// Starts a private copy, and runs it until all CPUs are up and idle.
    pub fn boot(&self, hardware: &Hardware) -> Result<Instance, KernelError> {
        let refused = |reason| KernelError::Machine { kernel: self.name.clone(), reason };
        hardware.check().map_err(refused)?;
        let image = Image::load(&self.image, self.hz.get())
            .map_err(|reason| KernelError::Image { kernel: self.name.clone(), reason })?;
        let host = HostSide::new(&image, hardware, self);
        let mut instance = Instance {
            kernel: self.clone(),
            image,
            host,
            cpus: hardware.cluster_of.len().min(abi::CPUS_MAX),
            trouble: None,
            generation: None,
        };
        let table = (&raw mut instance.host.table).cast();
        let machine = instance.host.machine.as_mut().expect("it was made");
        let machine = (&raw mut **machine).cast();
        let boot = instance.image.calls().boot;
        // SAFETY: both live in the box that the instance keeps.
        let ended = unsafe { instance.call(boot, table, machine) };
        if let Some(reason) = instance.host.refused.take() {
            return Err(refused(reason));
        }
        match ended {
            Ok(()) => Ok(instance),
            Err(trouble) => match trouble.detail().kind {
                Kind::Refused => {
                    let said = instance.take_ejection().map(|ejection| ejection.reason);
                    let said = said.map_or(String::new(), |said| format!(": {said}"));
                    Err(refused(format!("{}{said}", trouble.detail().message)))
                }
                Kind::UnknownArgument => {
                    Err(refused(instance.unknown_argument(&trouble.detail().message)))
                }
                _ => Err(trouble.into()),
            },
        }
    }
}

impl Instance {
    pub fn kernel(&self) -> &Kernel {
        &self.kernel
    }

    pub fn cpu_count(&self) -> usize {
        self.cpus
    }

    #[inline]
    pub fn now(&self) -> Instant {
        // SAFETY: a variable of the image; no call is under way.
        Instant(unsafe { *self.image.calls().now_ns } as i64)
    }

    #[inline]
    pub fn set_now(&mut self, now: Instant) {
        assert!(now >= self.now(), "time does not go back");
        // SAFETY: a variable of the image; no call is under way.
        unsafe { *self.image.calls().now_ns = now.0 as u64 };
    }

    #[inline]
    pub(crate) fn cpu(&self, cpu: usize) -> &Cpu {
        assert!(cpu < self.cpus, "there is such a CPU");
        // SAFETY: an array of the image with as many; no call is under way.
        unsafe { &*self.image.calls().cpus.add(cpu) }
    }

    #[inline]
    pub(crate) fn cpu_mut(&mut self, cpu: usize) -> &mut Cpu {
        assert!(cpu < self.cpus, "there is such a CPU");
        // SAFETY: an array of the image with as many; no call is under way.
        unsafe { &mut *self.image.calls().cpus.add(cpu) }
    }

    /// Returns the CPU of the last call.
    #[inline]
    pub(crate) fn acting_cpu(&self) -> usize {
        // SAFETY: a variable of the image; no call is under way.
        unsafe { *self.image.calls().acting_cpu as usize }
    }

    /// Whether the CPU's task must be preempted (`need_resched()`).
    #[inline]
    pub(crate) fn needs_resched(&self, cpu: usize) -> bool {
        let flags = self.cpu(cpu).flags;
        // SAFETY: null before the kernel has started, else the flags of a task, which are never
        // freed.
        !flags.is_null() && unsafe { *flags } & abi::NEED_RESCHED != 0
    }

    /// Takes the mask of changed CPUs: up to 64, starting at `64 * word`.
    #[inline]
    pub(crate) fn take_touched(&mut self, word: usize) -> u64 {
        assert!(word < abi::CPUS_MAX / 64, "there is such a word");
        // SAFETY: an array of the image with as many; no call is under way.
        unsafe { std::mem::take(&mut *self.image.calls().touched.add(word)) }
    }

    /// Returns the memory that the kernel has allocated, in bytes.
    pub fn memory_used(&self) -> usize {
        self.host.regions.iter().map(|region| region.used).sum()
    }

    /// Returns the tracepoints' events since the last call.
    pub(crate) fn take_traced(&mut self) -> Vec<abi::Event> {
        std::mem::take(&mut self.host.traced)
    }

    /// Returns when and why the kernel ejected its scheduler, if it has.
    pub(crate) fn take_ejection(&mut self) -> Option<Ejection> {
        self.host.ejection.take()
    }

    /// Returns the name of the function that begins at an address.
    pub(crate) fn function(&self, address: usize) -> Option<String> {
        // Names are those of return addresses, which follow a function's start.
        let offset = address as i64 - self.host.anchor + 1;
        symbols::name(&self.kernel.image, ANCHOR, &[offset]).pop()
    }

    /// Makes the idle driver reject entries as `rejects` decides.
    pub fn reject_entries(&mut self, rejects: Rejects) {
        self.host.rejects = Some(rejects);
        self.host.table.rejects = Some(self::rejects);
    }

    /// Handles the interrupts that are raised on a CPU.
    #[inline]
    pub(crate) fn interrupt(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.plain(self.image.calls().interrupt, cpu)
    }

    #[inline]
    pub(crate) fn block(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.plain(self.image.calls().block, cpu)
    }

    #[inline]
    pub(crate) fn block_io(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.plain(self.image.calls().block_io, cpu)
    }

    pub(crate) fn exit(&mut self, cpu: usize) -> Result<(), Trouble> {
        self.plain(self.image.calls().exit, cpu)
    }

    #[inline]
    pub(crate) fn sleep(&mut self, cpu: usize, until: Instant) -> Result<(), Trouble> {
        let mut until = until.0 as u64;
        let sleep = self.image.calls().sleep;
        // SAFETY: the kernel copies the time.
        unsafe { self.call(sleep, (&raw mut until).cast(), cpu as *mut c_void) }
    }

    /// Wakes a task; with `sync` the waker is about to sleep.
    #[inline]
    pub(crate) fn wake(&mut self, task: TaskHandle, cpu: usize, sync: bool) -> Result<(), Trouble> {
        let calls = self.image.calls();
        let wake = if sync { calls.wake_sync } else { calls.wake };
        // SAFETY: the kernel has given the handle.
        unsafe { self.call(wake, task.0.as_ptr(), cpu as *mut c_void) }
    }

    /// Changes a task's attributes, in a call from the CPU's current task, which this may preempt.
    pub(crate) fn change(
        &mut self,
        task: TaskHandle,
        cpu: usize,
        attributes: &Attributes,
    ) -> Result<(), Trouble> {
        let mut given = abi::Change { task: task.0.as_ptr(), attributes: attributes.given() };
        let change = self.image.calls().change;
        // SAFETY: the kernel copies it.
        unsafe { self.call(change, (&raw mut given).cast(), cpu as *mut c_void) }
    }

    /// Makes the CPU's next device interrupt wake the task.
    #[inline]
    pub(crate) fn completes(&mut self, task: TaskHandle, cpu: usize) -> Result<(), Trouble> {
        let completes = self.image.calls().completes;
        // SAFETY: the kernel has given the handle.
        unsafe { self.call(completes, task.0.as_ptr(), cpu as *mut c_void) }
    }

    /// Wakes the kernel's shell, which does what is ordered, by an interrupt on the CPU where it
    /// sleeps; returns that CPU.
    pub(crate) fn order(&mut self, orders: Vec<Order>) -> Result<usize, WriteError> {
        // SAFETY: a variable of the image; no call is under way.
        if self.generation != Some(unsafe { *self.image.calls().files_generation }) {
            self.list_files()?;
        }
        // Those of the start are done, too.
        self.host.is_done = false;
        for order in orders {
            match order {
                Order::Write(write) => {
                    let found = self.host.files.find(&write).map_err(WriteError::NoFile)?;
                    self.host.due.extend(found.into_iter().map(Due::Write));
                }
                Order::Change(task, attributes) => {
                    self.host.due.push_back(Due::Change(task, attributes));
                }
            }
        }
        let mut cpu = 0_u32;
        let calls = self.image.calls();
        let (shell_cpu, write) = (calls.shell_cpu, calls.write);
        // SAFETY: the kernel stores a number.
        unsafe { self.call(shell_cpu, (&raw mut cpu).cast(), std::ptr::null_mut()) }?;
        self.plain(write, cpu as usize)?;
        Ok(cpu as usize)
    }

    /// Whether the shell has done all that was last ordered, since this was last asked.
    #[inline]
    pub(crate) fn take_done(&mut self) -> bool {
        std::mem::take(&mut self.host.is_done)
    }

    fn list_files(&mut self) -> Result<(), Trouble> {
        self.host.files = Files::default();
        self.plain(self.image.calls().list_files, 0)?;
        // SAFETY: a variable of the image; no call is under way.
        self.generation = Some(unsafe { *self.image.calls().files_generation });
        Ok(())
    }

    /// Returns the kernel's sysfs counters of the CPU's idle states.
    pub fn idle_usage(&mut self, cpu: CpuId) -> Result<Vec<Usage>, Trouble> {
        let mut usage = [Usage::default(); abi::STATES_MAX];
        let read = self.image.calls().idle_usage;
        assert!(cpu.index() < self.cpus, "there is such a CPU");
        // SAFETY: the kernel writes as many.
        unsafe { self.call(read, usage.as_mut_ptr().cast(), cpu.index() as *mut c_void) }?;
        Ok(usage[..self.host.states[cpu.index()]].to_vec())
    }

    /// Returns `cpu.stat` of a control group, by its number from 1.
    pub fn group_stat(&mut self, group: u32) -> Result<String, Trouble> {
        let mut text = [0u8; abi::STAT_LEN];
        let read = self.image.calls().group_stat;
        // SAFETY: the kernel writes a text of at most that length, with a NUL.
        unsafe { self.call(read, text.as_mut_ptr().cast(), group as usize as *mut c_void) }?;
        Ok(text.iter().take_while(|byte| **byte != 0).map(|byte| char::from(*byte)).collect())
    }

    pub fn new_task(&mut self, setup: &TaskSetup) -> Result<TaskHandle, Trouble> {
        let mut given = abi::TaskSetup {
            name: abi::name(&setup.name),
            number: setup.number,
            forked_on: setup.forked_on.0,
            group: setup.group,
            timer_slack_ns: setup.timer_slack.0.max(0) as u64,
            attributes: setup.attributes.given(),
        };
        let mut task: *mut c_void = std::ptr::null_mut();
        let new = self.image.calls().task_new;
        // SAFETY: both live until the call is over; the kernel keeps neither.
        unsafe { self.call(new, (&raw mut given).cast(), (&raw mut task).cast()) }?;
        Ok(TaskHandle(NonNull::new(task).expect("a call that ends well has made one")))
    }

    /// Returns the message on an argument that the kernel does not know.
    fn unknown_argument(&self, name: &str) -> String {
        let text = |index| {
            let text = (self.image.calls().known_argument)(index);
            // SAFETY: null, or a text of the image.
            (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        let known: Vec<String> = (0..)
            .map_while(text)
            .map(|name| name.trim_end_matches('=').to_owned())
            .filter(|name| !name.starts_with(['+', policy::mark(policy::FOREIGN)]))
            .collect();
        let near = closest(name, known.iter().map(String::as_str));
        let near = near.map_or(String::new(), |near| format!("; did you mean `{near}`?"));
        format!(
            "nothing in this configuration takes the argument `{name}` of its command line{near}\n\
             hint: arguments of drivers, of the architecture and of what is not hosted are unknown; \
             CONFIG_ options of --kernel add some"
        )
    }

    #[inline]
    fn plain(&mut self, call: Call, cpu: usize) -> Result<(), Trouble> {
        // SAFETY: such a call has one argument, the CPU's number.
        unsafe { self.call(call, std::ptr::null_mut(), cpu as *mut c_void) }
    }

    /// # Safety
    /// `call` takes what `one` and `other` point to.
    #[inline]
    unsafe fn call(
        &mut self,
        call: Call,
        one: *mut c_void,
        other: *mut c_void,
    ) -> Result<(), Trouble> {
        if let Some(trouble) = &self.trouble {
            return Err(trouble.clone());
        }
        // SAFETY: as the caller promises.
        match unsafe { hosting::call(call, one, other) } {
            Ok(0) => Ok(()),
            Ok(_) => Err(self.ends(None)),
            Err(caught) => Err(self.ends(Some(caught))),
        }
    }

    fn kind_of_signal(&self, caught: hosting::Caught) -> Kind {
        let is_guarded = || self.host.stacks.iter().any(|stacks| stacks.guards(caught.addr));
        match caught.signo {
            _ if caught.is_time_out() => Kind::TimedOut,
            libc::SIGSEGV if is_guarded() => Kind::StackOverflow,
            signo => Kind::Signal { signo, address: caught.addr },
        }
    }

    #[cold]
    fn ends(&mut self, caught: Option<hosting::Caught>) -> Trouble {
        // `symbols::name()` takes return addresses.
        let at = caught.map(|caught| caught.instruction as i64 - self.host.anchor + 1);
        let (kind, message, trace) = match (caught, self.host.trouble.take()) {
            (Some(caught), _) => {
                (self.kind_of_signal(caught), String::new(), at.into_iter().collect())
            }
            (None, Some((kind, message, trace))) => (kind_of(kind), message, trace),
            (None, None) => (Kind::Panic, "it refused a call".to_owned(), Vec::new()),
        };
        // SAFETY: a variable of the image.
        let cpu = CpuId(unsafe { *self.image.calls().acting_cpu } as u32);
        let backtrace = symbols::name(&self.kernel.image, ANCHOR, &trace);
        let is_of_host = |name: &String| name.contains("trouble") || name == "trace_back";
        let trouble = Trouble(Box::new(TroubleDetail {
            kernel: self.kernel.name.clone(),
            kind,
            message,
            cpu,
            now: self.now(),
            backtrace: backtrace.into_iter().skip_while(is_of_host).collect(),
            log: self.host.log.drain(..).collect(),
        }));
        self.trouble = Some(trouble.clone());
        trouble
    }
}

fn kind_of(kind: u32) -> Kind {
    match kind {
        1 => Kind::Bug,
        2 => Kind::Warn,
        4 => Kind::Unreached,
        5 => Kind::Refused,
        6 => Kind::UnknownArgument,
        _ => Kind::Panic,
    }
}

impl HostSide {
    fn new(image: &Image, hardware: &Hardware, kernel: &Kernel) -> Box<HostSide> {
        let states_of_cpus =
            hardware.cluster_of.iter().map(|cluster| &hardware.clusters[*cluster].states);
        let mut host = Box::new(HostSide {
            table: abi::Host {
                context: std::ptr::null_mut(),
                allocate,
                allocate_stack,
                traced,
                log,
                trouble,
                rejects: None,
                poll_ends,
                file,
                next_write,
            },
            regions: Vec::new(),
            stacks: Vec::new(),
            log: VecDeque::new(),
            now_ns: image.calls().now_ns,
            ejection: None,
            traced: Vec::new(),
            trouble: None,
            anchor: image.calls_address() as i64,
            clusters: (0..hardware.clusters.len()).map(|index| cluster(hardware, index)).collect(),
            states: states_of_cpus.clone().map(Vec::len).collect(),
            poll_loops: states_of_cpus.map(|states| states.first()?.poll_loop).collect(),
            machine: None,
            command_line: command_line(hardware, kernel),
            texts: Vec::new(),
            groups: Vec::new(),
            files: Files::default(),
            settings: hardware.has_writes().then(|| hardware.clone()),
            due: VecDeque::new(),
            written: None,
            is_done: false,
            refused: None,
            rejects: None,
        });
        host.texts = hardware.cgroups.iter().map(|path| text(path)).collect();
        host.groups = host.texts.iter().map(|path| path.as_ptr()).collect();
        let mut online = [0; abi::CPUS_MAX / 64];
        for (cpu, _) in hardware.is_online.iter().enumerate().filter(|(_, is_online)| **is_online) {
            online[cpu / 64] |= 1 << (cpu % 64);
        }
        host.machine = Some(Box::new(abi::Machine {
            cpus: hardware.cluster_of.len().min(abi::CPUS_MAX) as u32,
            clusters: hardware.clusters.len() as u32,
            cluster: host.clusters.as_ptr(),
            cluster_of: of_cpus(&hardware.cluster_of),
            core_of: of_cpus(&hardware.core_of),
            governor: abi::name(kernel.governor.name.as_deref().unwrap_or_default()),
            linked: kernel.linked().map(abi::name),
            command_line: host.command_line.as_ptr(),
            records: hardware.records.into(),
            no_iowait_boost: (!hardware.cpufreq.hears_iowait).into(),
            online,
            no_idle_driver: (!hardware.has_idle_driver).into(),
            seed: hardware.seed,
            groups: host.groups.len() as u32,
            group: host.groups.as_ptr(),
            has_writes: host.settings.is_some().into(),
            has_later_writes: hardware.has_later_writes.into(),
        }));
        host.table.context = (&raw mut *host).cast();
        host
    }
}

impl HostSide {
    /// Finds the files of what is written at the start.
    fn find_settings(&mut self, hardware: &Hardware) {
        let all = self.files.of_settings(hardware).and_then(|mut found| {
            for write in &hardware.writes {
                found.extend(self.files.find(write)?);
            }
            Ok(found)
        });
        match all {
            Ok(found) => self.due.extend(found.into_iter().map(Due::Write)),
            Err(reason) => self.refused = Some(reason),
        }
    }
}

/// Returns a number of each CPU as the kernel's table of them.
fn of_cpus(numbers: &[usize]) -> [u16; abi::CPUS_MAX] {
    let mut table = [0; abi::CPUS_MAX];
    table.iter_mut().zip(numbers).for_each(|(to, number)| *to = *number as u16);
    table
}

/// Returns a C string, which ends at a NUL.
fn text(text: &str) -> CString {
    CString::new(text.split('\0').next().unwrap_or_default()).expect("it has no NUL")
}

/// Returns the kernel's command line: its governors, their parameters, and the user's arguments.
fn command_line(hardware: &Hardware, kernel: &Kernel) -> CString {
    let governor = kernel.governor.name.as_deref().filter(|_| kernel.governor.linked.is_none());
    let chosen = governor.map(|name| ("cpuidle.governor".to_owned(), name));
    let frequency = ("cpufreq.default_governor".to_owned(), &hardware.cpufreq.governor[..]);
    let own = kernel.params().chain(chosen).chain([frequency]);
    let own = own.map(|(name, value)| format!("{name}=\"{value}\""));
    text(&own.chain([hardware.arguments.clone()]).collect::<Vec<_>>().join(" "))
}

fn cluster(hardware: &Hardware, index: usize) -> abi::Cluster {
    let given = &hardware.clusters[index];
    let no_state =
        abi::State { name: abi::name(""), exit_latency_ns: 0, target_residency_ns: 0, polling: 0 };
    let mut state = [no_state; abi::STATES_MAX];
    for (to, from) in state.iter_mut().zip(&given.states) {
        *to = abi::State {
            name: abi::name(&from.name),
            exit_latency_ns: ns(from.latency),
            target_residency_ns: ns(from.target_residency),
            polling: from.poll_loop.is_some().into(),
        };
    }
    let mut opp = [abi::Opp { khz: 0, power_uw: 0 }; abi::OPPS_MAX];
    for (to, from) in opp.iter_mut().zip(&given.opps) {
        *to = abi::Opp { khz: from.khz, power_uw: from.power_uw };
    }
    abi::Cluster {
        capacity: given.capacity,
        package: 0,
        cache: given.cache,
        states: given.states.len() as u32,
        opps: given.opps.len() as u32,
        transition_latency_ns: ns(given.clock.transition_latency),
        transition_delay_us: given.clock.transition_delay.map_or(0, |delay| ns(delay) / 1000),
        fast_switch: given.clock.has_fast_switch.into(),
        default_idle: given.default_idle() as u32,
        state,
        opp,
    }
}

fn ns(duration: Duration) -> u32 {
    duration.0.clamp(0, i64::from(u32::MAX)) as u32
}

extern "C" fn allocate(context: *mut c_void, size: c_ulong) -> *mut c_void {
    // SAFETY: the context is the box that the table lies in, and we alone have it.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    let size = (size as usize).next_multiple_of(LINE);
    let last = host.regions.last_mut().and_then(|region| region.take(size));
    if let Some(memory) = last {
        return memory;
    }
    let Some(mut region) = Region::new(size) else { return std::ptr::null_mut() };
    let memory = region.take(size).unwrap_or(std::ptr::null_mut());
    host.regions.push(region);
    memory
}

extern "C" fn allocate_stack(context: *mut c_void, size: c_ulong) -> *mut c_void {
    // SAFETY: as in `allocate`.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    if let Some(stack) = host.stacks.last_mut().and_then(Stacks::take) {
        return stack;
    }
    let Some(mut stacks) = Stacks::new(size as usize) else { return std::ptr::null_mut() };
    let stack = stacks.take().unwrap_or(std::ptr::null_mut());
    host.stacks.push(stacks);
    stack
}

extern "C" fn traced(context: *mut c_void, event: *const abi::Event) {
    // SAFETY: as in `allocate`; the kernel gives an event.
    let (host, event) = unsafe { (&mut *context.cast::<HostSide>(), *event) };
    host.traced.push(event);
}

/// # Safety
/// `text` has `len` bytes.
unsafe fn line(text: *const c_char, len: c_ulong) -> String {
    // SAFETY: as the caller promises.
    let bytes = unsafe { std::slice::from_raw_parts(text.cast::<u8>(), len as usize) };
    // The log's level precedes a message.
    let bytes = match bytes {
        [1, _, rest @ ..] => rest,
        all => all,
    };
    torpor_machine::units::shown::line(String::from_utf8_lossy(bytes).trim_end()).into_owned()
}

extern "C" fn log(context: *mut c_void, text: *const c_char, len: c_ulong) {
    // SAFETY: as in `allocate`.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    if host.log.len() == LOG_LINES {
        host.log.pop_front();
    }
    // SAFETY: the kernel gives a text and its length.
    let said = unsafe { line(text, len) };
    // It says why in further lines, and warns of other things.
    let is_ejection = |said: &&str| host.ejection.is_some() || said.contains(" disabled (");
    if let Some(said) = said.strip_prefix(SCHED_EXT).filter(is_ejection) {
        // SAFETY: a variable of the image, which is in a call.
        let at = Instant(unsafe { *host.now_ns } as i64);
        let ejection = host.ejection.get_or_insert(Ejection { at, reason: String::new() });
        if !ejection.reason.is_empty() {
            ejection.reason += "; ";
        }
        ejection.reason += said;
    }
    host.log.push_back(said);
}

extern "C" fn rejects(context: *mut c_void, cpu: u32, state: u32) -> u64 {
    // SAFETY: as in `allocate`.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    let time = host.rejects.as_mut().and_then(|rejects| rejects(cpu as usize, state as usize));
    time.map_or(0, |time| time.0.max(0) as u64)
}

extern "C" fn poll_ends(context: *mut c_void, cpu: u32, from_ns: u64, limit_ns: u64) -> u64 {
    // SAFETY: as in `allocate`.
    let host = unsafe { &*context.cast::<HostSide>() };
    let (from, limit) = (Instant(from_ns as i64), Duration(limit_ns.min(i64::MAX as u64) as i64));
    let poll_loop = host.poll_loops[cpu as usize].expect("the state polls");
    poll_loop.gives_up(from, limit).0 as u64
}

extern "C" fn file(context: *mut c_void, path: *const c_char, number: u32) {
    // SAFETY: as in `allocate`; the kernel gives a text that ends with a NUL.
    let (host, path) = unsafe { (&mut *context.cast::<HostSide>(), CStr::from_ptr(path)) };
    host.files.add(path.to_string_lossy().into_owned(), number);
}

extern "C" fn next_write(context: *mut c_void) -> *const abi::Write {
    // SAFETY: as in `allocate`.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    if let Some(hardware) = host.settings.take() {
        host.find_settings(&hardware);
    }
    let Some(due) = host.due.pop_front() else {
        host.is_done = true;
        return std::ptr::null();
    };
    let (file, texts, change) = match due {
        Due::Write(found) => (found.file, [text(&found.path), text(&found.value)], None),
        Due::Change(task, to) => {
            let change = abi::Change { task: task.0.as_ptr(), attributes: to.given() };
            (0, [text(""), text("")], Some(change))
        }
    };
    let [path, value] = texts.each_ref().map(|text| text.as_ptr());
    let write = abi::Write { change: std::ptr::null(), file, path, value };
    let written = host.written.insert(Box::new(Written { write, _texts: texts, change }));
    if let Some(change) = &written.change {
        written.write.change = change;
    }
    &raw const written.write
}

extern "C" fn trouble(
    context: *mut c_void,
    kind: u32,
    text: *const c_char,
    len: c_ulong,
    trace: *const *const c_void,
    depth: c_ulong,
) {
    // SAFETY: as in `allocate`.
    let host = unsafe { &mut *context.cast::<HostSide>() };
    // SAFETY: the kernel gives an array and its length.
    let trace = unsafe { std::slice::from_raw_parts(trace, (depth as usize).min(abi::TRACE_MAX)) };
    let trace = trace.iter().map(|at| *at as i64 - host.anchor).collect();
    // SAFETY: the kernel gives a text and its length.
    host.trouble = Some((kind, unsafe { line(text, len) }, trace));
}
