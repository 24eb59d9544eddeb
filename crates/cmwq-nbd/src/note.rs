//! What a server reports on standard error.
#![forbid(unsafe_code)]

use std::io::Write as _;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cmwq::{DelayedWork, Workqueue};

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

/// Lines about clients. Anyone who may connect can cause them, as many as there are connections: in
/// each minute a few are written, and the others are counted.
pub(crate) struct ClientNotes {
    state: Arc<Mutex<Minute>>,
    /// Writes how many were left out, when the minute has passed.
    summary: DelayedWork,
    write: Write,
}

/// Where the lines go.
type Write = fn(&str);

/// How many lines about clients are written in a minute.
const CLIENT_NOTES: u32 = 10;

#[derive(Default)]
struct Minute {
    began: Option<Instant>,
    written: u32,
    left_out: u64,
}

impl Minute {
    /// Whether to write one more line; it is counted if not.
    fn admits(&mut self, now: Instant) -> bool {
        if self.began.is_none_or(|began| now >= began + NOTED_FOR) {
            (self.began, self.written) = (Some(now), 0);
        }
        let admits = self.written < CLIENT_NOTES;
        match admits {
            true => self.written += 1,
            false => self.left_out += 1,
        }
        admits
    }

    fn time_left(&self, now: Instant) -> Duration {
        let end = self.began.map_or(now, |began| began + NOTED_FOR);
        end.saturating_duration_since(now)
    }

    /// What to say of the lines that were left out since this was last called.
    fn summary(&mut self) -> Option<String> {
        let left_out = std::mem::take(&mut self.left_out);
        (left_out > 0).then(|| format!("{left_out} more lines about clients were left out"))
    }
}

impl ClientNotes {
    pub(crate) fn new(write: Write) -> Self {
        let state = Arc::<Mutex<Minute>>::default();
        let of_summary = state.clone();
        let summary = DelayedWork::new(move || {
            if let Some(summary) = lock(&of_summary).summary() {
                write(&summary);
            }
        });
        ClientNotes {
            state,
            summary,
            write,
        }
    }

    /// Writes the line, or counts it. `queue` carries the summary out.
    pub(crate) fn note(&self, queue: &Workqueue, message: &str) {
        let now = Instant::now();
        let (admitted, left) = {
            let mut state = lock(&self.state);
            (state.admits(now), state.time_left(now))
        };
        match admitted {
            true => (self.write)(message),
            // It is pending already, except for the first time. If the queue takes none, `finish`
            // has the summary.
            false => drop(queue.queue_delayed(&self.summary, left)),
        }
    }

    /// Writes what is left to be said.
    pub(crate) fn finish(&self) {
        self.summary.cancel_sync();
        if let Some(summary) = lock(&self.state).summary() {
            (self.write)(&summary);
        }
    }
}

fn lock(state: &Mutex<Minute>) -> MutexGuard<'_, Minute> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
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

    #[test]
    fn in_each_minute_a_few_lines_about_clients_are_written_and_the_others_counted() {
        let mut minute = Minute::default();
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let admitted = (0..3000).filter(|_| minute.admits(at(0))).count();
        assert_eq!(admitted, CLIENT_NOTES as usize);
        assert!(!minute.admits(at(59)));
        assert_eq!(minute.time_left(at(59)), Duration::from_secs(1));
        // The next minute begins with the next line, whether the summary was written or not.
        assert!(minute.admits(at(60)));
        let summary = minute.summary().unwrap();
        assert_eq!(summary, "2991 more lines about clients were left out");
        assert_eq!(minute.summary(), None);
        assert_eq!(minute.time_left(at(61)), Duration::from_secs(59));
    }

    #[test]
    fn the_summary_comes_by_itself_and_at_the_end() {
        static WRITTEN: Mutex<Vec<String>> = Mutex::new(Vec::new());
        let notes = ClientNotes::new(|line| WRITTEN.lock().unwrap().push(line.to_owned()));
        let queue = Workqueue::builder("notes").build().unwrap();
        for _ in 0..=CLIENT_NOTES {
            notes.note(&queue, "refused");
        }
        let minute = notes.summary.time_left();
        assert!(minute > Duration::ZERO && minute <= NOTED_FOR);
        // The minute has passed, for this test.
        let _ = queue.mod_delayed(&notes.summary, Duration::ZERO);
        notes.summary.flush().unwrap();
        let summary = |count| format!("{count} more lines about clients were left out");
        let last = || WRITTEN.lock().unwrap().last().cloned();
        assert_eq!(last(), Some(summary(1)));
        for _ in 0..3 {
            notes.note(&queue, "refused");
        }
        notes.finish();
        assert_eq!(last(), Some(summary(3)));
        assert!(!notes.summary.is_pending());
        notes.finish();
        assert_eq!(WRITTEN.lock().unwrap().len(), CLIENT_NOTES as usize + 2);
    }
}
