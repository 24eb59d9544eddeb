//! One line of JSON for one run. All figures are plain numbers and all texts plain words, so it
//! needs no library.

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
        for (name, permille) in [("50", 500), ("95", 950), ("99", 990), ("999", 999)] {
            let at = samples[(samples.len() - 1) * permille / 1000];
            self = self.number(&format!("{key}_p{name}_ns"), at as f64);
        }
        self
    }

    pub(crate) fn line(&self) -> String {
        format!("{{{}}}", self.0.trim_start_matches(','))
    }
}
