//! One line of JSON for one run. All figures are plain numbers and all texts plain words, so it needs no library.

use std::fmt::Write;

/// What a run found out.
pub(crate) struct Report(String);

impl Report {
    pub(crate) fn new() -> Report {
        Report(String::new())
    }

    pub(crate) fn text(mut self, key: &str, value: &str) -> Report {
        let _ = write!(self.0, ",\"{key}\":\"{value}\"");
        self
    }

    pub(crate) fn number(mut self, key: &str, value: f64) -> Report {
        let _ = write!(self.0, ",\"{key}\":{value}");
        self
    }

    /// Percentiles of some nanoseconds; nothing if there are none.
    pub(crate) fn percentiles(mut self, key: &str, mut samples: Vec<u64>) -> Report {
        if samples.is_empty() {
            return self;
        }
        samples.sort_unstable();
        for percent in [50, 95, 99] {
            let at = samples[(samples.len() - 1) * percent / 100];
            self = self.number(&format!("{key}_p{percent}_ns"), at as f64);
        }
        self
    }

    pub(crate) fn line(&self) -> String {
        format!("{{{}}}", self.0.trim_start_matches(','))
    }
}
