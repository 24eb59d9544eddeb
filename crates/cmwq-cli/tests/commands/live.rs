//! What goes on in a running process: traces, metrics, `top`.

use crate::common::{Served, serve};
use cmwq_control::Client;
use serde_json::Value;
use std::process::Stdio;
use std::time::Duration;

/// What it says, and the events of a trace that is interrupted when `items` have run after it began.
fn traced(served: &Served, items: usize) -> (String, Vec<Value>) {
    let name = served.dir.path().join("trace.json");
    let child = served
        .command(&["trace", "-p", "PID", "--seconds", "3600", "-o"])
        .arg(&name)
        .stdout(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut client = Client::connect_to(served.control.path()).expect("served");
    let mut own = 0;
    // It has begun to record, and read once, when it has asked for three things.
    let mut is_recording = || {
        served.queue.spawn(|| {}).join().expect("no panic");
        own += 1;
        client.hello().expect("an answer").endpoint.requests >= own + 3
    };
    while !is_recording() {}
    for _ in 0..items {
        // For so long this thread does not run it itself: a worker does.
        let mut item = served.queue.spawn(std::thread::yield_now);
        let ended = item.join_timeout(Duration::from_secs(60));
        ended.expect("a worker runs it").expect("no panic");
    }
    served.queue.flush().expect("not from an item");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success());
    let file = std::fs::read_to_string(&name).expect("written");
    let mut trace: Value = serde_json::from_str(&file).expect("JSON");
    let Value::Array(events) = trace["traceEvents"].take() else {
        panic!("no array: {file}");
    };
    (String::from_utf8_lossy(&output.stdout).into_owned(), events)
}

/// Not an empty file in place of what was recorded.
#[test]
fn a_trace_that_is_interrupted_has_what_was_recorded() {
    let (_, events) = traced(&serve(), 1);
    assert!(events.iter().any(|event| event["ph"] == "X"), "{events:?}");
}

#[test]
fn a_trace_has_runs_tracks_and_arrows() {
    let served = serve();
    let (said, events) = traced(&served, 20);
    assert!(said.contains(" events"), "{said}");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(count("X") >= 20 && count("s") > 0 && count("s") == count("f"));
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("kworker/u") && name.contains(": CPUs ")),
        "{names:?}"
    );
    // It is this process, by its number and name.
    let pid = u64::from(std::process::id());
    assert!(events.iter().all(|event| event["pid"] == pid), "{events:?}");
    let process = events.iter().find(|event| event["name"] == "process_name");
    let name = std::fs::read_to_string("/proc/self/comm").expect("readable");
    assert_eq!(process.expect("named")["args"]["name"], name.trim_end());
    // It ends by itself, too.
    let name = served.dir.path().join("short.json");
    let name = name.to_str().expect("text");
    let said = served.ok(&["trace", "-p", "PID", "--seconds", "0.1", "-o", name]);
    assert!(said.contains(" events"), "{said}");
    assert!(
        served
            .refused(&["trace", "-p", "PID", "--seconds", "0", "-o", name])
            .contains("must be")
    );
    assert!(
        served
            .failed(&["trace", "-p", "PID", "-o", "/nowhere/x"])
            .contains("/nowhere/x")
    );
}

#[test]
fn metrics_are_open_metrics() {
    let served = serve();
    let text = served.ok(&["metrics", "-p", "PID"]);
    assert!(
        text.contains("queue=\"io\"") && text.ends_with("# EOF\n"),
        "{text}"
    );
}

#[test]
fn top_needs_a_terminal_or_draws_a_picture() {
    let served = serve();
    assert!(
        served
            .failed(&["top", "-p", "PID"])
            .contains("needs a terminal")
    );
    let file = served.dir.path().join("top.svg");
    let name = file.to_str().expect("text");
    served.ok(&["top", "-p", "PID", "--interval", "0.1", "--snapshot", name]);
    let picture = std::fs::read_to_string(&file).expect("written");
    let nowhere = served.failed(&[
        "top",
        "-p",
        "PID",
        "--interval",
        "3600",
        "--snapshot",
        "/nowhere/x",
    ]);
    assert!(nowhere.contains("--snapshot /nowhere/x"), "{nowhere}");
    assert!(picture.starts_with("<svg") && picture.contains(&std::process::id().to_string()));
    assert!(
        served
            .refused(&["top", "--interval", "0"])
            .contains("must be")
    );
}
