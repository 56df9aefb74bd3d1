// SPDX-License-Identifier: MIT OR GPL-2.0-only
use crate::GovernorError;
use crate::instance::{CpuSetup, Instance, Setup, StateDesc};
use crate::policy::{Compiled, Policy};
use std::ops::Deref;
use std::sync::Arc;
use torpor_machine::units::{CpuId, Duration};

/// A compiled governor with its parameters, ready to be instantiated. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Governor {
    policy: Arc<Policy>,
    rating: u32,
}

impl Governor {
    pub(crate) fn new(
        compiled: Compiled,
        chosen: &[(String, String)],
    ) -> Result<Governor, GovernorError> {
        // The rating is known only after the initcall has registered the governor.
        let rate = |policy: &Policy| {
            let states = [StateDesc {
                name: "probe".into(),
                exit_latency: Duration::ZERO,
                target_residency: Duration::ZERO,
                is_polling: false,
                is_disabled: false,
            }];
            let setup = Setup { cpus: &[CpuSetup::new(CpuId(0), &states)] };
            Ok(Instance::new(policy, &setup)?.rating())
        };
        let (policy, rating) = Policy::new(compiled, chosen, rate)?;
        Ok(Governor { policy: Arc::new(policy), rating })
    }

    /// Loads a private image for the CPUs of a run.
    pub fn instantiate(&self, setup: &Setup<'_>) -> Result<Instance, GovernorError> {
        Instance::new(&self.policy, setup)
    }

    /// Returns the rating. A kernel uses the governor with the highest.
    pub fn rating(&self) -> u32 {
        self.rating
    }
}

impl Deref for Governor {
    type Target = Policy;

    fn deref(&self) -> &Policy {
        &self.policy
    }
}
