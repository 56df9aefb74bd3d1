// SPDX-License-Identifier: MIT OR GPL-2.0-only
//! Energy that depends on more than one CPU.
//!
//! A cluster's static power is drawn unless all of its CPUs are in their deepest state. A state
//! that a cluster or the package shares saves over the next shallower one only while all of its
//! CPUs are in it or deeper: until then a CPU in it takes the shallower one's power. The package
//! takes its awake power while any CPU works or polls, or rises to it and falls from it.

use super::Topology;
use torpor_machine::platform::{Cluster, Platform, Scope, StatePower};
use torpor_machine::units::{Duration, Energy, Instant, Power};

/// CPUs that share a state.
struct Group {
    /// Number of members, and of members in the state.
    members: usize,
    inside: usize,
    since: Instant,
    /// Time with all members inside, and CPU time inside while others were not.
    together: Duration,
    waited: Duration,
}

impl Group {
    fn new(members: usize) -> Group {
        Group {
            members,
            inside: 0,
            since: Instant(0),
            together: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    fn change(&mut self, now: Instant, enters: bool) {
        self.pass(now);
        if enters {
            self.inside += 1;
        } else {
            self.inside -= 1;
        }
    }

    /// Time with all inside, and CPU time waited, since the last call.
    fn settle(&mut self, now: Instant) -> (Duration, Duration) {
        self.pass(now);
        let none = Duration::ZERO;
        (std::mem::replace(&mut self.together, none), std::mem::replace(&mut self.waited, none))
    }

    fn pass(&mut self, now: Instant) {
        let time = now.since(self.since);
        self.since = now;
        if self.inside == self.members {
            self.together += time;
        } else {
            self.waited += Duration(time.0 * self.inside as i64);
        }
    }
}

/// A shared state of a cluster.
struct Shared {
    state: usize,
    /// One, or one for each of its cores.
    groups: Vec<Group>,
    /// Power saved over the next shallower state, by OPP.
    saving: Vec<Power>,
}

struct ClusterRest {
    deepest: usize,
    /// By OPP, of which there is one at least.
    static_power: Vec<Power>,
    at_rest: Group,
    shared: Vec<Shared>,
    /// The first of its states that the package shares, and its saving by OPP.
    package_state: Option<(usize, Vec<Power>)>,
    /// Whether its first state polls.
    polls: bool,
    /// Its OPP, since when, and the energy up to then.
    opp: usize,
    since: Instant,
    static_energy: Energy,
    unsaved: Energy,
}

impl ClusterRest {
    /// Accounts the time up to now at the current OPP; `waited` is CPU time that waited for the package.
    fn settle(&mut self, now: Instant, waited: Duration) {
        let (together, _) = self.at_rest.settle(now);
        let awake = now.since(self.since) - together;
        self.static_energy += self.static_power[self.opp].over(awake);
        for shared in &mut self.shared {
            for group in &mut shared.groups {
                self.unsaved += shared.saving[self.opp].over(group.settle(now).1);
            }
        }
        if let Some((_, saving)) = &self.package_state {
            self.unsaved += saving[self.opp].over(waited);
        }
        self.since = now;
    }
}

/// Time at the package's awake power; while the power rises or falls, time counts in proportion.
struct Awake {
    rise: Duration,
    since: Instant,
    /// Current level, as a part of `rise`.
    level: i64,
    /// Time at full power, and twice the integral of `level` over the rest.
    whole: Duration,
    doubled: i128,
}

impl Awake {
    fn new(rise: Duration) -> Awake {
        Awake { rise, since: Instant(0), level: 0, whole: Duration::ZERO, doubled: 0 }
    }

    /// Accounts the time up to now, in which the package was awake or not.
    fn pass(&mut self, now: Instant, is_awake: bool) {
        let time = now.since(self.since).0;
        self.since = now;
        let (moves, level) = match is_awake {
            true => (time.min(self.rise.0 - self.level), self.level + time),
            false => (time.min(self.level), self.level - time),
        };
        let level = level.clamp(0, self.rise.0);
        self.doubled += i128::from(moves) * i128::from(self.level + level);
        self.level = level;
        if is_awake {
            self.whole += Duration(time - moves);
        }
    }

    fn time(&self) -> Duration {
        let part = self.doubled / (2 * i128::from(self.rise.0)).max(1);
        self.whole + Duration(part as i64)
    }
}

/// Returns the groups of CPUs that share a state of this scope.
fn groups(cluster: &Cluster, scope: Scope) -> Vec<Group> {
    let (cpus, threads) = (cluster.cpus.len(), cluster.smt.threads);
    match scope {
        Scope::Core => (0..cpus / threads).map(|_| Group::new(threads)).collect(),
        _ => vec![Group::new(cpus)],
    }
}

pub(super) struct Rest {
    cluster_of: Vec<usize>,
    /// Number of each CPU's core in its cluster.
    core_of: Vec<usize>,
    clusters: Vec<ClusterRest>,
    package: Group,
    /// CPU time in a package state while the package was not, by cluster.
    package_inside: Vec<(usize, Duration)>,
    package_since: Instant,
    /// CPUs neither at work nor polling.
    asleep: Group,
    awake: Awake,
    awake_power: Power,
    is_needed: bool,
}

/// Energy in addition to that of single CPUs.
pub(super) struct RestEnergy {
    /// Static, by cluster.
    pub of_clusters: Vec<Energy>,
    /// Energy that shared states did not save, by cluster.
    pub unsaved: Vec<Energy>,
    /// Energy of the package while it was awake.
    pub of_package: Energy,
}

impl Rest {
    /// `first_opps` are those at the beginning, by cluster.
    pub(super) fn new(
        platform: &Platform,
        topology: &Topology,
        first_opps: impl Iterator<Item = u16>,
    ) -> Rest {
        let clusters: Vec<ClusterRest> = platform
            .clusters
            .iter()
            .zip(first_opps)
            .map(|(cluster, opp)| {
                let opps = 0..cluster.opps.len().max(1);
                let power = |state: usize, opp: usize| match &cluster.idle_states[state].power {
                    StatePower::Unknown => Power::ZERO,
                    StatePower::Constant(power) => *power,
                    StatePower::PerOpp(powers) => powers[opp],
                };
                let saving = |state: usize| {
                    opps.clone().map(|opp| power(state - 1, opp) - power(state, opp)).collect()
                };
                let static_power =
                    |opp: usize| cluster.opps.get(opp).map_or(Power::ZERO, |o| o.static_power);
                let of_scope = |scope: Scope| {
                    let states = cluster.idle_states.iter().enumerate();
                    states.filter(move |(n, s)| *n > 0 && s.scope == scope).map(|(n, _)| n)
                };
                ClusterRest {
                    deepest: cluster.deepest(),
                    static_power: opps.clone().map(static_power).collect(),
                    at_rest: Group::new(cluster.cpus.len()),
                    shared: [Scope::Core, Scope::Cluster]
                        .into_iter()
                        .flat_map(|scope| of_scope(scope).map(move |state| (scope, state)))
                        .map(|(scope, state)| Shared {
                            state,
                            groups: groups(cluster, scope),
                            saving: saving(state),
                        })
                        .collect(),
                    package_state: of_scope(Scope::Package).next().map(|s| (s, saving(s))),
                    polls: cluster.idle_states[0].is_polling(),
                    opp: usize::from(opp),
                    since: Instant(0),
                    static_energy: Energy::ZERO,
                    unsaved: Energy::ZERO,
                }
            })
            .collect();
        let of_cluster = |c: &ClusterRest| {
            let has_static = c.static_power.iter().any(|power| *power > Power::ZERO);
            has_static || !c.shared.is_empty() || c.package_state.is_some()
        };
        let is_needed = platform.awake_power > Power::ZERO || clusters.iter().any(of_cluster);
        let core_of = topology
            .cluster_of
            .iter()
            .map(|&(cluster, place)| platform.clusters[cluster].smt.core_of(place));
        Rest {
            core_of: core_of.collect(),
            cluster_of: topology.cluster_of.iter().map(|(cluster, _)| *cluster).collect(),
            package: Group::new(topology.cpus),
            package_inside: vec![(0, Duration::ZERO); clusters.len()],
            package_since: Instant(0),
            asleep: Group::new(topology.cpus),
            awake: Awake::new(platform.awake_rise),
            awake_power: platform.awake_power,
            clusters,
            is_needed,
        }
    }

    pub(super) fn entered(&mut self, cpu: usize, state: usize, now: Instant) {
        self.change(cpu, state, now, true);
    }

    pub(super) fn left(&mut self, cpu: usize, state: usize, now: Instant) {
        self.change(cpu, state, now, false);
    }

    fn change(&mut self, cpu: usize, state: usize, now: Instant, enters: bool) {
        if !self.is_needed {
            return;
        }
        let number = self.cluster_of[cpu];
        let cluster = &mut self.clusters[number];
        if state > 0 || !cluster.polls {
            self.awake.pass(now, self.asleep.inside < self.asleep.members);
            self.asleep.change(now, enters);
        }
        if state == cluster.deepest {
            cluster.at_rest.change(now, enters);
        }
        for shared in cluster.shared.iter_mut().filter(|s| state >= s.state) {
            let number = if shared.groups.len() > 1 { self.core_of[cpu] } else { 0 };
            shared.groups[number].change(now, enters);
        }
        if cluster.package_state.as_ref().is_some_and(|(first, _)| state >= *first) {
            self.pass_package(now);
            self.package.change(now, enters);
            let inside = &mut self.package_inside[number].0;
            *inside = if enters { *inside + 1 } else { *inside - 1 };
        }
    }

    pub(super) fn set_opp(&mut self, cluster: usize, opp: u16, now: Instant) {
        if !self.is_needed {
            return;
        }
        self.pass_package(now);
        let waited = std::mem::replace(&mut self.package_inside[cluster].1, Duration::ZERO);
        self.clusters[cluster].settle(now, waited);
        self.clusters[cluster].opp = usize::from(opp);
    }

    fn pass_package(&mut self, now: Instant) {
        let time = now.since(self.package_since);
        self.package_since = now;
        if self.package.inside < self.package.members {
            for (inside, waited) in &mut self.package_inside {
                *waited += Duration(time.0 * *inside as i64);
            }
        }
    }

    /// Returns the energy since the beginning, or since it was last taken.
    pub(super) fn so_far(&mut self, now: Instant) -> Energy {
        self.pass_package(now);
        self.awake.pass(now, self.asleep.inside < self.asleep.members);
        let mut energy = self.awake_power.over(self.awake.time());
        for (cluster, (_, waited)) in self.clusters.iter_mut().zip(&mut self.package_inside) {
            cluster.settle(now, std::mem::take(waited));
            energy += cluster.static_energy + cluster.unsaved;
        }
        energy
    }

    /// Returns the energy since the beginning, or since the last call.
    pub(super) fn take(&mut self, now: Instant) -> RestEnergy {
        self.pass_package(now);
        self.awake.pass(now, self.asleep.inside < self.asleep.members);
        let of_package = self.awake_power.over(self.awake.time());
        (self.awake.whole, self.awake.doubled) = (Duration::ZERO, 0);
        let (of_clusters, unsaved) = self
            .clusters
            .iter_mut()
            .zip(&mut self.package_inside)
            .map(|(cluster, (_, waited))| {
                cluster.settle(now, std::mem::take(waited));
                (std::mem::take(&mut cluster.static_energy), std::mem::take(&mut cluster.unsaved))
            })
            .unzip();
        RestEnergy { of_clusters, unsaved, of_package }
    }
}
