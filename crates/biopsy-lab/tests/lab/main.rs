//! The lab from outside: requests, uploads that are cut, workers, deletion.

mod cuts;
mod deletion;
mod intake;
mod support;
mod worker;
