//! What a server reports on standard error.
#![forbid(unsafe_code)]

use std::io::Write;
use std::time::{Duration, Instant};

/// What stays the same is noted again after this.
const NOTED_FOR: Duration = Duration::from_secs(60);

/// What was noted last, and when: of a state that lasts.
#[derive(Default)]
pub(crate) struct LastNote(Option<(String, Instant)>);

impl LastNote {
    /// Whether to note this message now: another than last time, or again after a while.
    pub(crate) fn is_news(&mut self, message: &str, now: Instant) -> bool {
        let is_old = |(last, at): &(String, Instant)| last == message && now < *at + NOTED_FOR;
        let is_news = !self.0.as_ref().is_some_and(is_old);
        if is_news {
            self.0 = Some((message.to_owned(), now));
        }
        is_news
    }
}

/// A line on standard error, in one piece.
pub(crate) fn note(message: &str) {
    // Without standard error there is no way to report anything.
    let _ = std::io::stderr().write_all(format!("cmwq-nbd: {message}\n").as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_lasts_is_noted_once_and_rarely_again() {
        let mut noted = LastNote::default();
        let start = Instant::now();
        let mut is_news =
            |message, after_s| noted.is_news(message, start + Duration::from_secs(after_s));
        assert!(is_news("no descriptors", 0));
        assert!(!is_news("no descriptors", 1) && !is_news("no descriptors", 59));
        assert!(is_news("no memory", 59), "another");
        assert!(is_news("no descriptors", 60), "and the first again");
        assert!(!is_news("no descriptors", 119));
        assert!(is_news("no descriptors", 120), "it still lasts");
    }
}
