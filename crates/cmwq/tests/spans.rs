//! The feature `tracing`: `cargo test -p cmwq --features tracing --test spans`.
//!
//! Sabotage tried: a span that is left before the function is called, one that is not left, the
//! name of the queue that a worker met first for all of them, a description that is not recorded, a
//! panic of the subscriber that is not caught each fail a test here.
#![cfg(feature = "tracing")]

mod harness;

use cmwq::observe::set_worker_desc;
use cmwq::{Work, Workqueue};
use harness::Deadline;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_core::span::Current;

/// What became of a span.
#[derive(Clone, Debug, Default)]
struct Seen {
    fields: HashMap<&'static str, String>,
    parent: Option<u64>,
    /// Entered, left, dropped.
    counts: [u32; 3],
    /// What was logged inside.
    events: Vec<String>,
    site: Option<&'static Metadata<'static>>,
}

impl Visit for Seen {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }
}

static SEEN: Mutex<Option<HashMap<u64, Seen>>> = Mutex::new(None);
static NEXT: AtomicU64 = AtomicU64::new(1);

thread_local! {
    static ENTERED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// Keeps every span of the library. There is one for the process.
struct Keeper;

impl Keeper {
    fn of<R>(id: u64, f: impl FnOnce(&mut Seen) -> R) -> Option<R> {
        let mut seen = SEEN.lock().expect("no panic");
        seen.get_or_insert_default().get_mut(&id).map(f)
    }
}

fn entered() -> Option<u64> {
    ENTERED.with_borrow(|entered| entered.last().copied())
}

impl Subscriber for Keeper {
    fn enabled(&self, site: &Metadata<'_>) -> bool {
        site.target() == "cmwq" || site.target() == "test"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let site = span.metadata();
        let mut seen = Seen {
            parent: entered(),
            site: Some(site),
            ..Seen::default()
        };
        if site.target() == "cmwq" {
            assert_eq!((site.name(), *site.level()), ("work", Level::TRACE));
        }
        span.record(&mut seen);
        let panics = seen
            .fields
            .get("queue")
            .is_some_and(|name| name == "span panics");
        assert!(!panics, "on purpose");
        let mut all = SEEN.lock().expect("no panic");
        all.get_or_insert_default().insert(id, seen);
        Id::from_u64(id)
    }

    fn record(&self, span: &Id, values: &Record<'_>) {
        Self::of(span.into_u64(), |seen| values.record(seen));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut said = Seen::default();
        event.record(&mut said);
        let text = said.fields.remove("message").unwrap_or_default();
        entered().map(|span| Self::of(span, |seen| seen.events.push(text)));
    }

    fn enter(&self, span: &Id) {
        Self::of(span.into_u64(), |seen| seen.counts[0] += 1);
        ENTERED.with_borrow_mut(|entered| entered.push(span.into_u64()));
    }

    fn exit(&self, span: &Id) {
        Self::of(span.into_u64(), |seen| seen.counts[1] += 1);
        let left = ENTERED.with_borrow_mut(Vec::pop);
        assert_eq!(left, Some(span.into_u64()));
    }

    fn try_close(&self, span: Id) -> bool {
        Self::of(span.into_u64(), |seen| seen.counts[2] += 1);
        true
    }

    fn current_span(&self) -> Current {
        let site = entered().and_then(|id| Some((id, Self::of(id, |seen| seen.site)??)));
        site.map_or_else(Current::none, |(id, site)| {
            Current::new(Id::from_u64(id), site)
        })
    }
}

/// Runs one test at a time, with the keeper installed and nothing seen.
fn alone() -> (Deadline, MutexGuard<'static, ()>) {
    static ONE: Mutex<()> = Mutex::new(());
    static SET: OnceLock<()> = OnceLock::new();
    let guard = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    SET.get_or_init(|| tracing::subscriber::set_global_default(Keeper).expect("the first one"));
    *SEEN.lock().expect("no panic") = None;
    (Deadline::with_dump("spans", String::new), guard)
}

/// The spans of a queue's items, the oldest first.
fn spans_of(queue: &str) -> Vec<Seen> {
    let seen = SEEN.lock().expect("no panic").clone().unwrap_or_default();
    let mut spans: Vec<_> = seen.into_iter().collect();
    spans.retain(|(_, span)| span.fields.get("queue").is_some_and(|name| name == queue));
    spans.sort_by_key(|(id, _)| *id);
    spans.into_iter().map(|(_, span)| span).collect()
}

fn built(name: &str) -> Workqueue {
    Workqueue::builder(name)
        .workers_only()
        .build()
        .expect("it builds")
}

/// Once entered, left and dropped.
const WHOLE: [u32; 3] = [1, 1, 1];

#[test]
fn every_run_is_a_span_that_names_its_queue_and_its_function() {
    let _alone = alone();
    let queue = built("runs");
    queue
        .spawn(|| tracing::info!(target: "test", "spawned"))
        .join()
        .expect("it runs");
    queue
        .execute(|| tracing::info!(target: "test", "executed"))
        .expect("it is taken");
    queue.flush().expect("it rests");
    let work = Work::new(|| tracing::info!(target: "test", "queued"));
    for _ in 0..2 {
        assert!(queue.queue(&work).is_accepted());
        queue.flush().expect("it rests");
    }
    let spans = spans_of("runs");
    let events: Vec<_> = spans.iter().flat_map(|span| span.events.clone()).collect();
    assert_eq!(events, ["spawned", "executed", "queued", "queued"]);
    for span in &spans {
        assert_eq!(span.counts, WHOLE, "{span:?}");
        assert_eq!(span.parent, None);
    }
    let functions: Vec<_> = spans
        .iter()
        .map(|span| span.fields["function"].as_str())
        .collect();
    assert!(
        functions.iter().all(|name| !name.is_empty()),
        "{functions:?}"
    );
    assert_eq!(functions[2], functions[3]);
    assert_ne!(functions[1], functions[2]);
}

#[test]
fn an_item_runs_and_its_worker_goes_on_though_the_subscriber_panics() {
    let _alone = alone();
    let queue = built("span panics");
    for number in 0..10 {
        assert_eq!(queue.spawn(move || number).join().expect("it runs"), number);
    }
    queue.flush().expect("it rests");
}

#[test]
fn closures_of_a_flood_have_spans() {
    let _alone = alone();
    let queue = built("flood");
    for _ in 0..5_000 {
        queue.execute(|| ()).expect("it is taken");
    }
    queue.flush().expect("it rests");
    let spans = spans_of("flood");
    assert_eq!(spans.len(), 5_000);
    assert!(spans.iter().all(|span| span.counts == WHOLE));
}

#[test]
fn an_item_that_panics_leaves_its_span() {
    let _alone = alone();
    let queue = built("panics");
    assert!(queue.spawn(|| panic!("wanted by the test")).join().is_err());
    queue.spawn(|| ()).join().expect("it runs");
    queue.flush().expect("it rests");
    let spans = spans_of("panics");
    assert_eq!(spans.len(), 2);
    assert!(
        spans
            .iter()
            .all(|span| span.counts == WHOLE && span.parent.is_none())
    );
}

#[test]
fn each_queue_has_its_own_name_even_at_another_s_address() {
    let _alone = alone();
    // Their pool, and its workers, stay.
    let _keeps = built("keeps");
    for i in 0..50 {
        let name = format!("name-{i}");
        let queue = built(&name);
        queue.spawn(|| ()).join().expect("it runs");
        queue.flush().expect("it rests");
        assert_eq!(spans_of(&name).len(), 1, "{name}");
    }
}

#[test]
fn the_description_is_a_field() {
    let _alone = alone();
    let queue = built("described");
    queue
        .spawn(|| set_worker_desc("eth0"))
        .join()
        .expect("it runs");
    // A span of its own does not mention the item's.
    let nested = || {
        tracing::info_span!(target: "test", "own").in_scope(|| set_worker_desc("eth1"));
    };
    queue.spawn(nested).join().expect("it runs");
    queue.flush().expect("it rests");
    let spans = spans_of("described");
    let descriptions: Vec<_> = spans
        .iter()
        .map(|span| span.fields.get("description"))
        .collect();
    assert_eq!(descriptions, [Some(&"eth0".to_owned()), None]);
}
