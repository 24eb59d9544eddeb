//! Threads and file descriptors run out: at the number that an engine needs, one below it and one
//! above it, from the start and later. Nothing hangs, nothing is lost or left half made, and the
//! caller gets the error.

use crate::harness::{Deadline, eventually, in_own_process, threads_named};
use cmwq::{CompletionQueue, Engine, Workqueue};
use std::fs;
use std::io::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// What engines need is far below.
const FAR_MORE: u64 = 64;

fn threads() -> u64 {
    threads_named("").len() as u64
}

#[cfg(target_env = "gnu")]
type Resource = libc::__rlimit_resource_t;
#[cfg(not(target_env = "gnu"))]
type Resource = libc::c_int;

/// Sets the soft limit, below the hard one.
fn soft_limit(resource: Resource, most: u64) {
    // SAFETY: reads and writes plain data.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(resource, &mut limit), 0);
        limit.rlim_cur = most.min(limit.rlim_max);
        let set = libc::setrlimit(resource, &limit);
        assert_eq!(set, 0, "{}", Error::last_os_error());
    }
}

/// All of the library's threads have ended, and count no more against the limit.
fn alone(before: u64) {
    eventually(|| threads() == before);
}

fn queue(engine: &Engine) -> Result<Workqueue, cmwq::Error> {
    // With a rescuer items run whatever other thread is missing.
    engine.workqueue("t").mem_reclaim().workers_only().build()
}

/// Items run, though no worker may be to be had.
fn works(wq: &Workqueue) {
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..100 {
        let count = count.clone();
        wq.execute(move || {
            count.fetch_add(1, Ordering::SeqCst);
        })
        .expect("it takes items");
    }
    assert_eq!(wq.spawn(|| 7).join().expect("no panic"), 7);
    wq.flush().expect("not an item");
    assert_eq!(count.load(Ordering::SeqCst), 100);
}

/// Limits the threads by `limit`: with fewer than needed building a queue returns an error, with as
/// many and with more it works.
fn at_the_limit(mut limit: impl FnMut(u64)) {
    let _deadline = Deadline::with_dump("threads run out", String::new);
    let own = threads();
    let mut needed = None;
    for more in 0..FAR_MORE {
        limit(own + more);
        let engine = Engine::builder().build().expect("engines are only memory");
        match queue(&engine) {
            Ok(wq) => {
                works(&wq);
                needed = Some(more);
                break;
            }
            Err(error) => {
                let said = error.to_string();
                assert!(said.contains("thread cannot be created"), "{said}");
            }
        }
        drop(engine);
        alone(own);
    }
    alone(own);
    let needed = needed.expect("an engine needs fewer");
    assert!((1..=4).contains(&needed), "{needed} threads");
    // A new engine for each limit. The system may count an ended thread for a moment more: then the
    // test tries again.
    for more in [needed, needed + 1] {
        limit(own + more);
        let engine = Engine::builder().build().expect("engines are only memory");
        let mut built = queue(&engine);
        eventually(|| {
            if built.is_err() {
                built = queue(&engine);
            }
            built.is_ok()
        });
        works(&built.expect("it was just so"));
        drop(engine);
        alone(own);
    }
    // None again, which can be mended.
    limit(own);
    let engine = Engine::builder().build().expect("engines are only memory");
    assert!(queue(&engine).is_err());
    limit(own + FAR_MORE);
    works(&queue(&engine).expect("there are threads now"));
}

#[test]
fn the_last_thread_that_a_user_may_have() {
    in_own_process(|| {
        // SAFETY: takes no arguments.
        if unsafe { libc::geteuid() } != 0 {
            eprintln!(
                "skipped, because the limit is on all threads of a user, and only root can become one without any"
            );
            return;
        }
        let user = 2_000_000_000 + std::process::id() % 100_000_000;
        // SAFETY: plain data. The second makes /proc/self the new user's.
        let became = unsafe {
            libc::setresuid(user, user, user) == 0 && libc::prctl(libc::PR_SET_DUMPABLE, 1) == 0
        };
        if !became {
            let error = Error::last_os_error();
            eprintln!("skipped, because another user cannot be had here ({error})");
            return;
        }
        at_the_limit(|most| soft_limit(libc::RLIMIT_NPROC, most));
    });
}

/// A control group of PIDs; removed when dropped, with the process back where it was.
struct PidsGroup {
    own: PathBuf,
    parent: PathBuf,
}

impl PidsGroup {
    /// With this process in it.
    fn new() -> Result<Self, String> {
        let parent = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"]
            .map(Path::new)
            .into_iter()
            .find(|folder| folder.join("cgroup.procs").exists());
        let parent = parent.ok_or("there are no control groups of PIDs")?;
        // Version 2 has it divided; where it is not a folder without the file is made.
        let _ = fs::write(parent.join("cgroup.subtree_control"), "+pids");
        let own = parent.join(format!("cmwq-exhausted-{}", std::process::id()));
        fs::create_dir(&own).map_err(|error| format!("no control group can be made: {error}"))?;
        let group = PidsGroup {
            own,
            parent: parent.to_owned(),
        };
        if !group.own.join("pids.max").exists() {
            return Err("control groups do not count PIDs here".to_owned());
        }
        fs::write(group.own.join("cgroup.procs"), "0")
            .map_err(|error| format!("the process cannot be moved: {error}"))?;
        Ok(group)
    }
}

impl Drop for PidsGroup {
    fn drop(&mut self) {
        let _ = fs::write(self.parent.join("cgroup.procs"), "0");
        // A left-over folder is no reason to fail a test.
        let _ = fs::remove_dir(&self.own);
    }
}

#[test]
fn the_last_thread_that_a_control_group_may_have() {
    in_own_process(|| match PidsGroup::new() {
        Err(why) => eprintln!("skipped, because {why}"),
        Ok(group) => at_the_limit(|most| {
            fs::write(group.own.join("pids.max"), most.to_string()).expect("ours");
        }),
    });
}

/// Files that may be open. Lowering the limit closes nothing.
fn files(most: u64) {
    soft_limit(libc::RLIMIT_NOFILE, most);
}

#[test]
fn no_file_at_all_from_the_start_and_none_later() {
    in_own_process(|| {
        files(0);
        // The machine cannot be read: an error, no guess.
        let error = Engine::builder().build().map(drop).expect_err("no file");
        let said = format!("{error:?}");
        assert!(said.contains(&format!("code: {}", libc::EMFILE)), "{said}");
        files(FAR_MORE);
        let engine = Engine::builder().build().expect("an engine");
        let _deadline = Deadline::new("no files", &engine);
        files(0);
        let wq = queue(&engine).expect("a queue");
        works(&wq);
        // An eventfd cannot be made, and the caller gets the error.
        let builder = || CompletionQueue::<u32>::builder().eventfd();
        let error = builder().build().map(drop).expect_err("it is a file");
        assert_eq!(error.raw_os_error(), Some(libc::EMFILE));
        files(FAR_MORE);
        let done = builder().build().expect("there are files now");
        files(0);
        works(&wq);
        // An existing one still works.
        assert!(done.arm());
        done.submit(&wq, 0, || 7).expect("it takes items");
        let mut entries = Vec::new();
        assert_eq!(done.wait(1, &mut entries), 1);
        assert_eq!(entries.pop().expect("one").result.expect("no panic"), 7);
        files(FAR_MORE);
    });
}
