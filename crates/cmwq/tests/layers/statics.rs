//! What items read has a cache line of its own, read as text.
//!
//! The linker puts the statics of the program beside those of the library. If one of the program's
//! is a counter that its items change, every thread that queues would lose the line to every
//! worker, for a value of the library that never changes: empty items took 52 ns instead of 27.

use crate::layers::source::Sources;

/// Statics that share their lines, because no item reads them one by one.
const RARELY_READ: &[(&str, &[&str])] = &[
    (
        "a number for the next engine, queue, group, thread, chunk store or handle",
        &["NEXT_SERIAL", "NEXT_NUMBER", "NEXT", "SERIAL"],
    ),
    ("said once", &["SAID"]),
    (
        "one engine, registry or table of the process, behind a lock",
        &[
            "GLOBAL",
            "ENGINES",
            "QUEUES",
            "BUFFERS",
            "TABLES",
            "WANTED",
            "WARNINGS",
            "REPORTS",
            "DEPOT",
            "TIMERS",
            "IN_TRANSIT",
            "NO_MORE",
            "ENTERING",
            "ENTERED",
        ],
    ),
    (
        "read while a tool observes",
        &["CAPACITY", "HOOKS", "FIND", "DROPPED"],
    ),
    (
        "read where a queue, an engine or a thread is made",
        &["WATCHED"],
    ),
    ("aligned by what is in it", &["EPOCHS"]),
    ("compiled for tests", &["MOST"]),
    ("one entry for each thread that sleeps", &["SLOTS"]),
    (
        "each entry has a line of its own",
        &["BACKLOGS", "YIELD_EPOCHS"],
    ),
];

/// The name of the static that a line declares, and whether it has a line of its own.
fn declared(line: &str) -> Option<(&str, bool)> {
    let (before, rest) = line.split_once("static ")?;
    let is_declaration = before.trim().is_empty() || before.trim().starts_with("pub");
    let (name, kind) = rest.split_once(':')?;
    let is_name = name
        .chars()
        .all(|letter| letter.is_ascii_uppercase() || letter == '_');
    (is_declaration && is_name).then(|| (name, kind.trim_start().starts_with("CachePadded<")))
}

/// The statics, without those of threads, that share a line and are not known.
fn shared(sources: &Sources) -> Vec<String> {
    let is_known = |name: &str| RARELY_READ.iter().any(|(_, names)| names.contains(&name));
    let mut found = Vec::new();
    for (file, text) in sources.texts() {
        let mut of_threads = false;
        for line in text.lines() {
            // The declarations of threads' own variables end with a line that begins with a brace.
            of_threads = match line.trim_start() {
                start if start.contains("thread_local!") || start.contains("lazy_static!") => true,
                start if start.starts_with('}') => false,
                _ => of_threads,
            };
            match declared(line) {
                Some((name, false)) if !of_threads && !is_known(name) => {
                    found.push(format!("{file}: {name}"));
                }
                _ => (),
            }
        }
    }
    found
}

#[test]
fn statics_that_items_read_have_a_cache_line_of_their_own() {
    let found = shared(&Sources::read(&super::super::root()));
    assert!(
        found.is_empty(),
        "wrap it in CachePadded, or say in tests/layers/statics.rs why items do not read it: {found:?}"
    );
}

#[test]
fn statics_are_found() {
    let text = "static ANY: AtomicBool = X;\n\
                pub(crate) static PADDED: CachePadded<AtomicBool> = X;\n\
                thread_local! {\n    static OWN: Cell<usize> = X;\n}\n\
                fn f() {\n    static TABLE: [Slot; 4] = X;\n    static SAID: Once = X;\n}\n";
    let sources = Sources::from([("a.rs".to_owned(), text.to_owned())]);
    assert_eq!(shared(&sources), ["a.rs: ANY", "a.rs: TABLE"]);
}
