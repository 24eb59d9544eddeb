//! The man pages: each function has one, and each page has a program that does what it says.
//!
//! Seen to fail: an example that is not there, one that does not compile, and one that prints
//! something else.

mod common;

use common::{DECLARING, cc, compile_at, crate_dir, declared, folder, has_or_says, run, succeeds};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// The pages have the headers for their source.
#[test]
fn every_declared_function_has_a_man_page_without_a_warning() {
    let folder = folder("man");
    succeeds(Command::new(crate_dir().join("man")).arg(&folder));
    let page = |name: &str| fs::read_to_string(folder.join(format!("{name}.3"))).expect(name);
    let mut parts = BTreeSet::new();
    for name in DECLARING {
        let text = fs::read_to_string(crate_dir().join("include").join(name)).unwrap();
        for function in declared(&text).iter().filter(|name| !name.ends_with("_wq")) {
            let link = page(function);
            let part = link.strip_prefix(".so man3/").expect(&link).trim_end();
            let part = part.strip_suffix(".3").expect(part).to_owned();
            let text = page(&part);
            // Its prototype in the synopsis, its name before its description.
            assert!(
                text.matches(&format!("{function}(")).count() >= 2,
                "{function}: {text}"
            );
            let (_, names) = text.split_once(".SH NAME\n").expect("its names");
            let (names, _) = names.split_once("\n").expect("a line");
            assert!(names.contains(function.as_str()), "{names}");
            // What is bold has a line of a terminal for itself: broken, it could not be read.
            let heads = text.lines().filter_map(|line| line.strip_prefix(".B "));
            let broken: Vec<&str> = heads.filter(|head| head.len() > 72).collect();
            assert!(broken.is_empty(), "{part}: {broken:?}");
            parts.insert(part);
        }
    }
    assert!(parts.len() > 10, "{parts:?}");
    let queueing = page("cmwq_queueing");
    assert!(queueing.contains("Queues `work`, to run near the CPU that the caller is on."));
    parts.insert("cmwq".to_owned());
    if has_or_says("groff") {
        for part in parts {
            let mut groff = Command::new("groff");
            groff.args(["-ww", "-man", "-Tutf8", "-rLL=100n", "-z"]);
            let output = groff
                .arg(folder.join(format!("{part}.3")))
                .output()
                .unwrap();
            let warnings = String::from_utf8_lossy(&output.stderr);
            assert!(
                output.status.success() && warnings.is_empty(),
                "{part}: {warnings}"
            );
        }
    }
}

/// The pages that have a program, and what it prints.
const EXAMPLES: [(&str, &str); 15] = [
    ("cmwq", "hello from a worker\n"),
    ("cmwq_attributes-of-unbound-workqueues", "nice 10\n"),
    ("cmwq_completion-queues", "the sum is 29\n"),
    ("cmwq_completions", "it serves\n"),
    (
        "cmwq_every-cpu",
        "the counter is 7\nall caches are flushed\n",
    ),
    ("cmwq_limits-that-workqueues-share", "read\nread\n"),
    ("cmwq_one-item", "the answer is 42\n"),
    ("cmwq_queueing", "the queue was full\nsaved\n"),
    ("cmwq_read-copy-update", "there is a level\n"),
    ("cmwq_the-calling-thread", "read 0 bytes\n"),
    (
        "cmwq_the-process",
        "cmwq: cmwq_flush_workqueue: the workqueue is NULL\n",
    ),
    ("cmwq_the-threads-that-run-items", "set up\n"),
    (
        "cmwq_threads-that-wait-for-one-another",
        "the item has finished\n",
    ),
    ("cmwq_work-items", "GET /index.html\n"),
    ("cmwq_workqueues", "answered\nall requests have ended\n"),
];

/// The program as a reader of the page sees it.
fn program_of(page: &str) -> Option<String> {
    let (_, section) = page.split_once("\n.SH EXAMPLES\n")?;
    let (_, program) = section.split_once("\n.EX\n")?;
    let (program, _) = program.split_once("\n.EE\n")?;
    let plain = program.replace("\\&", "").replace("\\-", "-");
    Some(plain.replace("\\e", "\\") + "\n")
}

/// What is compiled is the text of the page, and not the file that it was taken from.
#[test]
fn every_page_has_a_program_that_compiles_and_runs() {
    let folder = folder("man-examples");
    succeeds(Command::new(crate_dir().join("man")).arg(&folder));
    let mut prints: BTreeMap<&str, &str> = EXAMPLES.into();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "3") {
            continue;
        }
        let text = fs::read_to_string(&path).unwrap();
        if text.starts_with(".so ") {
            continue;
        }
        let page = path.file_stem().unwrap().to_str().unwrap();
        let program = program_of(&text).unwrap_or_else(|| panic!("{page} has no example"));
        // A page is indented by seven columns, and a terminal has eighty.
        let broad: Vec<&str> = program.lines().filter(|line| line.len() > 72).collect();
        assert!(broad.is_empty(), "{page}: {broad:?}");
        let expected = prints.remove(page);
        let expected = expected.unwrap_or_else(|| panic!("what does the example of {page} print?"));
        let source = folder.join(format!("{page}.c"));
        fs::write(&source, program).unwrap();
        let program = compile_at(&folder, &source, &cc(), &["-std=c11"]);
        assert_eq!(run::<&str>(&program, &[]), expected, "{page}");
    }
    assert!(prints.is_empty(), "there are no such pages: {prints:?}");
}
