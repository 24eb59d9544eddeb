//! How figures are shown: tables and pages of the benchmarks.

mod machine;
mod page;
mod spread;
mod table;

pub use machine::{cpu_model, kernel};
pub use page::{Bar, bars, escape, open, page, rounded, section};
pub use spread::Spread;
pub use table::{Column, Row, grouped, html, layout};
