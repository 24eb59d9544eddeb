//! Builds the copy in which each place asks whether it is changed. Places that do not compile so are
//! left out: a statement whose value is used, one that ends a borrow.

use super::sites::{self, Mutant, Sites};
use crate::copy::{self, failed};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

pub(crate) struct Built {
    pub(crate) mutants: Vec<Mutant>,
    /// The simulator's command.
    pub(crate) sim: PathBuf,
    /// The unit tests.
    pub(crate) unit: PathBuf,
    /// The programs of tests with real threads.
    pub(crate) tests: Vec<PathBuf>,
    /// Where tests are run.
    pub(crate) library: PathBuf,
}

/// More often nothing is left to leave out, or the sources do not compile at all.
const MOST_CHECKS: usize = 30;

/// Tests of the sources' texts, and those that take minutes.
const NOT_RUN: [&str; 3] = ["layers", "stress", "races"];

pub(crate) fn build(root: &Path, kept: &Path) -> io::Result<Built> {
    let known = kept.join("left-out");
    let text = fs::read_to_string(&known).unwrap_or_default();
    let mut left_out: BTreeSet<String> = text.lines().map(str::to_owned).collect();
    let folder = kept.join("build");
    let library: &[&str] = &["check", "-p", "cmwq", "--lib", "--profile", "test"];
    let simulated: &[&str] = &["check", "-p", "cmwq-simulated", "--release"];
    let (mut sites, mut tree) = put_in(root, kept, &left_out)?;
    for arguments in [library, simulated] {
        let mut checks = 0;
        loop {
            let more = errors(quiet_cargo(&tree, &folder, arguments), &sites)?;
            if more.is_empty() {
                break;
            }
            checks += 1;
            if checks > MOST_CHECKS {
                return Err(failed("the changed sources do not compile"));
            }
            left_out.extend(more);
            println!("{} places that do not compile are left out", left_out.len());
            let text: Vec<&str> = left_out.iter().map(String::as_str).collect();
            fs::write(&known, text.join("\n"))?;
            (sites, tree) = put_in(root, kept, &left_out)?;
        }
    }
    println!(
        "{} mutants: building the simulator and the tests",
        sites.mutants.len()
    );
    let sim = ["build", "--release", "-p", "cmwq-sim"];
    copy::said(quiet_cargo(&tree, &folder, &sim))?;
    let tests = ["test", "-p", "cmwq", "--tests", "--no-run"];
    let mut cargo = quiet_cargo(&tree, &folder, &tests);
    cargo.env("CARGO_PROFILE_TEST_OPT_LEVEL", "1");
    let said = copy::said(cargo)?;
    let mut tests: Vec<PathBuf> = copy::programs(&said).map(|path| tree.join(path)).collect();
    if tests.is_empty() {
        return Err(failed("cargo names no tests"));
    }
    let unit = tests.remove(0);
    tests.retain(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        !NOT_RUN.iter().any(|begins| name.starts_with(begins))
    });
    Ok(Built {
        mutants: sites.mutants,
        sim: folder.join("release/cmwq-sim"),
        unit,
        tests,
        library: tree.join("crates/cmwq"),
    })
}

/// Cargo without warnings: the questions make much unused.
fn quiet_cargo(tree: &Path, folder: &Path, arguments: &[&str]) -> Command {
    let mut cargo = copy::cargo(tree, folder, arguments);
    cargo.env("RUSTFLAGS", "--cap-lints=allow -Awarnings");
    cargo
}

fn put_in(root: &Path, kept: &Path, left_out: &BTreeSet<String>) -> io::Result<(Sites, PathBuf)> {
    let mut sites = None;
    let tree = copy::of_workspace(root, kept, |sources| {
        sites = Some(sites::put_in(sources, left_out)?);
        Ok(())
    })?;
    Ok((sites.expect("it was called"), tree))
}

/// The keys of the places that the compiler does not like; an error if it names no place.
fn errors(mut cargo: Command, sites: &Sites) -> io::Result<BTreeSet<String>> {
    let output = cargo.arg("--message-format=json").output()?;
    let mut keys = BTreeSet::new();
    if output.status.success() {
        return Ok(keys);
    }
    let mut other = String::from_utf8_lossy(&output.stderr).into_owned();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let Ok(said) = serde_json::from_str::<serde_json::Value>(line) else {
            continue;
        };
        let message = &said["message"];
        if message["level"] != "error" {
            continue;
        }
        let blamed = blamed(message, sites);
        if blamed.is_empty() {
            other += message["rendered"].as_str().unwrap_or_default();
        }
        keys.extend(blamed);
    }
    match keys.is_empty() {
        true => Err(failed(&other)),
        false => Ok(keys),
    }
}

/// The smallest place around what the message or one of its notes points at. If there is none, those
/// between the first and the last of what they point at: what ended a borrow may be missing there.
fn blamed(message: &serde_json::Value, sites: &Sites) -> Vec<String> {
    let notes = message["children"].as_array().into_iter().flatten();
    let all = std::iter::once(message).chain(notes);
    let spans: Vec<(&str, Range<usize>)> = all
        .filter_map(|part| part["spans"].as_array())
        .flatten()
        .filter_map(|span| {
            let file = span["file_name"].as_str()?.split("cmwq/src/").last()?;
            let at = |name: &str| span[name].as_u64().map(|at| at as usize);
            Some((file, at("byte_start")?..at("byte_end")?))
        })
        .collect();
    let places = |file: &str| sites.places.get(file).into_iter().flatten();
    for (file, at) in &spans {
        let around = places(file).filter(|(r, _)| r.start <= at.start && at.end <= r.end);
        if let Some((_, key)) = around.min_by_key(|(range, _)| range.len()) {
            return vec![key.clone()];
        }
    }
    let Some((file, _)) = spans.first() else {
        return Vec::new();
    };
    let here = || spans.iter().filter(|(other, _)| other == file);
    let first = here().map(|(_, at)| at.start).min().unwrap_or(0);
    let last = here().map(|(_, at)| at.end).max().unwrap_or(0);
    places(file)
        .filter(|(range, _)| first <= range.start && range.end <= last)
        .map(|(_, key)| key.clone())
        .collect()
}
