// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Options of a request.

use crate::error::SimError;
use crate::options::{Options, Request};
use std::fmt::Display;
use torpor_engine::{ORACLE, check_disabled_states, check_latency_limits};
use torpor_machine::units::{CpuId, Duration};

/// Shorter runs hold less than a tick of the slowest kernel.
const DURATION_MIN: Duration = Duration(10_000_000);
/// Every seed's counters are kept until all are compared; an interval of so many is a hundredth of
/// one seed's spread.
const SEEDS_MAX: u32 = 10_000;
/// A month, in which i64 ns and every sum fit.
const DURATION_MAX: Duration = Duration(2_592_000_000_000_000);

pub(crate) fn check(request: &Request) -> Result<(), SimError> {
    let Request { platform, governors, options, .. } = request;
    check_disabled_states(platform, &options.disabled_states)?;
    check_latency_limits(platform, &options.latency_limit)?;
    if let Some(cpus) = &options.cpus {
        let unknown = cpus.iter().find(|&&cpu| platform.cluster_of(cpu).is_none());
        if cpus.is_empty() || unknown.is_some() {
            return Err(SimError::Option {
                what: "CPUs that are online (option `cpus`) are some of the platform's",
                given: unknown.map_or("none".to_owned(), CpuId::to_string),
                hint: format!(
                    "`{}` has CPUs 0 to {}",
                    platform.name,
                    platform.cpu_count().saturating_sub(1)
                ),
            });
        }
    }
    if options.duration < DURATION_MIN || options.duration > DURATION_MAX {
        return Err(SimError::Option {
            what: "a simulation lasts 10 ms to 30 days",
            given: options.duration.to_string(),
            hint: "option `duration` 10s".to_owned(),
        });
    }
    if options.warm_up > DURATION_MAX {
        return Err(SimError::Option {
            what: "a warm-up lasts at most 30 days",
            given: options.warm_up.to_string(),
            hint: "option `warm_up` 1s".to_owned(),
        });
    }
    let is_wrong = options.seeds == 0 || options.seeds > SEEDS_MAX;
    if is_wrong || options.seed.checked_add(u64::from(options.seeds)).is_none() {
        return Err(SimError::Option {
            what: "a simulation has 1 to 10000 seeds, and none beyond 64 bits",
            given: format!("{} from {}", options.seeds, options.seed),
            hint: "option `seeds` 10 and option `seed` 1".to_owned(),
        });
    }
    if governors.is_empty() {
        return Err(SimError::Option {
            what: "a simulation needs a governor, whose run the oracle can replay",
            given: if options.against_oracle.is_some() { ORACLE } else { "none" }.to_owned(),
            hint: "option `governors` menu".to_owned(),
        });
    }
    if options.cpus.as_ref().is_some_and(|cpus| !cpus.contains(&CpuId(0))) {
        return Err(SimError::Option {
            what: "a kernel starts on CPU 0, which stays online",
            given: "option `cpus` without 0".to_owned(),
            hint: "add 0 to option `cpus`".to_owned(),
        });
    }
    check_columns(options)
}

/// Checks that no two columns are the same.
fn check_columns(options: &Options) -> Result<(), SimError> {
    once(
        &options.kernels,
        "each kernel (option `kernels`) is given once",
        "two columns would be the same; leave one out",
    )?;
    once(
        &options.cpufreq,
        "each cpufreq governor (option `cpufreq`) is given once",
        "two columns would be the same; leave one out, or change its parameters",
    )?;
    once(
        &options.io_boosts,
        "each IO boost (option `io_boosts`) is given once",
        "two columns would be the same; leave one out, or change its parameters",
    )?;
    once(
        &options.schedulers,
        "each scheduler (option `schedulers`) is given once",
        "two columns would be the same; leave one out, or change its variables",
    )
}

/// Checks that column names differ.
fn once<T: Display>(all: &[T], what: &'static str, hint: &str) -> Result<(), SimError> {
    let texts: Vec<String> = all.iter().map(T::to_string).collect();
    match (1..texts.len()).find(|&number| texts[..number].contains(&texts[number])) {
        None => Ok(()),
        Some(second) => Err(SimError::Option {
            what,
            given: format!("`{}` twice", texts[second]),
            hint: hint.to_owned(),
        }),
    }
}
