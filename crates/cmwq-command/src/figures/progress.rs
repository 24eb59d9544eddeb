//! How far a benchmark is.

use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// A bar on standard error if that is a terminal, nothing elsewhere. It moves only when it is told
/// to, between measurements, so that it does not disturb them.
pub fn progress_bar(steps: usize) -> ProgressBar {
    let steps = Some(steps as u64);
    if !io::stderr().is_terminal() {
        return ProgressBar::with_draw_target(steps, ProgressDrawTarget::hidden());
    }
    let bar = ProgressBar::with_draw_target(steps, ProgressDrawTarget::stderr());
    if let Ok(style) = ProgressStyle::with_template("{wide_bar} {pos}/{len} {msg}") {
        bar.set_style(style);
    }
    bar
}
