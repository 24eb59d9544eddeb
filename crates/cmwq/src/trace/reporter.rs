//! The reporter: one thread of each engine that calls the program's handlers in place of the engine's other threads, and a short-lived one
//! for the process's timer thread.
//!
//! A handler is the program's code and may block. The service thread and the creator must not, so their messages go to the reporter's queue.
//! It is started with the engine's first workqueue and not on demand: most often there is a message because no thread can be created.
#![forbid(unsafe_code)]

use super::handlers::say_warning;
use super::panics::{Forgiving, caught};
use crate::sys::local::thread_local;
use crate::sys::park::Parker;
use crate::sys::sync::Mutex;
use crate::sys::thread;
use crate::topology::CpuSet;
use std::cell::OnceCell;
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

/// A handler that never returns must not fill the memory.
const MOST_WAITING: usize = 64;

/// Builds a text and hands it to a handler.
type Message = Box<dyn FnOnce() + Send>;

#[derive(Default)]
struct Messages {
    waiting: VecDeque<Message>,
    /// How many messages found no room.
    dropped: u64,
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
}

thread_local! {
    /// The reporter of this thread's messages.
    static SPEAKER: OnceCell<Arc<Reporter>> = const { OnceCell::new() };
}

/// Delivers a message: by the calling thread's reporter, or else at once.
pub(in crate::trace) fn deliver(message: impl FnOnce() + Send + 'static) {
    // A thread that is ending has no `SPEAKER` any more.
    match SPEAKER.try_with(|speaker| speaker.get().cloned()) {
        Ok(Some(speaker)) => speaker.add(Box::new(message)),
        _ => message(),
    }
}

/// Drops what may run the program's destructors: on the reporter of a thread that has one, since they may block, or else at once. They may panic.
pub(crate) fn drop_elsewhere(value: impl Send + 'static) {
    let value = Forgiving::new(value);
    let job = move || drop(value);
    match SPEAKER.try_with(|speaker| speaker.get().cloned()) {
        Ok(Some(speaker)) => speaker.perform(Box::new(job)),
        _ => job(),
    }
}

impl Reporter {
    pub(crate) fn new() -> Arc<Reporter> {
        Arc::new(Reporter {
            messages: Mutex::new(Messages::default()),
            parker: Parker::new(),
        })
    }

    /// Starts the thread, on `cpus`, if it does not run yet.
    pub(crate) fn ensure_started(self: &Arc<Self>, cpus: &CpuSet) -> io::Result<()> {
        let mut messages = self.messages.lock();
        if !messages.started {
            let reporter = self.clone();
            thread::spawn_bound("cmwq-reporter", cpus, move || reporter.run())?;
            messages.started = true;
        }
        Ok(())
    }

    /// From now on the calling thread waits for no handler.
    pub(crate) fn speak_for_current_thread(self: &Arc<Self>) {
        SPEAKER.with(|speaker| {
            // A thread serves one engine.
            let _ = speaker.set(self.clone());
        });
    }

    /// Ends the thread after the waiting messages. The caller does not wait for it.
    pub(crate) fn stop(&self) {
        self.messages.lock().stop = true;
        self.parker.unpark();
    }

    /// Delivers the waiting messages on a thread that ends afterwards, or on the calling one if no thread can be created. For a reporter
    /// that rarely has messages, and is not started.
    pub(crate) fn say_elsewhere(self: &Arc<Self>) {
        {
            let mut messages = self.messages.lock();
            if messages.waiting.is_empty() || messages.started {
                return;
            }
            messages.started = true;
        }
        let reporter = self.clone();
        if thread::spawn("cmwq-reporter", move || reporter.say_all()).is_err() {
            self.say_all();
        }
    }

    /// Delivers all waiting messages, and then counts as not started.
    fn say_all(&self) {
        loop {
            let (message, dropped) = {
                let mut messages = self.messages.lock();
                let next = messages.next();
                if next.0.is_none() && next.1 == 0 {
                    messages.started = false;
                    return;
                }
                next
            };
            say(message, dropped);
        }
    }

    /// Runs a job that is not for the caller's thread. It always finds room, and runs after the waiting messages.
    pub(crate) fn perform(&self, job: Box<dyn FnOnce() + Send>) {
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
            let (message, dropped, stop) = {
                let mut messages = self.messages.lock();
                let (message, dropped) = messages.next();
                (message, dropped, messages.stop)
            };
            let idle = message.is_none();
            say(message, dropped);
            if idle && stop {
                return;
            }
            if idle {
                self.parker.park();
            }
        }
    }
}

/// A handler must not panic; one that does is still called for the next message.
fn say(message: Option<Message>, dropped: u64) {
    if let Some(message) = message {
        caught(message);
    }
    if dropped > 0 {
        caught(|| say_warning(&lost(dropped)));
    }
}

fn lost(dropped: u64) -> String {
    format!("{dropped} warnings or reports were dropped while a handler did not return")
}

#[cfg(all(test, not(cmwq_loom)))]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn messages_come_in_order_and_those_that_find_no_room_are_counted() {
        let reporter = Reporter::new();
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
        assert_eq!(reporter.messages.lock().dropped, 0, "and said");
    }

    #[test]
    fn a_handler_that_panics_is_called_again() {
        let reporter = Reporter::new();
        let (said, heard) = mpsc::channel();
        struct PanicsAgain;
        impl Drop for PanicsAgain {
            fn drop(&mut self) {
                std::panic::resume_unwind(Box::new(()));
            }
        }
        reporter.add(Box::new(|| {
            std::panic::resume_unwind(Box::new(PanicsAgain))
        }));
        reporter.add(Box::new(move || said.send(()).unwrap()));
        reporter.stop();
        reporter.run();
        assert_eq!(heard.iter().count(), 1);
    }
}
