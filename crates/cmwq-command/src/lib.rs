//! What the commands `cmwq` and `cmwq-nbd` share: how they begin and fail, how they print, their
//! man pages and completions.
//!
//! It goes with the commands, and changes with them.
#![deny(unsafe_code)]

mod cli_error;
pub mod figures;
pub mod generate;
mod number;
pub mod output;
mod run;

pub use cli_error::CliError;
pub use number::{seconds_from, whole};
/// Gives a command the option `--color`.
///
/// ```
/// use clap::{CommandFactory, Parser};
/// use cmwq_command::ColorArgs;
///
/// #[derive(Parser)]
/// struct Tool {
///     #[command(flatten)]
///     color: ColorArgs,
/// }
///
/// let help = Tool::command().render_long_help().to_string();
/// assert!(help.contains("--color <WHEN>"));
/// ```
///
pub use run::ColorArgs;
pub use run::run;
