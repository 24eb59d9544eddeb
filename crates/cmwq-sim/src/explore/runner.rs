//! Runs cases, each in a process of its own, some at a time.

use super::Scheduler;
use super::case::{self, Passed};
use super::program::{FaultSet, Op, Program, SHAPES, description};
use cmwq_simulated::topology::Topology;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::time::{Duration, Instant};

/// Host time after which a process is one that hangs.
const PATIENCE: Duration = Duration::from_secs(120);

/// What is run: a line of the command replays it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    /// Where the program follows from.
    pub seed: u64,
    /// Which faults may happen.
    pub faults: FaultSet,
    /// The schedule, 0 unless it was shrunk.
    pub schedule: u64,
    /// The operations that are left of the program; `None`: all.
    pub ops: Option<BTreeSet<usize>>,
    /// Which thread is next.
    pub scheduler: Scheduler,
}

impl Case {
    /// The whole program of a seed.
    #[must_use]
    pub fn new(seed: u64, faults: FaultSet) -> Case {
        Case {
            seed,
            faults,
            schedule: 0,
            ops: None,
            scheduler: Scheduler::Time,
        }
    }

    /// The program that is left.
    #[must_use]
    pub fn program(&self) -> Program {
        let mut program = Program::new(self.seed, self.faults);
        if let Some(left) = &self.ops {
            program.ops.retain(|op: &Op| left.contains(&op.number));
        }
        program
    }

    /// The arguments of the command that replay it.
    #[must_use]
    pub fn replay(&self) -> String {
        let mut line = format!(
            "cmwq-sim explore --seed {} --faults {}",
            self.seed, self.faults
        );
        if self.scheduler != Scheduler::Time {
            line += &format!(" --scheduler {}", self.scheduler.name());
        }
        if self.schedule != 0 {
            line += &format!(" --schedule {}", self.schedule);
        }
        if let Some(ops) = &self.ops {
            let ops: Vec<String> = ops.iter().map(usize::to_string).collect();
            line += &format!(" --ops {}", ops.join(","));
        }
        line
    }
}

/// How a case ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// All promises were kept.
    Passed(Passed),
    /// One was not.
    Failed(String),
}

/// Runs cases in child processes.
pub struct Runner {
    /// By shape.
    topologies: Vec<Topology>,
}

struct Child {
    case: Case,
    pid: libc::pid_t,
    said: File,
    began: Instant,
}

impl Default for Runner {
    fn default() -> Self {
        Runner::new()
    }
}

impl Runner {
    /// Must be made, and used, on a process with one thread.
    #[must_use]
    pub fn new() -> Runner {
        // Most programs have no more threads at a time.
        cmwq_vm::prepare_stacks(16);
        let made = |shape| Topology::from_synthetic(&description(shape));
        Runner {
            topologies: (SHAPES.iter().copied())
                .map(|shape| made(shape).expect("a valid description"))
                .collect(),
        }
    }

    /// Runs one case in this process, which can run no other one then.
    #[must_use]
    pub fn run_here(&self, case: &Case) -> Verdict {
        let program = case.program();
        let topology = self.topologies[program.shape].clone();
        let lengths = match case.scheduler {
            Scheduler::Time => Vec::new(),
            Scheduler::Pct | Scheduler::Walk => self.lengths(case),
        };
        match case::run(&program, topology, case.schedule, case.scheduler, lengths) {
            Ok(passed) => Verdict::Passed(passed),
            Err(why) => Verdict::Failed(why),
        }
    }

    /// How many operations each thread has in a first run, which is by time. Nothing is known if it fails.
    fn lengths(&self, case: &Case) -> Vec<u64> {
        let first = Case {
            scheduler: Scheduler::Time,
            ..case.clone()
        };
        match self.run(&first) {
            Ok(Verdict::Passed(passed)) => passed.by_thread,
            Ok(Verdict::Failed(_)) | Err(_) => Vec::new(),
        }
    }

    /// Runs one case.
    ///
    /// # Errors
    /// No process can be made.
    pub fn run(&self, case: &Case) -> std::io::Result<Verdict> {
        let mut verdict = None;
        self.run_all(std::iter::once(case.clone()), 1, |_, result| {
            verdict = Some(result);
            true
        })?;
        Ok(verdict.expect("one case has one verdict"))
    }

    /// Runs cases, some `at_once` of them at a time; `done` is called with each verdict, in the
    /// order of the cases, and returns whether to go on.
    ///
    /// # Errors
    /// No process can be made.
    pub fn run_all(
        &self,
        mut cases: impl Iterator<Item = Case>,
        at_once: usize,
        mut done: impl FnMut(&Case, Verdict) -> bool,
    ) -> std::io::Result<()> {
        let mut children = std::collections::VecDeque::new();
        let mut goes_on = true;
        // Verdicts are taken in order: while the oldest child runs on, others have ended.
        let in_flight = if at_once > 1 { 2 * at_once } else { 1 };
        loop {
            while goes_on && children.len() < in_flight {
                let Some(case) = cases.next() else { break };
                children.push_back(self.start(case)?);
            }
            let Some(child) = children.pop_front() else {
                return Ok(());
            };
            let (case, verdict) = child.wait();
            goes_on = goes_on && done(&case, verdict);
        }
    }

    fn start(&self, case: Case) -> std::io::Result<Child> {
        let mut ends = [0; 2];
        // SAFETY: there is room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(std::io::Error::last_os_error());
        }
        // SAFETY: both are open, and nothing else owns them.
        let (said, mut tells) = unsafe { (File::from_raw_fd(ends[0]), File::from_raw_fd(ends[1])) };
        // SAFETY: the process has one thread, so the child has all that the parent has.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(std::io::Error::last_os_error());
        }
        if pid == 0 {
            let case_seed = case.seed;
            // What a broken promise says goes to the parent.
            std::panic::set_hook(Box::new(move |info| {
                // Where it was; what it says goes to the parent.
                if let Some(at) = info.location() {
                    // Without standard error it is not told.
                    let _ = writeln!(
                        std::io::stderr(),
                        "cmwq-sim: seed {case_seed}: a panic at {at}"
                    );
                }
            }));
            let text = match self.run_here(&case) {
                Verdict::Passed(passed) => {
                    let lengths: Vec<String> =
                        passed.by_thread.iter().map(u64::to_string).collect();
                    let (hash, operations) = (passed.log_hash, passed.operations);
                    format!("passed {hash} {operations} {}", lengths.join(" "))
                }
                Verdict::Failed(why) => format!("failed {why}"),
            };
            let told = tells.write_all(text.as_bytes());
            // SAFETY: the process ends here: what it has of its parent's is not to be dropped.
            unsafe { libc::_exit(i32::from(told.is_err())) }
        }
        Ok(Child {
            case,
            pid,
            said,
            began: Instant::now(),
        })
    }
}

impl Child {
    /// Waits until there is something to read or the end; `false`: it took too long.
    fn has_said(&self) -> bool {
        let left = PATIENCE.saturating_sub(self.began.elapsed());
        let mut ask = libc::pollfd {
            fd: self.said.as_raw_fd(),
            events: libc::POLLIN,
            revents: 0,
        };
        // SAFETY: one entry is there.
        unsafe { libc::poll(&raw mut ask, 1, left.as_millis() as libc::c_int) > 0 }
    }

    fn wait(mut self) -> (Case, Verdict) {
        let in_time = self.has_said();
        let mut text = String::new();
        let mut status = 0;
        // SAFETY: the child is ours, and has not been waited for; there is room for its status.
        unsafe {
            if !in_time {
                libc::kill(self.pid, libc::SIGKILL);
            }
            // What cannot be read was not said.
            let _ = self.said.read_to_string(&mut text);
            libc::waitpid(self.pid, &raw mut status, 0);
        }
        let verdict = match (text.split_once(' '), in_time) {
            (_, false) => Verdict::Failed(format!("computes for more than {PATIENCE:?}")),
            (Some(("passed", numbers)), _) => {
                let mut numbers = numbers.split(' ').filter_map(|n| n.parse().ok());
                Verdict::Passed(Passed {
                    log_hash: numbers.next().unwrap_or(0),
                    operations: numbers.next().unwrap_or(0),
                    by_thread: numbers.collect(),
                })
            }
            (Some(("failed", why)), _) => Verdict::Failed(why.to_owned()),
            _ if libc::WIFSIGNALED(status) => {
                Verdict::Failed(format!("crash: signal {}", libc::WTERMSIG(status)))
            }
            _ => Verdict::Failed(format!("crash: status {status}")),
        };
        (self.case, verdict)
    }
}
