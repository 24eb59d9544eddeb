//! The commands that inspect a running process: this one, which serves while they run.

use crate::common::{cmwq, failed, refused, said, serve};
use cmwq::observe::{LiveQueue, Setting};
use cmwq::{Completion, ConcurrencyGroup, Engine};
use serde_json::Value;
use std::sync::Arc;

/// Lines of JSON.
fn values(text: &str) -> Vec<Value> {
    let value = |line| serde_json::from_str(line).expect("JSON");
    text.lines().map(value).collect()
}

#[test]
fn list_shows_this_process_and_p_finds_it_by_number_and_name() {
    let served = serve();
    let pid = std::process::id().to_string();
    let list = served.ok(&["list"]);
    let line = list
        .lines()
        .find(|line| line.contains(&pid))
        .expect("its line");
    assert!(list.starts_with("     PID NAME"), "{list}");
    let json = values(&served.ok(&["list", "--format", "json"]));
    let own = json.iter().find(|own| own["pid"] == std::process::id());
    let name = own.expect("it is there")["name"].as_str().expect("a name");
    assert!(line.contains(name), "{line}");
    served.ok(&["busy", "-p", &pid]);
    served.ok(&["busy", "-p", name]);
    for nobody in ["4194304", "no such name"] {
        assert!(served.failed(&["busy", "-p", nobody]).contains("ENOENT"));
    }
    let nowhere = tempfile::tempdir().expect("a folder");
    // Root also sees other users' processes; none of them has that name either.
    let mut command = cmwq(&["dump", "-p", "no such name"]);
    assert!(failed(command.env("XDG_RUNTIME_DIR", nowhere.path())).contains("cmwq list"));
}

#[test]
fn dump_has_the_kernels_sections_and_the_maps_fit() {
    let served = serve();
    let _bound = served
        .engine
        .workqueue("bound")
        .per_cpu()
        .build()
        .expect("a queue");
    let _in_turn = served
        .engine
        .workqueue("in_turn")
        .ordered()
        .build()
        .expect("a queue");
    let dump = served.ok(&["dump", "-p", "PID"]);
    for section in [
        "Affinity Scopes\n===============\nwq_unbound_cpumask=0000000f\n",
        "CACHE_SHARD (default)\n  nr_pods  2\n  pod_cpus [0]=00000003 [1]=0000000c\n  pod_node [0]=0 [1]=0\n  cpu_pod  [0]=0 [1]=0 [2]=1 [3]=1\n",
        "Worker Pools\n============\n",
        "Workqueue CPU -> pool\n",
        "Workqueue -> rescuer\n",
        "Unbound workqueue -> node_nr/max_active\n",
        "Workqueue -> waits and runs of a sample of its items\n",
    ] {
        assert!(dump.contains(section), "{section}\n{dump}");
    }
    let line = |name: &str| {
        let mut lines = dump.lines().filter(|line| line.starts_with(name));
        lines
            .next()
            .unwrap_or_else(|| panic!("no {name} in {dump}"))
    };
    let words = |name: &str| -> Vec<&str> { line(name).split_whitespace().collect() };
    let (io, bound, in_turn) = (words("io "), words("bound "), words("in_turn "));
    assert_eq!(
        (io[1], bound[1], in_turn[1]),
        ("unbound", "percpu", "ordered")
    );
    assert_eq!(
        (io.len(), bound.len()),
        (2 + 4 + 1, 2 + 4),
        "a pool for each CPU, and the default one"
    );
    assert!(io[2] == io[3] && io[4] == io[5] && io[2] != io[4], "{io:?}");
    assert!(
        in_turn[2..].iter().all(|pool| *pool == in_turn[2]),
        "{in_turn:?}"
    );
    assert!(dump.contains("wq_cpumask=0000000f rescuer_tid="), "{dump}");

    // The flags: of a CPU's own pool none, of a pod's that it is no single CPU's.
    let pools: Vec<&str> = dump
        .lines()
        .filter(|line| line.starts_with("pool["))
        .collect();
    let flagged = |cpus: &str, flags: &str| {
        let of_kind = pools.iter().filter(|line| line.contains(cpus));
        of_kind.clone().count() > 0 && of_kind.clone().all(|line| line.contains(flags))
    };
    assert!(flagged(" cpu=", "] flags=0x0 ref= 1 "), "{dump}");
    assert!(
        flagged(" pod_cpus=00000003", "] flags=0x4 ref= 1 "),
        "{dump}"
    );

    served.ok(&["set", "-p", "PID", "io", "affinity_strict", "1"]);
    let strict = served.ok(&["dump", "-p", "PID"]);
    assert!(
        strict.contains("unbound,S") && strict.contains("pod_cpus=00000003 strict"),
        "{strict}"
    );
    let json: Value =
        serde_json::from_str(&served.ok(&["dump", "-p", "PID", "--format", "json"])).expect("JSON");
    assert_eq!(
        json["engines"][0]["queues"].as_array().map(Vec::len),
        Some(3)
    );
}

#[test]
fn at_ns_of_a_monitor_is_the_time_since_the_machine_started() {
    let served = serve();
    let now = || rustix::time::clock_gettime(rustix::time::ClockId::Monotonic).tv_sec as f64;
    let before = now();
    let json = served.ok(&["monitor", "-p", "PID", "-i", "0", "--format", "json", "io"]);
    let line: Value = serde_json::from_str(&json).expect("one line");
    let at = line["at_ns"].as_u64().expect("a whole number") as f64 / 1e9;
    assert!((before..=now() + 1.0).contains(&at), "{at}");
    let help = served.ok(&["monitor", "--help"]);
    assert!(help.contains("at_ns, the time in nanoseconds"), "{help}");
}

#[test]
fn monitor_has_the_kernels_columns() {
    let served = serve();
    let _bound = served
        .engine
        .workqueue("bound")
        .per_cpu()
        .build()
        .expect("a queue");
    for _ in 0..10 {
        served.queue.spawn(|| {}).join().expect("no panic");
    }
    served.queue.flush().expect("not from an item");
    let table = served.ok(&["monitor", "-p", "PID", "--interval", "0"]);
    let head: Vec<&str> = table
        .lines()
        .next()
        .expect("a head")
        .split_whitespace()
        .collect();
    assert_eq!(
        head[..7],
        [
            "total", "infl", "CPUtime", "CPUitsv", "CMW/RPR", "mayday", "rescued"
        ]
    );
    let head = table.lines().next().expect("a head");
    assert!(head.contains(" wait p99 wait now "), "{head}");
    assert!(head.contains(" run p99  run now "), "{head}");
    let words = |name: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.starts_with(name));
        line.expect("its line").split_whitespace().collect()
    };
    let (io, bound) = (words("io"), words("bound"));
    assert_eq!(io[1..3], ["10", "0"]);
    // The rescuer is called where a new worker takes long to come.
    let is_number = |text: &str| text.parse::<u64>().is_ok();
    assert!(
        [io[4], io[6], io[7]].into_iter().all(is_number),
        "unbound, with a rescuer: {io:?}"
    );
    assert_eq!(
        (bound[4], bound[6], bound[7]),
        ("0", "-", "-"),
        "per-CPU, without one"
    );
    let some = served.ok(&["monitor", "-p", "PID", "-i", "0", "^bo", "nothing"]);
    assert!(some.contains("bound") && !some.contains("io "), "{some}");
    let json = served.ok(&["monitor", "-p", "PID", "-i", "0", "--format", "json", "io"]);
    let line: Value = serde_json::from_str(json.trim_end()).expect("one line of JSON");
    assert_eq!(
        (&line["started"], &line["kind"], line["rescuer"].is_array()),
        (&10.into(), &"unbound".into(), true)
    );
    assert_eq!(io[4], line["cpu_intensive"].to_string());
    let dump: Value =
        serde_json::from_str(&served.ok(&["dump", "-p", "PID", "--format", "json"])).expect("JSON");
    let queues = dump["engines"][0]["queues"].as_array().expect("a list");
    let io = queues.iter().find(|queue| queue["key"] == "io");
    let io = io.expect("its object");
    for name in line.as_object().expect("an object").keys() {
        let is_there = name == "at_ns" || io.get(name).is_some();
        assert!(is_there, "dump has no {name}: {io}");
    }
    for bad in [["-i", "-1"], ["-i", "x"]] {
        assert!(
            served
                .refused(&[&["monitor"], &bad[..]].concat())
                .contains("must be")
        );
    }
    assert!(
        served
            .refused(&["monitor", "a("])
            .contains("not a regular expression")
    );
}

#[test]
fn get_and_set_are_the_kernels_files() {
    let served = serve();
    let get = |attribute: &str| served.ok(&["get", "-p", "PID", "io", attribute]);
    assert_eq!(get("affinity_scope"), "default (cache_shard)\n");
    let line = served.refused(&["set", "-p", "PID", "io", "max_waiting", "8"]);
    let hint = "; only a workqueue that was built with a max_waiting has it";
    assert!(
        line.contains("has no attribute") && line.contains(hint),
        "{line}"
    );
    assert_eq!(
        served.ok(&["set", "-p", "PID", "io", "affinity_scope", "cache"]),
        ""
    );
    assert_eq!(get("affinity_scope"), "cache\n");
    served.ok(&["set", "-p", "PID", "io", "nice", "-5"]);
    assert_eq!(get("nice"), "-5\n");
    let all = served.ok(&["get", "-p", "PID", "io"]);
    for line in [
        "affinity_scope=cache",
        "affinity_strict=0",
        "cpumask=f",
        "max_active=1024",
        "nice=-5",
        "per_cpu=0",
    ] {
        assert!(all.lines().any(|shown| shown == line), "{line}: {all}");
    }
    for (attribute, value, errno) in [
        ("affinity_scope", "Cache", "EINVAL"),
        ("max_active", "0", "EINVAL"),
        ("nice", "20", "EINVAL"),
        ("per_cpu", "1", "EACCES"),
        ("none", "1", "ENOENT"),
    ] {
        let line = served.refused(&["set", "-p", "PID", "io", attribute, value]);
        assert!(line.contains(errno), "{line}");
    }
    assert!(
        served
            .refused(&["get", "-p", "PID", "other", "nice"])
            .contains("there are: io")
    );
    assert_eq!(
        served.ok(&["param", "-p", "PID", "watchdog_thresh"]),
        "30\n"
    );
    assert_eq!(served.ok(&["param", "-p", "PID", "watchdog_thresh=60"]), "");
    assert!(
        served
            .ok(&["param", "-p", "PID"])
            .contains("watchdog_thresh=60\n")
    );
    assert!(
        served
            .refused(&["param", "-p", "PID", "cache_shard_size=4"])
            .contains("EACCES")
    );
}

/// A line in one of the library's tables is enough for all of these.
#[test]
fn every_attribute_and_parameter_of_the_tables_is_in_the_endpoint_the_commands_and_their_help() {
    let served = serve();
    let group = ConcurrencyGroup::new("both", 4);
    let builder = served.engine.workqueue("all").group(&group);
    let _queue = builder.max_waiting(8).build();
    let live = served.engine.live_queues();
    let live = live
        .iter()
        .find(|queue| queue.name() == "all")
        .expect("there");
    let shown = served.ok(&["get", "-p", "PID", "all"]);
    let mounted = served.ok(&["dump", "-p", "PID", "--format", "json"]);
    // However it was wrapped.
    let words = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let helps = ["get", "set", "param"].map(|name| words(served.ok(&[name, "--help"])));
    for Setting {
        name,
        help,
        writable,
        ..
    } in LiveQueue::attribute_settings()
    {
        let value = live.attribute(name).expect("it has all");
        assert!(
            shown.contains(&format!("{name}={value}\n")),
            "{name}: {shown}"
        );
        let key = format!("\"{name}\"");
        assert!(mounted.contains(&key), "{name} in the endpoint's state");
        assert!(
            helps[0].contains(&format!("{name} {help}")),
            "{name}: {}",
            helps[0]
        );
        let in_set = helps[1].contains(&format!("{name} {help}"));
        assert_eq!(in_set, writable, "{name}: {}", helps[1]);
    }
    let shown = served.ok(&["param", "-p", "PID"]);
    for Setting {
        name,
        help,
        variable,
        ..
    } in Engine::parameter_settings()
    {
        // How often the process was throttled, and paused, changes while it runs.
        let value = match name {
            "cpu_quota" | "cpu_quota_pauses" => String::new(),
            _ => served.engine.parameter(name).expect("there"),
        };
        assert!(
            shown.contains(&format!("{name}={value}")),
            "{name}: {shown}"
        );
        let help = format!(
            "{help}{}",
            variable.map_or(String::new(), |name| format!(" [{name}]"))
        );
        assert!(helps[2].contains(&help), "{name}: {}", helps[2]);
    }
}

/// On a narrow terminal too, what a setting means does not look like the name of another one.
#[test]
fn a_list_of_settings_in_a_help_has_names_at_its_margin_only() {
    let named = |settings: Vec<Setting>| settings.into_iter().map(|setting| setting.name);
    let attributes: Vec<&str> = named(LiveQueue::attribute_settings()).collect();
    let parameters: Vec<&str> = named(Engine::parameter_settings()).collect();
    for (command, title, names) in [
        ("get", "Attributes:", &attributes),
        ("param", "Parameters", &parameters),
    ] {
        for columns in ["60", "100"] {
            let help = said(cmwq(&[command, "--help"]).env("COLUMNS", columns));
            let (_, list) = help.split_once(&format!("\n{title}")).expect("a list");
            let at_margin = list.lines().filter_map(|line| line.strip_prefix("  "));
            let at_margin = at_margin.filter(|line| !line.starts_with(' '));
            assert_eq!(&at_margin.collect::<Vec<_>>(), names, "{list}");
        }
    }
}

/// Completes when it is dropped: an assertion that fails leaves no queue waiting for its items.
struct Ends(Arc<Completion>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.complete();
    }
}

#[test]
fn busy_names_what_runs() {
    let served = serve();
    let (begun, end) = (Arc::new(Completion::new()), Ends(Arc::default()));
    let (running, ended) = (begun.clone(), end.0.clone());
    let held = move || {
        cmwq::observe::set_worker_desc("held");
        running.complete();
        ended.wait();
    };
    let handle = served.queue.spawn(held.clone());
    begun.wait();
    let text = served.ok(&["busy", "-p", "PID"]);
    assert!(
        text.contains("workqueue io: unbound mem_reclaim")
            && text.contains("in-flight:")
            && text.contains(" (held) for "),
        "{text}"
    );
    // 6: the rescuer runs it, and a worker is still being created.
    let flags = [" flags=0x4 ", " flags=0x6 "];
    assert!(
        flags.iter().any(|flags| text.contains(flags)) && text.contains("in_flight=1 refcnt=2\n"),
        "{text}"
    );
    // The thread, and where it is: the system decides how much of that it shows.
    let (_, threads) = text
        .split_once("busy threads of pool ")
        .expect("its threads");
    // Where a new worker takes long to come, the rescuer's.
    assert!(threads.contains(" kworker/"), "{text}");
    assert!(
        threads.contains("    [<") || threads.contains("    in system call "),
        "{text}"
    );
    let none = served.ok(&["busy", "-p", "PID", "--freezable"]);
    assert_eq!(none, "Showing freezable workqueues that are still busy:\n");
    let freezable = served
        .engine
        .workqueue("stops\u{1b}[2J")
        .freezable()
        .build()
        .expect("a queue");
    // If this test fails, before the queue, whose end waits for its item.
    let end = end;
    let begun_too = Arc::new(Completion::new());
    let (running, ended) = (begun_too.clone(), end.0.clone());
    let stops = freezable.spawn(move || {
        running.complete();
        ended.wait();
    });
    begun_too.wait();
    let text = served.ok(&["busy", "-p", "PID", "--freezable"]);
    assert!(
        text.contains(r"workqueue stops\u{1b}[2J: unbound freezable")
            && !text.contains("workqueue io"),
        "{text}"
    );
    let json = served.ok(&["busy", "-p", "PID", "--freezable", "--format", "json"]);
    let json = values(&json);
    let pool = ["pool", "hung_ns", "manager"];
    assert!(pool.iter().all(|&key| json[0].get(key).is_some()));
    assert_eq!(json.len(), 1);
    let queue = json[0]["run"]["queue"].as_str().expect("a key");
    assert!(queue.starts_with("stops[2J#"), "{queue}");
    let json = values(&served.ok(&["busy", "-p", "PID", "--format", "json"]));
    let io = json.iter().find(|own| own["run"]["queue"] == "io");
    let io = io.expect("its run");
    assert_eq!(io["run"]["description"], "held");
    let thread = &io["thread"];
    assert!(
        thread["name"]
            .as_str()
            .is_some_and(|name| name.starts_with("kworker/"))
            && matches!(thread["state"].as_str(), Some("S" | "R" | "D"))
            && thread["stack"].is_array(),
        "{thread}"
    );
    drop(end);
    stops.join().expect("no panic");
    handle.join().expect("no panic");
}

#[test]
fn every_command_has_an_example_and_refuses_what_it_does_not_know() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = |args: &[&str]| {
        let mut command = cmwq(args);
        command
            .env("XDG_RUNTIME_DIR", dir.path())
            .env("COLUMNS", "100");
        command
    };
    let commands = [
        "topology",
        "bench",
        "list",
        "dump",
        "monitor",
        "busy",
        "get",
        "set",
        "param",
        "top",
        "mount",
        "metrics",
        "trace",
        "completions",
        "man",
    ];
    let main = said(&mut run(&["--help"]));
    assert!(main.contains("Examples:\n  cmwq "), "{main}");
    for name in commands {
        assert!(main.contains(&format!("\n  {name} ")), "{name} in {main}");
        let help = said(&mut run(&[name, "--help"]));
        let example = help.split("Examples:\n").nth(1).expect("examples");
        assert!(example.contains(&format!("cmwq {name}")), "{name}: {help}");
        refused(&mut run(&[name, "--nosuch"]));
        if help.contains("--format") {
            let line = refused(&mut run(&[name, "--format", "yaml"]));
            assert!(line.contains("yaml") && line.contains("json"), "{line}");
        }
    }
    let served = serve();
    // What is refused leaves the file as it was, or not there.
    let file = dir.path().join("trace.json");
    let name = file.to_str().expect("text");
    let refuse = || {
        served.refused(&["trace", "-p", "PID", "-o", name, "--events", "999999999999"]);
    };
    refuse();
    assert!(!file.exists());
    std::fs::write(&file, "precious").expect("writable");
    refuse();
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "precious");
    for bad in ["0", "262145", "-1", "x", ""] {
        let line = served.refused(&["trace", "-p", "PID", "-o", "-", "--events", bad]);
        let named = format!("'{bad}' for '--events <N>': it must be a whole number from 1 to");
        assert!(line.contains(&named), "{line}");
    }
    for bad in [["--seconds", "0"], ["--seconds", "nan"]] {
        let line = served.refused(&[&["trace", "-p", "PID", "-o", "-"], &bad[..]].concat());
        assert!(line.contains(bad[0]), "{line}");
    }
}
