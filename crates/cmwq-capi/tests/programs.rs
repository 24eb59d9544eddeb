//! The C examples, programs that measure, and programs that do what a process may do with the
//! library: all are compiled with every warning on, and run.
#![cfg(feature = "control")]

mod common;

use cmwq_control::Client;
use common::{
    STRICT, built, cc, compile, crate_dir, folder, has_or_says, includes, run, said, succeeds,
};
use std::fs;
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const GNU11: [&str; 1] = ["-std=gnu11"];
/// Nothing but the standard.
const C11: [&str; 1] = ["-std=c11"];

fn example(name: &str, args: &[&str]) -> String {
    program_of("examples", name, args)
}

fn program_of(dir: &str, name: &str, args: &[&str]) -> String {
    let folder = folder(name);
    let program = compile(&folder, &format!("{dir}/{name}.c"), &cc(), &C11);
    run(&program, args)
}

#[test]
fn every_example_is_cpp_as_well() {
    let compilers = ["c++", "clang++"];
    for compiler in compilers
        .into_iter()
        .filter(|compiler| has_or_says(compiler))
    {
        let files = ["examples", "measure"].map(|dir| fs::read_dir(crate_dir().join(dir)).unwrap());
        for entry in files.into_iter().flatten() {
            let path = entry.unwrap().path();
            if path.extension().is_none_or(|extension| extension != "c") {
                continue;
            }
            let mut command = Command::new(compiler);
            command.args(STRICT).args(["-std=c++20", "-fsyntax-only"]);
            command.args(includes()).args(["-x", "c++"]).arg(&path);
            succeeds(&mut command);
        }
    }
}

#[test]
fn hello() {
    assert_eq!(example("hello", &[]), "hello from a worker\n");
}

#[test]
fn a_device_with_embedded_work() {
    assert_eq!(
        example("device", &[]),
        "eth0: 40000 interrupts handled, polled\n"
    );
}

#[test]
fn an_ordered_log() {
    assert_eq!(example("ordered_log", &[]), "2000 lines in order\n");
}

#[test]
fn checksums_in_every_scope() {
    let text = example("checksum", &[env!("CARGO_MANIFEST_DIR")]);
    for scope in ["cpu", "smt", "cache", "cache_shard", "numa", "system"] {
        assert!(text.lines().any(|line| line.starts_with(scope)), "{text}");
    }
}

#[test]
fn the_published_loop() {
    let text = program_of("measure", "bench_wq", &["500"]);
    assert_eq!(text.matches("items/sec").count(), 6, "{text}");
    assert!(!text.contains("warning"), "{text}");
}

#[test]
fn the_loop_that_measures_enqueueing() {
    let text = program_of("measure", "enqueue_cost", &[]);
    assert!(text.trim().parse::<f64>().is_ok(), "{text}");
}

#[test]
fn a_server_with_one_event_loop() {
    assert_eq!(example("epoll_server", &[]), "2048 requests answered\n");
}

#[test]
fn recipes_for_those_who_come_from_elsewhere() {
    assert_eq!(example("from_pthread_pool", &[]), "equal results\n");
    assert_eq!(example("from_kernel", &[]), "10000 packets delivered\n");
}

/// Compiles and runs an example that needs libuv, which a machine may lack.
fn example_with_libuv(name: &str) -> Option<String> {
    let asked = Command::new("pkg-config")
        .args(["--cflags", "--libs", "libuv"])
        .output();
    let Some(asked) = asked.ok().filter(|asked| asked.status.success()) else {
        println!("skipped, because libuv is missing; on Debian: apt-get install libuv1-dev");
        return None;
    };
    let flags = String::from_utf8(asked.stdout).unwrap();
    // The libraries come before the source here, which a linker may take for not needed.
    let mut args = vec!["-Wl,--no-as-needed"];
    args.extend(flags.split_whitespace());
    let folder = folder(name);
    let source = format!("examples/libuv/{name}.c");
    let program = compile(&folder, &source, &cc(), &args);
    Some(run::<&str>(&program, &[]))
}

#[test]
fn a_recipe_for_those_who_come_from_libuv() {
    if let Some(text) = example_with_libuv("from_libuv") {
        assert_eq!(text, "equal results\n");
    }
}

#[test]
fn a_server_with_libuv() {
    if let Some(text) = example_with_libuv("server") {
        assert_eq!(text, "2048 requests answered\n");
    }
}

#[test]
fn libuv_s_own_work_queue() {
    let folder = folder("libuv_queue");
    let probe = ["-x", "c", "/dev/null", "-shared", "-l:libuv_a.a", "-o"];
    let mut probing = Command::new(cc());
    probing.args(probe).arg(folder.join("probe"));
    if !probing.output().is_ok_and(|output| output.status.success()) {
        println!("skipped, because libuv_a.a is missing; on Debian: apt-get install libuv1-dev");
        return;
    }
    let queue = crate_dir().join("examples/libuv/uv_on_cmwq.c");
    let library = "-Wl,--no-as-needed,-l:libuv_a.a";
    let program = folder.join("queue");
    let mut command = Command::new(cc());
    command.args(STRICT).args(["-O1", "-g", "-pthread"]);
    command.args(includes()).arg(queue);
    command.arg(crate_dir().join("tests/c/libuv/queue.c"));
    command.arg("-L").arg(&folder);
    command.arg(format!("-Wl,-rpath,{}", folder.display()));
    command
        .args([library, "-lcmwq", "-ldl", "-o"])
        .arg(&program);
    succeeds(&mut command);
    assert_eq!(run::<&str>(&program, &[]), "all on cmwq\n");
}

/// The folder of a JDK, by its compiler.
fn jdk() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let compilers = std::env::split_paths(&path).map(|folder| folder.join("javac"));
    let mut found = compilers.filter_map(|javac| fs::canonicalize(javac).ok());
    let jdk = found.find_map(|javac| javac.ancestors().nth(2).map(PathBuf::from))?;
    jdk.join("include/jni.h").exists().then_some(jdk)
}

/// Seen to fail, by `timeout`: workers that are attached, but not as daemons.
#[test]
fn a_jvm_ends_though_idle_workers_are_attached_to_it() {
    let Some(jdk) = jdk() else {
        println!(
            "skipped, because a JDK is missing; on Debian: apt-get install openjdk-17-jdk-headless"
        );
        return;
    };
    let (include, lib) = (jdk.join("include"), jdk.join("lib/server"));
    let args = [
        "-std=gnu11".to_owned(),
        format!("-isystem{}", include.display()),
        format!("-isystem{}/linux", include.display()),
        format!("-L{}", lib.display()),
        format!("-Wl,--no-as-needed,-rpath,{}", lib.display()),
        "-ljvm".to_owned(),
    ];
    let folder = folder("from_jvm");
    let program = compile(&folder, "examples/jvm/from_jvm.c", &cc(), &args);
    // Idle workers stay for five minutes, a JVM that waits for them as well.
    let mut command = Command::new("timeout");
    let text = succeeds(command.arg("100").arg(program));
    assert_eq!(text, "1000 items called Java\n");
}

#[test]
fn batches_and_completion_queues() {
    let folder = folder("waits");
    let source = "tests/c/programs/waits.c";
    run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
}

#[test]
fn waits_that_end_by_their_deadlines() {
    let folder = folder("deadlines");
    let source = "tests/c/programs/deadlines.c";
    run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
}

#[test]
fn waits_for_a_whole_queue_that_end_by_their_deadlines() {
    let folder = folder("queue_deadlines");
    let source = "tests/c/programs/queue_deadlines.c";
    let named = ["-std=gnu11", "-rdynamic"];
    run::<&str>(&compile(&folder, source, &cc(), &named), &[]);
}

#[test]
fn a_bound_on_what_waits() {
    let folder = folder("full");
    let source = "tests/c/programs/full.c";
    let text = run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
    assert!(text.starts_with("full\n"), "{text}");
    // Of the two mistakes that it makes on purpose; that a queue is full is none.
    assert_eq!(text.matches("warning").count(), 2, "{text}");
}

#[test]
fn a_fork_in_the_middle() {
    for name in ["fork", "fork_in_work", "fork_storm"] {
        let folder = folder(name);
        let source = format!("tests/c/programs/{name}.c");
        run::<&str>(&compile(&folder, &source, &cc(), &GNU11), &[]);
    }
}

#[test]
fn the_first_use() {
    let folder = folder("first_use");
    let program = compile(&folder, "tests/c/programs/first_use.c", &cc(), &GNU11);
    run::<&str>(&program, &[]);
    run(&program, &["no-files"]);
    let mut failing = Command::new(&program);
    failing.env("CMWQ_TOPOLOGY", "nonsense").arg("fails");
    let text = succeeds(&mut failing);
    let told = "cmwq_queue_work: CMWQ_TOPOLOGY: bad synthetic topology";
    assert!(text.contains(told), "{text}");
}

#[test]
fn faults_are_handled_and_children_can_be_ended() {
    let folder = folder("signals");
    run::<&str>(
        &compile(&folder, "tests/c/programs/signals.c", &cc(), &GNU11),
        &[],
    );
}

#[test]
fn a_work_function_may_end_its_thread() {
    let folder = folder("exits");
    let source = "tests/c/programs/exits.c";
    run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
}

/// Up to Python 3.13 the end of the interpreter ends threads by pthread_exit(). When it has ended,
/// it may read a null pointer in a callback, for which it has no state any more: in this program in
/// one of fifty runs. A pool of plain C threads that are replaced sees that in a third of its runs.
/// So a run that ends by SIGSEGV is repeated.
#[test]
fn python_ends_while_callbacks_are_on_their_way() {
    const ATTEMPTS: usize = 8;
    if !has_or_says("python3") {
        return;
    }
    let library = folder("python").join("libcmwq.so.1");
    let script = crate_dir().join("tests/python/ends.py");
    for stops in [None, Some("stops")] {
        let of_python = |output: &std::process::Output| {
            stops.is_none() && output.status.signal() == Some(libc::SIGSEGV)
        };
        let output = (0..ATTEMPTS)
            .map(|_| {
                // It passes on by which signal its child has ended.
                let mut command = Command::new("timeout");
                command.args(["300", "python3"]).arg(&script).arg(&library);
                command.args(stops).output().expect("timeout runs")
            })
            .find(|output| !of_python(output))
            .expect("not all attempts end by SIGSEGV");
        let text = said(&output);
        assert!(
            output.status.success(),
            "{stops:?}: {}\n{text}",
            output.status
        );
        assert_eq!(text, "", "{stops:?}");
    }
}

/// Several runs, since without the line that destroys the workqueue one in five ends by SIGSEGV,
/// with a release build one in two.
#[test]
fn python_ends_when_it_has_destroyed_the_workqueue() {
    const RUNS: usize = 12;
    if !has_or_says("python3") {
        return;
    }
    let library = folder("python_destroys").join("libcmwq.so.1");
    let script = crate_dir().join("tests/python/executes.py");
    for _ in 0..RUNS {
        let mut command = Command::new("timeout");
        command.args(["300", "python3"]).arg(&script).arg(&library);
        let text = succeeds(&mut command);
        // Of what is queued by threads that do not stop.
        let warned = |line: &str| line.starts_with("cmwq: warning: ");
        assert!(text.lines().all(warned), "{text}");
    }
}

#[test]
fn a_work_function_describes_itself() {
    let folder = folder("described");
    let source = "tests/c/programs/described.c";
    let text = run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
    // 31 bytes, and once only.
    let described = " (eth7: a text that is longer tha) for ";
    assert_eq!(text.matches(described).count(), 1, "{text}");
    assert!(!text.contains("no worker"), "{text}");
    // Then only what takes part in freezing.
    let (_, freezable) = text.split_once("Showing freezable workqueues").unwrap();
    let (freezable, _) = freezable.split_once("Showing busy").unwrap();
    assert!(
        freezable.contains("workqueue freezable: unbound freezable"),
        "{text}"
    );
    assert!(freezable.contains("in-flight:"), "{text}");
    assert!(!freezable.contains("workqueue described"), "{text}");
}

#[test]
fn a_function_with_an_argument_is_shown_by_its_own_name() {
    let folder = folder("shown");
    let source = "tests/c/programs/shown.c";
    // The symbols of a program are found in its dynamic table.
    let program = compile(&folder, source, &cc(), &["-std=c11", "-rdynamic"]);
    let text = run::<&str>(&program, &[]);
    let runs = |name: &str| {
        let line = |line: &&str| line.contains("in-flight:") && line.contains(name);
        text.lines().filter(line).count()
    };
    assert_eq!(runs("thumbnail"), 1, "{text}");
    assert_eq!(runs("look_around"), 1, "{text}");
    assert!(text.contains("2*checksum"), "they wait: {text}");
}

#[test]
fn an_address_is_used_again_by_the_function_that_has_freed_it() {
    let folder = folder("reused_address");
    let source = "tests/c/programs/reused_address.c";
    run::<&str>(&compile(&folder, source, &cc(), &GNU11), &[]);
}

#[test]
fn queueing_allocates_nothing() {
    let folder = folder("no_allocation");
    run::<&str>(
        &compile(&folder, "tests/c/programs/no_allocation.c", &cc(), &GNU11),
        &[],
    );
}

#[test]
fn a_driver_with_the_kernels_includes() {
    for compiler in [cc(), "clang".into()]
        .iter()
        .filter(|name| has_or_says(name))
    {
        let folder = folder("module");
        let program = compile(&folder, "tests/c/programs/module.c", compiler, &GNU11);
        let text = run::<&str>(&program, &[]);
        assert_eq!(text, "toynet: 500 packets, 44950 bytes\n");
    }
}

#[test]
fn a_program_may_bring_its_own_of_everything() {
    let folder = folder("steps_aside");
    run::<&str>(
        &compile(&folder, "tests/c/programs/steps_aside.c", &cc(), &GNU11),
        &[],
    );
}

#[test]
fn a_tool_may_have_a_linux_tree_of_its_own() {
    let folder = folder("own_tree");
    let [ours] = includes();
    let dir = crate_dir().join("tests/c/programs/own");
    let own = format!("-I{}", dir.display());
    for first in [&ours, &own] {
        let args = ["-std=gnu11", "-DCMWQ_NO_NEIGHBOURS", first, &own];
        let source = "tests/c/programs/own_tree.c";
        run::<&str>(&compile(&folder, source, &cc(), &args), &[]);
    }
}

#[test]
fn the_headers_work_in_cpp() {
    for compiler in ["c++", "clang++"]
        .into_iter()
        .filter(|compiler| has_or_says(compiler))
    {
        let folder = folder(&format!("cpp-{compiler}"));
        let source = "tests/c/programs/plain_names.cpp";
        run::<&str>(&compile(&folder, source, compiler, &["-std=c++17"]), &[]);
    }
}

#[test]
fn shared_objects_come_and_go() {
    let folder = folder("plugins");
    let plugins = ["a", "b", "c"].map(|name| {
        let plugin = folder.join(format!("plugin-{name}.so"));
        let mut command = Command::new(cc());
        command
            .args(["-shared", "-fPIC", "-std=gnu11"])
            .args(includes());
        command.arg(format!("-DNAME=\"plugin-{name}\""));
        command.arg(crate_dir().join("tests/c/programs/plugin.c"));
        command
            .arg("-L")
            .arg(&folder)
            .arg(format!("-Wl,-rpath,{}", folder.display()));
        command.args(["-lcmwq", "-o"]).arg(&plugin);
        succeeds(&mut command);
        plugin
    });
    let host = folder.join("host");
    let source = crate_dir().join("tests/c/programs/host.c");
    succeeds(
        Command::new(cc())
            .arg(source)
            .args(["-ldl", "-o"])
            .arg(&host),
    );
    run(&host, &plugins);
}

#[test]
fn the_static_library_links_alone() {
    let folder = folder("static");
    let program = folder.join("hello");
    let mut command = Command::new(cc());
    command.args(includes());
    command.arg(crate_dir().join("examples/hello.c"));
    command.arg(built().join("libcmwq_capi.a"));
    command
        .args([
            "-lgcc_eh",
            "-lutil",
            "-lrt",
            "-lpthread",
            "-lm",
            "-ldl",
            "-lc",
            "-o",
        ])
        .arg(&program);
    succeeds(&mut command);
    assert_eq!(run::<&str>(&program, &[]), "hello from a worker\n");
}

#[test]
fn a_program_that_is_asked_to_serve_does() {
    let folder = folder("serves");
    let program = compile(&folder, "tests/c/programs/serves.c", &cc(), &C11);
    let started = |asked: &str| {
        let mut command = Command::new(&program);
        command
            .env("CMWQ_CONTROL", asked)
            .env("XDG_RUNTIME_DIR", &folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut child = started("1");
    let mut said = [0; 2];
    let stdout = child.stdout.as_mut().unwrap();
    stdout.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"1\n");
    let socket = folder.join(format!("cmwq/{}.sock", child.id()));
    let mut client = Client::connect_to(&socket).unwrap();
    let name = |client: &mut Client| client.state().unwrap().engines[0].queues[0].name.clone();
    assert_eq!(name(&mut client), "from_c");
    client.set("from_c", "max_active", "3").unwrap();
    assert_eq!(client.get("from_c", "max_active").unwrap(), "3");
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success());

    for (asked, result, warned) in [("0", "0\n", ""), ("yes", "-22\n", "CMWQ_CONTROL is 'yes'")] {
        let output = started(asked).wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), result);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(warned), "{stderr}");
    }
}
