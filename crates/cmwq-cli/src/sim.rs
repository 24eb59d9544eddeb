//! `cmwq sim`: the library's code on machines of many CPUs, in virtual time.
//!
//! The simulator is a program of its own, `cmwq-sim`: it compiles the library's sources for the
//! virtual machine, where this one links the real library.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use crate::output;
use cmwq_command::CliError;
use cmwq_command::output::{Stream, has_color};

const PROGRAM: &str = "cmwq-sim";

/// How the user comes by the simulator.
const MISSING: &str = "The program cmwq-sim does this, and is neither beside cmwq nor on the PATH; it is a package of its own, and cmwq's \
sources install it: cargo install --path crates/cmwq-sim";

const EXAMPLES: &str = "\
Examples:
  cmwq sim --help                                  all options
  cmwq sim                                         72 CPUs, a row for each scope
  cmwq sim --machine 9d64 --engine both            beside the kernel's protocol
  cmwq sim --synthetic 'l3:4 core:6 pu:2' --sweep  which shard size to take

The program cmwq-sim does it, which is a package of its own and has to be beside cmwq or on the PATH. From cmwq's sources: `cargo install \
--path crates/cmwq-sim`. The Debian package has it.

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

impl Args {
    fn asks_for_help(&self) -> bool {
        let mut options = self.options.iter();
        options.any(|option| option == "--help" || option == "-h")
    }
}

/// Replaces this process by the simulator. Returns only if that fails.
pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    // The simulator finds /dev/null in its place.
    cmwq_command::output::check()?;
    let program = beside().unwrap_or_else(|| PathBuf::from(PROGRAM));
    let error = Command::new(&program).arg("sim").args(&args.options).exec();
    Err(match error.kind() {
        ErrorKind::NotFound if args.asks_for_help() => return help(),
        ErrorKind::NotFound => CliError::failed(format!("sim: {MISSING}")),
        _ => CliError::failed(format!("sim: {} cannot be run: {error}", program.display())),
    })
}

/// What there is to say without the simulator, which has the help on all options.
fn help() -> Result<(), CliError> {
    let command = <Args as clap::Args>::augment_args(clap::Command::new("cmwq sim"));
    let mut command = command
        .about(format!(
            "Simulate the library on machines of many CPUs. {MISSING}. Its help has all options."
        ))
        .disable_help_flag(true);
    let text = command.render_help();
    output::print(&match has_color(Stream::Out) {
        true => text.ansi().to_string(),
        false => text.to_string(),
    })
}

/// The simulator that was installed with this program.
fn beside() -> Option<PathBuf> {
    let program = std::env::current_exe().ok()?.with_file_name(PROGRAM);
    program.is_file().then_some(program)
}
