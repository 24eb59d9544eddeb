//! What runs on the workqueue for an [`Unblock`](super::Unblock): it has the value meanwhile, and
//! gives it back.

use crate::Task;
use crate::items::{Receiver, Sender, channel};
use futures_lite::future::poll_fn;
use piper::{Reader, Writer};
use std::any::Any;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::pin::Pin;
use std::task::{Context, Poll};

/// The value, and a position for seeks.
type Back<T> = (Box<T>, io::Result<u64>);

pub(crate) struct Job<T> {
    pub(crate) end: End,
    task: Task<Back<T>>,
}

/// Our end of what connects us with a job. A job whose other end is gone ends.
pub(crate) enum End {
    /// A `Receiver<T::Item>`, whose type only the `Stream` knows.
    Items(Box<dyn Any + Send + Sync>),
    Reads(Reader),
    Writes(Writer),
    Seeks(SeekFrom),
    /// There is none, or it was dropped.
    None,
}

/// Goes on with an operation that a signal has interrupted.
fn uninterrupted(result: io::Result<usize>) -> Option<io::Result<usize>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => None,
        result => Some(result),
    }
}

impl<T: Send + 'static> Job<T> {
    fn new(end: End, job: impl Future<Output = Back<T>> + Send + 'static) -> Self {
        let task = crate::spawn(job, crate::queue);
        Job { end, task }
    }

    /// Calls `op` with the value, and sends what it returns.
    pub(crate) fn call<R: Send + 'static>(
        mut io: Box<T>,
        op: impl FnOnce(&mut T) -> R + Send + 'static,
        result: Sender<R>,
    ) -> Self {
        Self::new(End::None, async move {
            // The receiver may be gone.
            let _ = result.send(op(&mut io)).await;
            (io, Ok(0))
        })
    }

    /// Iterates, `cap` items ahead.
    pub(crate) fn iterate(mut io: Box<T>, cap: usize) -> Self
    where
        T: Iterator<Item: Send + 'static>,
    {
        let (sender, receiver) = channel::<T::Item>(cap);
        Self::new(End::Items(Box::new(receiver)), async move {
            for item in io.by_ref() {
                if !sender.send(item).await {
                    break;
                }
            }
            (io, Ok(0))
        })
    }

    /// Reads, `cap` bytes ahead.
    pub(crate) fn read(mut io: Box<T>, cap: usize) -> Self
    where
        T: Read,
    {
        let (reader, mut writer) = piper::pipe(cap);
        Self::new(End::Reads(reader), async move {
            let result = loop {
                let read = poll_fn(|cx| writer.poll_fill(cx, &mut io)).await;
                match uninterrupted(read) {
                    // The end, or nobody reads any more.
                    Some(Ok(0)) => break Ok(0),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(_)) | None => {}
                }
            };
            (io, result)
        })
    }

    /// Writes what comes, up to `cap` bytes behind, and flushes when nothing will come any more.
    pub(crate) fn write(mut io: Box<T>, cap: usize) -> Self
    where
        T: Write,
    {
        let (mut reader, writer) = piper::pipe(cap);
        Self::new(End::Writes(writer), async move {
            let result = loop {
                let written = poll_fn(|cx| reader.poll_drain(cx, &mut io)).await;
                match uninterrupted(written) {
                    Some(Ok(0)) if reader.is_empty() => break io.flush(),
                    // There were bytes, and none was taken.
                    Some(Ok(0)) => break Err(io::ErrorKind::WriteZero.into()),
                    Some(Err(error)) => break Err(error),
                    Some(Ok(_)) | None => {}
                }
            };
            (io, result.map(|()| 0))
        })
    }

    pub(crate) fn seek(mut io: Box<T>, to: SeekFrom) -> Self
    where
        T: Seek,
    {
        Self::new(End::Seeks(to), async move {
            let position = io.seek(to);
            (io, position)
        })
    }
}

impl<T> Job<T> {
    /// Waits for its end.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Back<T>> {
        Pin::new(&mut self.task).poll(cx)
    }

    /// The next item that the job has sent, if they are of this type.
    pub(crate) fn poll_item<I: 'static>(&mut self, cx: &mut Context<'_>) -> Poll<Option<I>> {
        let End::Items(items) = &mut self.end else {
            return Poll::Ready(None);
        };
        let items = items.downcast_mut::<Receiver<I>>();
        items.expect("a receiver").poll_next(cx)
    }
}
