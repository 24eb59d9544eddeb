//! The recipes of docs/adopting.md run, and the page shows what is in them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The output of a recipe, which has five minutes.
fn run(program: &str) -> String {
    let output = Command::new("timeout")
        .args(["300", program])
        .output()
        .expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {errors}");
    String::from_utf8(output.stdout).expect("UTF-8")
}

#[test]
fn from_tokio() {
    let text = run(env!("CARGO_BIN_EXE_from_tokio"));
    assert_eq!(text.matches("items/s").count(), 2, "{text}");
    assert!(text.ends_with("equal results\n"), "{text}");
}

/// It asserts itself that both ways give the same results.
#[test]
fn a_first_trial() {
    let text = run(env!("CARGO_BIN_EXE_trial"));
    assert_eq!(text.matches("items/s").count(), 4, "{text}");
    assert_eq!(text.matches("cmwq makes").count(), 2, "{text}");
}

/// It is copied into a project that has nothing of this crate.
#[test]
fn a_first_trial_needs_cmwq_and_tokio_alone() {
    let path = root().join("crates/cmwq-recipes/src/bin/trial.rs");
    let text = fs::read_to_string(path).expect("the program");
    for other in ["cmwq_recipes", "rayon", "crate::", "mod "] {
        assert!(!text.contains(other), "{other}");
    }
    let page = fs::read_to_string(root().join("docs/adopting.md")).expect("the page");
    assert!(page.contains("cp ../cmwq/crates/cmwq-recipes/src/bin/trial.rs src/main.rs"));
}

#[test]
fn from_rayon() {
    let text = run(env!("CARGO_BIN_EXE_from_rayon"));
    assert!(text.ends_with("equal results\n"), "{text}");
}

/// The lines of a text without what stands before them: a page shows parts of functions.
fn unindented(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    lines.filter(|line| !line.is_empty()).collect()
}

#[test]
fn the_page_shows_parts_of_the_programs() {
    let page = fs::read_to_string(root().join("docs/adopting.md")).expect("the page");
    let (mut shown, mut source) = (0, None);
    let mut rest = page.as_str();
    // A link to a program, and after it blocks of its lines.
    while let Some((before, after)) = rest.split_once("```") {
        if let Some((_, link)) = before.rsplit_once("](../crates/") {
            let path = link.split(')').next().expect("the end of a link");
            source = Some(root().join("crates").join(path));
        }
        let (block, after) = after.split_once("```").expect("the end of a block");
        rest = after;
        let (language, block) = block.split_once('\n').expect("a line");
        if !["rust", "c"].contains(&language) {
            continue;
        }
        let path = source
            .as_ref()
            .expect("a link to the program before its lines");
        let program = fs::read_to_string(path).expect("the program");
        let (program, block) = (unindented(&program), unindented(block));
        assert!(!block.is_empty());
        assert!(
            program.windows(block.len()).any(|lines| lines == block),
            "not in {}:\n{block:#?}",
            path.display()
        );
        shown += 1;
    }
    assert!(shown >= 8, "{shown}");
}
