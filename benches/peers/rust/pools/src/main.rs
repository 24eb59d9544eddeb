//! The loops for cmwq and for other thread pools in Rust. The driver starts one process for each run:
//!
//! `peer-pools list` prints a line of JSON for each row; `peer-pools PEER LOOP MODE [key=value]…`
//! runs one and prints its figures as a line of JSON. Status 2: wrong arguments; 3: the run failed,
//! or not all items ran exactly once.

#![forbid(unsafe_code)]

mod everyday;
mod job;
mod loops;
mod machine;
mod options;
mod peers;
mod report;
mod signal;

use options::Options;
use report::Report;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    // Read before any thread is pinned.
    machine::allowed_cpus();
    if arguments == ["list"] {
        list();
        return ExitCode::SUCCESS;
    }
    let options = match Options::parse(&arguments) {
        Ok(options) => options,
        Err(error) => return failed(2, &error),
    };
    let Some(peer) = peers::all()
        .into_iter()
        .find(|peer| peer.name == options.peer)
    else {
        return failed(2, &format!("no peer '{}'; see list", options.peer));
    };
    let spin_ns = match options.lap.as_str() {
        "window" | "epoll" | "block" | "fork" | "scope" | "await-current" | "await-multi" => {
            machine::spin_ns(options.spin)
        }
        _ => 0,
    };
    match (peer.run)(&options) {
        Ok(report) => {
            println!("{}", report.number("spin_ns", spin_ns as f64).line());
            ExitCode::SUCCESS
        }
        Err(error) => failed(3, &error),
    }
}

fn list() {
    for peer in peers::all() {
        for (lap, mode) in peer.rows() {
            let row = Report::new()
                .text("peer", peer.name)
                .text("version", peer.version)
                .text("loop", lap)
                .text("mode", mode);
            println!("{}", row.line());
        }
    }
}

fn failed(status: u8, error: &str) -> ExitCode {
    eprintln!("peer-pools: {error}");
    ExitCode::from(status)
}
