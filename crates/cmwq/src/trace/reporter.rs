//! The reporter: one thread of each engine, and one for the process's timer thread, that does in place of the library's other threads what may run
//! the program's code: it delivers warnings and reports, and drops what the program has left.
//!
//! Such code may block, and may wait for what the library's threads are needed for. So no worker, no service thread and no timer waits for it. The
//! reporter is started before the first thread that may need it, and not on demand: most often there is a message because no thread can be created.
#![forbid(unsafe_code)]

use crate::sys::fork;
use crate::sys::local::thread_local;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::topology::CpuSet;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A handler that never returns must not fill the memory.
const MOST_WAITING: usize = 64;

/// Builds a text and hands it to a handler, or drops something. It does not panic.
type Message = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Messages {
    waiting: VecDeque<Message>,
    /// How many messages found no room.
    dropped: u64,
    /// Threads that may still have something to say.
    speakers: usize,
    started: bool,
    stop: bool,
}

impl Messages {
    /// The next message, and how many were dropped before the one after it.
    fn next(&mut self) -> (Option<Message>, u64) {
        let message = self.waiting.pop_front();
        // Dropped messages came after all that waited then.
        let dropped = match self.waiting.is_empty() {
            true => std::mem::take(&mut self.dropped),
            false => 0,
        };
        (message, dropped)
    }
}

pub(crate) struct Reporter {
    messages: Mutex<Messages>,
    parker: Parker,
    /// Says how many messages were dropped.
    say_dropped: fn(u64),
    /// The fork generation of its thread.
    born: u32,
}

thread_local! {
    /// The reporter of this thread's messages.
    static SPEAKER: RefCell<Option<Arc<Reporter>>> = const { RefCell::new(None) };
}

/// The reporter of the calling thread. A thread that is ending has none any more, nor has a thread that was a worker of the process that this one
/// was forked from.
fn of_current_thread() -> Option<Arc<Reporter>> {
    let speaker = SPEAKER.try_with(|speaker| speaker.borrow().clone());
    let own = |reporter: &Arc<Reporter>| reporter.born == fork::generation();
    speaker.ok().flatten().filter(own)
}

/// Delivers a message: by the calling thread's reporter, or else at once.
pub(in crate::trace) fn deliver(message: impl FnOnce() + Send + 'static) {
    match of_current_thread() {
        Some(reporter) => reporter.add(Box::new(message)),
        None => message(),
    }
}

/// Does a job as [`deliver`] does, but it always finds room. It comes after the messages that wait.
pub(in crate::trace) fn perform(job: impl FnOnce() + Send + 'static) {
    match of_current_thread() {
        Some(reporter) => reporter.perform(Box::new(job)),
        None => job(),
    }
}

/// A thread that is about to be started, or runs, and may have something to say: until this is dropped the reporter does not end.
pub(crate) struct Speaker(Arc<Reporter>);

impl Drop for Speaker {
    fn drop(&mut self) {
        // In a fork's child the lock may be held for ever.
        if self.0.born == fork::generation() {
            self.0.messages.lock().speakers -= 1;
            self.0.parker.unpark();
        }
    }
}

/// While it lives, the calling thread leaves its messages to the reporter.
pub(crate) struct Speaks(#[allow(dead_code, reason = "counted until it is dropped")] Speaker);

impl Speaker {
    /// From now on the calling thread waits for no handler.
    pub(crate) fn speak(self) -> Speaks {
        SPEAKER.with(|speaker| *speaker.borrow_mut() = Some(self.0.clone()));
        Speaks(self)
    }
}

impl Drop for Speaks {
    fn drop(&mut self) {
        let own = SPEAKER.try_with(|speaker| speaker.borrow_mut().take());
        drop(own);
    }
}

impl Reporter {
    pub(in crate::trace) fn new(say_dropped: fn(u64)) -> Arc<Reporter> {
        Arc::new(Reporter {
            messages: Mutex::new(Messages::default()),
            parker: Parker::new(),
            say_dropped,
            born: fork::generation(),
        })
    }

    /// Starts the thread, called `name`, on `cpus`, if it does not run yet.
    pub(crate) fn ensure_started(self: &Arc<Self>, name: &str, cpus: &CpuSet) -> io::Result<()> {
        let mut messages = self.messages.lock();
        if !messages.started {
            let reporter = self.clone();
            thread::spawn_bound(name, cpus, move || reporter.run())?;
            messages.started = true;
        }
        Ok(())
    }

    /// For a thread that is about to be started.
    pub(crate) fn speaker(self: &Arc<Self>) -> Speaker {
        self.messages.lock().speakers += 1;
        Speaker(self.clone())
    }

    /// Ends the thread after the waiting messages, when no [speaker](Self::speaker) is left. The caller does not wait for it.
    pub(crate) fn stop(&self) {
        self.messages.lock().stop = true;
        self.parker.unpark();
    }

    /// Does a job, which always finds room, after the messages that wait.
    pub(crate) fn perform(&self, job: Message) {
        self.messages.lock().waiting.push_back(job);
        self.parker.unpark();
    }

    fn add(&self, message: Message) {
        {
            let mut messages = self.messages.lock();
            if messages.waiting.len() >= MOST_WAITING {
                messages.dropped += 1;
                return;
            }
            messages.waiting.push_back(message);
        }
        self.parker.unpark();
    }

    fn run(&self) {
        loop {
            let (message, dropped, ends) = {
                let mut messages = self.messages.lock();
                let (message, dropped) = messages.next();
                let ends = messages.stop && messages.speakers == 0;
                (message, dropped, ends)
            };
            let idle = message.is_none();
            if let Some(message) = message {
                message();
            }
            if dropped > 0 {
                (self.say_dropped)(dropped);
            }
            if idle && ends {
                return;
            }
            if idle {
                self.parker.park();
            }
        }
    }
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;

    #[test]
    fn messages_come_in_order_and_those_that_find_no_room_are_counted() {
        static DROPPED: AtomicU64 = AtomicU64::new(0);
        let reporter = Reporter::new(|dropped| DROPPED.store(dropped, Ordering::Relaxed));
        let (said, heard) = mpsc::channel();
        let say = |text: String| {
            let said = said.clone();
            Box::new(move || said.send(text).unwrap()) as Message
        };
        for number in 0..MOST_WAITING + 3 {
            reporter.add(say(number.to_string()));
        }
        assert_eq!(reporter.messages.lock().dropped, 3);
        reporter.stop();
        // Ends after the earlier messages.
        reporter.run();
        drop(said);
        let expected = (0..MOST_WAITING).map(|number| number.to_string());
        assert!(heard.iter().eq(expected));
        assert_eq!(DROPPED.load(Ordering::Relaxed), 3, "and said");
    }

    #[test]
    fn it_ends_after_the_last_words_of_its_speakers() {
        let reporter = Reporter::new(|_| ());
        let (said, heard) = mpsc::channel();
        let speaker = reporter.speaker();
        let speaks = std::thread::spawn(move || {
            // By then the thread was told to stop.
            reporter.stop();
            let runs = std::thread::spawn({
                let reporter = reporter.clone();
                move || reporter.run()
            });
            let speaks = speaker.speak();
            let own = std::thread::current().id();
            deliver(move || said.send(std::thread::current().id() != own).unwrap());
            drop(speaks);
            runs.join().unwrap();
            assert!(of_current_thread().is_none());
        });
        speaks.join().unwrap();
        assert_eq!(heard.recv(), Ok(true), "another thread has said it");
    }
}
