//! How figures are shown: tables and pages of the benchmarks.

mod machine;
mod page;
mod progress;
mod spread;
mod table;

pub use machine::{cpu_model, kernel};
pub use page::{Bar, bars, escape, open, page, rounded, section};
pub use progress::progress_bar;
pub use spread::Spread;
pub use table::{Column, Row, grouped, html, layout};
