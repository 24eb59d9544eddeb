//! The page.
use crate::results::Results;
pub(crate) fn render(_: &Results) -> String { String::new() }
