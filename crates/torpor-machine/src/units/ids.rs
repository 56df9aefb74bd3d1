// SPDX-License-Identifier: MIT OR GPL-2.0-only
use std::fmt;

/// A number that carries its unit in its type, and is written as the number it is.
macro_rules! number {
    ($(#[$about:meta])* pub struct $name:ident($of:ty);) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[derive(schemars::JsonSchema, serde::Serialize, serde::Deserialize)]
        pub struct $name(pub $of);
    };
}
pub(crate) use number;

/// Operators of such numbers: left side, operator and its assignment, right side, result.
macro_rules! operators {
    ($($left:ident: $op:ident::$call:ident, $set:ident::$assign:ident($right:ty),
       |$a:ident, $b:ident| $result:expr;)*) => {$(
        impl std::ops::$op<$right> for $left {
            type Output = $left;
            #[inline]
            fn $call(self, right: $right) -> $left {
                let ($a, $b) = (self.0, right.0);
                $left($result)
            }
        }
        impl std::ops::$set<$right> for $left {
            #[inline]
            fn $assign(&mut self, right: $right) {
                *self = std::ops::$op::$call(*self, right);
            }
        }
    )*};
}
pub(crate) use operators;

number! {
    /// A logical CPU, numbered as the kernel numbers it.
    pub struct CpuId(u32);
}

impl CpuId {
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl fmt::Display for CpuId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cpu{}", self.0)
    }
}

/// An idle state's index as the kernel counts it: −1 is running, 0 the shallowest state.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub struct StateIdx(pub i32);

impl StateIdx {
    pub const RUNNING: StateIdx = StateIdx(-1);

    /// The position in a state table, or `None` for a running CPU.
    pub const fn index(self) -> Option<usize> {
        if self.0 < 0 { None } else { Some(self.0 as usize) }
    }
}

impl fmt::Display for StateIdx {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}
