//! The command from outside, by itself and with other people's programs.

mod activation;
mod bench;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod durability;
mod file_system;
mod generate;
mod options;
mod programs;
mod served;
