//! Reading and writing a stream socket: as much as there is, with as few system calls as possible.

use std::io::{self, IoSliceMut};
use std::marker::PhantomData;
use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;

use crate::store::MemoryStore;

/// Bytes that are read ahead of what is wanted.
const AHEAD: usize = 64 << 10;
/// After a payload of this size or more only so much is read ahead: what of the next payload comes
/// with it has to be copied.
const LONG: usize = 16 << 10;
const AHEAD_OF_LONG: usize = 1 << 10;

fn eof() -> io::Error {
    io::ErrorKind::UnexpectedEof.into()
}

fn readv(fd: BorrowedFd<'_>, parts: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
    loop {
        match rustix::io::readv(fd, parts) {
            Err(Errno::INTR) => {}
            Ok(0) => return Err(eof()),
            done => return Ok(done?),
        }
    }
}

/// Whether a read of the socket would not wait.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let mut one = [PollFd::from_borrowed_fd(fd, PollFlags::IN)];
    let now = Timespec::default();
    !matches!(rustix::event::poll(&mut one, Some(&now)), Ok(0))
}

/// The receiving side: a buffer that is read ahead into.
pub(crate) struct Input {
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    ahead: usize,
    /// The last read of the socket took all that there was.
    emptied: bool,
}

impl Input {
    pub(crate) fn new() -> Self {
        Input {
            buffer: vec![0; AHEAD].into(),
            start: 0,
            end: 0,
            ahead: AHEAD,
            emptied: false,
        }
    }

    /// Whether the last read of the socket took all that there was.
    pub(crate) fn emptied(&self) -> bool {
        self.emptied
    }

    /// The next `N` bytes if they are here already.
    pub(crate) fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let bytes = *self.buffer[self.start..self.end].first_chunk()?;
        self.start += N;
        Some(bytes)
    }

    /// Bytes that are here already.
    pub(crate) fn available(&self) -> usize {
        self.end - self.start
    }

    /// Waits for more bytes.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] at the end.
    pub(crate) fn fill(&mut self, fd: BorrowedFd<'_>) -> io::Result<()> {
        self.buffer.copy_within(self.start..self.end, 0);
        (self.start, self.end) = (0, self.end - self.start);
        let until = self.buffer.len().min(self.end + self.ahead);
        let ahead = &mut self.buffer[self.end..until];
        let asked = ahead.len();
        let n = readv(fd, &mut [IoSliceMut::new(ahead)])?;
        self.emptied = n < asked;
        self.end += n;
        Ok(())
    }

    /// Fills `to`: first with what is here, then straight from the socket, and reads ahead behind it.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(crate) fn read(&mut self, fd: BorrowedFd<'_>, to: &mut [u8]) -> io::Result<()> {
        let mut done = self.available().min(to.len());
        to[..done].copy_from_slice(&self.buffer[self.start..self.start + done]);
        self.start += done;
        self.ahead = if to.len() >= LONG {
            AHEAD_OF_LONG
        } else {
            AHEAD
        };
        while done < to.len() {
            let (wanted, ahead) = (&mut to[done..], &mut self.buffer[..self.ahead]);
            let (long, asked) = (wanted.len(), wanted.len() + ahead.len());
            let n = readv(fd, &mut [IoSliceMut::new(wanted), IoSliceMut::new(ahead)])?;
            self.emptied = n < asked;
            done += n.min(long);
            (self.start, self.end) = (0, n.saturating_sub(long));
        }
        Ok(())
    }

    /// The next `N` bytes.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(crate) fn read_array<const N: usize>(&mut self, fd: BorrowedFd<'_>) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(fd, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads `length` bytes and forgets them.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(crate) fn discard(&mut self, fd: BorrowedFd<'_>, length: u32) -> io::Result<()> {
        self.ahead = AHEAD;
        let mut left = length as usize;
        loop {
            let n = left.min(self.available());
            self.start += n;
            left -= n;
            if left == 0 {
                return Ok(());
            }
            self.fill(fd)?;
        }
    }
}

/// A piece of what is sent, borrowed for as long.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Piece<'a> {
    vector: libc::iovec,
    borrowed: PhantomData<&'a [u8]>,
}

impl<'a> Piece<'a> {
    pub(crate) const EMPTY: Self = Piece {
        vector: libc::iovec {
            iov_base: std::ptr::null_mut(),
            iov_len: 0,
        },
        borrowed: PhantomData,
    };

    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Piece {
            vector: libc::iovec {
                iov_base: bytes.as_ptr().cast_mut().cast(),
                iov_len: bytes.len(),
            },
            borrowed: PhantomData,
        }
    }

    /// Bytes of a store in memory, as they are when the kernel reads them.
    pub(crate) fn of_memory(memory: &'a MemoryStore, offset: u64, length: usize) -> Self {
        Piece {
            vector: libc::iovec {
                iov_base: memory.address(offset, length).cast_mut().cast(),
                iov_len: length,
            },
            borrowed: PhantomData,
        }
    }
}

/// What to do where the other side does not read fast enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Full {
    /// Wait. A worker that waits for the client declares it, and its pool runs another worker meanwhile.
    Wait,
    /// Return.
    Return,
}

/// Sends the pieces, in order, and returns how many bytes were sent: all, unless the socket was `full`.
///
/// # Errors
/// The system's.
pub(crate) fn send(fd: BorrowedFd<'_>, pieces: &mut [Piece<'_>], full: Full) -> io::Result<usize> {
    let (mut first, mut total) = (0, 0);
    let mut waits = false;
    loop {
        while first < pieces.len() && pieces[first].vector.iov_len == 0 {
            first += 1;
        }
        if first == pieces.len() {
            return Ok(total);
        }
        let rest = &pieces[first..];
        let sent = if waits {
            cmwq::blocking(|| sendmsg(fd, rest, 0))
        } else {
            sendmsg(fd, rest, libc::MSG_DONTWAIT)
        };
        let sent = match sent {
            Ok(sent) => sent,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if full == Full::Return {
                    return Ok(total);
                }
                waits = true;
                continue;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        total += sent;
        skip(&mut pieces[first..], sent);
    }
}

/// Takes the first `bytes` away from the pieces.
pub(crate) fn skip(pieces: &mut [Piece<'_>], mut bytes: usize) {
    for piece in pieces {
        if bytes == 0 {
            break;
        }
        let n = bytes.min(piece.vector.iov_len);
        piece.vector.iov_len -= n;
        piece.vector.iov_base = piece.vector.iov_base.wrapping_byte_add(n);
        bytes -= n;
    }
}

fn sendmsg(fd: BorrowedFd<'_>, pieces: &[Piece<'_>], flags: i32) -> io::Result<usize> {
    // SAFETY: all zeroes are a valid empty message.
    let mut message: libc::msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = pieces.as_ptr().cast_mut().cast();
    message.msg_iovlen = pieces.len() as _;
    // SAFETY: a piece is laid out as an iovec, whose memory is borrowed for this long; the call only reads.
    let sent = unsafe { libc::sendmsg(fd.as_raw_fd(), &message, flags | libc::MSG_NOSIGNAL) };
    usize::try_from(sent).map_err(|_| io::Error::last_os_error())
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    use super::*;

    #[test]
    fn a_socket_is_readable_with_data_in_it_and_at_its_end() {
        let (socket, mut other) = UnixStream::pair().unwrap();
        assert!(!is_readable(socket.as_fd()));
        other.write_all(&[1]).unwrap();
        assert!(is_readable(socket.as_fd()));
        let (socket, other) = UnixStream::pair().unwrap();
        drop(other);
        assert!(is_readable(socket.as_fd()));
    }
}
