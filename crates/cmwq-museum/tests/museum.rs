//! The table of the museum is that of its pieces, and a few of them are found again.
//! `scripts/museum` looks for all.

use std::process::{Command, Output};

fn museum(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_cmwq-museum"))
        .args(arguments)
        .output()
        .unwrap()
}

/// Those that take the least time: none of them ends in a hang that lasts.
const QUICK: [&str; 15] = [
    "sleeper-counts",
    "wake-before-visible",
    "no-second-look",
    "culled-and-picked",
    "two-pools",
    "busy-not-searched",
    "inactive-overtaken",
    "retired-with-staged",
    "busy-colour-idle",
    "not-plugged",
    "child-accepts",
    "child-joins",
    // These show what small programs have: caller slots, items that wait for each other, races that
    // a run's code has caught.
    "retired-with-slots",
    "chunk-keeps-credits",
    "waker-taken-relaxed",
];

#[test]
fn exploration_finds_pieces_within_their_budget() {
    let output = museum(&QUICK);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().count(), QUICK.len(), "{said}");
}

/// One piece had let go of a lock whether it was chosen or not, so others seemed to be found that were not.
#[test]
fn the_library_is_unchanged_while_no_piece_is_chosen() {
    let output = museum(&["--unchanged", "500"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
}

#[test]
fn the_table_has_every_piece_and_when_it_was_found() {
    let table = include_str!("../README.md");
    let output = museum(&["--table"]);
    let pieces = String::from_utf8(output.stdout).unwrap();
    assert!(pieces.lines().count() >= 30);
    let mut known = 0;
    for piece in pieces.lines() {
        // What stands behind is after how many seeds it was found, and how it showed.
        let row = table.lines().find(|row| row.starts_with(piece));
        let row = row.unwrap_or_else(|| panic!("README.md has no row that begins with {piece}"));
        let seeds = row[piece.len()..].split('|').next().unwrap_or("").trim();
        let seeds: u64 = seeds
            .parse()
            .unwrap_or_else(|_| panic!("no number of seeds: {row}"));
        assert!((1..=10_000).contains(&seeds), "{row}");
        known += usize::from(piece.contains("| known |"));
    }
    assert!(known >= 10, "{known} known failures");
}

#[test]
fn a_piece_that_is_not_there_is_refused() {
    assert_eq!(museum(&["mona-lisa"]).status.code(), Some(2));
}
