// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! States that CPUs share, and which of them pays for it: the last one in and the first one out.

use torpor_machine::platform::{Platform, Scope};
use torpor_machine::units::{Duration, Instant};

/// The CPUs of a core, a cluster or the package.
#[derive(Clone, Debug)]
struct Group {
    members: usize,
    inside: usize,
    /// End of its exit.
    up_at: Instant,
}

/// A state with latencies that one of its CPUs pays for all.
#[derive(Clone, Copy, Debug)]
struct Shared {
    /// Extra entry latency of the last CPU in, and exit latency of the first one out.
    entry: Duration,
    exit: Duration,
}

#[derive(Clone, Debug)]
pub(super) struct LastMan {
    groups: Vec<Group>,
    /// Groups of each CPU: its core, its cluster and the package.
    groups_of: Vec<[usize; 3]>,
    cluster_of: Vec<usize>,
    /// By cluster and state.
    states: Vec<Vec<(Scope, Option<Shared>)>>,
    inside: Vec<Option<usize>>,
}

impl LastMan {
    /// Returns none for a machine without such states.
    pub(super) fn of_platform(platform: &Platform) -> Option<LastMan> {
        let clusters = &platform.clusters;
        clusters.iter().flat_map(|c| &c.idle_states).find(|state| state.own.is_some())?;
        let (cpus, core_of) = (platform.cpu_count(), platform.core_of());
        let mut cluster_of = vec![0; cpus];
        for (number, cluster) in clusters.iter().enumerate() {
            cluster.cpus.iter().for_each(|cpu| cluster_of[cpu.index()] = number);
        }
        // A group for each CPU that may be a core's first, then one a cluster, then the package.
        let groups_of: Vec<[usize; 3]> = (0..cpus)
            .map(|cpu| [core_of[cpu], cpus + cluster_of[cpu], cpus + clusters.len()])
            .collect();
        let none = || Group { members: 0, inside: 0, up_at: Instant(0) };
        let mut groups: Vec<Group> = (0..=cpus + clusters.len()).map(|_| none()).collect();
        groups_of.iter().flatten().for_each(|group| groups[*group].members += 1);
        let states = clusters.iter().map(|cluster| {
            let states = cluster.idle_states.iter();
            let of = |s: &torpor_machine::platform::IdleState| {
                let shared = s.own.map(|own| Shared {
                    entry: s.entry_latency - own.entry,
                    exit: s.exit_latency - own.exit,
                });
                (s.scope, shared)
            };
            states.map(of).collect()
        });
        let states = states.collect();
        Some(LastMan { groups, groups_of, cluster_of, states, inside: vec![None; cpus] })
    }

    /// Enters a state; returns the part of its entry latency that this CPU does not pay.
    pub(super) fn enter(&mut self, cpu: usize, state: usize) -> Duration {
        self.inside[cpu] = Some(state);
        let (scope, shared) = self.states[self.cluster_of[cpu]][state];
        for group in groups(scope) {
            self.groups[self.groups_of[cpu][group]].inside += 1;
        }
        match shared {
            Some(shared) if !self.is_complete(cpu, scope) => shared.entry,
            _ => Duration::ZERO,
        }
    }

    /// A CPU goes from its state to a deeper one.
    pub(super) fn deepen(&mut self, cpu: usize, state: usize) -> Duration {
        if let Some(before) = self.inside[cpu].take() {
            let (scope, _) = self.states[self.cluster_of[cpu]][before];
            for group in groups(scope) {
                self.groups[self.groups_of[cpu][group]].inside -= 1;
            }
        }
        self.enter(cpu, state)
    }

    /// Takes a CPU offline, which leaves it in its deepest state.
    pub(super) fn offline(&mut self, cpu: usize) {
        let deepest = self.states[self.cluster_of[cpu]].len() - 1;
        self.enter(cpu, deepest);
    }

    /// Returns the exit latency that a CPU in this state does not pay unless it is the first one out.
    pub(super) fn shared_exit(&self, cpu: usize, state: usize) -> Duration {
        let (_, shared) = self.states[self.cluster_of[cpu]][state];
        shared.map_or(Duration::ZERO, |shared| shared.exit)
    }

    /// Begins to leave a CPU's state; returns the time beyond its own exit latency. The second one waits while the first is still
    /// leaving.
    pub(super) fn leave(&mut self, cpu: usize, now: Instant) -> Duration {
        let Some(state) = self.inside[cpu].take() else { return Duration::ZERO };
        let (scope, shared) = self.states[self.cluster_of[cpu]][state];
        let was_complete = self.is_complete(cpu, scope);
        for group in groups(scope) {
            self.groups[self.groups_of[cpu][group]].inside -= 1;
        }
        let (Some(shared), Some(widest)) = (shared, groups(scope).last()) else {
            return Duration::ZERO;
        };
        let group = &mut self.groups[self.groups_of[cpu][widest]];
        if was_complete {
            group.up_at = now + shared.exit;
        }
        group.up_at.since(now).max(Duration::ZERO)
    }

    fn is_complete(&self, cpu: usize, scope: Scope) -> bool {
        let widest = groups(scope).last();
        widest.is_some_and(|widest| {
            let group = &self.groups[self.groups_of[cpu][widest]];
            group.inside == group.members
        })
    }
}

/// Returns the groups that contain a CPU in a state of this scope.
fn groups(scope: Scope) -> std::ops::Range<usize> {
    match scope {
        Scope::Cpu => 0..0,
        Scope::Core => 0..1,
        Scope::Cluster => 0..2,
        Scope::Package => 0..3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two CPUs and a state they share: 50 us in and 300 us out, of which 10 and 60 are a CPU's.
    fn pair() -> LastMan {
        let text = r#"
name = "m"
title = "m"
source = "made up"
hz = 250
[[cluster]]
name = "all"
cpus = "0-1"
capacity = 1024
idle_state_source = "made up"
[[cluster.idle_state]]
name = "WFI"
exit_latency_us = 1
target_residency_us = 1
[[cluster.idle_state]]
name = "off"
scope = "cluster"
entry_latency_us = 50
exit_latency_us = 300
own_entry_latency_us = 10
own_exit_latency_us = 60
target_residency_us = 1000
"#;
        let platform = torpor_machine::platform::from_toml("test.toml", text);
        LastMan::of_platform(&platform.unwrap_or_else(|e| panic!("{e}"))).expect("it shares one")
    }

    #[test]
    fn last_in_and_first_out_pay() {
        let mut pair = pair();
        assert_eq!(pair.enter(0, 1), Duration::from_us(40));
        assert_eq!(pair.enter(1, 1), Duration::ZERO);
        assert_eq!(pair.leave(0, Instant(1_000_000)), Duration::from_us(240));
        // 100 us later 140 us of that are left, and after 240 us nothing.
        assert_eq!(pair.leave(1, Instant(1_100_000)), Duration::from_us(140));
        pair.enter(1, 1);
        assert_eq!(pair.leave(1, Instant(2_000_000)), Duration::ZERO);
    }

    #[test]
    fn shallow_cpu_keeps_the_cluster_up() {
        let mut pair = pair();
        pair.enter(0, 0);
        assert_eq!(pair.enter(1, 1), Duration::from_us(40));
        assert_eq!(pair.leave(1, Instant(5)), Duration::ZERO);
        assert_eq!(
            (pair.shared_exit(1, 0), pair.shared_exit(1, 1)),
            (Duration::ZERO, Duration::from_us(240))
        );
    }
}
