//! The command with `--control`: its queue can be inspected and changed while requests run.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::{Client, Deadline, Dir, pattern};
use crate::served::key_file;
use cmwq_nbd::protocol::command;

const QUEUE: &str = "kcryptd/disk";
const SIZE: u64 = 1 << 20;

/// A server with a runtime folder of its own.
struct Served {
    child: Child,
    dir: Dir,
    _deadline: Deadline,
}

fn serve_command(dir: &Dir) -> Command {
    let key = key_file(dir);
    let runtime = dir.file("runtime");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq-nbd"));
    command
        .args(["serve", "--memory", "1M", "--name", "disk", "--socket"])
        .arg(dir.file("socket"))
        .args(["--cipher", "aes-xts-plain64", "--key-file"])
        .arg(key)
        .env("XDG_RUNTIME_DIR", runtime)
        .env_remove("CMWQ_CONTROL")
        .stdout(Stdio::piped());
    command
}

impl Served {
    fn start(change: impl FnOnce(&mut Command)) -> Served {
        let deadline = Deadline::long("a test of the server's control");
        let dir = Dir::new();
        let mut command = serve_command(&dir);
        change(&mut command);
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        assert!(line.starts_with("serving disk"), "{line}");
        Served {
            child,
            dir,
            _deadline: deadline,
        }
    }

    fn endpoint(&self) -> std::path::PathBuf {
        let name = format!("runtime/cmwq/{}.sock", self.child.id());
        self.dir.file(&name)
    }

    fn client(&self) -> Client {
        Client::connect(&self.dir.file("socket"), true)
    }

    /// SIGTERM, and the end.
    fn stop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn control(path: &Path) -> cmwq_control::Client {
    cmwq_control::Client::connect_to(path).unwrap()
}

#[test]
fn the_scope_is_changed_while_requests_run() {
    let mut served = Served::start(|command| {
        command.arg("--control");
    });
    let mut control = control(&served.endpoint());
    let queues = control.state().unwrap();
    let queues: Vec<_> = queues
        .engines
        .iter()
        .flat_map(|each| &each.queues)
        .collect();
    assert!(queues.iter().any(|queue| queue.name == QUEUE), "{queues:?}");
    let (stop, done) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for part in 0..2 {
            let (stop, done, served) = (&stop, &done, &served);
            scope.spawn(move || {
                let mut client = served.client();
                let offset = part * SIZE / 2;
                for generation in (0..=u8::MAX).cycle() {
                    if stop.load(Ordering::Relaxed) {
                        return;
                    }
                    let data = pattern(offset, 32 << 10, generation);
                    client.write(offset, &data).unwrap();
                    assert!(client.read(offset, 32 << 10).unwrap() == data);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        // Each change under requests that were served by the one before.
        for scope in ["cache", "cpu", "system", "smt", "cache_shard"] {
            control.set(QUEUE, "affinity_scope", scope).unwrap();
            assert_eq!(control.get(QUEUE, "affinity_scope").unwrap(), scope);
            let before = done.load(Ordering::Relaxed);
            while done.load(Ordering::Relaxed) < before + 20 {
                std::thread::yield_now();
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let refused = control.set(QUEUE, "affinity_scope", "Cache").unwrap_err();
    assert_eq!(refused.errno, "EINVAL");
    served.client().ask(command::FLUSH, 0, 0, 0, &[]).unwrap();
    let endpoint = served.endpoint();
    served.stop();
    assert!(!endpoint.exists(), "removed by the server's end");
}

#[test]
fn requests_and_those_that_were_no_items_are_counted_in_state_and_metrics() {
    for which in ["short", "none"] {
        let served = Served::start(|command| {
            command.args(["--control", "--inline", which]);
        });
        let mut client = served.client();
        for sector in 0..100 {
            client.read(512 * sector, 512).unwrap();
        }
        let mut control = control(&served.endpoint());
        let mut counted = || {
            let counters = control.state().unwrap().counters;
            let named = |name: &str| counters.iter().find(|counter| counter.name == name);
            ["nbd_requests", "nbd_requests_inline"].map(|name| named(name).expect(name).value)
        };
        // A request is counted after its reply.
        let until = Instant::now() + Duration::from_secs(60);
        let [all, inline] = loop {
            let counted = counted();
            if counted[0] >= 100 || Instant::now() > until {
                break counted;
            }
            std::thread::yield_now();
        };
        assert_eq!(
            (all, inline > 0),
            (100, which == "short"),
            "{inline} inline"
        );
        let metrics = control.metrics().unwrap();
        let sample = format!("cmwq_nbd_requests_inline_total{{}} {inline}\n");
        assert!(metrics.contains(&sample), "{metrics}");
    }
}

#[test]
fn the_environment_asks_for_it_too_and_nothing_is_served_unasked() {
    let served = Served::start(|command| {
        command.env("CMWQ_CONTROL", "1");
    });
    assert_eq!(
        control(&served.endpoint()).hello().unwrap().pid,
        served.child.id()
    );
    let unasked = Served::start(|_| ());
    assert!(!unasked.endpoint().exists());
}

#[test]
fn what_cannot_be_served_is_one_line() {
    let _deadline = Deadline::long("what cannot be served");
    let dir = Dir::new();
    let refused = |change: &dyn Fn(&mut Command), dir: &Dir| {
        let mut command = serve_command(dir);
        change(&mut command);
        let done = command.stderr(Stdio::piped()).output().unwrap();
        assert_eq!(done.status.code(), Some(1));
        assert!(done.stdout.is_empty());
        let errors = String::from_utf8(done.stderr).unwrap();
        assert_eq!(errors.lines().count(), 1, "{errors}");
        errors
    };
    let unknown = |command: &mut Command| {
        command.env("CMWQ_CONTROL", "yes");
    };
    let bad = refused(&unknown, &dir);
    assert!(bad.contains("CMWQ_CONTROL") && bad.contains("yes"), "{bad}");
    let dir = Dir::new();
    let nowhere = |command: &mut Command| {
        command.env("XDG_RUNTIME_DIR", "/nowhere").arg("--control");
    };
    let bad = refused(&nowhere, &dir);
    assert!(bad.contains("cannot serve"), "{bad}");
}
