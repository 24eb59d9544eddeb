//! A listening socket that another process, the service manager, has made and keeps using afterwards.
//!
//! The server must not shut it down, which would end it for its owner too, nor remove its file. So
//! the accepting thread also polls a descriptor of the server's own, which tells it to stop.
#![forbid(unsafe_code)]

use std::io;
use std::net::{Shutdown, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// The URI of a Unix socket.
pub(crate) fn unix_uri(path: &Path) -> String {
    let mut uri = "nbd+unix:///?socket=".to_owned();
    for &byte in path.as_os_str().as_bytes() {
        match byte {
            b'/' | b'-' | b'.' | b'_' | b'~' => uri.push(byte.into()),
            _ if byte.is_ascii_alphanumeric() => uri.push(byte.into()),
            _ => uri += &format!("%{byte:02X}"),
        }
    }
    uri
}

enum Socket {
    Unix(UnixListener),
    Tcp(TcpListener),
}

pub(crate) struct Inherited {
    socket: Socket,
    /// Shutting down the first makes the second readable.
    stop: (UnixStream, UnixStream),
}

impl Inherited {
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: it is no listening stream socket of the file system or of TCP.
    pub(crate) fn new(socket: OwnedFd) -> io::Result<Self> {
        let wrong = |what| io::Error::new(io::ErrorKind::InvalidInput, what);
        if !sockopt::socket_acceptconn(&socket)? {
            return Err(wrong("the socket does not listen"));
        }
        if sockopt::socket_type(&socket)? != SocketType::STREAM {
            return Err(wrong("not a stream socket"));
        }
        let socket = match sockopt::socket_domain(&socket)? {
            AddressFamily::UNIX => Socket::Unix(socket.into()),
            AddressFamily::INET | AddressFamily::INET6 => Socket::Tcp(socket.into()),
            _ => return Err(wrong("neither a Unix nor a TCP socket")),
        };
        // Another process may take the client that the poll has seen.
        match &socket {
            Socket::Unix(listener) => listener.set_nonblocking(true)?,
            Socket::Tcp(listener) => listener.set_nonblocking(true)?,
        }
        let stop = UnixStream::pair()?;
        Ok(Inherited { socket, stop })
    }

    /// Waits for a client. The second: whether it came by TCP.
    ///
    /// # Errors
    /// The system's; [`io::ErrorKind::UnexpectedEof`] once it has been [stopped](Self::stop).
    pub(crate) fn accept(&self) -> io::Result<(OwnedFd, bool)> {
        loop {
            let accepted = match &self.socket {
                Socket::Unix(listener) => listener.accept().map(|(s, _)| (s.into(), false)),
                Socket::Tcp(listener) => listener.accept().map(|(s, _)| (s.into(), true)),
            };
            match accepted {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.wait()?,
                accepted => return accepted,
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let socket = match &self.socket {
            Socket::Unix(listener) => listener.as_fd(),
            Socket::Tcp(listener) => listener.as_fd(),
        };
        let mut fds = [
            PollFd::from_borrowed_fd(socket, PollFlags::IN),
            PollFd::new(&self.stop.1, PollFlags::IN),
        ];
        poll(&mut fds, None)?;
        match fds[1].revents().is_empty() {
            true => Ok(()),
            false => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    /// Has `accept` return, now and from now on.
    pub(crate) fn stop(&self) {
        // It cannot fail: the pair is connected.
        let _ = self.stop.0.shutdown(Shutdown::Both);
    }

    pub(crate) fn uri(&self) -> io::Result<String> {
        Ok(match &self.socket {
            Socket::Unix(listener) => match listener.local_addr()?.as_pathname() {
                Some(path) => unix_uri(path),
                None => "an unnamed Unix socket".to_owned(),
            },
            Socket::Tcp(listener) => format!("nbd://{}", listener.local_addr()?),
        })
    }
}
