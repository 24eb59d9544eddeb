//! What clients can have the command write.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};

use super::served::{path, terminate};
use crate::common::{Deadline, Dir};

/// As long as this test may take.
const MINUTES: usize = 10;

/// As many lines as an attacker likes would fill the disk that has the log.
#[test]
fn refused_clients_cannot_fill_the_log() {
    let _deadline = Deadline::long("refused clients");
    let dir = Dir::new();
    let socket = dir.file("socket");
    let mut child = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"))
        .args(["serve", "--memory", "1M", "--connections", "1"])
        .args(["--socket", path(&socket)])
        .stdout(Stdio::piped())
        // Of any size, so that it is read at the end.
        .stderr(File::create(dir.file("log")).unwrap())
        .spawn()
        .unwrap();
    let mut first = [0; 1];
    child
        .stdout
        .as_mut()
        .unwrap()
        .read_exact(&mut first)
        .unwrap();
    let to_its_end = |mut client: UnixStream| {
        let _ = client.read_to_end(&mut Vec::new());
    };
    // What one says is no NBD.
    for _ in 0..300 {
        let mut client = UnixStream::connect(&socket).unwrap();
        // One that is refused may be gone by then.
        let _ = client.write_all(&[0xff; 64]);
        to_its_end(client);
    }
    // The one client that is allowed may have to wait until the last of those is gone.
    let client = loop {
        let mut client = UnixStream::connect(&socket).unwrap();
        if client.read_exact(&mut [0; 18]).is_ok() {
            break client;
        }
    };
    for _ in 0..2700 {
        to_its_end(UnixStream::connect(&socket).unwrap());
    }
    terminate(&child);
    assert!(child.wait().unwrap().success());
    drop(client);
    let errors = std::fs::read_to_string(dir.file("log")).unwrap();
    let lines: Vec<&str> = errors.lines().collect();
    // Ten and a summary in each minute that it takes.
    let started = lines.len().div_ceil(11);
    assert!(started <= MINUTES, "{} lines", lines.len());
    let left_out = |line: &&str| {
        let count = line.strip_suffix(" more lines about clients were left out")?;
        count.rsplit(' ').next()?.parse::<usize>().ok()
    };
    let left_out: usize = lines.iter().filter_map(left_out).sum();
    assert!(left_out >= 2900, "{errors}");
}
