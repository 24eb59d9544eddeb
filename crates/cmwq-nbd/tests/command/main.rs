//! The command from outside, by itself and with other people's programs.

mod activation;
mod bench;
mod bench_rows;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod durability;
mod file_system;
mod generate;
mod keys;
mod options;
mod places;
mod programs;
mod refusals;
mod served;
