//! The other end: finding processes and asking them.

use crate::error::ControlError;
use crate::place;
use crate::protocol::{Hello, Reply, Request, State, TraceChunk};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long the client waits for an answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is read.
const MAX_REPLY_BYTES: u64 = 256 << 20;

/// Asks and changes a process that serves: a connection to its endpoint, from
/// [`connect`](crate::connect).
///
/// ```
/// let control = cmwq_control::serve()?; // or another process
/// let mut client = cmwq_control::Client::connect_to(control.path())?;
/// println!("process {}: {} engines", client.pid(), client.state()?.engines.len());
/// # Ok::<(), cmwq_control::ControlError>(())
/// ```
#[derive(Debug)]
pub struct Client {
    pid: u32,
    reader: BufReader<UnixStream>,
}

impl Client {
    fn connect(pid: u32, path: &Path) -> Result<Client, ControlError> {
        let failed = |error: &io::Error| match error.kind() {
            ErrorKind::WouldBlock => silent(&format!("process {pid}"), "accepts no connection"),
            _ => ControlError::io(&format!("process {pid}"), error),
        };
        let socket = place::connect_at_once(path).map_err(|error| failed(&error))?;
        socket
            .set_read_timeout(Some(PATIENCE))
            .and_then(|()| socket.set_write_timeout(Some(PATIENCE)))
            .map_err(|error| failed(&error))?;
        Ok(Client {
            pid,
            reader: BufReader::new(socket),
        })
    }

    /// Connects to the socket at `path`, which is named after its process.
    ///
    /// # Errors
    /// What the system says.
    pub fn connect_to(path: &Path) -> Result<Client, ControlError> {
        Client::connect(place::pid_of_path(path).unwrap_or(0), path)
    }

    /// The process at the other end.
    pub fn pid(&self) -> u32 {
        self.pid
    }

    /// Asks for one thing and waits for the answer.
    ///
    /// # Errors
    /// The process's own, or what went wrong on the way.
    pub fn call(&mut self, method: &str, params: Value) -> Result<Value, ControlError> {
        let sent = self.send(method, params)?;
        self.receive(sent)
    }

    /// The inner result: whether the request went out. An answer sent before the process closed the
    /// connection says more than the failed sending, and is still to be received.
    fn send(&mut self, method: &str, params: Value) -> Result<io::Result<()>, ControlError> {
        let request = Request {
            method: method.to_owned(),
            params,
            id: Value::Null,
        };
        let mut line =
            serde_json::to_vec(&request).map_err(|error| ControlError::inval(error.to_string()))?;
        line.push(b'\n');
        Ok(self.reader.get_mut().write_all(&line))
    }

    fn receive(&mut self, sent: io::Result<()>) -> Result<Value, ControlError> {
        let what = format!("process {}", self.pid);
        let mut answer = Vec::new();
        let read = (&mut self.reader)
            .take(MAX_REPLY_BYTES)
            .read_until(b'\n', &mut answer);
        if answer.last() != Some(&b'\n') {
            // What comes late would be taken for the answer to the next request.
            let _ = self.reader.get_ref().shutdown(Shutdown::Both);
            return Err(match read.map_err(|error| sent.err().unwrap_or(error)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    silent(&what, &format!("no answer for {PATIENCE:?}"))
                }
                Err(error) => ControlError::io(&what, &error),
                Ok(_) => {
                    let why = "it ended the connection; has it ended itself?";
                    ControlError::new("EIO", format!("{what}: {why}"))
                }
            });
        }
        let reply: Reply = serde_json::from_slice(&answer)
            .map_err(|error| ControlError::new("EBADMSG", format!("{what}: {error}")))?;
        match (reply.error, reply.result) {
            (Some(error), _) => Err(error),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(ControlError::new(
                "EBADMSG",
                format!("{what}: an empty answer"),
            )),
        }
    }

    /// From now on answers are awaited until `end`; what has already come is taken then, too.
    fn answer_until(&self, end: Instant) -> Result<(), ControlError> {
        let left = end.saturating_duration_since(Instant::now());
        // Zero would be no limit.
        let left = left.max(Duration::from_millis(1));
        let set = self.reader.get_ref().set_read_timeout(Some(left));
        set.map_err(|error| ControlError::io(&format!("process {}", self.pid), &error))
    }

    fn ask<T: DeserializeOwned>(&mut self, method: &str, params: Value) -> Result<T, ControlError> {
        let result = self.call(method, params)?;
        read_as(self.pid, method, result)
    }

    fn text(&mut self, method: &str, params: Value, field: &str) -> Result<String, ControlError> {
        let result = self.call(method, params)?;
        let text = result.get(field).and_then(Value::as_str);
        text.map(str::to_owned).ok_or_else(|| {
            ControlError::new(
                "EBADMSG",
                format!("process {}: {method}: no {field}", self.pid),
            )
        })
    }

    /// The process's identity.
    ///
    /// # Errors
    /// As [`call`](Self::call), like all that follow.
    pub fn hello(&mut self) -> Result<Hello, ControlError> {
        self.ask("hello", json!({}))
    }

    /// Everything, now.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn state(&mut self) -> Result<State, ControlError> {
        self.ask("state", json!({}))
    }

    /// The dump of everything that is busy.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn busy(&mut self) -> Result<String, ControlError> {
        self.text("busy", json!({}), "text")
    }

    /// The dump of the freezable queues that are busy.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn busy_freezable(&mut self) -> Result<String, ControlError> {
        self.text("busy", json!({ "freezable": true }), "text")
    }

    /// The counters as OpenMetrics text.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn metrics(&mut self) -> Result<String, ControlError> {
        self.text("metrics", json!({}), "text")
    }

    /// An attribute of a queue, as the kernel's file shows it, without the newline.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn get(&mut self, queue: &str, attribute: &str) -> Result<String, ControlError> {
        let params = json!({ "queue": queue, "attribute": attribute });
        self.text("get", params, "value")
    }

    /// Changes an attribute of a queue.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn set(&mut self, queue: &str, attribute: &str, value: &str) -> Result<(), ControlError> {
        let params = json!({ "queue": queue, "attribute": attribute, "value": value });
        self.call("set", params).map(drop)
    }

    /// A parameter of an engine (`None`: the only one), as the kernel's file shows it, without the newline.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn parameter(&mut self, engine: Option<u64>, name: &str) -> Result<String, ControlError> {
        self.text("param", json!({ "engine": engine, "name": name }), "value")
    }

    /// Changes a parameter of an engine.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn set_parameter(
        &mut self,
        engine: Option<u64>,
        name: &str,
        value: &str,
    ) -> Result<(), ControlError> {
        let params = json!({ "engine": engine, "name": name, "value": value });
        self.call("param", params).map(drop)
    }

    /// Begins to record what happens; it ends with [`trace_stop`](Self::trace_stop) or with the connection.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn trace_start(&mut self, events_per_thread: usize) -> Result<(), ControlError> {
        let params = json!({ "events_per_thread": events_per_thread });
        self.call("trace_start", params).map(drop)
    }

    /// A part of what was recorded.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn trace_read(&mut self) -> Result<TraceChunk, ControlError> {
        self.ask("trace_read", json!({}))
    }

    /// Ends the recording.
    ///
    /// # Errors
    /// As [`call`](Self::call).
    pub fn trace_stop(&mut self) -> Result<(), ControlError> {
        self.call("trace_stop", json!({})).map(drop)
    }
}

fn read_as<T: DeserializeOwned>(pid: u32, method: &str, result: Value) -> Result<T, ControlError> {
    serde_json::from_value(result).map_err(|error| {
        let why = format!("process {pid}: {method}: {error}: another version?");
        ControlError::new("EBADMSG", why)
    })
}

/// A process that does not react, as one that is stopped.
fn silent(what: &str, why: &str) -> ControlError {
    ControlError::new("ETIMEDOUT", format!("{what}: {why}; is it stopped?"))
}

/// No process listens: a killed process left the socket behind.
fn is_gone(error: &ControlError) -> bool {
    error.errno == "ECONNREFUSED" || error.errno == "ENOENT"
}

/// The numbers of the processes that serve and that the caller may speak to. None is asked, so that
/// one that is stopped is among them.
pub fn serving() -> Vec<u32> {
    let mut found: Vec<u32> = place::all_sockets()
        .into_iter()
        .filter(|(pid, path)| !matches!(Client::connect(*pid, path), Err(error) if is_gone(&error)))
        .map(|(pid, _)| pid)
        .collect();
    found.sort_unstable();
    found
}

/// Every process that serves and that the caller may speak to, by number; for a process that cannot
/// be asked, the error.
pub fn processes() -> Vec<(u32, Result<Hello, ControlError>)> {
    // All are asked before the first answer is awaited: those that are stopped cost one wait together.
    let asked = place::all_sockets().into_iter().map(|(pid, path)| {
        let asked = Client::connect(pid, &path).and_then(|mut client| {
            let sent = client.send("hello", json!({}))?;
            Ok((client, sent))
        });
        (pid, asked)
    });
    let asked: Vec<_> = asked.collect();
    let end = Instant::now() + PATIENCE;
    let answered = asked.into_iter().filter_map(|(pid, asked)| {
        let hello = asked.and_then(|(mut client, sent)| {
            client.answer_until(end)?;
            read_as(pid, "hello", client.receive(sent)?)
        });
        match hello {
            Err(error) if is_gone(&error) => None,
            hello => Some((pid, hello)),
        }
    });
    let mut found: Vec<_> = answered.collect();
    found.sort_by_key(|(pid, _)| *pid);
    found
}

/// Connects to the process that `which` means: a number, a name that only one serving process has,
/// or, for `None`, the only one that serves.
///
/// # Errors
/// There is none, or several (`EINVAL`, with their numbers), or it cannot be spoken to.
pub fn connect(which: Option<&str>) -> Result<Client, ControlError> {
    if let Some(pid) = which.and_then(|which| which.parse::<u32>().ok()) {
        let sockets = place::all_sockets();
        let Some((_, path)) = sockets.iter().find(|(own, _)| *own == pid) else {
            return Err(nobody(&format!("process {pid} does not serve")));
        };
        return Client::connect(pid, path).map_err(|error| match error.errno.as_str() {
            "ECONNREFUSED" => nobody(&format!("process {pid} does not serve any more")),
            _ => error,
        });
    }
    let mut all = processes();
    if let (None, [(_, Err(_))]) = (which, all.as_slice())
        && let Some((_, Err(error))) = all.pop()
    {
        return Err(error);
    }
    let fitting: Vec<u32> = all
        .iter()
        .filter(|(_, hello)| match (which, hello) {
            (None, _) => true,
            (Some(name), Ok(hello)) => hello.name == name,
            (Some(_), Err(_)) => false,
        })
        .map(|(pid, _)| *pid)
        .collect();
    match fitting.as_slice() {
        [] => {
            let errors = all.iter().filter_map(|(_, hello)| hello.as_ref().err());
            let errors: String = errors.map(|error| format!("; {}", error.message)).collect();
            Err(nobody(&match which {
                Some(name) => format!("no serving process is called {name:?}{errors}"),
                None => "no process serves".to_owned(),
            }))
        }
        [pid] => connect(Some(&pid.to_string())),
        several => {
            let numbers: Vec<String> = several.iter().map(u32::to_string).collect();
            let numbers = numbers.join(", ");
            Err(ControlError::inval(format!(
                "several processes serve: say which, of {numbers}"
            )))
        }
    }
}

fn nobody(what: &str) -> ControlError {
    ControlError::noent(format!(
        "{what}; a program serves its user and root if it calls serve_if_asked and was started with CMWQ_CONTROL=1: see `cmwq list`"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As from a process that was stopped while it was asked.
    #[test]
    fn an_answer_that_comes_too_late_is_not_taken_for_the_next_one() {
        let (own, mut process) = UnixStream::pair().expect("a pair");
        own.set_read_timeout(Some(Duration::from_millis(1)))
            .expect("set");
        let reader = BufReader::new(own);
        let mut client = Client { pid: 7, reader };
        let late = client.get("io", "nice").expect_err("it does not answer");
        assert_eq!(late.errno, "ETIMEDOUT");
        assert!(late.message.contains("no answer for"), "{late}");
        let _ = process.write_all(b"{\"result\":{\"value\":\"late\"}}\n");
        let ended = client.get("io", "cpumask").expect_err("no answer to this");
        assert_eq!(ended.errno, "EIO");
    }
}
