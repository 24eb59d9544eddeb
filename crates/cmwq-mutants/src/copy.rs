//! A copy of the workspace, and what is built and run there.

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, PipeReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use std::{fs, thread};

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

/// How a program has ended.
pub(crate) enum Verdict {
    /// What it said.
    Passed(String),
    /// What it said.
    Failed(String),
    /// It did not end in time.
    Late,
}

/// Runs a program until it ends, says a line that is a failure, or has run for so long. What is left
/// of it and of its own processes then is killed.
pub(crate) fn ended(
    mut command: Command,
    most: Duration,
    is_failure: impl Fn(&str) -> bool + Send + 'static,
) -> io::Result<Verdict> {
    let (out, to_out) = io::pipe()?;
    command.stdin(Stdio::null()).process_group(0);
    command.stdout(to_out.try_clone()?).stderr(to_out);
    let mut child = command.spawn()?;
    // The pipe ends with the last process that has it.
    drop(command);
    let (tell, told) = mpsc::channel();
    let reader = thread::spawn(move || read(out, is_failure, &tell));
    let heard = told.recv_timeout(most);
    let has_passed = match heard {
        Err(RecvTimeoutError::Disconnected) => child.wait()?.success(),
        _ => false,
    };
    if let Some(group) = rustix::process::Pid::from_raw(child.id() as i32) {
        // They may all have ended.
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
    child.wait()?;
    let said = reader.join().expect("it only reads");
    Ok(match heard {
        Err(RecvTimeoutError::Timeout) => Verdict::Late,
        _ if has_passed => Verdict::Passed(said),
        _ => Verdict::Failed(said),
    })
}

/// Returns all that was said, and tells when that was a failure.
fn read(out: PipeReader, is_failure: impl Fn(&str) -> bool, tell: &mpsc::Sender<()>) -> String {
    let mut said = String::new();
    for line in BufReader::new(out).split(b'\n').map_while(Result::ok) {
        let line = String::from_utf8_lossy(&line);
        said.push_str(&line);
        said.push('\n');
        if is_failure(&line) {
            // The receiver is gone after the first failure.
            let _ = tell.send(());
        }
    }
    said
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
