//! The sources of the library and of its parts `cmwq-topology` and `cmwq-trace` lie in layers, and
//! every import points down.
//!
//! Read as text: `use` declarations and paths that begin with `crate`, `super` or a child module,
//! in the sources without their tests. A path is followed through re-exports to the file that
//! defines what it names. A file that declares modules and re-exports only (a facade) depends on
//! nothing.
//!
//! Foreign code, which is code of the program, is called in one place (`layers/foreign.rs`). No two
//! types have one name (`layers/names.rs`), and every constant of tuning is in the table of its
//! folder (`layers/constants.rs`). What items read has a cache line of its own (`layers/statics.rs`).
//!
//! Seen to fail: with `use crate::engine::Engine;` in `pool/state/pool.rs` (an import that runs
//! up), with `use super::settle;` in `pool/lock/guard.rs` (a circle), with a thirteenth file in a
//! folder, with a file of 501 lines, with a `snapshot.rs.orig` beside the sources, with
//! `std::panic::catch_unwind` in `workqueue/scope.rs`, and with a handler kept as `Arc<dyn
//! Fn(&str)>` in `trace/warning.rs`.

mod layers {
    mod constants;
    mod foreign;
    pub(crate) mod graph;
    mod names;
    pub(crate) mod source;
    mod statics;
}

use layers::graph::circles;
use layers::source::Sources;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The layers, the lowest first. A folder that is not named belongs to the one it lies in. A file
/// may import from its own layer and from those below.
const LAYERS: &[&str] = &[
    "topology",
    "sys",
    "error",
    "trace",
    "item",
    "pool/attrs",
    "pool/task",
    "pool/queue",
    "pool/wake",
    "pool/state",
    "pool/lock",
    "pool/submit",
    "pool/balance",
    "pool/run",
    "pool/service",
    "pool/report",
    "pool",
    "timer",
    "engine/parts",
    "engine",
    "workqueue/parts",
    "workqueue/task",
    "workqueue",
    "inspect",
    "observe",
    "raw",
    "types",
    "lib",
];

/// Those of `cmwq-topology`.
const LAYERS_OF_TOPOLOGY: &[&str] = &[
    "error",
    "cpuset",
    "allowed",
    "partition",
    "assumed",
    "caches",
    "machine",
    "synthetic",
    "sysfs",
    "quota",
    "affinity",
    "lib",
];

/// Those of `cmwq-trace`.
const LAYERS_OF_TRACE: &[&str] = &["event", "histogram", "elf", "symbol", "lib"];

/// Files in one folder.
const MOST_FILES: usize = 14;
/// Lines in one file.
const MOST_LINES: usize = 500;
/// Columns of a line of prose in a comment.
const MOST_COLUMNS: usize = 110;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src")
}

/// The sources of a crate that is a part of the library.
fn root_of(part: &str) -> PathBuf {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    crates.join(part).join("src")
}

/// The number of the layer that a file belongs to: that of the longest name which its path begins with.
fn layer_of(layers: &[&str], file: &str) -> Option<usize> {
    let name = file.trim_end_matches(".rs");
    let within = |layer: &&str| {
        name == *layer
            || name
                .strip_prefix(*layer)
                .is_some_and(|rest| rest.starts_with('/'))
    };
    let named = layers.iter().enumerate().filter(|(_, layer)| within(layer));
    named
        .max_by_key(|(_, layer)| layer.len())
        .map(|(number, _)| number)
}

/// All that is wrong with the imports of these sources.
fn complaints(layers: &[&str], sources: &Sources) -> Vec<String> {
    let imports = sources.imports();
    let mut wrong = Vec::new();
    for (file, to) in &imports {
        let Some(own) = layer_of(layers, file) else {
            wrong.push(format!("{file} is in no layer: name its folder in LAYERS"));
            continue;
        };
        for (other, path) in to {
            match layer_of(layers, other) {
                Some(layer) if layer > own => wrong.push(format!(
                    "{file} ({}) imports {path}, which is above it: {other} ({})",
                    layers[own], layers[layer]
                )),
                _ => {}
            }
        }
    }
    let edges: BTreeMap<&str, Vec<&str>> = imports
        .iter()
        .map(|(file, to)| (file.as_str(), to.keys().map(String::as_str).collect()))
        .collect();
    for (file, path) in sources.ways_up() {
        wrong.push(format!(
            "{file} names {path}, which a module above it re-exports: name where it is defined"
        ));
    }
    for circle in circles(&edges) {
        wrong.push(format!("a circle of files: {}", circle.join(", ")));
    }
    wrong
}

#[test]
fn every_import_points_down_and_there_is_no_circle() {
    for (root, layers, files) in [
        (root(), LAYERS, 100),
        (root_of("cmwq-topology"), LAYERS_OF_TOPOLOGY, 15),
        (root_of("cmwq-trace"), LAYERS_OF_TRACE, 4),
    ] {
        let sources = Sources::read(&root);
        assert!(
            sources.imports().len() >= files,
            "the sources were not found"
        );
        let wrong = complaints(layers, &sources);
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

/// The numbers of those lines of comments that have more than [`MOST_COLUMNS`], apart from tables and
/// code.
fn broad_comments(text: &str) -> Vec<usize> {
    let mut in_code = false;
    let mut broad = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            in_code = false;
            continue;
        };
        let comment = comment.trim_start_matches(['/', '!']).trim_start();
        in_code ^= comment.starts_with("```");
        let is_prose = !in_code && !comment.starts_with('|');
        if is_prose && line.chars().count() > MOST_COLUMNS {
            broad.push(number);
        }
    }
    broad
}

#[test]
fn comments_that_do_not_fit_a_screen_are_found() {
    let long = "x ".repeat(60);
    let text = format!(
        "/// {long}\n//! | {long} |\nlet a; // {long}\n/// ```\n/// {long}\n/// ```\n    // {long}\n"
    );
    assert_eq!(broad_comments(&text), [1, 7]);
}

#[test]
fn folders_and_files_are_small_and_nothing_else_lies_there() {
    let mut wrong = Vec::new();
    let mut folders = vec![root(), root_of("cmwq-topology"), root_of("cmwq-trace")];
    while let Some(folder) = folders.pop() {
        let mut files = 0;
        for entry in std::fs::read_dir(&folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            files += 1;
            let extension = path.extension().and_then(|extension| extension.to_str());
            if !matches!(extension, Some("rs" | "md")) {
                wrong.push(format!("{}: neither source nor page", path.display()));
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("text");
            let lines = text.lines().count();
            if lines > MOST_LINES && extension == Some("rs") {
                wrong.push(format!("{}: {lines} lines", path.display()));
            }
            if extension == Some("rs") {
                let broad = broad_comments(&text).into_iter();
                wrong.extend(broad.map(|line| format!("{}:{line}: broad", path.display())));
            }
        }
        if files > MOST_FILES {
            wrong.push(format!("{}: {files} files", folder.display()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The check itself: on sources that are made up.
#[test]
fn what_runs_up_and_what_goes_in_circles_is_found() {
    let of = |files: &[(&str, &str)]| {
        let owned = files.iter().map(|&(f, t)| (f.to_owned(), t.to_owned()));
        complaints(LAYERS, &Sources::from(owned))
    };
    let facade = (
        "pool.rs",
        "mod lock;\nmod state;\npub(crate) use state::pool::Pool;\n",
    );
    let states = ("pool/state/mod.rs", "pub(crate) mod pool;\n");
    let locks = (
        "pool/lock/mod.rs",
        "pub(crate) mod guard;\npub(crate) mod settle;\n",
    );
    let engine = ("engine.rs", "mod core;\npub use self::core::Engine;\n");
    let core = (
        "engine/core.rs",
        "use crate::pool::Pool;\npub struct Engine;\n",
    );
    let pool = ("pool/state/pool.rs", "pub(crate) struct Pool;\n");
    let fine = [facade, states, locks, engine, core, pool];
    assert_eq!(of(&fine), Vec::<String>::new());
    let up = (
        "pool/state/pool.rs",
        "use crate::engine::Engine;\npub(crate) struct Pool;\n",
    );
    let found = of(&[
        facade,
        states,
        locks,
        engine,
        ("engine/core.rs", "pub struct Engine;\n"),
        up,
    ]);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("engine/core.rs"), "{found:?}");
    let inline = (
        "pool/state/pool.rs",
        "pub(crate) struct Pool;\nfn f() { crate::engine::Engine; }\n",
    );
    assert_eq!(
        of(&[engine, ("engine/core.rs", "pub struct Engine;\n"), inline]).len(),
        1
    );
    let guard = (
        "pool/lock/guard.rs",
        "use super::settle::{settle, other};\npub(crate) struct Guard;\n",
    );
    let settle = (
        "pool/lock/settle.rs",
        "use super::guard::Guard;\npub(crate) fn settle() {}\n",
    );
    let found = of(&[facade, states, locks, pool, guard, settle]);
    assert_eq!(
        found,
        ["a circle of files: pool/lock/guard.rs, pool/lock/settle.rs"]
    );
    let tests = (
        "pool/state/pool.rs",
        "pub(crate) struct Pool;\n#[cfg(test)]\nmod tests {\n    use crate::engine::Engine;\n}\n",
    );
    assert_eq!(
        of(&[
            facade,
            states,
            engine,
            ("engine/core.rs", "pub struct Engine;\n"),
            tests
        ]),
        Vec::<String>::new()
    );
    assert_eq!(
        of(&[
            ("nowhere/a.rs", "use crate::engine::Engine;\n"),
            engine,
            ("engine/core.rs", "pub struct Engine;\n")
        ])
        .len(),
        1
    );
}
