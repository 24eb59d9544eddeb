//! How an item tells its issuer that it has run.

use cmwq_loads::Bell;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::io::{read, write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
#[cfg(feature = "peers")]
use std::sync::OnceLock;
#[cfg(feature = "peers")]
use std::sync::atomic::AtomicBool;
use std::sync::atomic::{AtomicU64, Ordering};
#[cfg(feature = "peers")]
use std::thread::{self, Thread};

/// Set by an item, waited for by one issuer.
pub(crate) trait Signal: Send + Sync + 'static {
    fn new() -> Self;
    /// Called by the issuer's thread before its first wait.
    fn adopt(&self) {}
    /// Makes it unset; nobody waits and nothing is under way.
    fn reset(&self);
    fn set(&self);
    fn wait(&self);
}

/// The standard library's park and unpark.
#[cfg(feature = "peers")]
pub(crate) struct Park {
    done: AtomicBool,
    issuer: OnceLock<Thread>,
}

#[cfg(feature = "peers")]
impl Signal for Park {
    fn new() -> Park {
        Park {
            done: AtomicBool::new(false),
            issuer: OnceLock::new(),
        }
    }

    fn adopt(&self) {
        self.issuer.get_or_init(thread::current);
    }

    fn reset(&self) {
        self.done.store(false, Ordering::Relaxed);
    }

    fn set(&self) {
        self.done.store(true, Ordering::Release);
        if let Some(issuer) = self.issuer.get() {
            issuer.unpark();
        }
    }

    fn wait(&self) {
        while !self.done.load(Ordering::Acquire) {
            thread::park();
        }
    }
}

/// cmwq's own.
impl Signal for cmwq::Completion {
    fn new() -> Self {
        cmwq::Completion::new()
    }

    fn reset(&self) {
        self.reinit();
    }

    fn set(&self) {
        self.complete();
    }

    fn wait(&self) {
        cmwq::Completion::wait(self);
    }
}

/// A channel of one place; its receiver looks for a while before it sleeps.
#[cfg(feature = "peers")]
pub(crate) struct Channel {
    sender: crossbeam_channel::Sender<()>,
    receiver: crossbeam_channel::Receiver<()>,
}

#[cfg(feature = "peers")]
impl Bell for Channel {
    const COUNTS: bool = true;

    fn new() -> Channel {
        let (sender, receiver) = crossbeam_channel::bounded(1);
        Channel { sender, receiver }
    }

    fn ring(&self) {
        // If it is full, the issuer has not looked since.
        let _ = self.sender.try_send(());
    }

    fn wait(&self) {
        self.receiver.recv().expect("the sender lives as long");
    }
}

/// What an event loop waits in, for one descriptor.
pub(crate) struct Watched(OwnedFd);

impl Watched {
    pub(crate) fn new(what: impl AsFd) -> Watched {
        let watched = epoll::create(epoll::CreateFlags::CLOEXEC).expect("an epoll instance");
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watched, what, data, epoll::EventFlags::IN).expect("it can be watched");
        Watched(watched)
    }

    /// Waits until it is readable.
    pub(crate) fn wait(&self) {
        let mut events = [MaybeUninit::uninit(); 1];
        // A signal ends it early: the caller looks again.
        let _ = epoll::wait(&self.0, &mut events, None);
    }
}

/// An eventfd, and an issuer that waits in `epoll_wait`, as in an event loop.
pub(crate) struct Eventfd {
    event: OwnedFd,
    watched: Watched,
}

impl Bell for Eventfd {
    fn new() -> Eventfd {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        let event = eventfd(0, flags).expect("an eventfd");
        let watched = Watched::new(&event);
        Eventfd { event, watched }
    }

    fn ring(&self) {
        write(&self.event, &1_u64.to_ne_bytes()).expect("it is never full");
    }

    fn wait(&self) {
        self.watched.wait();
        // It may be that there is nothing.
        let _ = read(&self.event, &mut [0_u8; 8]);
    }
}

/// cmwq's own: each ring is good for one wait.
pub(crate) struct Rung(cmwq::Completion);

impl Bell for Rung {
    const COUNTS: bool = true;

    fn new() -> Rung {
        Rung(cmwq::Completion::new())
    }

    fn ring(&self) {
        self.0.complete_one();
    }

    fn wait(&self) {
        self.0.wait();
    }
}

/// Up to 64 items of one issuer: which of them have run since it last looked. Only the item that
/// finds nothing set wakes the issuer, so that those that end while it is on its way are told with
/// the same wake-up.
pub(crate) struct Finished<B> {
    bits: AtomicU64,
    issuer: B,
}

impl<B: Bell> Finished<B> {
    pub(crate) fn new() -> Self {
        Finished {
            bits: AtomicU64::new(0),
            issuer: B::new(),
        }
    }

    pub(crate) fn adopt(&self) {
        self.issuer.adopt();
    }

    pub(crate) fn set(&self, index: u32) {
        if self.bits.fetch_or(1 << index, Ordering::AcqRel) == 0 {
            self.issuer.ring();
        }
    }

    /// The items that have run; waits for one.
    pub(crate) fn take(&self) -> u64 {
        loop {
            let bits = self.bits.swap(0, Ordering::AcqRel);
            if bits != 0 {
                return bits;
            }
            self.issuer.wait();
        }
    }
}
