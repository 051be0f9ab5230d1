//! The program: parse, plan, run, render.

fn main() {}
