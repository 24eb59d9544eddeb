//! The commands that look at a running process: this one, which serves while they run.

use cmwq::topology::Topology;
use cmwq::{Completion, Engine, Workqueue};
use cmwq_control::{Control, ControlBuilder};
use serde_json::Value;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// A process that serves has one endpoint: the tests take turns.
static TURN: Mutex<()> = Mutex::new(());

struct Served {
    dir: TempDir,
    engine: Engine,
    queue: Workqueue,
    _control: Control,
    _turn: MutexGuard<'static, ()>,
}

fn serve() -> Served {
    let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let dir = tempfile::tempdir().expect("a folder");
    let control = ControlBuilder::new()
        .dir(dir.path().join("cmwq"))
        .serve()
        .expect("it serves");
    let topology = Topology::from_synthetic("l3:2 core:2 pu:1").expect("valid");
    let engine = Engine::builder()
        .topology(topology)
        .build()
        .expect("an engine");
    let queue = engine
        .workqueue("io")
        .mem_reclaim()
        .build()
        .expect("a queue");
    Served {
        dir,
        engine,
        queue,
        _control: control,
        _turn: turn,
    }
}

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    let pid = std::process::id().to_string();
    let args = args
        .iter()
        .map(|arg| if *arg == "PID" { pid.as_str() } else { arg });
    command
        .args(args)
        .env("XDG_RUNTIME_DIR", dir)
        .env("COLUMNS", "100");
    command
}

impl Served {
    fn run(&self, args: &[&str]) -> Output {
        command(self.dir.path(), args).output().expect("it ran")
    }

    /// What a command prints that must succeed.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(
            output.status.success() && complaints.is_empty(),
            "{args:?}: {complaints}"
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// The one line of a command that must be refused.
    fn refused(&self, args: &[&str]) -> String {
        refused(self.run(args))
    }
}

fn refused(output: Output) -> String {
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty(), "{output:?}");
    let line = String::from_utf8(output.stderr).expect("text");
    assert_eq!(line.lines().count(), 1, "{line}");
    line
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
    let json: Value =
        serde_json::from_str(&served.ok(&["list", "--format", "json"])).expect("JSON");
    let own = json
        .as_array()
        .expect("a list")
        .iter()
        .find(|own| own["pid"] == std::process::id());
    let name = own.expect("it is there")["name"].as_str().expect("a name");
    assert!(line.contains(name), "{line}");
    served.ok(&["busy", "-p", &pid]);
    served.ok(&["busy", "-p", name]);
    for nobody in ["4194304", "no such name"] {
        assert!(served.refused(&["busy", "-p", nobody]).contains("ENOENT"));
    }
    let nowhere = tempfile::tempdir().expect("a folder");
    // Root would look at other users' too; nobody is called that there either.
    let output = command(nowhere.path(), &["dump", "-p", "no such name"]).output();
    assert!(refused(output.expect("it ran")).contains("cmwq list"));
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
        "Affinity Scopes\n===============\n",
        "CACHE_SHARD (default)\n  nr_pods  2\n  pod_cpus [0]=3 [1]=c\n  pod_node [0]=0 [1]=0\n  cpu_pod  [0]=0 [1]=0 [2]=1 [3]=1\n",
        "Worker Pools\n============\n",
        "Workqueue CPU -> pool\n",
        "Workqueue -> rescuer\n",
        "Unbound workqueue -> node_nr/max_active\n",
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
    assert!(dump.contains("wq_cpumask=f rescuer_tid="), "{dump}");

    served.ok(&["set", "-p", "PID", "io", "affinity_strict", "1"]);
    let strict = served.ok(&["dump", "-p", "PID"]);
    assert!(
        strict.contains("unbound,S") && strict.contains("pod_cpus=3 strict"),
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
    let words = |name: &str| -> Vec<&str> {
        let line = table.lines().find(|line| line.starts_with(name));
        line.expect("its line").split_whitespace().collect()
    };
    let (io, bound) = (words("io"), words("bound"));
    assert_eq!(io[1..3], ["10", "0"]);
    assert_eq!(
        (io[4], io[6], io[7]),
        ("-", "0", "0"),
        "unbound, with a rescuer"
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
        (&line["started"], &line["unbound"], &line["mem_reclaim"]),
        (&10.into(), &true.into(), &true.into())
    );
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
    assert_eq!(
        served.ok(&["set", "-p", "PID", "io", "affinity_scope", "cache"]),
        ""
    );
    assert_eq!(get("affinity_scope"), "cache\n");
    served.ok(&["set", "-p", "PID", "io", "nice", "-5"]);
    assert_eq!(get("nice"), "-5\n");
    assert_eq!(
        served.ok(&["get", "-p", "PID", "io"]),
        "affinity_scope=cache\naffinity_strict=0\ncpumask=f\nmax_active=1024\nnice=-5\nper_cpu=0\n"
    );
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

#[test]
fn busy_names_what_runs() {
    let served = serve();
    let (begun, end) = (Arc::new(Completion::new()), Arc::new(Completion::new()));
    let (running, ended) = (begun.clone(), end.clone());
    let handle = served.queue.spawn(move || {
        running.complete();
        ended.wait();
    });
    begun.wait();
    let text = served.ok(&["busy", "-p", "PID"]);
    assert!(
        text.contains("workqueue io: unbound mem_reclaim") && text.contains("in-flight:"),
        "{text}"
    );
    let json: Value =
        serde_json::from_str(&served.ok(&["busy", "-p", "PID", "--format", "json"])).expect("JSON");
    assert_eq!(json[0]["run"]["queue"], "io");
    end.complete();
    handle.join().expect("no panic");
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
                served
                    .queue
                    .spawn(std::thread::yield_now)
                    .join()
                    .expect("no panic");
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
    assert!(picture.starts_with("<svg") && picture.contains(&std::process::id().to_string()));
    assert!(
        served
            .refused(&["top", "--interval", "0"])
            .contains("must be")
    );
}

/// Ends a program that runs on.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.0);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.0.wait();
    }
}

/// Under a pseudo-terminal that `script` makes: what top writes, and that it leaves the terminal as it was.
#[test]
fn top_restores_the_terminal_when_it_is_told_to_end() {
    let served = serve();
    let pid = std::process::id().to_string();
    let inner = format!(
        "stty rows 24 cols 80; {} top -p {pid}; stty -a",
        env!("CARGO_BIN_EXE_cmwq")
    );
    let child = Command::new("script")
        .args(["-qec", &inner, "/dev/null"])
        .env("XDG_RUNTIME_DIR", served.dir.path())
        .env("TERM", "xterm")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn();
    let Ok(mut child) = child else {
        println!("script (of util-linux) is not there: not tested");
        return;
    };
    let mut keys = child.stdin.take().expect("piped");
    let mut screen = child.stdout.take().expect("piped");
    let mut seen = Vec::new();
    let mut block = [0; 4096];
    // Until it is drawn: then a key ends it.
    while !String::from_utf8_lossy(&seen).contains("quit") {
        let count = screen.read(&mut block).expect("a screen");
        assert!(count > 0, "{}", String::from_utf8_lossy(&seen));
        seen.extend_from_slice(&block[..count]);
    }
    std::io::Write::write_all(&mut keys, b"q").expect("a key");
    screen.read_to_end(&mut seen).expect("the end");
    assert!(child.wait().expect("it ends").success());
    let seen = String::from_utf8_lossy(&seen);
    let at = |text: &str| {
        seen.find(text)
            .unwrap_or_else(|| panic!("no {text:?} in {seen:?}"))
    };
    assert!(
        at("\u{1b}[?1049h") < at("\u{1b}[?1049l"),
        "the other screen, and back"
    );
    let after = &seen[at("\u{1b}[?1049l")..];
    assert!(
        after.contains(" icanon") && after.contains(" echo "),
        "{after}"
    );
    assert!(after.contains("\u{1b}[?25h"), "the cursor is there");
}

#[test]
fn the_mounted_files_are_the_kernels() {
    if !Path::new("/dev/fuse").exists() {
        println!("/dev/fuse is not there: not tested");
        return;
    }
    let served = serve();
    let dir = served.dir.path().join("mnt");
    std::fs::create_dir(&dir).expect("made");
    let name = dir.to_str().expect("text");
    let mut child = command(served.dir.path(), &["mount", name])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it runs");
    let mut said = [0; 7];
    if child
        .stdout
        .as_mut()
        .expect("piped")
        .read_exact(&mut said)
        .is_err()
    {
        let mut why = String::new();
        let _ = child.stderr.take().expect("piped").read_to_string(&mut why);
        println!("not permitted here: not tested: {why}");
        let _ = child.wait();
        return;
    }
    let running = Running(child);
    let own = dir.join(std::process::id().to_string());
    let read = |path: &str| std::fs::read_to_string(own.join(path));
    let shell = |script: &str| {
        let output = Command::new("sh")
            .args(["-c", script])
            .current_dir(&own)
            .output();
        output.expect("a shell").status.success()
    };
    assert_eq!(
        read("io/affinity_scope").expect("a file"),
        "default (cache_shard)\n"
    );
    assert!(shell(
        "echo cache > io/affinity_scope && echo 1 > io/affinity_strict && echo 3 > io/cpumask"
    ));
    assert_eq!(read("io/affinity_scope").expect("a file"), "cache\n");
    assert_eq!(read("io/cpumask").expect("a file"), "3\n");
    assert!(served.queue.attrs().affinity_strict);
    let mut names: Vec<String> = std::fs::read_dir(own.join("io"))
        .expect("a folder")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "affinity_scope",
            "affinity_strict",
            "cpumask",
            "max_active",
            "nice",
            "per_cpu"
        ]
    );
    assert!(shell("echo numa > parameters/default_affinity_scope"));
    assert_eq!(
        read("parameters/default_affinity_scope").expect("a file"),
        "numa\n"
    );
    assert_eq!(read("cpumask").expect("a file"), "f\n");

    let errno = |path: &str, text: &str| {
        let result = std::fs::OpenOptions::new()
            .write(true)
            .open(own.join(path))
            .and_then(|mut file| std::io::Write::write_all(&mut file, text.as_bytes()));
        result
            .expect_err(path)
            .raw_os_error()
            .expect("the system's")
    };
    let code = |errno: rustix::io::Errno| errno.raw_os_error();
    use rustix::io::Errno;
    assert_eq!(errno("io/affinity_scope", "Cache\n"), code(Errno::INVAL));
    assert_eq!(errno("io/nice", "20\n"), code(Errno::INVAL));
    assert_eq!(errno("io/per_cpu", "1\n"), code(Errno::ACCESS));
    assert_eq!(
        errno("parameters/watchdog_thresh", "99999999999999999999999\n"),
        code(Errno::RANGE)
    );
    assert_eq!(errno("io/none", "1\n"), code(Errno::NOENT));
    assert_eq!(errno("cpumask_requested", "1\n"), code(Errno::ACCESS));
    let mode = |path: &str| {
        std::fs::metadata(own.join(path))
            .expect("a file")
            .permissions()
            .mode()
            & 0o777
    };
    assert_eq!(
        (mode("io/nice"), mode("io/per_cpu"), mode("io")),
        (0o644, 0o444, 0o755)
    );
    drop(running);
    assert!(
        !own.exists(),
        "it is unmounted when the command is told to end"
    );
    let nowhere = served.refused(&["mount", "/nowhere"]);
    assert!(
        nowhere.contains("/nowhere: it is not a folder"),
        "{nowhere}"
    );
}
