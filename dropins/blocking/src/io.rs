//! [`Unblock`]: a blocking handle with asynchronous traits.

use crate::items::channel;
use crate::job::{End, Job};
use futures_io::{AsyncRead, AsyncSeek, AsyncWrite};
use futures_lite::Stream;
use futures_lite::future::poll_fn;
use std::fmt;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

/// Between an `Unblock` and its job there are so many items, or bytes, at most.
const ITEMS: usize = 8 * 1024;
const BYTES: usize = 8 * 1024 * 1024;

/// A blocking handle that is used on the workqueue: a [`Stream`] if `T` is an [`Iterator`];
/// [`AsyncRead`], [`AsyncWrite`], [`AsyncSeek`] if it is [`Read`], [`Write`], [`Seek`].
///
/// - *Reading* goes on in the background until the pipe between is full: the handle may be further
///   than what was read, and what was read ahead is lost when it is used otherwise. Relative
///   [seeks](SeekFrom::Current) begin where the handle is.
/// - *Writing* puts bytes into a pipe. [Flush](AsyncWrite::poll_flush) to learn of errors, and
///   before dropping it: what is in the pipe is lost otherwise.
/// - A read that blocks when it is dropped goes on blocking a thread, and what it reads is lost.
///
/// ```
/// use blocking::Unblock;
/// use futures_lite::prelude::*;
///
/// # futures_lite::future::block_on(async {
/// let mut stdout = Unblock::new(std::io::stdout());
/// stdout.write_all(b"Hello world!").await?;
/// stdout.flush().await?;
/// # std::io::Result::Ok(()) }).unwrap();
/// ```
pub struct Unblock<T> {
    /// Absent while a job has it; for ever, once it was closed or the job has panicked.
    io: Option<Box<T>>,
    job: Option<Job<T>>,
    cap: Option<usize>,
}

impl<T> Unblock<T> {
    /// Wraps a handle.
    pub fn new(io: T) -> Unblock<T> {
        Unblock {
            io: Some(Box::new(io)),
            job: None,
            cap: None,
        }
    }

    /// Wraps a handle. Between it and asynchronous code there are at most `cap` items of an
    /// iterator (8192 unless said otherwise) or bytes (8 MiB).
    pub fn with_capacity(cap: usize, io: T) -> Unblock<T> {
        Unblock {
            cap: Some(cap),
            ..Unblock::new(io)
        }
    }

    /// The handle, when nothing uses it any more. Errors of what was written and not flushed are lost.
    pub async fn get_mut(&mut self) -> &mut T {
        let _ = self.stop().await;
        self.io.as_mut().expect(TAKEN)
    }

    /// Calls `op` with the handle on the workqueue. Errors of what was written and not flushed are lost.
    ///
    /// # Panics
    /// If `op` does.
    pub async fn with_mut<R, F>(&mut self, op: F) -> R
    where
        F: FnOnce(&mut T) -> R + Send + 'static,
        R: Send + 'static,
        T: Send + 'static,
    {
        let _ = self.stop().await;
        let (sender, mut receiver) = channel(1);
        self.job = Some(Job::call(self.take(), op, sender));
        let result = poll_fn(|cx| receiver.poll_next(cx)).await;
        // The original's words.
        result.expect("`Unblock::with_mut()` operation has panicked: RecvError")
    }

    /// The handle back, when nothing uses it any more. Errors of what was written and not flushed are lost.
    pub async fn into_inner(mut self) -> T {
        let _ = self.stop().await;
        *self.take()
    }

    /// The handle, for a job. Nothing uses it.
    fn take(&mut self) -> Box<T> {
        self.io.take().expect(TAKEN)
    }

    async fn stop(&mut self) -> io::Result<()> {
        poll_fn(|cx| self.poll_stop(cx)).await
    }

    /// Waits until no job has the handle, and tells it to end. Fails if what the job did has failed.
    fn poll_stop(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if let Some(job) = &mut self.job {
            job.end = End::None;
        }
        self.poll_end(cx).map_ok(drop)
    }

    /// Waits for the end of the job, and takes the handle back.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<u64>> {
        // It is not there again if polling it panics.
        let Some(mut job) = self.job.take() else {
            return Poll::Ready(Ok(0));
        };
        let Poll::Ready((io, result)) = job.poll(cx) else {
            self.job = Some(job);
            return Poll::Pending;
        };
        self.io = Some(io);
        Poll::Ready(result)
    }
}

const TAKEN: &str = "the inner value was closed, or lost in a panic";

impl<T: fmt::Debug> fmt::Debug for Unblock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Unblock");
        match (&self.io, &self.job) {
            (Some(io), _) => debug.field("io", io).finish(),
            (None, Some(_)) => debug.field("io", &format_args!("<blocked>")).finish(),
            (None, None) => debug.field("io", &format_args!("<closed>")).finish(),
        }
    }
}

impl<T> Stream for Unblock<T>
where
    T: Iterator + Send + 'static,
    T::Item: Send + 'static,
{
    type Item = T::Item;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<T::Item>> {
        loop {
            match &mut self.job {
                Some(job) if matches!(job.end, End::Items(_)) => {
                    let item = ready!(job.poll_item(cx));
                    if item.is_none() {
                        // Iterating does not fail.
                        let _ = ready!(self.poll_end(cx));
                    }
                    return Poll::Ready(item);
                }
                Some(_) => {
                    let _ = ready!(self.poll_stop(cx));
                }
                None => {
                    let cap = self.cap.unwrap_or(ITEMS);
                    self.job = Some(Job::iterate(self.take(), cap));
                }
            }
        }
    }
}

impl<T: Read + Send + 'static> AsyncRead for Unblock<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            match &mut self.job {
                Some(Job {
                    end: End::Reads(reader),
                    ..
                }) => {
                    let n = ready!(reader.poll_drain_bytes(cx, buf));
                    if n == 0 {
                        ready!(self.poll_end(cx))?;
                    }
                    return Poll::Ready(Ok(n));
                }
                Some(_) => ready!(self.poll_stop(cx))?,
                None => {
                    let cap = self.cap.unwrap_or(BYTES);
                    self.job = Some(Job::read(self.take(), cap));
                }
            }
        }
    }
}

impl<T: Write + Send + 'static> AsyncWrite for Unblock<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if buf.is_empty() {
            return Poll::Ready(Ok(0));
        }
        loop {
            match &mut self.job {
                Some(Job {
                    end: End::Writes(writer),
                    ..
                }) => {
                    let n = ready!(writer.poll_fill_bytes(cx, buf));
                    if n > 0 {
                        return Poll::Ready(Ok(n));
                    }
                    // The job ends, by an error.
                    ready!(self.poll_end(cx))?;
                }
                Some(_) => ready!(self.poll_stop(cx))?,
                None => {
                    let cap = self.cap.unwrap_or(BYTES);
                    self.job = Some(Job::write(self.take(), cap));
                }
            }
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Whatever is in the pipe is written and flushed at the end of the job.
        self.poll_stop(cx)
    }

    fn poll_close(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_stop(cx))?;
        self.io = None;
        Poll::Ready(Ok(()))
    }
}

impl<T: Seek + Send + 'static> AsyncSeek for Unblock<T> {
    fn poll_seek(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pos: SeekFrom,
    ) -> Poll<io::Result<u64>> {
        loop {
            match &mut self.job {
                Some(job) if matches!(job.end, End::Seeks(to) if to == pos) => {
                    return self.poll_end(cx);
                }
                Some(_) => ready!(self.poll_stop(cx))?,
                None => self.job = Some(Job::seek(self.take(), pos)),
            }
        }
    }
}
