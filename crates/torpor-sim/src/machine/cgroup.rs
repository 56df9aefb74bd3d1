// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Counters of control groups, as the kernel shows them in `cpu.stat`.

use super::{Machine, Sink};
use crate::kernel::Trouble;
use torpor_machine::units::Duration;
use torpor_result::CgroupTotals;

impl<S: Sink> Machine<'_, S> {
    /// Returns the counters of all groups since the start.
    pub(super) fn read_cgroups(&mut self) -> Result<Vec<CgroupTotals>, Trouble> {
        let groups = 1..=self.world.plan.workload.cgroups.len() as u32;
        groups.map(|group| Ok(totals(&self.instance.group_stat(group)?))).collect()
    }

    /// Returns them since counting began.
    pub(super) fn cgroups_since(&mut self) -> Result<Vec<CgroupTotals>, Trouble> {
        let mut totals = self.read_cgroups()?;
        totals.iter_mut().zip(&self.cgroups).for_each(|(now, then)| now.subtract(then));
        Ok(totals)
    }
}

/// Reads `cpu.stat`.
fn totals(stat: &str) -> CgroupTotals {
    let pairs = || stat.lines().filter_map(|line| line.split_once(' '));
    let value = |key: &str| {
        let text = pairs().find(|(name, _)| *name == key).map_or("0", |(_, text)| text);
        text.trim().parse::<u64>().unwrap_or_default()
    };
    let time = |key: &str| Duration::from_us(value(key) as i64);
    CgroupTotals {
        cpu_time: time("usage_usec"),
        periods: value("nr_periods"),
        throttled: value("nr_throttled"),
        throttled_time: time("throttled_usec"),
        bursts: value("nr_bursts"),
        burst_time: time("burst_usec"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_is_read_by_name() {
        let text = "usage_usec 7\nnr_periods 3\nnr_throttled 2\nthrottled_usec 40\nnr_bursts 0\n";
        let CgroupTotals { cpu_time, periods, throttled, throttled_time, bursts, .. } =
            totals(text);
        assert_eq!((cpu_time, throttled_time), (Duration(7_000), Duration(40_000)));
        assert_eq!((periods, throttled, bursts), (3, 2, 0));
    }
}
