//! Where keys are in the memory of a server.
//!
//! Sabotage tried: leaving out the cipher library's functions, `mlock`, or the advice about core
//! dumps each fails the first test.

use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use super::served::{Served, key_file, path, terminate};
use crate::common::{Client, Deadline, Dir, Random, pattern, seed};

/// A mapping of a process: its address, its length, and its flags as `/proc/PID/smaps` has them.
struct Mapping {
    start: u64,
    length: usize,
    flags: String,
}

fn mappings(pid: u32) -> Vec<Mapping> {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps")).unwrap();
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(flags) = line.strip_prefix("VmFlags:") {
            mappings.last_mut().unwrap().flags = format!("{flags} ");
            continue;
        }
        let range = line.split(' ').next().unwrap().split_once('-');
        let hex = |text: &str| u64::from_str_radix(text, 16).ok();
        if let Some((Some(start), Some(end))) = range.map(|(start, end)| (hex(start), hex(end))) {
            mappings.push(Mapping {
                start,
                length: (end - start) as usize,
                flags: String::new(),
            });
        }
    }
    mappings
}

/// The flags of the mappings that have a quarter of the key in them.
fn flags_around(pid: u32, key: &[u8]) -> Vec<String> {
    let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
    let has_key = |mapping: &Mapping| {
        let mut bytes = vec![0; mapping.length];
        // Some of the system's own cannot be read.
        if memory.read_exact_at(&mut bytes, mapping.start).is_err() {
            return false;
        }
        key.chunks(16)
            .any(|part| bytes.windows(16).any(|at| at == part))
    };
    let readable = |mapping: &Mapping| mapping.flags.contains(" rd ");
    let all = mappings(pid).into_iter();
    let found = all.filter(|mapping| readable(mapping) && has_key(mapping));
    found.map(|mapping| mapping.flags).collect()
}

fn use_cipher(served: &Served) {
    let mut client = Client::connect(&served.socket(), true);
    client.write(0, &pattern(0, 256 << 10, 9)).unwrap();
    assert!(client.read(0, 256 << 10).unwrap() == pattern(0, 256 << 10, 9));
}

#[test]
fn keys_are_only_in_memory_that_is_locked_and_left_out_of_core_dumps() {
    let may_lock = rustix::process::geteuid().is_root()
        || rustix::process::getrlimit(rustix::process::Resource::Memlock)
            .current
            .is_none_or(|bytes| bytes >= 1 << 20);
    // No other bytes are like these by chance.
    let mut random = Random::new(seed("keys"));
    for length in [32, 64] {
        let dir = Dir::new();
        let file = dir.file("random");
        let key: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        fs::write(&file, &key).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        let memory = ["--memory", "4M", "--cipher", "aes-xts-plain64"];
        let served = Served::start(dir, &[&memory[..], &["--key-file", path(&file)]].concat());
        use_cipher(&served);
        let found = flags_around(served.child.id(), &key);
        assert!(!found.is_empty(), "the expanded key begins with the key");
        for flags in found {
            assert!(flags.contains(" dd "), "in core dumps: {flags}");
            assert!(!may_lock || flags.contains(" lo "), "not locked: {flags}");
        }
        assert_eq!(served.stop(), 0);
    }
}

/// The server warns, and serves.
#[test]
fn who_may_not_lock_memory_is_told() {
    let _deadline = Deadline::long("no locked memory");
    let dir = Dir::new();
    let (key, socket) = (key_file(&dir), dir.file("socket"));
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -l 0 && exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(["serve", "--memory", "1M", "--cipher", "aes-xts-plain64"])
        .args(["--key-file", path(&key), "--socket", path(&socket)])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    if rustix::process::geteuid().is_root() {
        // Root may lock whatever the limit is. Nobody may not be allowed to run what root has built.
        for file in [&key, &dir.file("")] {
            std::os::unix::fs::chown(file, Some(65_534), Some(65_534)).unwrap();
        }
        command.uid(65_534).gid(65_534);
        let mut tried = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"));
        if tried.arg("--version").uid(65_534).output().is_err() {
            println!("skipped, because user 65534 may not run the command");
            return;
        }
    }
    let mut child = command.spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("serving memory"), "{line}");
    terminate(&child);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    let errors = String::from_utf8(output.stderr).unwrap();
    assert_eq!(errors.lines().count(), 1, "{errors}");
    for part in ["keys may reach swap", "ulimit -l", "LimitMEMLOCK="] {
        assert!(errors.contains(part), "{errors}");
    }
}
