//! The endpoint's thread: it waits for clients and answers one request at a time. It never waits
//! for one particular client, so neither a slow nor a dead one delays the others. Workers take no
//! part in it.

use crate::connection::{Allowance, Connection, Framing, Progress, turn_away};
use crate::error::ControlError;
use crate::http;
use crate::methods::{answer, failed};
use crate::place;
use crate::protocol::{EndpointCounts, MAX_REQUEST_BYTES};
use crate::sys::ClosedInChild;
use crate::trace::Tracer;
use cmwq::Engine;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

/// Clients at a time, of each kind. A further client replaces the one that has been silent longest,
/// if for more than a second; otherwise it is refused.
pub(crate) const MOST_CLIENTS: usize = 64;
const MOST_HTTP_CLIENTS: usize = 8;
const SILENT: Duration = Duration::from_secs(1);
/// An HTTP request's head.
const MOST_HTTP_BYTES: usize = 8 * 1024;
/// How often CPU time is accounted while items run, and at most when none do.
const TICK: Duration = Duration::from_millis(10);
const SLOWEST_TICK: Duration = Duration::from_millis(100);

struct Client {
    connection: Connection<UnixStream>,
    tracer: Tracer,
}

impl Client {
    /// Whether nobody is left to take an answer.
    fn is_gone(&self) -> bool {
        // The poll reports a hang-up even if it is not requested.
        let mut fd = [PollFd::new(&self.connection.socket, PollFlags::empty())];
        let polled = poll(&mut fd, Some(&Timespec::default()));
        self.connection.is_abandoned() || polled.is_ok() && fd[0].revents().contains(PollFlags::HUP)
    }
}

pub(crate) struct Server {
    // Before what they name.
    _closed_in_child: [Option<ClosedInChild>; 2],
    listener: UnixListener,
    http: Option<TcpListener>,
    /// Readable when the thread is to end.
    stop: OwnedFd,
    clients: Vec<Client>,
    http_clients: Vec<Connection<TcpStream>>,
    /// Of all clients together.
    allowance: Allowance,
    counts: EndpointCounts,
    ticks: Ticks,
    /// No client is let in before: the process has no descriptor left, say.
    accepts_from: Instant,
}

/// When CPU time is accounted next.
struct Ticks {
    next: Instant,
    period: Duration,
}

impl Ticks {
    fn tick(&mut self, now: Instant) {
        if now < self.next {
            return;
        }
        let busy = Engine::all()
            .iter()
            .filter(|engine| engine.account_cpu_time())
            .count()
            > 0;
        self.period = if busy {
            TICK
        } else {
            (self.period * 2).min(SLOWEST_TICK)
        };
        self.next = now + self.period;
    }
}

/// What a file descriptor that became ready belongs to.
#[derive(Clone, Copy)]
enum Source {
    Stop,
    Listener,
    Http,
    Client(usize),
    HttpClient(usize),
}

impl Server {
    pub(crate) fn new(
        listener: UnixListener,
        http: Option<TcpListener>,
        stop: OwnedFd,
    ) -> std::io::Result<Server> {
        listener.set_nonblocking(true)?;
        if let Some(http) = &http {
            http.set_nonblocking(true)?;
        }
        let now = Instant::now();
        Ok(Server {
            _closed_in_child: [
                Some(ClosedInChild::new(&listener)),
                http.as_ref().map(ClosedInChild::new),
            ],
            listener,
            http,
            stop,
            clients: Vec::new(),
            http_clients: Vec::new(),
            allowance: Allowance::new(now),
            counts: EndpointCounts::default(),
            ticks: Ticks {
                next: now,
                period: TICK,
            },
            accepts_from: now,
        })
    }

    pub(crate) fn run(mut self) {
        loop {
            let ready = self.wait();
            let now = Instant::now();
            self.ticks.tick(now);
            for source in ready {
                match source {
                    Source::Stop => return,
                    Source::Listener => self.accept(now),
                    Source::Http => self.accept_http(now),
                    Source::Client(at) => {
                        let connection = &mut self.clients[at].connection;
                        let gone = serve_socket(connection, now) == Progress::Closed;
                        gone.then(|| self.clients[at].connection.abandon());
                    }
                    Source::HttpClient(at) => {
                        let connection = &mut self.http_clients[at];
                        let gone = serve_socket(connection, now) == Progress::Closed;
                        gone.then(|| self.http_clients[at].abandon());
                    }
                }
            }
            self.answer_clients(now);
            self.answer_http_clients(now);
            self.cut_off(now);
        }
    }

    /// Waits until something is ready or due.
    fn wait(&mut self) -> Vec<Source> {
        let now = Instant::now();
        let mut due = self.ticks.next;
        let mut sources = vec![Source::Stop];
        let mut fds = vec![PollFd::new(&self.stop, PollFlags::IN)];
        let all_until = self.allowance.until(now);
        for (at, client) in self.clients.iter_mut().enumerate() {
            if client.connection.has_request() {
                let until = client.connection.allowance.until(now).or(all_until);
                due = due.min(until.unwrap_or(now));
            }
            let connection = &client.connection;
            due = due.min(connection.deadline().unwrap_or(due));
            if let Some(fd) = poll_fd(connection, connection.socket.as_fd()) {
                sources.push(Source::Client(at));
                fds.push(fd);
            }
        }
        for (at, connection) in self.http_clients.iter().enumerate() {
            due = due.min(connection.deadline().unwrap_or(due));
            if let Some(fd) = poll_fd(connection, connection.socket.as_fd()) {
                sources.push(Source::HttpClient(at));
                fds.push(fd);
            }
        }
        // Behind the clients, which `accept` may drop: their numbers change. The ticks end this
        // wait soon enough otherwise.
        if now >= self.accepts_from {
            sources.push(Source::Listener);
            fds.push(PollFd::new(&self.listener, PollFlags::IN));
            if let Some(http) = &self.http {
                sources.push(Source::Http);
                fds.push(PollFd::new(http, PollFlags::IN));
            }
        }
        let timeout = due.saturating_duration_since(now);
        let timeout = Timespec {
            tv_sec: timeout.as_secs() as i64,
            tv_nsec: i64::from(timeout.subsec_nanos()),
        };
        // Interrupted or out of memory: as if nothing were ready.
        if poll(&mut fds, Some(&timeout)).is_err() {
            return Vec::new();
        }
        let ready = fds
            .iter()
            .zip(sources)
            .filter(|(fd, _)| !fd.revents().is_empty());
        ready.map(|(_, source)| source).collect()
    }

    fn accept(&mut self, now: Instant) {
        // At most so many connections in one poll: the others wait for the next.
        for _ in 0..MOST_CLIENTS {
            let socket = match self.listener.accept() {
                Ok((socket, _)) => socket,
                Err(error) => return self.not_accepted(&error, now),
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            let own = place::own_uid();
            let user = rustix::net::sockopt::socket_peercred(&socket)
                .map(|credentials| credentials.uid.as_raw());
            match user {
                Ok(user) if user == own || user == 0 => {}
                _ => {
                    self.counts.refused_users += 1;
                    let user = user.map_or_else(|_| "unknown".to_owned(), |user| user.to_string());
                    let why = format!(
                        "user {user} may not look at a process of user {own}: only that user and root may"
                    );
                    refuse(&socket, "EPERM", &why);
                    continue;
                }
            }
            if self.clients.len() >= MOST_CLIENTS {
                self.clients.retain(|client| !client.is_gone());
            }
            if self.clients.len() >= MOST_CLIENTS {
                self.counts.crowded_out += 1;
                if !self.make_room(now) {
                    let why = format!("{MOST_CLIENTS} clients are connected already");
                    refuse(&socket, "EBUSY", &why);
                    continue;
                }
            }
            self.clients.push(Client {
                connection: Connection::new(socket, Framing::Lines, MAX_REQUEST_BYTES, now)
                    .closed_in_child(),
                tracer: Tracer::default(),
            });
        }
    }

    /// A client that cannot be let in still waits, and would wake this thread repeatedly.
    fn not_accepted(&mut self, error: &std::io::Error, now: Instant) {
        let passes = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
        if !passes.contains(&error.kind()) {
            self.accepts_from = now + SLOWEST_TICK;
        }
    }

    /// Ends the connection that has been silent longest.
    fn make_room(&mut self, now: Instant) -> bool {
        let silent = self
            .clients
            .iter()
            .enumerate()
            .min_by_key(|(_, client)| client.connection.last_request);
        match silent {
            Some((at, client)) if now.duration_since(client.connection.last_request) > SILENT => {
                self.clients.swap_remove(at);
                true
            }
            _ => false,
        }
    }

    fn accept_http(&mut self, now: Instant) {
        let Some(http) = &self.http else { return };
        for _ in 0..MOST_HTTP_CLIENTS {
            let socket = match http.accept() {
                Ok((socket, _)) => socket,
                Err(error) => return self.not_accepted(&error, now),
            };
            if socket.set_nonblocking(true).is_err() {
                continue;
            }
            self.http_clients.retain(|client| !client.is_abandoned());
            if self.http_clients.len() >= MOST_HTTP_CLIENTS {
                self.counts.crowded_out += 1;
                turn_away(&socket, &http::response(503, "too many clients\n"));
                continue;
            }
            let connection = Connection::new(socket, Framing::Http, MOST_HTTP_BYTES, now);
            self.http_clients.push(connection.closed_in_child());
        }
    }

    /// Answers one request of every client that has one and may. The client that was answered last
    /// comes last the next time: otherwise one that asks all the time would leave nothing of the
    /// common allowance to those behind it.
    fn answer_clients(&mut self, now: Instant) {
        let mut answered = 0;
        for (at, client) in self.clients.iter_mut().enumerate() {
            let connection = &mut client.connection;
            match connection.next_request_if(|own| {
                own.until(now).is_none() && self.allowance.until(now).is_none()
            }) {
                Ok(None) => {}
                Ok(Some(line)) => {
                    answered = at + 1;
                    self.allowance.spend();
                    connection.allowance.spend();
                    connection.last_request = now;
                    self.counts.requests += 1;
                    let reply = answer(&line, &mut client.tracer, &self.counts);
                    self.counts.errors += u64::from(reply.error.is_some());
                    if connection.send(line_of(&reply), now) == Progress::Closed {
                        connection.abandon();
                    }
                }
                Err(()) => {
                    self.counts.cut_off += 1;
                    let why = format!(
                        "the request is longer than {MAX_REQUEST_BYTES} bytes, which is the most"
                    );
                    let reply = failed(Value::Null, ControlError::new("EMSGSIZE", why));
                    if connection.send_last(line_of(&reply), now) == Progress::Closed {
                        connection.abandon();
                    }
                }
            }
        }
        self.clients.rotate_left(answered);
    }

    fn answer_http_clients(&mut self, now: Instant) {
        for connection in &mut self.http_clients {
            let response = match connection.next_request() {
                Ok(None) => continue,
                Ok(Some(_)) if self.allowance.until(now).is_some() => {
                    http::response(429, "too many requests\n")
                }
                Ok(Some(head)) => {
                    self.allowance.spend();
                    self.counts.requests += 1;
                    http::answer(&head, &self.counts)
                }
                Err(()) => {
                    self.counts.cut_off += 1;
                    http::response(431, "the request is too long\n")
                }
            };
            if connection.send_last(response, now) == Progress::Closed {
                connection.abandon();
            }
        }
    }

    /// Drops clients that are gone, and clients that have exceeded their time limit.
    fn cut_off(&mut self, now: Instant) {
        let counts = &mut self.counts;
        let mut stays = |gone: bool, deadline: Option<Instant>| {
            let late = deadline.is_some_and(|deadline| deadline <= now);
            counts.cut_off += u64::from(!gone && late);
            !gone && !late
        };
        self.clients.retain(|client| {
            let connection = &client.connection;
            stays(connection.is_abandoned(), connection.deadline())
        });
        self.http_clients
            .retain(|connection| stays(connection.is_abandoned(), connection.deadline()));
    }
}

fn poll_fd<'c, S: Read + Write>(
    connection: &Connection<S>,
    fd: BorrowedFd<'c>,
) -> Option<PollFd<'c>> {
    let mut flags = PollFlags::empty();
    if connection.wants_input() {
        flags |= PollFlags::IN;
    }
    if connection.wants_output() {
        flags |= PollFlags::OUT;
    }
    // A client whose request has to wait is not polled: its hang-up would wake this thread repeatedly.
    (!flags.is_empty()).then(|| PollFd::from_borrowed_fd(fd, flags))
}

fn serve_socket<S: Read + Write>(connection: &mut Connection<S>, now: Instant) -> Progress {
    if connection.wants_output() && connection.flush(now) == Progress::Closed {
        return Progress::Closed;
    }
    if connection.wants_input() {
        return connection.receive(now);
    }
    Progress::Open
}

fn refuse(socket: &UnixStream, errno: &str, why: &str) {
    let reply = failed(Value::Null, ControlError::new(errno, why));
    turn_away(socket, &line_of(&reply));
}

fn line_of(reply: &crate::protocol::Reply) -> Vec<u8> {
    // Of maps with keys that are texts, numbers and texts: that always has a form in JSON.
    let mut line = serde_json::to_vec(reply).unwrap_or_default();
    line.push(b'\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{EventfdFlags, eventfd};

    #[test]
    fn clients_that_have_closed_take_no_ones_place() {
        let path = std::env::temp_dir().join(format!("cmwq-closed-{}", std::process::id()));
        let listener = UnixListener::bind(&path).expect("a socket");
        let stop = listener.try_clone().expect("a descriptor").into();
        let mut server = Server::new(listener, None, stop).expect("a socket");
        let connect = || UnixStream::connect(&path).expect("it listens");
        let clients: Vec<_> = (0..MOST_CLIENTS).map(|_| connect()).collect();
        server.accept(Instant::now());
        assert_eq!(server.clients.len(), MOST_CLIENTS);
        drop(clients);
        let _one_more = connect();
        std::fs::remove_file(&path).expect("its file");
        server.accept(Instant::now());
        assert_eq!(server.clients.len(), 1);
        assert_eq!(server.counts.crowded_out, 0);
    }

    #[test]
    fn a_client_that_cannot_be_let_in_does_not_wake_the_thread_again_at_once() {
        // It is readable, and accepts nothing, as a listener's without a free descriptor.
        let (mut other, broken) = UnixStream::pair().expect("sockets");
        other.write_all(b"client").expect("sent");
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("a descriptor");
        let listener = UnixListener::from(OwnedFd::from(broken));
        let mut server = Server::new(listener, None, stop).expect("a server");
        let wakes = |server: &mut Server| {
            let ready = server.wait();
            ready
                .iter()
                .any(|source| matches!(source, Source::Listener))
        };
        assert!(wakes(&mut server));
        let now = Instant::now();
        server.accept(now + Duration::from_secs(3600));
        assert!(!wakes(&mut server));
        server.accepts_from = now;
        assert!(wakes(&mut server));
    }
}
