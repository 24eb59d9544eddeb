//! The reporter: a thread that runs the program's code in place of the library's other threads. It
//! delivers warnings and reports, and drops values that the program has left. Each engine has one,
//! and so has the timer thread of the process.
//!
//! The program's code may block, and may wait for what the library's threads are needed for. So no
//! worker, no service thread and no timer thread waits for it. The reporter is started before the
//! first thread that may need it, and not on demand, because the most frequent message is that no
//! thread can be created.
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

/// How many messages may wait, so that a handler that never returns does not let them fill the
/// memory.
const MOST_WAITING: usize = 64;

/// Builds a text and passes it to a handler, or drops a value. It does not panic.
type Message = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Messages {
    waiting: VecDeque<Message>,
    /// How many messages were dropped because too many waited.
    dropped: u64,
    /// How many threads may still send messages.
    speakers: usize,
    started: bool,
    stop: bool,
}

impl Messages {
    /// Returns the next message, and how many messages were dropped between it and the one after
    /// it.
    fn next(&mut self) -> (Option<Message>, u64) {
        let message = self.waiting.pop_front();
        // The dropped messages came after all the messages that waited then, so they are reported
        // when no message waits any more.
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
    /// Reports how many messages were dropped.
    say_dropped: fn(u64),
    /// The fork generation of the process that made the reporter.
    born: u32,
}

thread_local! {
    /// The reporter to which this thread leaves its messages.
    static SPEAKER: RefCell<Option<Arc<Reporter>>> = const { RefCell::new(None) };
}

/// Returns the reporter of the calling thread. There is none on a thread that is ending, nor on a
/// thread that was a worker of the process from which this one was forked.
fn of_current_thread() -> Option<Arc<Reporter>> {
    let speaker = SPEAKER.try_with(|speaker| speaker.borrow().clone());
    let own = |reporter: &Arc<Reporter>| reporter.born == fork::generation();
    speaker.ok().flatten().filter(own)
}

/// Delivers a message: on the reporter of the calling thread if there is one, or else at once on
/// the calling thread.
pub(in crate::trace) fn deliver(message: impl FnOnce() + Send + 'static) {
    match of_current_thread() {
        Some(reporter) => reporter.add(Box::new(message)),
        None => message(),
    }
}

/// Does a job as [`deliver`] delivers a message, but a job is never dropped. The reporter does it
/// after the messages that wait.
pub(in crate::trace) fn perform(job: impl FnOnce() + Send + 'static) {
    match of_current_thread() {
        Some(reporter) => reporter.perform(Box::new(job)),
        None => job(),
    }
}

/// Stands for a thread that runs, or is about to be started, and that may send messages. The
/// reporter does not end while there is such a value.
pub(crate) struct Speaker(Arc<Reporter>);

impl Drop for Speaker {
    fn drop(&mut self) {
        // In the child of a fork another thread of the parent may hold the lock for ever.
        if self.0.born == fork::generation() {
            self.0.messages.lock().speakers -= 1;
            self.0.parker.unpark();
        }
    }
}

/// While this value exists, the calling thread leaves its messages to the reporter.
pub(crate) struct Speaks(Speaker);

impl Speaker {
    /// Makes the calling thread leave its messages to the reporter from now on, so that it waits
    /// for no handler.
    pub(crate) fn speak(self) -> Speaks {
        SPEAKER.with(|speaker| *speaker.borrow_mut() = Some(self.0.clone()));
        Speaks(self)
    }
}

impl Speaks {
    /// Returns a [`Speaker`] for a thread that the calling thread is about to start.
    pub(crate) fn another(&self) -> Speaker {
        self.0.0.speaker()
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

    /// Starts the reporter's thread under the name `name`, bound to `cpus`, if it does not run yet.
    pub(crate) fn ensure_started(self: &Arc<Self>, name: &str, cpus: &CpuSet) -> io::Result<()> {
        let mut messages = self.messages.lock();
        if !messages.started {
            let reporter = self.clone();
            thread::spawn_bound(name, cpus, move || reporter.run())?;
            messages.started = true;
        }
        Ok(())
    }

    /// Returns a [`Speaker`] for a thread that is about to be started.
    pub(crate) fn speaker(self: &Arc<Self>) -> Speaker {
        self.messages.lock().speakers += 1;
        Speaker(self.clone())
    }

    /// Tells the reporter's thread to end when it has delivered the waiting messages and no
    /// [speaker](Self::speaker) is left. The caller does not wait for that.
    pub(crate) fn stop(&self) {
        self.messages.lock().stop = true;
        self.parker.unpark();
    }

    /// Has the reporter do a job after the messages that wait. The job is never dropped.
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
        // The thread ends when it has delivered the earlier messages.
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
            // Here the thread is told to stop before it runs and before the message comes.
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
