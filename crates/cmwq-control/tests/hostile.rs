//! Hostile clients: each is refused with a clear error or cut off, and the process goes on undisturbed.

mod common;

use cmwq::Engine;
use cmwq::topology::Topology;
use common::{Endpoint, Random, seed};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::time::Duration;

fn connect(endpoint: &Endpoint) -> UnixStream {
    let socket = UnixStream::connect(endpoint.control.path()).expect("it listens");
    // Only so that a failure ends.
    socket
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a socket");
    socket
}

fn errno(line: &str) -> String {
    let reply: Value = serde_json::from_str(line).expect("JSON");
    reply["error"]["errno"]
        .as_str()
        .expect("an error")
        .to_owned()
}

/// The endpoint answers a well-behaved client.
fn is_well(endpoint: &Endpoint) {
    endpoint.client().hello().expect("it answers");
}

#[test]
fn garbage_gets_an_error_for_each_line() {
    let endpoint = Endpoint::new();
    let mut random = Random::new(seed("garbage"));
    let mut socket = connect(&endpoint);
    let mut answers = BufReader::new(socket.try_clone().expect("a socket"));
    for _ in 0..200 {
        let length = random.below(500);
        let mut line: Vec<u8> = (0..length).map(|_| random.bits() as u8).collect();
        line.retain(|byte| *byte != b'\n');
        line.push(b'\n');
        socket.write_all(&line).expect("it still listens");
        let mut answer = String::new();
        answers.read_line(&mut answer).expect("an answer");
        assert_eq!(errno(&answer), "EBADMSG", "{answer}");
    }
    // Nested as deep as a line allows.
    socket
        .write_all(&[b'[', b'{'].repeat(16_000))
        .expect("sent");
    socket.write_all(b"\n").expect("sent");
    let mut answer = String::new();
    answers.read_line(&mut answer).expect("an answer");
    assert_eq!(errno(&answer), "EBADMSG");
    is_well(&endpoint);
}

#[test]
fn a_line_without_end_is_cut_off_after_64_kilobytes() {
    let endpoint = Endpoint::new();
    let mut socket = connect(&endpoint);
    let block = vec![b'x'; 1 << 20];
    let mut sent = 0_u64;
    // A gigabyte, if it were taken.
    for _ in 0..1024 {
        match socket.write(&block) {
            Ok(count) => sent += count as u64,
            Err(error) => {
                assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset
                    ),
                    "{error}"
                );
                break;
            }
        }
    }
    assert!(sent < 16 << 20, "{sent} bytes were taken");
    let mut line = String::new();
    // What was sent and not read may have reset the connection before the answer was read.
    if BufReader::new(socket).read_line(&mut line).is_ok() && !line.is_empty() {
        assert_eq!(errno(&line), "EMSGSIZE");
    }
    let counts = endpoint.client().hello().expect("it answers").endpoint;
    assert_eq!(counts.cut_off, 1);
}

#[test]
fn a_line_just_too_long_gets_its_error() {
    let endpoint = Endpoint::new();
    let mut socket = connect(&endpoint);
    let mut line = vec![b' '; cmwq_control::protocol::MAX_REQUEST_BYTES];
    line.push(b'\n');
    socket.write_all(&line).expect("sent");
    let mut answer = String::new();
    socket
        .read_to_string(&mut answer)
        .expect("an answer and the end");
    assert_eq!(errno(answer.trim_end()), "EMSGSIZE");
    is_well(&endpoint);
}

#[test]
fn half_open_and_silent_clients_delay_nobody() {
    let endpoint = Endpoint::new();
    let silent: Vec<UnixStream> = (0..20).map(|_| connect(&endpoint)).collect();
    let halves: Vec<UnixStream> = (0..20)
        .map(|at| {
            let mut socket = connect(&endpoint);
            socket.write_all(b"{\"method\":\"hel").expect("sent");
            if at % 2 == 0 {
                socket
                    .shutdown(std::net::Shutdown::Write)
                    .expect("half closed");
            }
            socket
        })
        .collect();
    is_well(&endpoint);
    // Half a request and an end: nothing to answer.
    let mut nothing = String::new();
    let mut half = halves.into_iter().next().expect("one");
    half.read_to_string(&mut nothing).expect("an end");
    assert_eq!(nothing, "");
    drop(silent);
    is_well(&endpoint);
}

#[test]
fn a_client_that_takes_no_answers_gets_no_more_of_them_and_delays_nobody() {
    let topology = Topology::from_synthetic("l3:8 core:16 pu:2").expect("valid");
    let engine = Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine");
    let _queues: Vec<_> = (0..20)
        .map(|at| {
            engine
                .workqueue(&format!("queue{at}"))
                .build()
                .expect("a queue")
        })
        .collect();
    let endpoint = Endpoint::new();
    let mut greedy = connect(&endpoint);
    greedy.set_nonblocking(true).expect("a socket");
    let request = b"{\"method\":\"state\"}\n";
    // Until its own sending blocks: then the endpoint reads no more of it.
    let mut asked = 0_u64;
    while greedy.write(request).is_ok() {
        asked += 1;
        assert!(asked < 1_000_000, "it takes requests without end");
    }
    for _ in 0..10 {
        is_well(&endpoint);
    }
    let answered = endpoint
        .client()
        .hello()
        .expect("it answers")
        .endpoint
        .requests;
    assert!(answered < 100, "{answered} answers wait in memory");
}

/// All clients together get 200 answers a second.
#[test]
fn a_client_that_asks_all_the_time_leaves_others_their_turn() {
    const ASKED: usize = 2_000;
    let endpoint = Endpoint::new();
    let mut greedy = connect(&endpoint);
    let mut answers = BufReader::new(greedy.try_clone().expect("a socket"));
    // The reader takes each answer, so the next request may be answered at once.
    let reader = std::thread::spawn(move || {
        let mut answer = String::new();
        while answers.read_line(&mut answer).is_ok_and(|bytes| bytes > 0) {}
    });
    let requests = "{\"id\":1,\"method\":\"hello\"}\n".repeat(ASKED);
    greedy.write_all(requests.as_bytes()).expect("sent");
    let mut modest = endpoint.client();
    while modest.hello().expect("an answer").endpoint.requests < 250 {}
    // The burst is over: each answer takes 5 ms, and the client's patience is 5 s.
    for _ in 0..10 {
        modest.hello().expect("an answer");
    }
    greedy.shutdown(std::net::Shutdown::Both).expect("open");
    reader.join().expect("no panic");
}

#[test]
fn of_a_thousand_connections_those_that_are_too_many_are_told_so() {
    let endpoint = Endpoint::new();
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let wanted = rustix::process::Rlimit {
        current: most.maximum,
        maximum: most.maximum,
    };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, wanted).expect("allowed");
    // An active client keeps its connection.
    let mut own = endpoint.client();
    own.hello().expect("an answer");
    let crowd: Vec<UnixStream> = (0..1000).map(|_| connect(&endpoint)).collect();
    let (mut refused, mut waiting) = (0, 0);
    for mut socket in crowd {
        // A refused client gets an error and then the end; an admitted one gets an answer.
        let sent = socket.write_all(b"{\"method\":\"hello\"}\n");
        let mut line = String::new();
        let read = BufReader::new(&socket).read_line(&mut line);
        if line.contains("EBUSY") {
            refused += 1;
        } else if line.contains("result") {
            waiting += 1;
        } else {
            // A later client replaced it before it sent anything.
            assert!(sent.is_err() || read.is_err() || line.is_empty(), "{line}");
            refused += 1;
        }
    }
    assert_eq!(refused + waiting, 1000);
    assert!(
        refused > 0 && waiting > 0,
        "{refused} refused, {waiting} served"
    );
    let counts = endpoint.client().hello().expect("it answers").endpoint;
    assert!(counts.crowded_out > 0, "{counts:?}");
    drop(own);
    is_well(&endpoint);
}

#[test]
fn another_users_client_is_refused_and_counted() {
    if let Some(path) = std::env::var_os("OTHER_USER_TEST_SOCKET") {
        // The other user.
        let mut answer = String::new();
        let mut socket = UnixStream::connect(path).expect("the way is open");
        let _ = socket.write_all(b"{\"method\":\"hello\"}\n");
        // A refusal and the end, which is a reset if the request came first: it was not read.
        if let Err(error) = socket.read_to_string(&mut answer) {
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        println!("ANSWER {answer}");
        return;
    }
    if !rustix::process::geteuid().is_root() {
        println!("skipped, because only root can be another user");
        return;
    }
    let endpoint = Endpoint::new();
    let socket = endpoint.control.path();
    // Usually closed to other users.
    for (door, mode) in [
        (endpoint.dir.path(), 0o755),
        (socket.parent().expect("a folder"), 0o755),
        (socket, 0o666),
    ] {
        std::fs::set_permissions(door, std::fs::Permissions::from_mode(mode)).expect("ours");
    }
    // A copy where the other user can run it.
    let program = endpoint.dir.path().join("other-user");
    std::fs::copy(std::env::current_exe().expect("this program"), &program).expect("copied");
    let output = Command::new(&program)
        .args([
            "--exact",
            "another_users_client_is_refused_and_counted",
            "--nocapture",
        ])
        .env("OTHER_USER_TEST_SOCKET", socket)
        .current_dir("/")
        .uid(65534)
        .gid(65534)
        .output()
        .expect("it ran");
    let said = String::from_utf8_lossy(&output.stdout);
    let answer = said.lines().find_map(|line| {
        line.strip_prefix("ANSWER ")
            .or(line.split("ANSWER ").nth(1))
    });
    let answer = answer.unwrap_or_else(|| panic!("{output:?}"));
    assert_eq!(errno(answer), "EPERM");
    assert!(answer.contains("user 65534"), "{answer}");
    let counts = endpoint.client().hello().expect("it answers").endpoint;
    assert_eq!(counts.refused_users, 1);
}
