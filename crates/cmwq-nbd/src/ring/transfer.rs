//! What the kernel is given to do, and what its answers mean.
#![forbid(unsafe_code)]

use std::io;

use crate::pool::Buffer;

/// What the kernel is to do with the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Read,
    Write,
    /// What was written before becomes durable.
    Sync,
}

/// One action, and how far it is.
#[derive(Debug)]
pub(crate) struct Transfer {
    pub(super) action: Action,
    pub(super) offset: u64,
    /// For all but a sync; taken out while the kernel uses it.
    pub(super) buffer: Option<Buffer>,
    /// How much of the buffer is meant.
    pub(super) length: u32,
    /// How much of that is done.
    pub(super) done: u32,
}

impl Transfer {
    /// Reads into, or writes from, the first `length` bytes of `buffer`, more than none.
    pub(crate) fn new(action: Action, offset: u64, buffer: Buffer, length: u32) -> Self {
        assert!(
            (1..=buffer.len()).contains(&(length as usize)) && action != Action::Sync,
            "{action:?} of {length} bytes, in a buffer of {}",
            buffer.len()
        );
        Transfer {
            action,
            offset,
            buffer: Some(buffer),
            length,
            done: 0,
        }
    }

    pub(crate) fn sync() -> Self {
        Transfer {
            action: Action::Sync,
            offset: 0,
            buffer: None,
            length: 0,
            done: 0,
        }
    }

    /// Takes in what the kernel has answered. `None`: the rest is still to be done.
    pub(super) fn advance(&mut self, answer: i32) -> Option<io::Result<()>> {
        match (answer, self.action) {
            // The last: the kernel may cancel a thread's submissions when the thread ends, and
            // workers come and go.
            (error, _) if [libc::EINTR, libc::EAGAIN, libc::ECANCELED].contains(&-error) => None,
            (error, _) if error < 0 => Some(Err(io::Error::from_raw_os_error(-error))),
            (_, Action::Sync) => Some(Ok(())),
            (0, Action::Read) => Some(Err(io::ErrorKind::UnexpectedEof.into())),
            (0, Action::Write) => Some(Err(io::ErrorKind::WriteZero.into())),
            (bytes, _) => {
                self.done += bytes as u32;
                (self.done >= self.length).then_some(Ok(()))
            }
        }
    }
}

/// A transfer that is over.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) action: Action,
    /// What it was given.
    pub(crate) buffer: Option<Buffer>,
    pub(crate) result: io::Result<()>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ends(mut transfer: Transfer, answers: &[i32]) -> Option<Option<io::ErrorKind>> {
        let (last, before) = answers.split_last().expect("an answer");
        for &answer in before {
            assert!(transfer.advance(answer).is_none(), "{answer}");
        }
        let end = transfer.advance(*last)?;
        Some(end.err().map(|error| error.kind()))
    }

    fn transfer(action: Action) -> Transfer {
        Transfer::new(action, 0, vec![0; 4096].into(), 1024)
    }

    #[test]
    fn what_is_short_or_interrupted_goes_on_and_what_fails_ends() {
        for action in [Action::Read, Action::Write] {
            let some = |answers: &[i32]| ends(transfer(action), answers);
            assert_eq!(some(&[1024]), Some(None));
            assert_eq!(
                some(&[512, 1, -libc::EINTR, 500, -libc::EAGAIN, 11]),
                Some(None)
            );
            assert_eq!(some(&[1023]), None);
            assert_eq!(some(&[-libc::ECANCELED, 1024]), Some(None));
            let full = Some(Some(io::ErrorKind::StorageFull));
            assert_eq!(some(&[512, -libc::ENOSPC]), full);
        }
        let eof = Some(Some(io::ErrorKind::UnexpectedEof));
        assert_eq!(ends(transfer(Action::Read), &[512, 0]), eof);
        let zero = Some(Some(io::ErrorKind::WriteZero));
        assert_eq!(ends(transfer(Action::Write), &[0]), zero);
        assert_eq!(ends(Transfer::sync(), &[-libc::EINTR, 0]), Some(None));
        assert!(matches!(
            ends(Transfer::sync(), &[-libc::EIO]),
            Some(Some(_))
        ));
    }
}
