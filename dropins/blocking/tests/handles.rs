//! What the original's own tests leave open: errors, ends, closing, the limit.

use blocking::{Unblock, unblock};
use futures_lite::future::block_on;
use futures_lite::prelude::*;
use std::io::{self, Cursor, Read, Seek, SeekFrom, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// Gives its answers one after the other; then 0 bytes.
struct Answers(Vec<io::Result<usize>>);

impl Answers {
    fn new(answers: impl IntoIterator<Item = io::Result<usize>>) -> Self {
        let mut left: Vec<_> = answers.into_iter().collect();
        left.reverse();
        Answers(left)
    }

    /// For a buffer of so many bytes.
    fn next(&mut self, room: usize) -> io::Result<usize> {
        if room == 0 {
            return Ok(0);
        }
        self.0.pop().unwrap_or(Ok(0)).map(|n| n.min(room))
    }
}

impl Read for Answers {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.next(buf.len())
    }
}

impl Write for Answers {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.next(buf.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Answers {
    fn seek(&mut self, _: SeekFrom) -> io::Result<u64> {
        self.next(usize::MAX).map(|n| n as u64)
    }
}

fn failed(kind: io::ErrorKind) -> io::Result<usize> {
    Err(kind.into())
}

#[test]
fn interruptions_are_not_seen() {
    let interrupted = || failed(io::ErrorKind::Interrupted);
    let answers = Answers::new([Ok(3), interrupted(), Ok(2)]);
    let mut source = Unblock::with_capacity(1, answers);
    let mut all = Vec::new();
    block_on(source.read_to_end(&mut all)).expect("it reads");
    assert_eq!(all.len(), 2, "a byte at a time fits, of each answer");
}

#[test]
fn a_read_that_fails_says_so_once() {
    let answers = Answers::new([Ok(1), failed(io::ErrorKind::TimedOut), Ok(1)]);
    let mut source = Unblock::new(answers);
    let mut buf = [0; 4];
    block_on(async {
        assert_eq!(source.read(&mut buf).await.expect("a byte"), 1);
        let error = source.read(&mut buf).await.expect_err("the error");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(source.read(&mut buf).await.expect("a byte"), 1);
    });
}

#[test]
fn a_flush_tells_of_what_could_not_be_written() {
    let full = io::ErrorKind::StorageFull;
    let mut sink = Unblock::new(Answers::new([Ok(1), failed(full), Ok(9)]));
    block_on(async {
        sink.write_all(&[1, 2]).await.expect("the pipe takes it");
        let error = sink.flush().await.expect_err("the error");
        assert_eq!(error.kind(), full);
        // It can be used on.
        sink.write_all(&[3]).await.expect("the pipe takes it");
        sink.flush().await.expect("it was written");
    });
}

#[test]
fn a_handle_that_takes_nothing_is_an_error() {
    let mut sink = Unblock::new(Answers::new([]));
    block_on(async {
        sink.write_all(&[1]).await.expect("the pipe takes it");
        let error = sink.flush().await.expect_err("the error");
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
    });
}

#[test]
fn a_seek_gives_its_error_and_the_next_one_its_position() {
    let answers = Answers::new([failed(io::ErrorKind::InvalidInput), Ok(7)]);
    let mut file = Unblock::new(answers);
    block_on(async {
        let error = file.seek(SeekFrom::End(-9)).await.expect_err("the error");
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        assert_eq!(file.seek(SeekFrom::Start(7)).await.expect("a position"), 7);
    });
}

#[test]
fn each_use_ends_the_one_before() {
    block_on(async {
        let mut file = Unblock::new(Cursor::new(vec![0; 8]));
        file.write_all(&[1, 2, 3]).await.expect("room");
        // The write is finished before the handle moves, and the read before the next write.
        assert_eq!(file.seek(SeekFrom::Start(1)).await.expect("a position"), 1);
        let mut two = [0; 2];
        file.read_exact(&mut two).await.expect("two bytes");
        assert_eq!(two, [2, 3]);
        file.seek(SeekFrom::Start(7)).await.expect("a position");
        file.write_all(&[9]).await.expect("room");
        let length = file.with_mut(|cursor| cursor.get_ref().len()).await;
        assert_eq!(length, 8);
        assert_eq!(file.get_mut().await.get_ref()[..3], [1, 2, 3]);
        assert_eq!(file.into_inner().await.into_inner()[7], 9);
    });
}

#[test]
fn closing_writes_what_is_left_and_drops_the_handle() {
    struct Tells(Vec<u8>, mpsc::Sender<Vec<u8>>);
    impl Write for Tells {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            Write::write(&mut self.0, buf)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    impl Drop for Tells {
        fn drop(&mut self) {
            self.1
                .send(std::mem::take(&mut self.0))
                .expect("the test waits");
        }
    }
    let (sender, dropped) = mpsc::channel();
    let mut sink = Unblock::new(Tells(Vec::new(), sender));
    block_on(async {
        sink.write_all(b"all of it")
            .await
            .expect("the pipe takes it");
        sink.close().await.expect("it closes");
    });
    assert_eq!(dropped.try_recv().expect("it is dropped"), b"all of it");
}

#[test]
fn its_debug_output_says_whether_it_is_there() {
    block_on(async {
        let mut numbers = Unblock::new(0..2);
        assert_eq!(format!("{numbers:?}"), "Unblock { io: 0..2 }");
        assert_eq!(numbers.next().await, Some(0));
        assert_eq!(format!("{numbers:?}"), "Unblock { io: <blocked> }");
        assert_eq!(numbers.next().await, Some(1));
        assert_eq!(numbers.next().await, None);
        assert_eq!(format!("{numbers:?}"), "Unblock { io: 2..2 }");
    });
}

#[test]
fn the_number_of_threads_is_the_limit_of_the_workqueue() {
    let limit = || {
        let engine = cmwq::Engine::global().expect("an engine");
        let queues = engine.live_queues();
        let queue = queues.iter().find(|queue| queue.name() == "blocking");
        queue.expect("the workqueue").max_active()
    };
    block_on(unblock(|| ()));
    // The only test that changes it.
    assert_eq!(limit(), 500);
    for (asked, expected) in [(3, 3), (1_000_000, cmwq::raw::WQ_MAX_ACTIVE), (500, 500)] {
        blocking::set_max_blocking_threads(NonZeroUsize::new(asked).expect("not 0"));
        assert_eq!(limit(), expected);
    }
}

/// A result that is counted as long as it is there.
struct Counted(usize, Arc<AtomicUsize>);

impl Counted {
    fn new(number: usize, there: &Arc<AtomicUsize>) -> Self {
        there.fetch_add(1, Ordering::SeqCst);
        Counted(number, there.clone())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::SeqCst);
    }
}

#[test]
fn behind_a_backlog_each_task_gets_its_result_and_what_nobody_wants_is_dropped() {
    let until = Instant::now() + Duration::from_secs(60);
    let (there, deferred) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let closure = |number| {
        let (there, deferred) = (there.clone(), deferred.clone());
        move || {
            let begin = Instant::now();
            while begin.elapsed() < Duration::from_micros(20) {
                std::hint::spin_loop();
            }
            deferred.fetch_add(usize::from(cmwq::raw::defers_wakes()), Ordering::SeqCst);
            Counted::new(number, &there)
        }
    };
    while deferred.load(Ordering::SeqCst) == 0 {
        let tasks: Vec<_> = (0..2000).map(|number| unblock(closure(number))).collect();
        let (sender, done) = mpsc::channel();
        thread::spawn(move || {
            for (number, task) in tasks.into_iter().enumerate() {
                match number % 4 {
                    0 => drop(task),
                    1 => task.detach(),
                    _ => assert_eq!(block_on(task).0, number),
                }
            }
            sender.send(()).expect("the test waits");
        });
        let waits = until.saturating_duration_since(Instant::now());
        done.recv_timeout(waits).expect("all results");
    }
    while there.load(Ordering::SeqCst) != 0 {
        assert!(Instant::now() < until, "a result is left");
        thread::yield_now();
    }
}
