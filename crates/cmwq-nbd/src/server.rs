//! The server: listens, and gives each client a thread that reads its requests.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cmwq::Workqueue;
use rustix::fs::Mode;
use rustix::io::Errno;
use rustix::net::{
    self, AddressFamily, Shutdown, SocketAddrUnix, SocketFlags, SocketType, sockopt,
};

use crate::connection;
use crate::export::Export;
use crate::inherited::{Inherited, unix_uri};
use crate::negotiate::negotiate;
use crate::note::{ClientNotes, LastNote, note};
use crate::scheduling::{block_signals, do_not_preempt};
use crate::socket::Input;
use crate::store::wait_for_lock;

/// How long a client may take over each step of the handshake.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How long requests in flight are waited for when the server stops, for clients that read no replies.
const GOODBYE: Duration = Duration::from_secs(5);
/// Asked of the system for each socket, so that replies of a batch fit; it may give less.
const SOCKET_BUFFER: usize = 1 << 20;

/// Where a server listens.
///
/// ```
/// use cmwq_nbd::server::Endpoint;
///
/// let local = Endpoint::Unix("/run/user/1000/disk.sock".into());
/// let network = Endpoint::Tcp(([127, 0, 0, 1], 10809).into());
/// println!("{local:?} or {network:?}");
/// ```
#[derive(Clone, Debug)]
pub enum Endpoint {
    /// A socket in the file system, for its owner only.
    Unix(PathBuf),
    /// An address of the network.
    Tcp(SocketAddr),
    /// A listening socket that another process has made and keeps, as service managers do. It is
    /// left open, with its file.
    Inherited(Arc<OwnedFd>),
}

enum Listener {
    Unix(UnixListener, PathBuf),
    Tcp(TcpListener),
    Inherited(Inherited),
}

impl Listener {
    fn bind(endpoint: &Endpoint) -> io::Result<Self> {
        match endpoint {
            Endpoint::Tcp(address) => Ok(Listener::Tcp(TcpListener::bind(address)?)),
            Endpoint::Unix(path) => {
                let _turn = lock_folder(path);
                remove_stale(path)?;
                // The mask belongs to the whole process: for the owner only, from the first moment on.
                let mask = rustix::process::umask(Mode::from_raw_mode(0o177));
                let listener = UnixListener::bind(path);
                rustix::process::umask(mask);
                Ok(Listener::Unix(listener?, path.clone()))
            }
            Endpoint::Inherited(socket) => {
                Ok(Listener::Inherited(Inherited::new(socket.try_clone()?)?))
            }
        }
    }

    fn accept(&self) -> io::Result<OwnedFd> {
        match self {
            Listener::Unix(listener, _) => Ok(listener.accept()?.0.into()),
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0.into();
                prepare_tcp(&stream)?;
                Ok(stream)
            }
            Listener::Inherited(listener) => {
                let (stream, is_tcp) = listener.accept()?;
                if is_tcp {
                    prepare_tcp(&stream)?;
                }
                Ok(stream)
            }
        }
    }

    fn shut(&self) {
        // A listening socket that is shut down accepts nothing more: `accept` returns.
        let _ = match self {
            Listener::Unix(listener, _) => net::shutdown(listener, Shutdown::Both),
            Listener::Tcp(listener) => net::shutdown(listener, Shutdown::Both),
            Listener::Inherited(listener) => {
                listener.stop();
                Ok(())
            }
        };
    }

    fn uri(&self) -> io::Result<String> {
        Ok(match self {
            Listener::Unix(_, path) => unix_uri(&std::path::absolute(path)?),
            Listener::Tcp(listener) => format!("nbd://{}", listener.local_addr()?),
            Listener::Inherited(listener) => listener.uri()?,
        })
    }
}

fn prepare_tcp(stream: &OwnedFd) -> io::Result<()> {
    sockopt::set_tcp_nodelay(stream, true)?;
    Ok(sockopt::set_socket_keepalive(stream, true)?)
}

/// The file of a socket of ours; dropping it removes it.
struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
}

impl SocketFile {
    fn of(listener: &Listener) -> io::Result<Option<Self>> {
        let Listener::Unix(_, path) = listener else {
            return Ok(None);
        };
        Ok(Some(SocketFile {
            path: path.clone(),
            identity: identity(path)?,
        }))
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _turn = lock_folder(&self.path);
        // Another server may have taken the path since this one stopped listening.
        if identity(&self.path).is_ok_and(|now| now == self.identity) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode.
fn identity(path: &Path) -> io::Result<(u64, u64)> {
    std::fs::symlink_metadata(path).map(|file| (file.dev(), file.ino()))
}

/// Servers that make or remove sockets in one folder take turns, as far as they may read it:
/// otherwise two may find the same stale socket, and one removes what the other has just made.
fn lock_folder(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let folder = File::open(folder.unwrap_or(Path::new("."))).ok()?;
    wait_for_lock(&folder, false).ok().map(|()| folder)
}

/// Removes a socket left behind by a server that is gone.
fn remove_stale(path: &Path) -> io::Result<()> {
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket());
    if !is_socket {
        return Ok(());
    }
    match connect_at_once(path) {
        Err(Errno::CONNREFUSED) => std::fs::remove_file(path),
        Ok(_) | Err(Errno::WOULDBLOCK) => Err(io::Error::new(
            io::ErrorKind::AddrInUse,
            "another server listens there",
        )),
        Err(error) => Err(error.into()),
    }
}

/// Connects without waiting: a stopped server accepts nothing, and as many clients as may wait for it do so.
fn connect_at_once(path: &Path) -> Result<OwnedFd, Errno> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    net::connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

/// The workqueues that a [`Server`] works with: see the [example](crate).
#[derive(Debug)]
pub struct Queues {
    /// Carries out each request as an item. None of them waits for a client.
    pub requests: Workqueue,
    /// Sends the replies that clients do not take at once: an item for each such client, which
    /// waits for it. Of `max_active` clients that never read, others wait that read slowly.
    pub replies: Workqueue,
    /// Whether the reader of a connection may carry out short requests itself, inline, where that
    /// is quicker than a worker. If not, every request is an item of `requests`.
    pub inline: bool,
}

/// Serves an export to clients until it is dropped: see the [example](crate). Then nothing is
/// accepted any more, requests in flight are answered, and the store is synced.
pub struct Server {
    /// Dropped before the listener, so that its inode is no other file's, and not with the last
    /// client's thread, which may outlive the server for a moment.
    _file: Option<SocketFile>,
    shared: Arc<Shared>,
    accepting: Option<std::thread::JoinHandle<()>>,
    uri: String,
}

struct Shared {
    export: Arc<Export>,
    queues: Arc<Queues>,
    listener: Listener,
    max_clients: usize,
    clients: Mutex<Clients>,
    /// A client has gone.
    gone: Condvar,
    notes: ClientNotes,
}

#[derive(Default)]
struct Clients {
    /// Their sockets, by a number of our own.
    sockets: HashMap<u64, Arc<OwnedFd>>,
    next: u64,
    stopping: bool,
}

impl Server {
    /// Listens at `endpoint` and serves `export`, each request as an item. At most `max_clients`
    /// are connected at a time; more are turned away.
    ///
    /// # Errors
    /// The system's: an address that cannot be had.
    pub fn start(
        export: Arc<Export>,
        queues: Queues,
        endpoint: &Endpoint,
        max_clients: usize,
    ) -> io::Result<Server> {
        let listener = Listener::bind(endpoint)?;
        let file = SocketFile::of(&listener)?;
        let uri = listener.uri()?;
        let shared = Arc::new(Shared {
            export,
            queues: Arc::new(queues),
            listener,
            max_clients,
            clients: Mutex::default(),
            gone: Condvar::new(),
            notes: ClientNotes::new(note),
        });
        let acceptor = shared.clone();
        let accepting = std::thread::Builder::new()
            .name("nbd-accept".to_owned())
            .spawn(move || acceptor.accept_all())?;
        Ok(Server {
            _file: file,
            shared,
            accepting: Some(accepting),
            uri,
        })
    }

    /// Where clients find it, as NBD tools write it.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// The queue that carries the requests out.
    pub fn queue(&self) -> &Workqueue {
        &self.shared.queues.requests
    }

    /// Clients that are connected.
    pub fn clients(&self) -> usize {
        self.shared.clients().sockets.len()
    }

    /// Stops the server. Data reported durable are so already; all other written data become durable now.
    ///
    /// # Errors
    /// The store's, from its last sync or one before that failed.
    pub fn stop(mut self) -> io::Result<()> {
        self.shut();
        self.shared.export.sync()
    }

    fn shut(&mut self) {
        let Some(accepting) = self.accepting.take() else {
            return;
        };
        let sockets: Vec<_> = {
            let mut clients = self.shared.clients();
            clients.stopping = true;
            clients.sockets.values().cloned().collect()
        };
        self.shared.listener.shut();
        // The reader finds the end; requests in flight are answered.
        hang_up(&sockets, Shutdown::Read);
        if !self.shared.wait_gone(Some(GOODBYE)) {
            hang_up(&sockets, Shutdown::Both);
            self.shared.wait_gone(None);
        }
        // The thread only accepts; it does not panic.
        let _ = accepting.join();
        self.shared.notes.finish();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shut();
    }
}

fn hang_up(sockets: &[Arc<OwnedFd>], how: Shutdown) {
    for socket in sockets {
        // The client may have shut it down already.
        let _ = net::shutdown(socket.as_fd(), how);
    }
}

impl Shared {
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note_client(&self, message: &str) {
        self.notes.note(&self.queues.replies, message);
    }

    fn accept_all(self: Arc<Self>) {
        let mut noted = LastNote::default();
        loop {
            let accepted = self.listener.accept();
            if self.clients().stopping {
                return;
            }
            match accepted {
                Ok(socket) => {
                    if let Err(error) = self.welcome(socket) {
                        self.note_client(&format!("a client is refused: {error}"));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    // Usually out of descriptors: wait until one is free.
                    let message = format!("cannot accept a client: {error}");
                    if noted.is_news(&message, Instant::now()) {
                        note(&message);
                    }
                    let clients = self.clients();
                    let _ = self.gone.wait_timeout(clients, Duration::from_millis(100));
                }
            }
        }
    }

    fn welcome(self: &Arc<Self>, socket: OwnedFd) -> io::Result<()> {
        // Less is given where the system's limit is lower; then more calls are needed.
        let _ = sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER);
        let socket = Arc::new(socket);
        let number = {
            let mut clients = self.clients();
            if clients.stopping {
                // `shut` would not find it.
                return Ok(());
            }
            if clients.sockets.len() >= self.max_clients {
                return Err(io::Error::other(format!(
                    "{} clients are connected already, the most allowed",
                    self.max_clients
                )));
            }
            let number = clients.next;
            clients.next += 1;
            clients.sockets.insert(number, socket.clone());
            number
        };
        let shared = self.clone();
        let thread = std::thread::Builder::new()
            .name(format!("nbd-{number}"))
            .spawn(move || {
                let _leaving = Leaving {
                    shared: &shared,
                    number,
                };
                // It may write to the store.
                block_signals();
                // An optimisation only.
                let _ = do_not_preempt();
                shared.serve(socket, number);
            });
        if thread.is_err() {
            self.clients().sockets.remove(&number);
        }
        thread.map(|_| ())
    }

    fn serve(&self, socket: Arc<OwnedFd>, number: u64) {
        let mut input = Input::new();
        let served = self.handshake(&socket, &mut input).and_then(|session| {
            session.map_or(Ok(()), |session| {
                let (export, queues) = (self.export.clone(), self.queues.clone());
                connection::serve(socket, &mut input, export, session, queues)
            })
        });
        if let Err(error) = served {
            self.note_client(&format!("client {number}: {error}"));
        }
    }

    fn handshake(
        &self,
        socket: &OwnedFd,
        input: &mut Input,
    ) -> io::Result<Option<crate::negotiate::Session>> {
        let waits = |limit| sockopt::set_socket_timeout(socket, sockopt::Timeout::Recv, limit);
        waits(Some(HANDSHAKE))?;
        let session = match negotiate(socket.as_fd(), input, &self.export) {
            // A client that only checks whether the server is there.
            Err(error) if is_end(&error) => return Ok(None),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Err(io::Error::other("the client says nothing"));
            }
            session => session?,
        };
        waits(None)?;
        Ok(session)
    }

    /// Waits, at most for `limit`, until all clients are gone. `false`: it timed out.
    fn wait_gone(&self, limit: Option<Duration>) -> bool {
        let clients = self.clients();
        let some = |clients: &mut Clients| !clients.sockets.is_empty();
        match limit {
            Some(limit) => {
                let waited = self.gone.wait_timeout_while(clients, limit, some);
                !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
            }
            None => {
                drop(self.gone.wait_while(clients, some));
                true
            }
        }
    }
}

/// Removes a client from the list when its thread ends, however it ends.
struct Leaving<'a> {
    shared: &'a Shared,
    number: u64,
}

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.shared.clients().sockets.remove(&self.number);
        self.shared.gone.notify_all();
    }
}

/// Whether the other side has gone.
fn is_end(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::UnexpectedEof | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_is_stopped_holds_up_no_other() {
        let name = format!("cmwq-nbd-stopped-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        let flags = SocketFlags::CLOEXEC;
        let server = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None);
        let server = server.unwrap();
        net::bind(&server, &SocketAddrUnix::new(&path).unwrap()).unwrap();
        net::listen(&server, 0).unwrap();
        let waiting: Vec<_> = std::iter::from_fn(|| connect_at_once(&path).ok()).collect();
        assert!(!waiting.is_empty());
        let refused = remove_stale(&path).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::AddrInUse);
        drop(server);
        remove_stale(&path).unwrap();
        assert!(!path.exists());
    }
}
