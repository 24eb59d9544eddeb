//! `cmwq-nbd bench` from outside: short runs, the lists, what is missing, and what is left behind.
//!
//! What is not installed is skipped, with a line that says so. No test checks a figure.
//!
//! Broken on purpose, and what noticed:
//!
//! | sabotage | caught by |
//! |---|---|
//! | a shard size is not handed to the server | `each_shard_size_is_a_server_of_its_own` |
//! | signals are not waited for; the second one ends the process | `a_signal_leaves_nothing_behind` |
//! | the file system is not unmounted | `a_buffered_run_leaves_nothing_behind` |
//! | the trial of a mount says yes whatever comes | `a_mount_that_is_refused_is_said_in_a_line` |

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::common::Deadline;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use serde_json::Value;

/// For things that take a moment.
const DEADLINE: Duration = Duration::from_secs(60);

pub(crate) fn bench(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"));
    command
        .args(["bench", "--size", "64M", "--peers", "none"])
        .args(args)
        .env_remove("CMWQ_TOPOLOGY")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn report(output: &Output) -> Value {
    assert!(output.status.success(), "{}", text(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

/// Where a program is.
fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

pub(crate) fn has_fio(test: &str) -> bool {
    let has = find("fio").is_some();
    if !has {
        println!("{test}: skipped, because fio is missing (apt-get install fio)");
    }
    has
}

/// The directory in which process `id` keeps its files, if there is one.
fn workspace(id: u32) -> Option<PathBuf> {
    ["/dev/shm".into(), std::env::temp_dir()]
        .map(|base: PathBuf| base.join(format!("cmwq-nbd-bench-{id}")))
        .into_iter()
        .find(|dir| dir.exists())
}

/// What of process `id` is still there: files, mounts, loop devices, servers.
fn left_behind(id: u32) -> Vec<String> {
    let name = format!("cmwq-nbd-bench-{id}/");
    let mut found: Vec<String> = workspace(id)
        .iter()
        .map(|dir| dir.display().to_string())
        .collect();
    let mounts = std::fs::read_to_string("/proc/mounts").unwrap();
    found.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&name))
            .map(str::to_owned),
    );
    for device in std::fs::read_dir("/sys/block")
        .into_iter()
        .flatten()
        .flatten()
    {
        let file = device.path().join("loop/backing_file");
        let behind = std::fs::read_to_string(file).unwrap_or_default();
        found.extend(
            behind
                .contains(&name)
                .then(|| format!("loop device on {behind}")),
        );
    }
    found.extend(processes_of(id).iter().map(|(_, words)| words.join(" ")));
    found
}

/// The processes that work in the directory of process `id`: their ids and command lines.
fn processes_of(id: u32) -> Vec<(i32, Vec<String>)> {
    let name = format!("cmwq-nbd-bench-{id}/");
    let mut found = Vec::new();
    for process in std::fs::read_dir("/proc").unwrap().flatten() {
        let line = text(&std::fs::read(process.path().join("cmdline")).unwrap_or_default());
        let number = process.file_name().to_string_lossy().parse();
        if let (true, Ok(number)) = (line.contains(&name), number) {
            found.push((number, line.split('\0').map(str::to_owned).collect()));
        }
    }
    found
}

fn assert_nothing_left(id: u32) {
    let since = Instant::now();
    loop {
        let left = left_behind(id);
        if left.is_empty() {
            return;
        }
        // A loop device goes when the kernel has let go of it.
        assert!(since.elapsed() < DEADLINE, "left behind: {left:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn labels(table: &Value) -> Vec<&str> {
    let outcomes = table["outcomes"].as_array().expect("outcomes");
    outcomes
        .iter()
        .map(|each| each["subject"].as_str().expect("a name"))
        .collect()
}

#[test]
fn each_shard_size_is_a_server_of_its_own() {
    let _deadline = Deadline::long("a server for each shard size");
    if !has_fio("each_shard_size_is_a_server_of_its_own") {
        return;
    }
    let args = [
        "--runs",
        "1",
        "--runtime",
        "1",
        "--scenarios",
        "3",
        "--scopes",
        "cache_shard",
    ];
    let mut child = bench(&[&args[..], &["--shard-size", "2,1", "--format", "json"]].concat())
        .spawn()
        .expect("it starts");
    // The servers are its children, and their command lines have the options.
    let mut sizes: Vec<String> = Vec::new();
    while child.try_wait().expect("ours").is_none() {
        for (_, words) in processes_of(child.id()) {
            let mut words = words.into_iter();
            let named = words.find(|word| word == "--shard-size");
            let size = named.and_then(|_| words.next());
            // A process that ends while it is looked at has half a command line.
            if let Some(size) = size.filter(|size| !size.is_empty() && !sizes.contains(size)) {
                sizes.push(size);
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let id = child.id();
    let report = report(&child.wait_with_output().expect("it ends"));
    assert_eq!(sizes, ["2", "1"]);
    assert_eq!(
        labels(&report["tables"][0]),
        ["cache_shard/2", "cache_shard/1", "plain"]
    );
    assert!(report["same_pods"].is_array());
    assert_nothing_left(id);
}

/// Why the scenario cannot be measured here, if it cannot.
fn why_not(report: &Value) -> Option<String> {
    let left_out = report["left_out"].as_array().expect("a list");
    left_out
        .first()
        .map(|why| why.as_str().expect("words").to_owned())
}

#[test]
fn a_buffered_run_leaves_nothing_behind() {
    let _deadline = Deadline::long("a buffered run");
    if !has_fio("a_buffered_run_leaves_nothing_behind") {
        return;
    }
    let args = [
        "--runs",
        "1",
        "--runtime",
        "1",
        "--scenarios",
        "3,buffered",
        "--scopes",
        "cache",
    ];
    let child = bench(&[&args[..], &["--format", "json"]].concat())
        .spawn()
        .expect("it starts");
    let id = child.id();
    let output = child.wait_with_output().expect("it ends");
    let report = report(&output);
    assert_nothing_left(id);
    let tables = report["tables"].as_array().expect("tables");
    if let Some(why) = why_not(&report) {
        assert!(why.starts_with("scenario buffered: "), "{why}");
        assert!(text(&output.stderr).contains(&format!("cmwq-nbd: left out: {why}\n")));
        assert_eq!(tables.len(), 1);
        println!("a_buffered_run_leaves_nothing_behind: skipped, because {why}");
        return;
    }
    let titles: Vec<&str> = tables[1..]
        .iter()
        .map(|table| table["title"].as_str().unwrap())
        .collect();
    for (title, pattern) in titles
        .iter()
        .zip(["randread, 4k", "randwrite, 4k", "randrw, 4k"])
    {
        assert!(
            title.starts_with(pattern) && title.contains("buffered"),
            "{title}"
        );
    }
    assert_eq!(titles.len(), 3);
    for table in &tables[1..] {
        assert_eq!(labels(table), ["cache", "cache, inline"]);
        let run = &table["outcomes"][0]["runs"][0];
        let rate = |which: &str| run[which].as_f64().unwrap();
        assert!(rate("read_mib_per_s") + rate("write_mib_per_s") > 0.0);
        assert!(rate("items_per_request") >= 1.0);
    }
}

#[test]
fn a_signal_leaves_nothing_behind() {
    if !has_fio("a_signal_leaves_nothing_behind") {
        return;
    }
    let mut ways = vec!["3"];
    if find("nbdfuse").is_some() && rustix::process::geteuid().is_root() {
        ways.push("buffered");
    }
    for scenario in ways {
        let mut child = bench(&["--runs", "1", "--runtime", "600", "--scenarios", scenario])
            .spawn()
            .expect("it starts");
        let id = child.id();
        let _guard = EndAll(id);
        // Once fio's load runs, all that is to be ended is there.
        let is_loaded = |id: u32| {
            left_behind(id)
                .iter()
                .any(|what| what.contains("job.fio") && has_load(id))
        };
        let since = Instant::now();
        while !is_loaded(id) {
            if scenario == "buffered" && child.try_wait().expect("ours").is_some() {
                let said = text(&child.wait_with_output().expect("it has ended").stderr);
                assert!(said.contains("nothing is left to measure"), "{said}");
                println!("a_signal_leaves_nothing_behind: skipped, because {said}");
                return;
            }
            assert!(
                since.elapsed() < DEADLINE,
                "{scenario} does not come to its load"
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        signal(&child);
        // The end of the process, not of its standard error, which its leftover children would hold open.
        let since = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("ours") {
                break status;
            }
            assert!(since.elapsed() < DEADLINE, "it does not stop");
            std::thread::sleep(Duration::from_millis(10));
            // As timeout(1), which sends two.
            signal(&child);
        };
        assert_eq!(status.code(), Some(1), "{status}");
        assert_nothing_left(id);
        let said = text(&child.wait_with_output().expect("it has ended").stderr);
        assert!(said.ends_with("cmwq-nbd: stopped by a signal\n"), "{said}");
    }
}

/// Whether the last job that fio was given is the load, and not the filling of the disk.
fn has_load(id: u32) -> bool {
    let job = workspace(id).map(|dir| std::fs::read_to_string(dir.join("job.fio")));
    matches!(job, Some(Ok(job)) if job.starts_with("[load]"))
}

/// Ends what process `id` has left running, if the test fails.
struct EndAll(u32);

impl Drop for EndAll {
    fn drop(&mut self) {
        for (process, _) in processes_of(self.0) {
            if let Some(process) = rustix::process::Pid::from_raw(process) {
                let _ = rustix::process::kill_process(process, rustix::process::Signal::KILL);
            }
        }
    }
}

fn signal(child: &Child) {
    let id = rustix::process::Pid::from_child(child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).expect("it lives");
}

/// A directory of links to some of the system's programs.
fn programs(name: &str, names: &[&str]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).expect("a directory");
    for name in names {
        if let Some(file) = find(name) {
            std::os::unix::fs::symlink(file, dir.join(name)).expect("a link");
        }
    }
    dir
}

/// One more program in there, of the shell.
fn program(dir: &Path, name: &str, script: &str) {
    std::fs::write(dir.join(name), format!("#!/bin/sh\n{script}\n")).expect("writable");
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.join(name), mode).expect("ours");
}

#[test]
fn on_a_terminal_an_error_begins_its_line() {
    let _deadline = Deadline::long("an error on a terminal");
    let path = programs("fio-fails", &[]);
    let fails = r#"[ "$1" = --enghelp=nbd ] && exit 0; echo 'fio: not today' >&2; exit 1"#;
    program(&path, "fio", fails);
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let terminal = openpt(flags).expect("a terminal");
    grantpt(&terminal).expect("granted");
    unlockpt(&terminal).expect("unlocked");
    let name = ptsname(&terminal, Vec::new()).expect("its name");
    let its = std::fs::File::options()
        .write(true)
        .open(name.to_str().expect("text"))
        .expect("its other side");
    let mut child = bench(&["--runs", "1", "--runtime", "1", "--scenarios", "3"])
        .env("PATH", &path)
        .env("NO_COLOR", "1")
        .stderr(its)
        .spawn()
        .expect("it starts");
    let mut said = Vec::new();
    // Fails once the other side is closed.
    let _ = std::fs::File::from(terminal).read_to_end(&mut said);
    assert_eq!(child.wait().expect("ours").code(), Some(1));
    let said = text(&said);
    let errors: Vec<&str> = said.split("cmwq-nbd: ").collect();
    assert_eq!(errors.len(), 1 + 3, "one for each attempt: {said:?}");
    for before in &errors[..3] {
        // What was on the line is cleared.
        assert!(before.ends_with("\r\x1b[2K"), "{said:?}");
    }
    std::fs::remove_dir_all(path).expect("ours");
}

/// What is said if all there is to measure cannot be: status 1 and one line.
fn nothing_to_measure(path: &Path, args: &[&str]) -> String {
    let output = bench(args).env("PATH", path).output().expect("it starts");
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(output.stdout.is_empty());
    assert!(
        said.starts_with("cmwq-nbd: nothing is left to measure: "),
        "{said}"
    );
    std::fs::remove_dir_all(path).expect("ours");
    said
}

#[test]
fn a_program_that_is_missing_is_said_in_a_line() {
    let _deadline = Deadline::long("missing programs");
    if !has_fio("a_program_that_is_missing_is_said_in_a_line") {
        return;
    }
    for scenario in ["buffered", "nfs"] {
        let said = nothing_to_measure(&programs("only-fio", &["fio"]), &["--scenarios", scenario]);
        let expected =
            format!("scenario {scenario}: nbdfuse is missing (apt-get install libnbd-bin)");
        assert!(said.contains(&expected), "{said}");
    }
}

#[test]
fn a_mount_that_is_refused_is_said_in_a_line() {
    let _deadline = Deadline::long("a refused mount");
    let test = "a_mount_that_is_refused_is_said_in_a_line";
    let needed = [
        "fio",
        "nbdfuse",
        "fusermount3",
        "mkfs.ext4",
        "losetup",
        "umount",
    ];
    if let Some(missing) = needed.iter().find(|name| find(name).is_none()) {
        println!("{test}: skipped, because {missing} is missing");
        return;
    }
    let path = programs("no-mount", &needed);
    program(&path, "mount", "echo 'mount: not today' >&2\nexit 32");
    let said = nothing_to_measure(&path, &["--scenarios", "buffered"]);
    let reasons = [
        "not today",
        "it takes root",
        "/dev/fuse",
        "losetup",
        "io_uring",
    ];
    assert!(reasons.iter().any(|reason| said.contains(reason)), "{said}");
    if rustix::process::geteuid().is_root() && said.contains("mount: ") {
        assert!(
            said.contains("a file system cannot be mounted here: mount: not today"),
            "{said}"
        );
    }
}

#[test]
fn a_run_that_fails_keeps_the_page_of_an_earlier_one() {
    let _deadline = Deadline::long("a run that fails");
    if !has_fio("the page of an earlier run") {
        return;
    }
    let page = std::env::temp_dir().join(format!("cmwq-nbd-page-{}", std::process::id()));
    std::fs::write(&page, "earlier").unwrap();
    let html = page.to_str().unwrap();
    // This scope is none of the scenario's.
    let output = bench(&["--scenarios", "4k", "--scopes", "cpu", "--html", html]).output();
    assert_eq!(output.unwrap().status.code(), Some(1));
    assert_eq!(std::fs::read_to_string(&page).unwrap(), "earlier");
    std::fs::remove_file(&page).unwrap();
}
