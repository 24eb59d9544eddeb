//! What goes on in a running process: traces, metrics, `top`.

use crate::common::serve;
use cmwq_control::Client;
use serde_json::Value;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Not an empty file in place of what was recorded.
#[test]
fn a_trace_that_is_interrupted_has_what_was_recorded() {
    let served = serve();
    let name = served.dir.path().join("trace.json");
    let mut child = served
        .command(&["trace", "-p", "PID", "--seconds", "3600", "-o"])
        .arg(&name)
        .spawn()
        .expect("it runs");
    let mut client = Client::connect_to(served.control.path()).expect("served");
    let mut own = 0;
    // It has begun to record, and read once, when it has asked for two things.
    let mut is_recording = || {
        served.queue.spawn(|| {}).join().expect("no panic");
        own += 1;
        client.hello().expect("an answer").endpoint.requests >= own + 2
    };
    while !is_recording() {}
    served.queue.spawn(|| {}).join().expect("no panic");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it runs");
    assert!(child.wait().expect("it ends").success());
    let file = std::fs::read_to_string(&name).expect("written");
    let trace: Value = serde_json::from_str(&file).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("an array");
    assert!(events.iter().any(|event| event["ph"] == "X"), "{file}");
}

#[test]
fn a_trace_of_a_second_has_runs_tracks_and_arrows() {
    let served = serve();
    let file = served.dir.path().join("trace.json");
    let name = file.to_str().expect("text");
    let stop = AtomicBool::new(false);
    let said = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // For so long this thread does not run it itself: a worker does.
                let mut item = served.queue.spawn(std::thread::yield_now);
                let ended = item.join_timeout(Duration::from_secs(60));
                ended.expect("a worker runs it").expect("no panic");
                std::thread::yield_now();
            }
        });
        let said = served.ok(&["trace", "-p", "PID", "--seconds", "0.3", "-o", name]);
        stop.store(true, Ordering::Relaxed);
        said
    });
    assert!(said.contains(" events"), "{said}");
    let file = std::fs::read_to_string(&file).expect("written");
    let trace: Value = serde_json::from_str(&file).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("an array");
    let count = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert!(count("X") > 10 && count("s") > 0 && count("s") == count("f"));
    let names: Vec<&str> = events
        .iter()
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("pool ") && name.contains("CPUs")),
        "{names:?}"
    );
    assert!(
        names.iter().any(|name| name.starts_with("kworker/u")),
        "{names:?}"
    );
    assert!(
        served
            .refused(&["trace", "-p", "PID", "--seconds", "0", "-o", name])
            .contains("must be")
    );
    assert!(
        served
            .refused(&["trace", "-p", "PID", "-o", "/nowhere/x"])
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
            .refused(&["top", "-p", "PID"])
            .contains("needs a terminal")
    );
    let file = served.dir.path().join("top.svg");
    let name = file.to_str().expect("text");
    served.ok(&["top", "-p", "PID", "--interval", "0.1", "--snapshot", name]);
    let picture = std::fs::read_to_string(&file).expect("written");
    let nowhere = served.refused(&[
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
