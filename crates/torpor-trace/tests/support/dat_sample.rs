// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! A small recording with every kind of field.
#![allow(dead_code)] // Test programs use different parts.

use super::dat::{Dat, Machine, Page, format};

pub const CPU_IDLE: u16 = 300;
pub const SCHED_SWITCH: u16 = 301;
pub const HRTIMER_START: u16 = 302;
pub const IPI_RAISE: u16 = 303;
pub const SELECT: u16 = 304;
pub const STOP: u16 = 305;
pub const UNKNOWN: u16 = 306;
pub const PRINT: u16 = 5;

/// Addresses of the recorded kernel's functions, which fit 32 bits.
pub const TICK: u64 = 0xc010_0000;
pub const SELECT_AT: u64 = 0xc010_1000;
pub const STOP_AT: u64 = 0xc010_2000;
const REASON: u64 = 0xc020_0000;

fn formats(machine: Machine) -> Vec<String> {
    let long = machine.long_bytes;
    vec![
        format("cpu_idle", CPU_IDLE, &[("u32 state", 4, false), ("u32 cpu_id", 4, false)]),
        format(
            "sched_switch",
            SCHED_SWITCH,
            &[
                ("char prev_comm[16]", 16, false),
                ("pid_t prev_pid", 4, true),
                ("int prev_prio", 4, true),
                ("long prev_state", long, true),
                ("char next_comm[16]", 16, false),
                ("pid_t next_pid", 4, true),
                ("int next_prio", 4, true),
            ],
        ),
        format(
            "hrtimer_start",
            HRTIMER_START,
            &[
                ("void * hrtimer", long, false),
                ("void * function", long, false),
                ("s64 expires", 8, true),
                ("s64 softexpires", 8, true),
            ],
        ),
        format(
            "ipi_raise",
            IPI_RAISE,
            &[
                ("__data_loc unsigned long[] target_cpus", 4, false),
                ("const char * reason", long, false),
            ],
        ),
        format(
            "select",
            SELECT,
            &[
                ("unsigned long __probe_func", long, false),
                ("unsigned long __probe_ret_ip", long, false),
                ("s32 ret", 4, true),
            ],
        ),
        format("stop", STOP, &[("unsigned long __probe_ip", long, false)]),
        format("sched_process_wait", UNKNOWN, &[("pid_t pid", 4, true)]),
    ]
}

pub fn idle(machine: Machine, state: i32, cpu: u32) -> Vec<u8> {
    machine.event(CPU_IDLE, &[machine.u32(state as u32 as u64), machine.u32(cpu.into())])
}

pub fn switch(machine: Machine, prev_pid: i32, next_pid: i32, next: &str) -> Vec<u8> {
    let mut comm = next.as_bytes().to_vec();
    comm.resize(16, 0);
    machine.event(
        SCHED_SWITCH,
        &[
            vec![0; 16],
            machine.u32(prev_pid as u32 as u64),
            machine.u32(120),
            machine.long(2),
            comm,
            machine.u32(next_pid as u32 as u64),
            machine.u32(120),
        ],
    )
}

pub fn hrtimer(machine: Machine, timer: u64, expires: i64) -> Vec<u8> {
    machine.event(
        HRTIMER_START,
        &[
            machine.long(timer),
            machine.long(TICK),
            machine.u64(expires as u64),
            machine.u64(expires as u64),
        ],
    )
}

/// Returns an IPI to CPUs 1 and 33; with 32-bit words, the second is in the second word.
pub fn ipi(machine: Machine) -> Vec<u8> {
    let at = 12 + machine.long_bytes as u64;
    let mask: u64 = 1 << 1 | 1 << 33;
    let words: Vec<u8> = if machine.long_bytes == 4 {
        [machine.u32(mask & 0xffff_ffff), machine.u32(mask >> 32)].concat()
    } else {
        machine.u64(mask)
    };
    machine.event(IPI_RAISE, &[machine.u32(8 << 16 | at), machine.long(REASON), words])
}

pub fn select(machine: Machine, value: i32) -> Vec<u8> {
    let fields =
        [machine.long(SELECT_AT), machine.long(TICK + 8), machine.u32(value as u32 as u64)];
    machine.event(SELECT, &fields)
}

/// Returns a probe four bytes into the function, after its landing pad.
pub fn stop(machine: Machine) -> Vec<u8> {
    machine.event(STOP, &[machine.long(STOP_AT + 4)])
}

pub fn mark(machine: Machine, text: &str) -> Vec<u8> {
    machine.event(PRINT, &[machine.long(TICK), format!("{text}\n\0").into_bytes()])
}

pub fn unknown(machine: Machine) -> Vec<u8> {
    machine.event(UNKNOWN, &[machine.u32(7)])
}

pub fn dat(version: u8, compression: &'static str, machine: Machine) -> Dat {
    Dat {
        version,
        compression,
        machine,
        formats: formats(machine),
        kallsyms: format!(
            "{TICK:x} t tick_nohz_handler\n{SELECT_AT:x} T cpuidle_select\n\
             {STOP_AT:x} T tick_nohz_idle_stop_tick\nc0103000 T after\n"
        ),
        printk: format!("0x{REASON:x} : \"Rescheduling interrupts\"\n"),
        options: vec![
            (5, b"Linux host 6.12.1 aarch64\0".to_vec()),
            (8, machine.u32(2)),
            (2, b"CPU: 0\noverrun: 0\ncommit overrun: 0\ndropped events: 0\n\0".to_vec()),
        ],
        instances: vec![("", "mono", sample_cpus(machine))],
    }
}

/// Returns two CPUs. The second one has three pages, and a long gap that needs a time extension.
fn sample_cpus(machine: Machine) -> Vec<Vec<Page>> {
    let first = Page::new(machine, 1_000)
        .event(1_000, &mark(machine, "BEGIN"))
        .event(1_500, &idle(machine, -1, 0))
        .event(2_000, &hrtimer(machine, 0xab, 5_000_000))
        .event(3_000, &switch(machine, 0, 77, "worker"))
        .event(4_000, &ipi(machine))
        .event(5_000, &select(machine, -22))
        .event(6_000, &stop(machine))
        .event(6_500, &unknown(machine));
    let second = [
        Page::new(machine, 1_200).event(1_200, &idle(machine, 2, 1)).ended(),
        Page::new(machine, 1_300).discarded(1_400, 8).event(4_500_000_000, &idle(machine, -1, 1)),
        Page::new(machine, 5_000_000_000)
            .stamp(6_000_000_000)
            .event(6_000_000_001, &idle(machine, 1, 1)),
    ];
    vec![vec![first], second.to_vec()]
}
