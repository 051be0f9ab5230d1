//! .NET programs in odd places and on bad days: found and recorded where that is possible, a clear reason where it is not, never a
//! hang, never harm.

mod beside;
mod launch;
mod names;
mod places;
mod ports;
mod support;
mod switched_off;
mod waits;
