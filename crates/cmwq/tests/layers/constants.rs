//! Every constant of tuning is in the table of its folder: `crates/cmwq/src/CONSTANTS.md` says what
//! the sources say.

use super::super::root;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// With this variable the test writes the page instead of comparing it.
const WRITE: &str = "CMWQ_WRITE_TABLES";

/// Files whose constants are the values of a state word, the layout of memory, or another program's numbers.
const NOT_TUNED: &[&str] = &[
    "item/completion.rs",
    "item/item_slot.rs",
    "item/location.rs",
    "item/raw.rs",
    "pool/service/checks.rs",
    "sys/debug/probe.rs",
    "sys/forced_unwind.rs",
    "sys/fork.rs",
    "sys/waiting/park.rs",
    "workqueue/completion_queue/posts.rs",
];

/// The same in files that have constants of tuning, too.
const NOT_TUNED_HERE: &[(&str, &str)] = &[
    ("item/chunk/inbox.rs", "NOTIFY"),
    ("item/chunk/load.rs", "COUNTED"),
    ("pool/queue/room.rs", "LINE"),
    ("pool/queue/room.rs", "UNIT"),
    ("pool/queue/times.rs", "RESERVED"),
    ("pool/report/snapshot.rs", "BH"),
    ("pool/state/pool.rs", "NICE_UNKNOWN"),
    ("pool/wake/deferred.rs", "PROMPT"),
    ("pool/wake/deferred.rs", "WAKER"),
    ("sys/debug/names.rs", "SEVERAL"),
    ("sys/waiting/bell.rs", "NONE"),
    ("timer/service.rs", "NS_PER_MS"),
    ("workqueue/handle.rs", "INDEX_BITS"),
];

/// What a constant has to be to tune something: a number or a time.
const NUMBERS: [&str; 8] = ["u8", "u16", "u32", "u64", "usize", "i32", "f64", "Duration"];
/// What only masks, layouts and limits of types have in their values.
const OF_LAYOUT: [&str; 7] = ["<<", "0x", "0b", "MAX", "size_of", "offset_of", "libc"];

#[derive(Debug, PartialEq)]
struct Constant {
    name: String,
    value: String,
    /// The comment's first sentence; empty where the constant above has it.
    meaning: String,
}

/// The first sentence of a comment. A point within brackets or before a small letter ends none.
fn first_sentence(text: &str) -> &str {
    let ends = text.match_indices(". ").map(|(at, _)| at);
    let mut ends = ends.filter(|&at| text[at + 2..].starts_with(char::is_uppercase));
    ends.next().map_or(text, |end| &text[..=end])
}

/// The numbers that a text, without its tests, defines as constants.
fn constants_in(text: &str) -> Vec<Constant> {
    let text = text.split("\n#[cfg(test)]\nmod").next().expect("a part");
    let text = text.split("\n#[cfg(all(test").next().expect("a part");
    let mut found = Vec::new();
    let mut comment = String::new();
    let mut lines = text.lines().map(str::trim);
    while let Some(line) = lines.next() {
        if let Some(more) = line.strip_prefix("/// ") {
            comment = format!("{comment} {more}");
            continue;
        }
        if line.starts_with("#[") {
            continue;
        }
        let definition = line
            .split_once("const ")
            .filter(|(before, _)| before.is_empty() || before.starts_with("pub"));
        let parts = definition.and_then(|(_, rest)| rest.split_once(": "));
        let Some((name, (kind, value))) =
            parts.and_then(|(name, rest)| Some((name, rest.split_once(" =")?)))
        else {
            comment.clear();
            continue;
        };
        let mut value = value.trim().to_owned();
        while !value.contains(';') {
            let Some(more) = lines.next() else { break };
            value = format!("{value} {more}");
        }
        let value = value.split(';').next().unwrap_or_default().trim();
        let is_layout = OF_LAYOUT.iter().any(|part| value.contains(part)) || value.starts_with('!');
        if NUMBERS.contains(&kind) && !is_layout {
            found.push(Constant {
                name: name.to_owned(),
                value: value.to_owned(),
                meaning: first_sentence(comment.trim()).to_owned(),
            });
        }
        comment.clear();
    }
    found
}

/// The constants of tuning: folder, then file.
fn tables() -> BTreeMap<String, BTreeMap<String, Vec<Constant>>> {
    let mut tables = BTreeMap::<String, BTreeMap<String, Vec<Constant>>>::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("an entry").path();
            let name = path.strip_prefix(root()).expect("below the root");
            let name = name.to_string_lossy().into_owned();
            if path.is_dir() {
                if !["tests", "model", "sim"]
                    .iter()
                    .any(|end| name.ends_with(end))
                {
                    folders.push(path);
                }
                continue;
            }
            let is_test = ["tests.rs", "model.rs", "stubs.rs", "silent.rs"];
            if !name.ends_with(".rs")
                || is_test.iter().any(|end| name.ends_with(end))
                || NOT_TUNED.contains(&name.as_str())
            {
                continue;
            }
            let mut constants = constants_in(&fs::read_to_string(&path).expect("text"));
            constants.retain(|one| !NOT_TUNED_HERE.contains(&(&name, &one.name)));
            let folder = Path::new(&name).parent().expect("a folder");
            let folder = folder.to_string_lossy().into_owned();
            if !constants.is_empty() {
                tables.entry(folder).or_default().insert(name, constants);
            }
        }
    }
    tables
}

fn page() -> String {
    let mut page = String::from(
        "# Constants of tuning\n\nWhat each constant that was chosen, not derived, means: the first sentence of its comment, which says more. An empty cell: the\ncomment above is about both. Names that end in `_NS` are in nanoseconds, those in `_US` in microseconds; others are counts, or times\nwhere they say so. `CMWQ_WRITE_TABLES=1 cargo test -p cmwq --test layers constants` writes this page from the sources.\n",
    );
    for (folder, files) in tables() {
        write!(
            page,
            "\n## {folder}\n\n| constant | value | meaning |\n|---|---|---|\n"
        )
        .expect("a text");
        for (file, constants) in files {
            let file = file.rsplit('/').next().expect("a name").to_owned();
            for Constant {
                name,
                value,
                meaning,
            } in constants
            {
                let meaning = meaning.replace('|', "\\|").replace("](", "] (");
                writeln!(page, "| `{file}` `{name}` | `{value}` | {meaning} |").expect("a text");
            }
        }
    }
    page
}

#[test]
fn every_constant_of_tuning_is_in_the_table_of_its_folder() {
    let path = root().join("CONSTANTS.md");
    let page = page();
    if std::env::var_os(WRITE).is_some() {
        fs::write(&path, page).expect("the page");
        return;
    }
    let written = fs::read_to_string(&path).expect("the page");
    let missing: Vec<_> = page
        .lines()
        .filter(|line| !written.contains(line))
        .collect();
    let left: Vec<_> = written
        .lines()
        .filter(|line| !page.contains(line))
        .collect();
    assert!(
        page == written,
        "CONSTANTS.md is not what the sources say; {WRITE}=1 writes it.\nmissing: {missing:#?}\nnot there any more: {left:#?}"
    );
}

/// A constant without any comment near it would have an empty row at the head of its file.
#[test]
fn every_file_of_constants_says_what_the_first_one_means() {
    let mut silent = Vec::new();
    for (file, constants) in tables().into_values().flatten() {
        if constants.len() == 1 && constants[0].meaning.is_empty() {
            silent.push(format!("{file}: {}", constants[0].name));
        }
    }
    assert!(silent.is_empty(), "no comment: {silent:?}");
}

/// The check itself: on a text that is made up.
#[test]
fn constants_are_found_and_masks_and_tests_are_not() {
    let text = "/// How long. More of it.\npub(crate) const LONG_NS: u64 =\n    5 * 7;\nconst MASK: u64 = 1 << 3;\nconst NAME: &str = \"x\";\n\
                #[cfg(test)]\nmod tests {\n    const SMALL: u32 = 3;\n}\n";
    let expected = Constant {
        name: "LONG_NS".into(),
        value: "5 * 7".into(),
        meaning: "How long.".into(),
    };
    assert_eq!(constants_in(text), [expected]);
}
