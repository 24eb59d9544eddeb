//! `cmwq sim`: the library's code on machines of many CPUs, in virtual time.
//!
//! The simulator is a program of its own, `cmwq-sim`: it compiles the library's sources for the virtual machine, where this one links the real library.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use cmwq_command::CliError;

const PROGRAM: &str = "cmwq-sim";

const EXAMPLES: &str = "\
Examples:
  cmwq sim --help                                  all options
  cmwq sim                                         72 CPUs, a row for each scope
  cmwq sim --machine 9d64 --engine both            beside the kernel's protocol
  cmwq sim --synthetic 'l3:4 core:6 pu:2' --sweep  which shard size to take

The program cmwq-sim does it, and has to be beside cmwq or on the PATH.

Exit status: 0 done, 1 the simulation failed or there is no cmwq-sim, 2 a value was refused.";

/// What stands behind `cmwq sim`: all of it is the simulator's.
#[derive(clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[arg(
        trailing_var_arg = true,
        allow_hyphen_values = true,
        value_name = "OPTIONS"
    )]
    options: Vec<OsString>,
}

/// Replaces this process by the simulator. Returns only if that fails.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    // The simulator finds /dev/null in its place.
    cmwq_command::output::check()?;
    let program = beside().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg("sim").args(&args.options).exec();
    Err(CliError::failed(match error.kind() {
        ErrorKind::NotFound => format!(
            "sim: the program {PROGRAM} is neither beside this one nor on the PATH; install it too, from cmwq's sources: cargo install --path crates/cmwq-sim"
        ),
        _ => format!("sim: {} cannot be run: {error}", program.display()),
    }))
}

/// The simulator that was installed with this program.
fn beside() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
