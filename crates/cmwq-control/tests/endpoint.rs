//! What the endpoint answers, and where it is.

mod common;

use cmwq::affinity::AffinityScope;
use cmwq::topology::Topology;
use cmwq::{Completion, Engine};
use cmwq_control::{Client, ControlBuilder, serve_if_asked};
use common::Endpoint;
use serde_json::{Value, json};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::Arc;

fn engine() -> Engine {
    let topology = Topology::from_synthetic("l3:2 core:2 pu:1").expect("valid");
    Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine")
}

#[test]
fn the_socket_is_its_users_alone_and_goes_with_the_guard() {
    let endpoint = Endpoint::new();
    let path = endpoint.control.path().to_owned();
    let socket = std::fs::symlink_metadata(&path).expect("it is there");
    assert_eq!(socket.mode() & 0o777, 0o600);
    let dir = std::fs::symlink_metadata(path.parent().expect("a folder")).expect("there");
    assert_eq!(dir.mode() & 0o777, 0o700);
    let again = ControlBuilder::new().dir(endpoint.dir.path()).serve();
    assert_eq!(again.expect_err("one a process").errno, "EBUSY");
    let hello = endpoint.client().hello().expect("an answer");
    assert_eq!((hello.pid, hello.protocol), (std::process::id(), 1));
    drop(endpoint);
    assert!(!path.exists());
}

#[test]
fn sockets_of_dead_processes_are_removed_and_those_of_living_ones_are_not() {
    let _turn = common::turn();
    let dir = tempfile::tempdir().expect("a folder");
    let own = dir.path().join("cmwq");
    std::fs::create_dir(&own).expect("made");
    std::fs::set_permissions(&own, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let dead = own.join("111.sock");
    drop(UnixListener::bind(&dead).expect("bound"));
    let alive = own.join("222.sock");
    let listener = UnixListener::bind(&alive).expect("bound");
    // Left behind by a process with the same pid.
    drop(UnixListener::bind(own.join(format!("{}.sock", std::process::id()))).expect("bound"));
    let control = ControlBuilder::new().dir(&own).serve().expect("it serves");
    assert!(!dead.exists() && alive.exists());
    assert!(
        Client::connect_to(control.path())
            .expect("it listens")
            .hello()
            .is_ok()
    );
    drop(listener);
}

#[test]
fn a_folder_that_others_can_enter_or_that_is_none_is_not_used() {
    let _turn = common::turn();
    let dir = tempfile::tempdir().expect("a folder");
    let open = dir.path().join("open");
    std::fs::create_dir(&open).expect("made");
    std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o755)).expect("ours");
    let closed = dir.path().join("closed");
    std::fs::create_dir(&closed).expect("made");
    std::fs::set_permissions(&closed, std::fs::Permissions::from_mode(0o700)).expect("ours");
    let link = dir.path().join("link");
    std::os::unix::fs::symlink(&closed, &link).expect("made");
    for (folder, part) in [(open, "0700"), (link, "not a folder")] {
        let error = ControlBuilder::new()
            .dir(&folder)
            .serve()
            .expect_err("not safe");
        assert_eq!(error.errno, "EPERM");
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn the_environment_asks_or_does_not() {
    // A process of its own: the environment is the process's.
    if std::env::var_os("ASKED_TEST_CHILD").is_some() {
        match serve_if_asked() {
            Ok(control) => println!("serves: {}", control.is_some()),
            Err(error) => println!("error: {error}"),
        }
        return;
    }
    let _turn = common::turn();
    let dir = tempfile::tempdir().expect("a folder");
    let said = |control: Option<&str>, http: Option<&str>| {
        let mut child = Command::new(std::env::current_exe().expect("this program"));
        child
            .args(["--exact", "the_environment_asks_or_does_not", "--nocapture"])
            .env("ASKED_TEST_CHILD", "1")
            .env("XDG_RUNTIME_DIR", dir.path())
            .env_remove("CMWQ_CONTROL")
            .env_remove("CMWQ_CONTROL_HTTP")
            .stdin(Stdio::null());
        control.map(|value| child.env("CMWQ_CONTROL", value));
        http.map(|value| child.env("CMWQ_CONTROL_HTTP", value));
        let output = child.output().expect("it ran");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(said(None, None).contains("serves: false"));
    assert!(said(Some("0"), None).contains("serves: false"));
    assert!(said(Some("1"), None).contains("serves: true"));
    assert!(said(Some("1"), Some("127.0.0.1:0")).contains("serves: true"));
    let wrong = said(Some("yes"), None);
    assert!(
        wrong.contains("CMWQ_CONTROL is 'yes'; allowed: 0, 1"),
        "{wrong}"
    );
    for address in ["9464", "0.0.0.0:0", "localhost"] {
        let wrong = said(Some("1"), Some(address));
        assert!(
            wrong.contains("error: ") && wrong.contains("127.0.0.1:9464"),
            "{wrong}"
        );
    }
}

#[test]
fn a_client_sees_the_queues_reads_and_changes_them() {
    let endpoint = Endpoint::new();
    let mut client = endpoint.client();
    let engine = engine();
    let wq = engine.workqueue("io").build().expect("a queue");
    let state = client.state().expect("an answer");
    let own = state
        .engines
        .iter()
        .find(|own| own.serial == engine.serial())
        .expect("all engines are there");
    assert_eq!(own.queues.len(), 1);
    assert_eq!(own.queues[0].key, "io");
    assert_eq!(own.cpus, "0-3");
    assert_eq!(own.scopes.len(), AffinityScope::CONCRETE.len());

    assert_eq!(
        client.get("io", "affinity_scope").expect("there"),
        "default (cache_shard)"
    );
    client
        .set("io", "affinity_scope", "numa\n")
        .expect("a scope");
    assert_eq!(client.get("io", "affinity_scope").expect("there"), "numa");
    assert_eq!(wq.attrs().affinity_scope.name(), "numa");
    for (attribute, value, errno) in [
        ("affinity_scope", "Cache", "EINVAL"),
        ("per_cpu", "1", "EACCES"),
        ("no_such", "1", "ENOENT"),
    ] {
        let error = client.set("io", attribute, value).expect_err("refused");
        assert_eq!(error.errno, errno, "{error}");
    }
    let all = client.call("get", json!({ "queue": "io" })).expect("all");
    assert_eq!(all["values"]["per_cpu"], "0");
    assert_eq!(all["writable"].as_array().map(Vec::len), Some(5));

    let second = engine.workqueue("io").build().expect("another of the name");
    let error = client.get("io", "nice").expect_err("which?");
    assert_eq!(error.errno, "EINVAL");
    let keys = client.call("queues", Value::Null).expect("keys");
    let keys: Vec<String> = serde_json::from_value(keys).expect("texts");
    assert!(
        keys.len() == 2 && keys.iter().all(|key| key.starts_with("io#")),
        "{keys:?}"
    );
    assert!(
        error.message.contains(&keys[0]) && error.message.contains(&keys[1]),
        "{error}"
    );
    client
        .set(&keys[1], "nice", "7")
        .expect("named by its number");
    assert_eq!((wq.attrs().nice, second.attrs().nice), (0, 7));
    assert_eq!(
        client.get("none", "nice").expect_err("none").errno,
        "ENOENT"
    );
}

#[test]
fn a_name_that_one_queue_has_will_do_even_if_it_would_not_do_for_a_folder() {
    let endpoint = Endpoint::new();
    let engine = engine();
    let _disk = engine.workqueue("kcryptd/disk").build().expect("a queue");
    let mut client = endpoint.client();
    assert_eq!(client.get("kcryptd/disk", "affinity_strict").unwrap(), "0");
    let _other = engine.workqueue("kcryptd/disk").build().expect("a queue");
    let both = client.get("kcryptd/disk", "affinity_strict");
    let both = both.expect_err("there are two").to_string();
    assert!(both.contains("several"), "{both}");
}

#[test]
fn parameters_are_an_engines() {
    let endpoint = Endpoint::new();
    let mut client = endpoint.client();
    assert_eq!(
        client
            .parameter(None, "watchdog_thresh")
            .expect_err("no engine")
            .errno,
        "ENODEV"
    );
    let one = engine();
    assert_eq!(
        client.parameter(None, "watchdog_thresh").expect("there"),
        "30"
    );
    let other = engine();
    // Unless one is named, all are written, and the first is read.
    client
        .set_parameter(None, "watchdog_thresh", "7")
        .expect("seconds");
    for serial in [None, Some(one.serial()), Some(other.serial())] {
        let now = client.parameter(serial, "watchdog_thresh");
        assert_eq!(now.expect("there"), "7");
    }
    client
        .set_parameter(Some(other.serial()), "default_affinity_scope", "smt")
        .expect("a scope");
    assert_eq!(other.default_affinity_scope().name(), "smt");
    assert_eq!(one.default_affinity_scope().name(), "cache_shard");
    let error = client.set_parameter(Some(one.serial()), "watchdog_thresh", "x");
    assert_eq!(error.expect_err("no number").errno, "EINVAL");
}

#[test]
fn a_parameter_that_one_engine_refuses_is_changed_in_none() {
    let endpoint = Endpoint::new();
    let mut client = endpoint.client();
    let one = engine();
    let small = Topology::from_synthetic("l3:1 core:1 pu:1").expect("a valid description");
    let small = Engine::builder()
        .topology(small)
        .build()
        .expect("an engine");
    let error = client
        .set_parameter(None, "cpumask", "2")
        .expect_err("one has no such CPU");
    let who = format!("cpumask of engine {}: none of the CPUs", small.serial());
    assert!(
        error.errno == "EINVAL" && error.message.starts_with(&who),
        "{error}"
    );
    assert_eq!(one.parameter("cpumask").as_deref(), Ok("f"));
    client
        .set_parameter(None, "cpumask", "1")
        .expect("both have it");
    assert_eq!(one.parameter("cpumask").as_deref(), Ok("1"));
}

#[test]
fn what_runs_is_shown_with_its_queue() {
    let endpoint = Endpoint::new();
    let engine = engine();
    let wq = engine.workqueue("long").build().expect("a queue");
    let (begun, end) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    let (running, ended) = (begun.clone(), end.clone());
    let handle = wq.spawn(move || {
        running.complete();
        ended.wait();
    });
    begun.wait();
    let mut client = endpoint.client();
    let busy = client.busy().expect("a dump");
    assert!(
        busy.contains("workqueue long: unbound") && busy.contains("in-flight:"),
        "{busy}"
    );
    let state = client.state().expect("an answer");
    let runs: Vec<_> = state
        .engines
        .iter()
        .flat_map(|engine| &engine.pools)
        .flat_map(|pool| &pool.runs)
        .collect();
    assert_eq!(runs.len(), 1);
    assert_eq!(runs[0].queue, "long");
    end.complete();
    handle.join().expect("no panic");
}

#[test]
fn a_trace_ends_with_its_connection() {
    let endpoint = Endpoint::new();
    let engine = engine();
    let wq = engine.workqueue("traced").build().expect("a queue");
    let mut client = endpoint.client();
    client.trace_start(1000).expect("none is going on");
    let busy = endpoint
        .client()
        .trace_start(1000)
        .expect_err("one at a time");
    assert_eq!(busy.errno, "EBUSY");
    assert_eq!(client.trace_start(0).expect_err("no room").errno, "EINVAL");
    wq.spawn(|| {}).join().expect("no panic");
    wq.flush().expect("not from an item");
    let chunk = client.trace_read().expect("a part");
    let kinds: Vec<u8> = chunk
        .threads
        .iter()
        .flat_map(|thread| &thread.events)
        .map(|event| event.1)
        .collect();
    for kind in 0..4 {
        assert!(kinds.contains(&kind), "{kinds:?}");
    }
    assert!(chunk.queues.values().any(|name| name == "traced"));
    drop(client);
    // It has to be noticed first.
    let mut other = endpoint.client();
    while let Err(error) = other.trace_start(10) {
        assert_eq!(error.errno, "EBUSY");
    }
    other.trace_stop().expect("ours");
}

/// promtool reads the format before OpenMetrics: there the descriptions of a counter have its
/// samples' name too.
fn in_the_older_format(text: &str) -> String {
    let counters: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let lines = text
        .lines()
        .filter(|line| !line.starts_with("# UNIT") && *line != "# EOF");
    let lines = lines.map(|line| {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some(what), Some(name), Some(rest)) if counters.contains(&name) => {
                format!("# {what} {name}_total {rest}\n")
            }
            _ => format!("{line}\n"),
        }
    });
    lines.collect()
}

fn http(address: std::net::SocketAddr, request: &str) -> String {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    // A client that sends more than is read may see the connection reset before the answer.
    match socket.read_to_string(&mut answer) {
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
        Ok(_) => assert!(!answer.is_empty()),
    }
    answer
}

#[test]
fn metrics_come_over_http_too_and_a_checker_finds_nothing_wrong() {
    let address = "127.0.0.1:0".parse().expect("an address");
    let endpoint = Endpoint::with(ControlBuilder::new().http(address));
    let engine = engine();
    let wq = engine
        .workqueue("with \"quotes\" and \\")
        .mem_reclaim()
        .max_waiting(8)
        .build()
        .expect("a queue");
    for _ in 0..200 {
        wq.spawn(|| {}).join().expect("no panic");
    }
    wq.flush().expect("not from an item");
    let text = endpoint.client().metrics().expect("metrics");
    assert!(text.ends_with("# EOF\n"), "{text}");
    let label = "{engine=\"ENGINE\",queue=\"with \\\"quotes\\\" and \\\\\"}";
    let label = label.replace("ENGINE", &engine.serial().to_string());
    for (name, value) in [
        ("cmwq_queue_items_started_total", "200"),
        ("cmwq_queue_items_completed_total", "200"),
        ("cmwq_queue_max_active_items", "1024"),
        ("cmwq_queue_max_waiting_items", "8"),
        ("cmwq_queue_waiting_items", "0"),
        ("cmwq_queue_refused_items_total", "0"),
    ] {
        assert!(
            text.contains(&format!("{name}{label} {value}\n")),
            "{name} in\n{text}"
        );
    }
    assert!(
        text.contains("# UNIT cmwq_queue_cpu_seconds seconds"),
        "{text}"
    );
    for name in ["enqueue", "wait", "run"] {
        let unbounded = format!("cmwq_queue_{name}_seconds_bucket{{le=\"+Inf\",");
        assert!(text.contains(&unbounded), "{text}");
    }
    // The first item of a queue is measured in any case.
    let unmeasured = format!("cmwq_queue_wait_seconds_count{label} 0\n");
    assert!(!text.contains(&unmeasured), "{text}");

    let address = endpoint.control.http().expect("asked for");
    let answer = http(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let with_query = http(address, "GET /metrics?x=1 HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        with_query.starts_with("HTTP/1.1 200 OK\r\n"),
        "{with_query}"
    );
    assert!(answer.contains("application/openmetrics-text") && answer.ends_with("# EOF\n"));
    assert!(http(address, "GET /other HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    let long = format!("GET /metrics HTTP/1.1\r\nX: {}", "y".repeat(20_000));
    let refused = http(address, &long);
    assert!(
        refused.is_empty() || refused.starts_with("HTTP/1.1 431"),
        "{refused}"
    );
    assert_eq!(
        endpoint
            .client()
            .hello()
            .expect("it answers")
            .endpoint
            .cut_off,
        1
    );

    let child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("skipped, because promtool is not there");
        return;
    };
    let mut input = child.stdin.take().expect("piped");
    input
        .write_all(in_the_older_format(&text).as_bytes())
        .expect("it reads");
    drop(input);
    let output = child.wait_with_output().expect("it ends");
    let said = String::from_utf8_lossy(&output.stderr).into_owned()
        + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{text}");
}

#[test]
fn requests_in_one_packet_are_answered_in_turn_and_the_last_before_the_end() {
    let endpoint = Endpoint::new();
    let mut socket = UnixStream::connect(endpoint.control.path()).expect("it listens");
    let requests: String = (0..5)
        .map(|id| format!("{{\"method\":\"hello\",\"id\":{id}}}\n"))
        .collect();
    socket.write_all(requests.as_bytes()).expect("sent");
    socket
        .shutdown(std::net::Shutdown::Write)
        .expect("half closed");
    let mut answers = String::new();
    socket
        .read_to_string(&mut answers)
        .expect("answers and an end");
    let ids: Vec<Value> = answers
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON")["id"].clone())
        .collect();
    assert_eq!(ids, (0..5).map(|id| json!(id)).collect::<Vec<_>>());
}
