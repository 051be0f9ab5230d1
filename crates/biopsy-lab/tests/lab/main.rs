//! The lab from outside: requests, uploads that are cut, workers, deletion.

mod api;
mod back_ends;
mod browser;
mod cuts;
mod deletion;
mod derived;
mod intake;
mod interop;
mod notices;
mod pages;
mod provider;
mod proxies;
mod sealed;
mod signatures;
mod slow;
mod support;
mod worker;
