//! Man pages and completions, from the definition of the command line. For packages, and after `cargo install`.

use std::path::PathBuf;

use clap::builder::Styles;
use clap_complete::Shell;

use crate::cli_error::CliError;
use crate::output;

/// What `completions` is asked for.
#[derive(clap::Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// What `man` is asked for.
#[derive(clap::Args)]
pub(crate) struct ManArgs {
    /// An existing folder, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completions for a shell.
pub(crate) fn completions(
    mut command: clap::Command,
    args: &CompletionsArgs,
) -> Result<(), CliError> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, name, &mut text);
    output::print(&String::from_utf8_lossy(&text))
}

/// Writes a page for the command and one for each subcommand.
pub(crate) fn man(command: clap::Command, args: &ManArgs) -> Result<(), CliError> {
    // A page is not a terminal: no colours, and no page for `help`.
    let command = command
        .styles(Styles::plain())
        .disable_help_subcommand(true);
    clap_mangen::generate_to(command, &args.dir).map_err(|error| {
        CliError::new(format!(
            "cannot write man pages into {}: {error}",
            args.dir.display()
        ))
    })
}
