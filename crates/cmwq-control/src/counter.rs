//! Counters of the program's own, which the endpoint shows beside the library's.

use crate::error::ControlError;
use crate::protocol;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// By number, so the oldest comes first.
static COUNTERS: Mutex<BTreeMap<u64, Entry>> = Mutex::new(BTreeMap::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

type Value = Arc<dyn Fn() -> u64 + Send + Sync>;

#[derive(Clone)]
struct Entry {
    name: String,
    help: String,
    value: Value,
}

/// Shows a counter of the program's own in the answers to `state`, in `cmwq top`, and in the
/// metrics, until it is dropped.
///
/// ```
/// use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
///
/// static ANSWERED: AtomicU64 = AtomicU64::new(0);
/// let shown = cmwq_control::Counter::show("requests", "Requests answered", || {
///     ANSWERED.load(Relaxed)
/// })?;
/// ANSWERED.fetch_add(1, Relaxed); // wherever the program answers a request
/// let control = cmwq_control::serve()?;
/// let metrics = cmwq_control::Client::connect_to(control.path())?.metrics()?;
/// assert!(metrics.contains("cmwq_requests_total{} 1"));
/// drop(shown); // it is not shown any more
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
#[must_use = "the counter is shown only while it lives"]
pub struct Counter(u64);

impl fmt::Debug for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counter").field(&self.0).finish()
    }
}

impl Counter {
    /// Shows what `value` returns as `name`; the metric is `cmwq_NAME_total`. The endpoint's thread
    /// calls `value` whenever a client asks, whether the process serves already or not yet; it must
    /// not wait. Counters of one name are added up.
    ///
    /// # Errors
    /// `EINVAL`: the name is not made of lower-case letters, digits and underscores, with a letter first.
    pub fn show(
        name: &str,
        help: &str,
        value: impl Fn() -> u64 + Send + Sync + 'static,
    ) -> Result<Counter, ControlError> {
        let is_name = name.starts_with(|c: char| c.is_ascii_lowercase())
            && name
                .bytes()
                .all(|c| c == b'_' || c.is_ascii_lowercase() || c.is_ascii_digit());
        if !is_name {
            return Err(ControlError::inval(format!(
                "'{name}' is no name for a counter; allowed: lower-case letters, digits and _, with a letter first"
            )));
        }
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = Entry {
            name: name.to_owned(),
            help: help.to_owned(),
            value: Arc::new(value),
        };
        counters().insert(id, entry);
        Ok(Counter(id))
    }
}

impl Drop for Counter {
    fn drop(&mut self) {
        let entry = counters().remove(&self.0);
        // Here, without the lock: what `value` owns may be a counter itself.
        drop(entry);
    }
}

fn counters() -> MutexGuard<'static, BTreeMap<u64, Entry>> {
    COUNTERS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All of them with their present values, each name once.
pub(crate) fn shown() -> Vec<protocol::Counter> {
    // The functions are called without the lock.
    let entries: Vec<Entry> = counters().values().cloned().collect();
    let mut shown: Vec<protocol::Counter> = Vec::new();
    for Entry { name, help, value } in entries {
        let value = value();
        match shown.iter_mut().find(|counter| counter.name == name) {
            Some(counter) => counter.value = counter.value.saturating_add(value),
            None => shown.push(protocol::Counter { name, help, value }),
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics;
    use crate::protocol::EndpointCounts;

    #[test]
    fn a_counter_is_a_metric_while_it_lives_and_equal_names_are_added() {
        let samples = || {
            let text = metrics::render(&EndpointCounts::default()).expect("text");
            let of_it = |line: &&str| line.starts_with("cmwq_test_requests_total{} ");
            let lines = text.lines().filter(of_it);
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert!(samples().is_empty());
        let one = Counter::show("test_requests", "Requests", || 3).expect("a name");
        let other = Counter::show("test_requests", "Requests", || 4).expect("a name");
        assert_eq!(samples(), ["cmwq_test_requests_total{} 7"]);
        drop(one);
        assert_eq!(samples(), ["cmwq_test_requests_total{} 4"]);
        drop(other);
        assert!(samples().is_empty());
    }

    #[test]
    fn names_that_no_metric_may_have_are_refused() {
        for bad in ["", "Requests", "1st", "_a", "a-b", "a b", "é"] {
            let refused = Counter::show(bad, "", || 0).expect_err("no name");
            assert_eq!(refused.errno, "EINVAL", "{bad:?}");
        }
    }
}
