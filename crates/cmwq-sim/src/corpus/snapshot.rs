//! One machine that is set up once and run many times: each run begins with the same memory, and a
//! crash ends that run alone.
//!
//! Three processes: the driver asks for runs; the server holds the machine, and forks; its child
//! does what is asked, and goes back (`rewind`) after each run. If a run crashes, the server, which
//! has not run, forks again. Where a process cannot go back, or if the environment has [`FORKS`],
//! the child [forks](super::forking) for each run instead.

use super::forking;
#[cfg(target_env = "gnu")]
use super::rewind;
use cmwq_vm::{Plan, Steered};
use std::io::{self, PipeReader, PipeWriter, Read, Write};
use std::os::fd::IntoRawFd;
use std::ptr::NonNull;

/// Threads of which the lengths are told.
const THREADS: usize = 64;
/// Places in the sources of which a run can tell; a program has some hundred.
const PLACES: usize = 2_048;
const TEXT: usize = 2_000;
/// If this is in the environment, each run has a process of its own. For tests.
const FORKS: &str = "CMWQ_CORPUS_FORKS";
/// Runs that are asked for at a time, at most.
pub(super) const BATCH: usize = 64;
/// Host seconds after which a run is one that hangs.
pub(super) const PATIENCE: u32 = 30;

/// Which scheduler a run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum How {
    Time,
    Priorities,
    Walk,
}

/// What is asked for: runs with this seed and those that follow it, until one fails.
#[derive(Clone, Copy)]
#[repr(C)]
pub(super) struct Order {
    how: How,
    depth: u32,
    pub(super) seed: u64,
    /// How many runs.
    pub(super) runs: u64,
    length: u64,
    /// Operations after which a run hangs.
    pub(super) most: u64,
    /// With a weak memory, if it is not 0.
    pub(super) weak: u64,
    /// Learn which steps another thread can notice, if it is not 0.
    pub(super) learn: u64,
    count: usize,
    lengths: [u64; THREADS],
}

impl Order {
    pub(super) fn by_time(seed: u64) -> Order {
        Order {
            how: How::Time,
            depth: 0,
            seed,
            runs: 1,
            length: 0,
            most: u64::MAX,
            weak: 0,
            learn: 0,
            count: 0,
            lengths: [0; THREADS],
        }
    }

    pub(super) fn by(plan: &Plan, seed: u64, most: u64) -> Order {
        let mut order = Order {
            most,
            ..Order::by_time(seed)
        };
        match plan {
            Plan::Priorities { depth, length } => {
                (order.how, order.depth, order.length) = (How::Priorities, *depth, *length);
            }
            Plan::Walk { lengths } => {
                order.how = How::Walk;
                order.count = lengths.len().min(THREADS);
                order.lengths[..order.count].copy_from_slice(&lengths[..order.count]);
            }
        }
        order
    }

    /// `None`: costs say which thread is next.
    pub(super) fn plan(&self) -> Option<Plan> {
        match self.how {
            How::Time => None,
            How::Priorities => Some(Plan::Priorities {
                depth: self.depth,
                length: self.length,
            }),
            How::Walk => Some(Plan::Walk {
                lengths: self.lengths[..self.count].to_vec(),
            }),
        }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: plain numbers, of which the server reads what the driver wrote.
        unsafe { std::slice::from_raw_parts_mut((&raw mut *self).cast(), size_of::<Order>()) }
    }
}

/// The size of one run.
#[repr(C)]
struct Ended {
    log: u64,
    count: usize,
    lengths: [u64; THREADS],
}

/// What the runs of one order say, in memory that all three processes share.
#[repr(C)]
struct Page {
    /// Runs that have ended, by themselves.
    done: usize,
    runs: [Ended; BATCH],
    /// What the run has learned of each place: its address, and whether what is done there can be noticed.
    learned: usize,
    places: [(usize, bool); PLACES],
    /// Places that are no steps: the driver's.
    passed: usize,
    passed_over: [usize; PLACES],
    said: usize,
    text: [u8; TEXT],
}

impl Page {
    /// The run that is on, or the last one.
    fn run(&mut self) -> &mut Ended {
        &mut self.runs[self.done.min(BATCH - 1)]
    }

    fn report(&self, run: usize) -> Report {
        let run = &self.runs[run];
        Report {
            log: run.log,
            lengths: run.lengths[..run.count].to_vec(),
            places: self.places[..self.learned].to_vec(),
            failure: None,
        }
    }

    fn say(&mut self, text: &str) {
        self.said = text.len().min(TEXT);
        self.text[..self.said].copy_from_slice(&text.as_bytes()[..self.said]);
    }
}

/// What became of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Report {
    pub(super) log: u64,
    /// Steps of each thread.
    pub(super) lengths: Vec<u64>,
    /// Places in the sources, and whether another thread can notice what is done there.
    pub(super) places: Vec<(usize, bool)>,
    pub(super) failure: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) struct Shared(NonNull<Page>);

impl Shared {
    fn new() -> io::Result<Shared> {
        // SAFETY: new memory, all zeros, which is a page that says nothing.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                size_of::<Page>(),
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        match NonNull::new(page.cast()) {
            Some(at) if page != libc::MAP_FAILED => Ok(Shared(at)),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Only one process uses it at a time: a run until it ends, then the driver.
    fn with<R>(self, f: impl FnOnce(&mut Page) -> R) -> R {
        // SAFETY: by this function's contract; the mapping lasts as long as the processes.
        f(unsafe { &mut *self.0.as_ptr() })
    }
}

impl Shared {
    /// A run has ended: the next one of the order may follow.
    pub(super) fn has_passed(self) -> bool {
        self.with(|page| page.said == 0)
    }

    /// Nothing is known of the next run.
    pub(super) fn begin(self) {
        self.with(|page| page.run().count = 0);
    }
}

// SAFETY: it is used by one thread of one process at a time.
unsafe impl Send for Shared {}
// SAFETY: as above.
unsafe impl Sync for Shared {}

/// Where a run says what became of it.
#[derive(Clone, Copy)]
pub(super) struct Told(Shared);

impl Told {
    /// Threads and their steps, as soon as they are known, and what was learned.
    pub(super) fn steered(self, steered: &Steered) {
        let (lengths, places) = (&steered.lengths, &steered.places);
        self.0.with(|page| {
            let run = page.run();
            run.count = lengths.len().min(THREADS);
            run.lengths[..run.count].copy_from_slice(&lengths[..run.count]);
            page.learned = places.len().min(PLACES);
            page.places[..page.learned].copy_from_slice(&places[..page.learned]);
        });
    }

    /// The places that are no steps in this run.
    pub(super) fn passed_over(self) -> Vec<usize> {
        self.0.with(|page| page.passed_over[..page.passed].to_vec())
    }

    /// A panic, which may be the run's end.
    pub(super) fn panics(self, what: &str) {
        self.0.with(|page| {
            // The first one says more.
            if page.said == 0 {
                page.say(what);
            }
        });
    }

    /// The run has ended, with this log, or failed.
    pub(super) fn ends(self, result: Result<u64, String>) -> ! {
        self.0.with(|page| {
            match result {
                Ok(log) => (page.run().log, page.said) = (log, 0),
                Err(why) => page.say(&why),
            }
            page.done += 1;
        });
        #[cfg(target_env = "gnu")]
        if rewind::is_used() {
            rewind::again()
        }
        forking::again()
    }
}

/// The server's side, inside its machine.
pub(super) struct Server {
    orders: PipeReader,
    ends: PipeWriter,
    shared: Shared,
}

impl Server {
    pub(super) fn told(&self) -> Told {
        Told(self.shared)
    }

    /// Returns in each run.
    pub(super) fn serve(mut self) -> (Order, Told) {
        loop {
            // SAFETY: the process has one thread, so the child has all that the parent has.
            let pid = unsafe { libc::fork() };
            if pid == 0 {
                // SAFETY: no pointers. Runs end with their server.
                unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
                let (orders, ends) = (self.orders.into_raw_fd(), self.ends.into_raw_fd());
                #[cfg(target_env = "gnu")]
                if std::env::var_os(FORKS).is_none()
                    && let Ok(order) = rewind::serve(orders, ends, self.shared)
                {
                    return (order, Told(self.shared));
                }
                match forking::serve(orders, ends, self.shared) {
                    Ok(order) => return (order, Told(self.shared)),
                    Err(why) => panic!("a process for a run: {why}"),
                }
            }
            let mut status = -1;
            // SAFETY: the child is ours, and has not been waited for; there is room for its status.
            if pid < 0 || unsafe { libc::waitpid(pid, &raw mut status, 0) } < 0 || status == 0 {
                // SAFETY: there is no process to be had, or the driver wants no more runs.
                unsafe { libc::_exit(0) }
            }
            // A run has crashed, and took the process with it. The driver has gone if it does not read.
            let _ = self.ends.write_all(&status.to_ne_bytes());
        }
    }
}

/// The driver's side.
pub(super) struct Snapshot {
    pid: libc::pid_t,
    orders: Option<PipeWriter>,
    ends: PipeReader,
    shared: Shared,
}

impl Snapshot {
    /// `hold` sets up a machine in a process of its own, calls [`Server::serve`], and ends each run
    /// by [`Told::ends`]. It returns why it could not. The process must have one thread.
    ///
    /// # Errors
    /// There is no process to be had.
    pub(super) fn new(hold: impl FnOnce(Server) -> String) -> io::Result<Snapshot> {
        let (shared, (orders, asks)) = (Shared::new()?, io::pipe()?);
        let (ends, tells) = io::pipe()?;
        // SAFETY: the process has one thread, so the child has all that the parent has.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(io::Error::last_os_error());
        }
        if pid == 0 {
            drop((asks, ends));
            // SAFETY: no pointers. The server ends with its driver.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            let why = hold(Server {
                orders,
                ends: tells,
                shared,
            });
            shared.with(|page| page.say(&why));
            // SAFETY: the process ends here: what it has of its parent's is not to be dropped.
            unsafe { libc::_exit(0) }
        }
        Ok(Snapshot {
            pid,
            orders: Some(asks),
            ends,
            shared,
        })
    }

    /// In the runs from now on what is done at these places is no step. They are in ascending order.
    pub(super) fn pass_over(&mut self, places: &[usize]) {
        self.shared.with(|page| {
            page.passed = places.len().min(PLACES);
            page.passed_over[..page.passed].copy_from_slice(&places[..page.passed]);
        });
    }

    /// One run.
    ///
    /// # Errors
    /// The machine could not be set up.
    pub(super) fn run(&mut self, order: Order) -> Result<Report, String> {
        let mut reports = self.runs(order)?;
        reports.pop().ok_or_else(|| "no run was asked for".into())
    }

    /// Some runs, [`BATCH`] at most, until one fails.
    ///
    /// # Errors
    /// The machine could not be set up.
    pub(super) fn runs(&mut self, mut order: Order) -> Result<Vec<Report>, String> {
        self.shared
            .with(|page| (page.done, page.said, page.learned) = (0, 0, 0));
        let mut status = [0; 4];
        let asks = self.orders.as_mut().expect("it is there until the end");
        let asked = asks.write_all(order.bytes());
        let ended = asked.and_then(|()| self.ends.read_exact(&mut status));
        let (mut reports, said, crashed) = self.shared.with(|page| {
            let said = String::from_utf8_lossy(&page.text[..page.said]).into_owned();
            let reports: Vec<Report> = (0..page.done).map(|run| page.report(run)).collect();
            let crashed = (page.done < BATCH).then(|| page.report(page.done));
            (reports, said, crashed)
        });
        if ended.is_err() {
            let why = if said.is_empty() { "it crashed" } else { &said };
            return Err(format!("the set-up: {why}"));
        }
        match i32::from_ne_bytes(status) {
            0 => {
                if let Some(last) = reports.last_mut() {
                    last.failure = (!said.is_empty()).then_some(said);
                }
            }
            status => reports.push(Report {
                failure: Some(crash(status, &said)),
                ..crashed.unwrap_or_default()
            }),
        }
        Ok(reports)
    }
}

fn crash(status: i32, said: &str) -> String {
    let how = match libc::WIFSIGNALED(status) {
        true if libc::WTERMSIG(status) == libc::SIGALRM => {
            format!("computes for more than {PATIENCE} s")
        }
        true => format!("crash: signal {}", libc::WTERMSIG(status)),
        false => format!("crash: status {status}"),
    };
    format!("{how} {said}")
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        self.orders = None;
        let mut status = 0;
        // SAFETY: the server is ours, and has not been waited for; it ends when nothing can be
        // asked any more. Nothing uses the page then.
        unsafe {
            libc::waitpid(self.pid, &raw mut status, 0);
            libc::munmap(self.shared.0.as_ptr().cast(), size_of::<Page>());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BATCH, Order, Snapshot};
    use std::cell::Cell;

    thread_local! {
        static OWN: Cell<u64> = const { Cell::new(0) };
    }

    #[test]
    fn each_run_begins_with_the_same_memory_and_a_crash_ends_that_run_alone() {
        let mut snapshot = Snapshot::new(|server| {
            let mut heap = vec![0_u64; 100_000];
            let mut stack = [0_u64; 1_000];
            let (order, told) = server.serve();
            let seed = order.seed;
            let at = seed as usize;
            let found = heap[at] + heap[50_000] + stack[at % 1_000] + stack[0] + OWN.get();
            (heap[at], heap[50_000], stack[at % 1_000], stack[0]) = (1, 1, 1, 1);
            OWN.set(1);
            let grown: Vec<u64> = std::iter::repeat_n(1, 1_000 * at).collect();
            std::hint::black_box((&heap, &stack, &grown));
            if seed == 40 {
                std::process::abort();
            }
            if seed == 50 {
                told.ends(Err("a promise".into()));
            }
            told.ends(Ok(found + 100 * seed))
        })
        .unwrap();
        let mut runs = |seed, runs: usize| {
            let mut order = Order::by_time(seed);
            order.runs = runs as u64;
            snapshot.runs(order).unwrap()
        };
        for _ in 0..3 {
            let reports = runs(0, BATCH);
            let logs: Vec<u64> = reports[..40].iter().map(|report| report.log).collect();
            assert_eq!(logs, (0..40).map(|seed| 100 * seed).collect::<Vec<_>>());
            assert_eq!(reports.len(), 41);
            let crash = reports[40].failure.as_deref();
            assert_eq!(crash.map(str::trim), Some("crash: signal 6"));
            let reports = runs(41, BATCH);
            assert_eq!(reports.len(), 10);
            assert_eq!(reports[9].failure.as_deref(), Some("a promise"));
            assert_eq!(runs(51, BATCH).len(), BATCH);
        }
    }
}
