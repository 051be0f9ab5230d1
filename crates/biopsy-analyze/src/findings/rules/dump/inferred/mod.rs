//! What is inferred from who is left: memory does not say who would give what is waited for, and nobody else is there to.

pub(in crate::findings::rules) mod full_channel;
pub(in crate::findings::rules) mod pool_starvation;
pub(in crate::findings::rules) mod stuck_wait;
