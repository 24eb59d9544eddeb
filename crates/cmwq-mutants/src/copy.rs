//! A copy of the workspace, and what is built and run there.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, io};

pub(crate) fn failed(what: &str) -> io::Error {
    io::Error::other(what.to_owned())
}

/// Copies the workspace to `copy`, with the library's sources as `change` leaves them. What has not
/// changed since the last time is not written, and so not built again.
pub(crate) fn of_workspace(
    root: &Path,
    kept: &Path,
    change: impl FnOnce(&Path) -> io::Result<()>,
) -> io::Result<PathBuf> {
    let copy = kept.join("tree");
    let skipped = ["target", ".git", "docs", "crates/cmwq/src"].map(|name| root.join(name));
    mirror(root, &copy, &skipped, &[copy.join("crates/cmwq/src")])?;
    let fresh = kept.join("sources");
    mirror(&root.join("crates/cmwq/src"), &fresh, &[], &[])?;
    change(&fresh)?;
    mirror(&fresh, &copy.join("crates/cmwq/src"), &[], &[])?;
    Ok(copy)
}

/// Cargo in the copy, with a folder of its own for what it builds.
pub(crate) fn cargo(copy: &Path, build: &Path, arguments: &[&str]) -> Command {
    let mut cargo = Command::new("cargo");
    cargo
        .args(arguments)
        .arg("--locked")
        .env("CARGO_TARGET_DIR", build)
        .current_dir(copy);
    cargo
}

/// Runs it, and returns what it says; an error if it fails.
pub(crate) fn said(mut command: Command) -> io::Result<String> {
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    match output.status.success() {
        true => Ok(said),
        false => Err(failed(&said)),
    }
}

/// The programs that `cargo test --no-run` names.
pub(crate) fn programs(said: &str) -> impl Iterator<Item = &str> {
    said.lines()
        .filter(|line| line.trim_start().starts_with("Executable"))
        .filter_map(|line| Some(line.rsplit_once('(')?.1.split_once(')')?.0))
}

/// Makes `to` a copy of `from`, but for what is skipped and kept. Files with the same contents are
/// left as they are.
fn mirror(from: &Path, to: &Path, skipped: &[PathBuf], kept: &[PathBuf]) -> io::Result<()> {
    fs::create_dir_all(to)?;
    let mut names = BTreeSet::new();
    for entry in fs::read_dir(from)? {
        let (source, name) = entry.map(|entry| (entry.path(), entry.file_name()))?;
        let target = to.join(&name);
        if skipped.contains(&source) || source.is_symlink() {
            continue;
        }
        names.insert(name);
        if source.is_dir() {
            mirror(&source, &target, skipped, kept)?;
            continue;
        }
        let contents = fs::read(&source)?;
        if fs::read(&target).ok().as_ref() != Some(&contents) {
            fs::write(&target, contents)?;
        }
    }
    for entry in fs::read_dir(to)? {
        let entry = entry?;
        let path = entry.path();
        let is_kept = kept.iter().any(|kept| kept.starts_with(&path));
        if names.contains(&entry.file_name()) || is_kept {
            continue;
        }
        match path.is_dir() {
            true => fs::remove_dir_all(path)?,
            false => fs::remove_file(path)?,
        }
    }
    Ok(())
}
