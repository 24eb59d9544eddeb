//! Changes one place of the library's sources at a time, and runs what is meant to find that
//! (`scripts/orderings`, `scripts/mutants`), or what is meant to be faster with it
//! (`scripts/mechanisms`).
//!
//! All of it happens in a copy of the workspace, which is built once: each place there is a question
//! that the environment answers. What was found is kept in a file, and not run again.

mod copy;
mod lines;
mod mechanisms;
mod orderings;

use clap::Parser;
use std::process::ExitCode;

/// Changes one place of the library at a time, and says what finds it
#[derive(Parser)]
#[command(name = "mutants")]
enum Command {
    /// Weakens one memory ordering at a time
    Orderings(orderings::Arguments),
    /// Takes out one statement, forces one condition or moves one bound at a time
    Lines(lines::Arguments),
    /// Switches one mechanism that serves speed off at a time
    Mechanisms(mechanisms::Arguments),
}

fn main() -> ExitCode {
    let result = match Command::parse() {
        Command::Orderings(arguments) => orderings::run(&arguments),
        Command::Lines(arguments) => lines::run(&arguments),
        Command::Mechanisms(arguments) => mechanisms::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("mutants: {error}");
            ExitCode::FAILURE
        }
    }
}
