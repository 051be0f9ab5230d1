//! The lab from outside: requests, uploads that are cut, workers, deletion.

mod browser;
mod cuts;
mod deletion;
mod intake;
mod pages;
mod support;
mod worker;
