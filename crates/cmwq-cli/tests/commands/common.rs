//! The built command, and a process that serves for it: this one.

#[path = "../../../cmwq/tests/harness/deadline.rs"]
mod deadline;
#[path = "../../../cmwq/tests/harness/random.rs"]
mod random;

use cmwq::topology::Topology;
use cmwq::{Engine, Workqueue};
use cmwq_control::{Control, ControlBuilder};
use deadline::Deadline;
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use tempfile::TempDir;

/// The command, without the variables that it reads.
pub(crate) fn cmwq(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cmwq"));
    command.args(args).stdin(Stdio::null());
    for name in [
        "CMWQ_TOPOLOGY",
        "CMWQ_CACHE_SHARD_SIZE",
        "CMWQ_DEFAULT_AFFINITY_SCOPE",
        "CMWQ_MIX_CORE_KINDS",
        "CMWQ_CPU_LIMIT",
        "CMWQ_UNBOUND_CPUS",
        "COLUMNS",
    ] {
        command.env_remove(name);
    }
    command
}

/// What it prints. It must succeed, and complain of nothing.
pub(crate) fn said(command: &mut Command) -> String {
    let output = command.output().expect("the command starts");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && complaints.is_empty(),
        "{command:?}: {complaints}"
    );
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The one line on standard error of a command that was asked wrongly.
pub(crate) fn refused(command: &mut Command) -> String {
    complaint(command, 2)
}

/// The one line on standard error of a command that could not do what it was asked for.
pub(crate) fn failed(command: &mut Command) -> String {
    complaint(command, 1)
}

/// The one line on standard error of a command that ends with this status.
pub(crate) fn complaint(command: &mut Command, status: i32) -> String {
    let output = command.output().expect("the command starts");
    let line = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(status), "{command:?}: {line}");
    assert!(output.stdout.is_empty(), "{command:?}");
    assert!(
        line.starts_with("cmwq: ") && line.ends_with('\n') && line.lines().count() == 1,
        "{command:?}: {line}"
    );
    line
}

pub(crate) struct Served {
    pub(crate) dir: TempDir,
    pub(crate) engine: Engine,
    pub(crate) queue: Workqueue,
    pub(crate) control: Control,
    _deadline: Deadline,
    _turn: MutexGuard<'static, ()>,
}

/// This process serves. It has one endpoint: the tests take turns.
pub(crate) fn serve() -> Served {
    static TURN: Mutex<()> = Mutex::new(());
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
    let queue = engine.workqueue("io").mem_reclaim().build();
    Served {
        dir,
        engine,
        queue: queue.expect("a queue"),
        control,
        _deadline: Deadline::long("a command on this process"),
        _turn: turn,
    }
}

impl Served {
    /// The command on this process, whose number it is given where `PID` stands.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let pid = std::process::id().to_string();
        let with_pid = |arg: &&str| {
            if *arg == "PID" {
                pid.clone()
            } else {
                (*arg).to_owned()
            }
        };
        let args: Vec<String> = args.iter().map(with_pid).collect();
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let mut command = cmwq(&args);
        command
            .env("XDG_RUNTIME_DIR", self.dir.path())
            .env("COLUMNS", "100");
        command
    }

    /// What a command prints that must succeed.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        said(&mut self.command(args))
    }

    /// The one line of a command that fails.
    pub(crate) fn failed(&self, args: &[&str]) -> String {
        failed(&mut self.command(args))
    }

    /// The one line of a command that must be refused.
    pub(crate) fn refused(&self, args: &[&str]) -> String {
        refused(&mut self.command(args))
    }
}
