//! What is compared, and how it differs.

use crate::trace::function::FunctionKind;
use crate::trace::waits::WaitReason;

/// What rates are per.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Unit {
    /// A second.
    #[default]
    Second,
    /// A request that was answered.
    Request,
}

/// What is compared.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Quantity {
    /// CPU time of a function of the program itself: its own code, and what libraries and the kernel do for it.
    Function {
        /// Its kind.
        kind: FunctionKind,
        /// Its module, without what compilers and versions add.
        module: String,
        /// Its name.
        name: String,
    },
    /// Time that threads waited in a function.
    Wait {
        /// For what.
        reason: WaitReason,
        /// The function; `None`: not known.
        function: Option<String>,
    },
    /// The time that a request takes, from its start to its answer.
    Request {
        /// Method and route.
        route: String,
    },
}

impl Quantity {
    /// Those who wait like this wait for something to do: it says how busy they are, not what they are slowed by.
    #[must_use]
    pub fn is_idleness(&self) -> bool {
        matches!(self, Self::Wait { reason, .. } if reason.is_idle_like())
    }

    /// Threads wait for a lock.
    #[must_use]
    pub fn is_lock(&self) -> bool {
        matches!(
            self,
            Self::Wait {
                reason: WaitReason::Lock | WaitReason::LockOrCondition | WaitReason::KernelLock,
                ..
            }
        )
    }
}

/// One quantity in both recordings.
#[derive(Clone, PartialEq, Debug)]
pub struct Difference {
    /// What.
    pub quantity: Quantity,
    /// Seconds per unit, before.
    pub before: f64,
    /// The same, after.
    pub after: f64,
    /// The smallest difference that would be claimed, in seconds per unit.
    pub noise: f64,
}

impl Difference {
    /// How much it changed, in seconds per unit: more than zero is slower.
    #[must_use]
    pub fn change(&self) -> f64 {
        self.after - self.before
    }

    /// The same as a share of what was before; `None`: there was nothing.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.change() / self.before)
    }
}
