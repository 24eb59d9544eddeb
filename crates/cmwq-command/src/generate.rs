//! Man pages and completions, from the definition of the command line. For packages, and after
//! `cargo install`.

use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};

use clap::builder::{Resettable, Styles};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::{CliError, output};

/// The arguments of a subcommand `completions`, as in the example of [`completions()`].
#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// The arguments of a subcommand `man`, as in the example of [`man()`].
#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// An existing folder, such as /usr/local/share/man/man1
    #[arg(value_name = "DIR")]
    dir: PathBuf,
}

/// Prints the completions for a shell.
///
/// ```
/// use clap::{CommandFactory, Parser};
/// use cmwq_command::generate::{CompletionsArgs, completions};
///
/// #[derive(Parser)]
/// enum Tool {
///     /// Prints completions for a shell
///     Completions(CompletionsArgs),
/// }
///
/// let Tool::Completions(args) = Tool::parse_from(["tool", "completions", "bash"]);
/// completions(Tool::command(), &args)?;
/// # Ok::<(), cmwq_command::CliError>(())
/// ```
pub fn completions(mut command: clap::Command, args: &CompletionsArgs) -> Result<(), CliError> {
    let name = command.get_name().to_owned();
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, &name, &mut text);
    // In bash clap_complete writes a hyphen of the command's name in two ways, and completes
    // nothing after a subcommand: https://github.com/clap-rs/clap/issues/6421. Without that mistake
    // there is nothing to replace.
    let [twice, once] = ["__subcmd__", "__"].map(|hyphen| name.replace('-', hyphen) + "__");
    output::print(&String::from_utf8_lossy(&text).replace(&twice, &once))
}

/// Writes a page for the command and one for each subcommand.
///
/// ```
/// use clap::{CommandFactory, Parser};
/// use cmwq_command::generate::{ManArgs, man};
///
/// #[derive(Parser)]
/// enum Tool {
///     /// Writes the man pages
///     Man(ManArgs),
/// }
///
/// # let dir = std::env::temp_dir().join(format!("cmwq-man-{}", std::process::id()));
/// # std::fs::create_dir(&dir)?;
/// let Tool::Man(args) = Tool::parse_from(["tool".as_ref(), "man".as_ref(), dir.as_os_str()]);
/// # let written =
/// man(Tool::command(), &args);
/// # std::fs::remove_dir_all(&dir)?;
/// # written.expect("the folder exists");
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn man(command: clap::Command, args: &ManArgs) -> Result<(), CliError> {
    // A page is not a terminal: no colours, and no page for `help`.
    let mut command = command
        .styles(Styles::plain())
        .disable_help_subcommand(true);
    command.build();
    pages(command, &args.dir).map_err(|error| {
        CliError::failed(format!(
            "cannot write man pages into {}: {error}",
            args.dir.display()
        ))
    })
}

/// The page of a command, and those of its subcommands.
fn pages(command: clap::Command, dir: &Path) -> io::Result<()> {
    for subcommand in command.get_subcommands().cloned() {
        pages(subcommand, dir)?;
    }
    let help = command
        .get_after_long_help()
        .or(command.get_after_help())
        .map(ToString::to_string);
    // clap_mangen puts the examples into a section EXTRA, and joins their lines.
    let command = command
        .after_help(Resettable::Reset)
        .after_long_help(Resettable::Reset);
    let page = Man::new(command).generate_to(dir)?;
    let mut file = OpenOptions::new().append(true).open(page)?;
    sections(&help.unwrap_or_default()).to_writer(&mut file)
}

/// What stands behind the options, in sections: a paragraph that begins with a heading is one, and
/// so is the exit status.
fn sections(help: &str) -> Roff {
    let mut roff = Roff::new();
    let mut notes = false;
    for paragraph in help.split("\n\n").filter(|text| !text.is_empty()) {
        let (first, rest) = paragraph.split_once('\n').unwrap_or((paragraph, ""));
        let heading = first.strip_suffix(':').filter(|_| !rest.is_empty());
        if let Some(heading) = heading {
            roff.control("SH", [heading.to_uppercase().as_str()]);
        }
        match heading {
            Some("Examples") => as_it_is(&mut roff, rest),
            Some(_) => list(&mut roff, rest),
            None if paragraph.starts_with(' ') => as_it_is(&mut roff, paragraph),
            None => {
                if let Some(status) = paragraph.strip_prefix("Exit status: ") {
                    roff.control("SH", ["EXIT STATUS"]).text([roman(status)]);
                } else {
                    let (macro_name, heading) = if notes {
                        ("PP", None)
                    } else {
                        ("SH", Some("NOTES"))
                    };
                    roff.control(macro_name, heading).text([roman(paragraph)]);
                }
            }
        }
        notes = heading.is_none();
    }
    roff
}

/// Lines that stay lines.
fn as_it_is(roff: &mut Roff, lines: &str) {
    roff.control("nf", []);
    for line in lines.lines() {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

/// A list of names, each with its meaning behind two blanks or more, or below it; a line that
/// begins further to the right goes on with the meaning.
fn list(roff: &mut Roff, lines: &str) {
    for line in lines.lines() {
        let name = line
            .strip_prefix("  ")
            .filter(|name| !name.starts_with(' '));
        if let Some(line) = name {
            let (name, meaning) = line.split_once("  ").unwrap_or((line, ""));
            roff.control("TP", []).text([roman(name)]);
            if !meaning.is_empty() {
                roff.text([roman(meaning.trim())]);
            }
        } else {
            roff.text([roman(line.trim())]);
        }
    }
}
