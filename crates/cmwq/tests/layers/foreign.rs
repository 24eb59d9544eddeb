//! Where foreign code comes in and where it is called, read as text.

use crate::layers::source::Sources;
use std::collections::BTreeMap;

/// The only file that may call foreign code, and keep it.
const PLACE: &str = "trace/foreign.rs";

/// How a panic is caught, how code that will be called is kept, and how it is called: `fn(` is the
/// type of a function, `func(` the call of one by the name that the functions of items have
/// everywhere.
const WAYS: [&str; 9] = [
    "catch_unwind",
    "dyn Fn",
    "dyn FnOnce",
    "dyn FnMut",
    "fn(",
    "Waker>",
    ".wake()",
    ".wake_by_ref()",
    "func(",
];

/// What is kept in these can only be called through [`PLACE`].
const IN_PLACE: [&str; 3] = ["Foreign<Arc<dyn Fn", "Foreign<fn(", "Foreign<Waker>"];

/// As many of a way are known in a file, and why none of them is a bare call of foreign code.
const KNOWN: &[(&str, &str, usize)] = &[
    // The functions of items. `item/callable.rs` calls them by `foreign::run`, and so does
    // `item/closure.rs` for closures that are no items. What these functions call they call inside.
    ("item/callable.rs", "fn(", 1),
    // Through a frame that ends forced unwinding, for `item/callable.rs` and for the C library,
    // which catch panics around it.
    ("sys/forced_unwind.rs", "fn(", 1),
    ("sys/forced_unwind.rs", "func(", 1),
    // The third is an argument that only names a type.
    ("item/closure.rs", "fn(", 2),
    ("item/closure.rs", "func(", 3),
    ("item/embedded.rs", "func(", 1),
    ("item/raw.rs", "fn(", 1),
    ("item/work.rs", "dyn Fn", 1),
    ("item/work.rs", "func(", 1),
    // Inside the item.
    ("workqueue/completion_queue/join_set.rs", "func(", 1),
    ("workqueue/completion_queue/submit.rs", "func(", 1),
    ("workqueue/system.rs", "func(", 1),
    // A public function's arguments, which become a `Foreign` there.
    ("trace/runs.rs", "fn(", 2),
    // The library's own functions: tables of attributes and parameters, and what lower layers are
    // given by higher ones.
    ("engine/parameters.rs", "dyn FnOnce", 1),
    ("engine/parameters.rs", "fn(", 3),
    ("engine/text.rs", "fn(", 2),
    ("inspect/attributes.rs", "fn(", 3),
    ("pool/service/creator.rs", "dyn FnOnce", 1),
    ("pool/submit/chain.rs", "dyn FnMut", 1),
    ("sys/fork.rs", "dyn FnOnce", 1),
    ("sys/fork.rs", "fn(", 2),
    ("sys/sim/local.rs", "fn(", 2),
    ("timer/service.rs", "fn(", 4),
    ("trace/events.rs", "func(", 1),
    ("trace/reporter.rs", "dyn FnOnce", 1),
    ("trace/reporter.rs", "fn(", 2),
    ("trace/spans.rs", "dyn Fn", 1),
    ("trace/spans.rs", "fn(", 2),
    ("workqueue/parts/pwq.rs", "dyn FnMut", 1),
    // No function, but a marker of variance.
    ("workqueue/completion_queue/queue.rs", "fn(", 1),
    // These wake threads, or hand the waker to `pool/wake/deferred.rs`, which calls it as a `Foreign`.
    ("pool/lock/guard.rs", ".wake()", 1),
    ("pool/lock/settle.rs", ".wake()", 2),
    ("workqueue/task/join.rs", ".wake()", 1),
];

/// As the function of an item, by a worker or a thread that waits for it: `foreign::run`.
const AS_ITEM: &str = "as an item";
/// As a [`Foreign`], by a thread of the library.
const KEPT: &str = "kept as a Foreign";
/// Within the call, on the caller's stack, where a panic is the caller's: before anything is
/// claimed or locked, and what is open is closed by destructors.
const WITHIN: &str = "within the call";

/// The public functions that are given foreign code, and how it is called.
const ENTRIES: &[(&str, &str)] = &[
    ("inspect/live.rs change_attrs", WITHIN),
    ("item/embedded.rs new", AS_ITEM),
    ("item/raw.rs new", AS_ITEM),
    ("item/named.rs new", AS_ITEM),
    ("item/work.rs new", AS_ITEM),
    ("pool/attrs/threads.rs on_exit", KEPT),
    ("pool/attrs/threads.rs on_start", KEPT),
    ("pool/lock/later.rs wake_deferred", KEPT),
    ("pool/run/block.rs blocking", WITHIN),
    ("workqueue/waits/room.rs execute", AS_ITEM),
    ("workqueue/waits/room.rs spawn", AS_ITEM),
    ("workqueue/waits/room.rs try_execute", AS_ITEM),
    ("workqueue/waits/room.rs try_spawn", AS_ITEM),
    // For the C library.
    ("sys/forced_unwind.rs call", WITHIN),
    ("sys/forced_unwind.rs call_anywhere", WITHIN),
    ("sys/forced_unwind.rs call_item_code", WITHIN),
    ("trace/runs.rs set_run_hooks", KEPT),
    // The iterators within the call, the closures as items.
    ("workqueue/batch.rs execute_batch", AS_ITEM),
    ("workqueue/batch.rs spawn_batch", AS_ITEM),
    ("workqueue/completion_queue/join_set.rs spawn", AS_ITEM),
    ("workqueue/completion_queue/submit.rs submit", AS_ITEM),
    ("workqueue/completion_queue/submit.rs submit_as", AS_ITEM),
    ("workqueue/completion_queue/submit.rs submit_batch", AS_ITEM),
    ("workqueue/delayed.rs new", AS_ITEM),
    ("workqueue/delayed/embedded.rs mod_delayed_embedded", WITHIN),
    ("workqueue/delayed/embedded.rs new", AS_ITEM),
    (
        "workqueue/delayed/embedded.rs queue_delayed_embedded",
        WITHIN,
    ),
    (
        "workqueue/delayed/embedded.rs queue_delayed_embedded_on",
        WITHIN,
    ),
    ("workqueue/delayed/raw.rs new", AS_ITEM),
    ("workqueue/embedded.rs queue_embedded", WITHIN),
    ("workqueue/embedded.rs queue_embedded_on", WITHIN),
    (
        "workqueue/parts/memory_reclaim.rs in_memory_reclaim",
        WITHIN,
    ),
    ("workqueue/queue.rs execute", AS_ITEM),
    ("workqueue/queue.rs spawn", AS_ITEM),
    ("workqueue/queue.rs spawn_on", AS_ITEM),
    ("workqueue/scope.rs for_each_chunk", AS_ITEM),
    // Caught, since items borrow from the caller, and resumed.
    ("workqueue/scope.rs scope", WITHIN),
    ("workqueue/scope.rs spawn", AS_ITEM),
    ("workqueue/system.rs run_on_cpu", AS_ITEM),
    ("workqueue/system.rs run_on_each_cpu", AS_ITEM),
];

fn is_of_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// How often each way is in a text.
fn ways_in(text: &str) -> BTreeMap<&'static str, usize> {
    let mut rest = text.to_owned();
    for kept in IN_PLACE {
        rest = rest.replace(kept, "");
    }
    let mut found = BTreeMap::new();
    for way in WAYS {
        // As a word of its own; a method of that name is another thing.
        let begins = |at: usize| {
            let before = rest[..at].chars().next_back();
            way.starts_with('.') || before.is_none_or(|c| !is_of_word(c) && c != '.')
        };
        let ends = |at: usize| {
            let next = rest[at + way.len()..].chars().next();
            !way.ends_with(is_of_word) || next.is_none_or(|c| !is_of_word(c))
        };
        let is_called = |at: usize| !rest[..at].ends_with("fn ");
        let all = rest.match_indices(way).map(|(at, _)| at);
        let count = all
            .filter(|&at| begins(at) && ends(at) && is_called(at))
            .count();
        if count > 0 {
            found.insert(way, count);
        }
    }
    found
}

/// The public functions of a text that take code to be called, or an iterator or a waker, which
/// bring code with them.
fn takers_in(text: &str) -> Vec<String> {
    let brings = [
        "Fn(",
        "FnOnce(",
        "FnMut(",
        "fn(",
        "IntoIterator",
        "Iterator<",
        "Waker",
        "WorkFn",
    ];
    let mut found = Vec::new();
    for (at, _) in text.match_indices("fn ") {
        let line = text[..at].rfind('\n').map_or(0, |end| end + 1);
        if !text[line..at].trim_start().starts_with("pub ") {
            continue;
        }
        let rest = &text[at + 3..];
        let name: String = rest.chars().take_while(|&c| is_of_word(c)).collect();
        let signature = &rest[name.len()..rest.find(['{', ';']).unwrap_or(rest.len())];
        if brings.iter().any(|brings| signature.contains(brings)) {
            found.push(name);
        }
    }
    found
}

/// All that is wrong with where these sources call foreign code.
pub(crate) fn complaints(sources: &Sources) -> Vec<String> {
    complaints_of(sources, KNOWN, ENTRIES)
}

fn complaints_of(
    sources: &Sources,
    known_ways: &[(&str, &str, usize)],
    entries: &[(&str, &str)],
) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut takers = Vec::new();
    for (file, text) in sources
        .texts()
        .filter(|(file, _)| *file != PLACE && !file.ends_with("_model.rs"))
    {
        for (way, count) in ways_in(text) {
            let own = known_ways
                .iter()
                .find(|(own, own_way, _)| *own == file && *own_way == way);
            let most = own.map_or(0, |own| own.2);
            if count != most {
                wrong.push(format!(
                    "{file} has `{way}` {count} times, and {most} are known: foreign code is kept and called in {PLACE}"
                ));
            }
        }
        takers.extend(
            takers_in(text)
                .into_iter()
                .map(|name| format!("{file} {name}")),
        );
    }
    let known = |taker: &String| entries.iter().any(|(known, _)| known == taker);
    for taker in takers.iter().filter(|taker| !known(taker)) {
        wrong.push(format!(
            "{taker} takes foreign code, and is not in ENTRIES: say how it is called"
        ));
    }
    let gone = entries
        .iter()
        .filter(|(known, _)| !takers.iter().any(|taker| taker == known));
    wrong.extend(gone.map(|(known, _)| format!("{known} is in ENTRIES, and is not there")));
    wrong
}

#[test]
fn foreign_code_is_called_in_one_place() {
    let wrong = complaints(&Sources::read(&super::super::root()));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Of the C library, whose functions must not unwind at all.
#[test]
fn panics_are_caught_in_one_place_of_the_c_library() {
    let sources = Sources::read(&super::super::root().join("../../cmwq-capi/src"));
    let catch = |(file, text): (&str, &str)| {
        let catches = ways_in(text).contains_key("catch_unwind");
        catches.then(|| file.to_owned())
    };
    let found: Vec<String> = sources.texts().filter_map(catch).collect();
    assert_eq!(found, ["call.rs"]);
}

/// The check itself: on sources that are made up.
#[test]
fn a_bare_call_and_a_new_way_in_are_found() {
    let of = |text: &str| {
        let file = ("pool/new.rs".to_owned(), text.to_owned());
        complaints_of(&Sources::from([file]), &[], &[])
    };
    for fine in [
        "fn f(work: &RawWork) { work.func(); self.wake_all(); }",
        "struct Kept(Foreign<Arc<dyn Fn(&str) + Send>>, Foreign<Waker>);",
        "pub fn count(&self, of: usize) -> usize { of }",
        "fn own(f: impl FnOnce()) { f() } // dyn Fn",
    ] {
        assert_eq!(of(fine), Vec::<String>::new(), "{fine}");
    }
    for bare in [
        "struct Kept(Arc<dyn Fn(&str) + Send>);",
        "static HOOK: OnceLock<fn(usize)> = OnceLock::new();",
        "fn f(waker: Waker) { waker.wake() }",
        "fn f(waker: &Waker) { waker.wake_by_ref() }",
        "struct Slot(Option<Box<Waker>>);",
        "fn f() { std::panic::catch_unwind(g); }",
        "fn f(func: WorkFn) { unsafe { func(item) } }",
        "pub fn take(&self, hook: impl Fn(usize)) {}",
        "pub unsafe fn take<F>(&self, f: F)\nwhere\n    F: FnOnce(),\n{\n}",
        "pub fn all(&self, of: impl IntoIterator<Item = Work>) {}",
    ] {
        assert_eq!(of(bare).len(), 1, "{bare}");
    }
    let gone = complaints_of(&Sources::from([]), &[], &[("pool/new.rs take", WITHIN)]);
    assert_eq!(gone.len(), 1);
}
