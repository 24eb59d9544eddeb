//! What there is to see, and what reading and writing it does.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cmwq_control::{Client, ControlError, connect, serving};
use serde_json::{Value, json};

/// Something in the tree.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Node {
    Root,
    /// A process.
    Process(u32),
    /// Its parameters.
    Parameters(u32),
    /// A parameter; the global masks are in the process's own folder, as the kernel's are beside the queues.
    Parameter(u32, String),
    /// A workqueue.
    Queue(u32, String),
    /// An attribute of it.
    Attribute(u32, String, String),
}

const PARAMETERS: &str = "parameters";

/// Shown beside the workqueues; the others are in `parameters`.
fn is_global_file(name: &str) -> bool {
    name.starts_with("cpumask")
}

/// An entry of a folder.
pub(super) struct Entry {
    pub(super) name: String,
    pub(super) node: Node,
}

impl Node {
    pub(super) fn is_folder(&self) -> bool {
        !matches!(self, Node::Parameter(..) | Node::Attribute(..))
    }
}

/// How long the mount remembers which files there are: a shell looks up each part of a path anew.
/// It requests contents each time.
const REMEMBERED: Duration = Duration::from_secs(1);
/// How long a process that did not answer is not asked again: whatever was to be read of it would
/// wait for as long.
const SILENCE: Duration = Duration::from_secs(5);

/// What is known of a process.
#[derive(Default)]
struct Process {
    client: Option<Client>,
    /// Answers that say what there is, by method and parameters.
    answers: HashMap<String, (Instant, Value)>,
    /// When it last did not answer, and the error.
    silent: Option<(Instant, ControlError)>,
}

impl Process {
    /// Asks it, over the connection that there is, or over a new one if that has gone.
    fn call(&mut self, pid: u32, method: &str, params: &Value) -> Result<Value, ControlError> {
        if let Some((since, error)) = &self.silent
            && since.elapsed() < SILENCE
        {
            return Err(error.clone());
        }
        let answer = self.ask(pid, method, params);
        self.silent = match &answer {
            Err(error) if error.errno == "ETIMEDOUT" => Some((Instant::now(), error.clone())),
            _ => None,
        };
        answer
    }

    fn ask(&mut self, pid: u32, method: &str, params: &Value) -> Result<Value, ControlError> {
        if let Some(mut client) = self.client.take() {
            match client.call(method, params.clone()) {
                Err(error) if error.errno == "EIO" => {}
                Err(error) if error.errno == "ETIMEDOUT" => return Err(error),
                answer => {
                    self.client = Some(client);
                    return answer;
                }
            }
        }
        let mut client = connect(Some(&pid.to_string()))?;
        let answer = client.call(method, params.clone());
        self.client = Some(client);
        answer
    }
}

/// How recent an answer has to be.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Age {
    /// As old as is remembered.
    Remembered,
    /// The process is asked.
    New,
}

/// The processes that were asked before. A thread that waits for one of them holds up only those
/// that ask the same one.
#[derive(Default)]
pub(super) struct Tree {
    processes: Mutex<HashMap<u32, Arc<Mutex<Process>>>>,
}

impl Tree {
    fn process(&self, pid: u32) -> Arc<Mutex<Process>> {
        lock(&self.processes).entry(pid).or_default().clone()
    }

    /// Asks a process now.
    fn call(&self, pid: u32, method: &str, params: &Value) -> Result<Value, ControlError> {
        lock(&self.process(pid)).call(pid, method, params)
    }

    /// Asks a process to change something, which may change what there is.
    fn change(&self, pid: u32, method: &str, params: &Value) -> Result<(), ControlError> {
        let process = self.process(pid);
        let mut process = lock(&process);
        process.answers.clear();
        process.call(pid, method, params).map(drop)
    }

    /// What there is in a process.
    fn there(
        &self,
        pid: u32,
        method: &str,
        params: &Value,
        age: Age,
    ) -> Result<Value, ControlError> {
        let process = self.process(pid);
        let mut process = lock(&process);
        let question = format!("{method} {params}");
        if let (Age::Remembered, Some((at, answer))) = (age, process.answers.get(&question))
            && at.elapsed() < REMEMBERED
        {
            return Ok(answer.clone());
        }
        process
            .answers
            .retain(|_, (at, _)| at.elapsed() < REMEMBERED);
        let answer = process.call(pid, method, params)?;
        let remembered = (Instant::now(), answer.clone());
        process.answers.insert(question, remembered);
        Ok(answer)
    }

    /// Names and whether they can be written.
    fn names(
        &self,
        pid: u32,
        method: &str,
        params: &Value,
        age: Age,
    ) -> Result<Vec<(String, bool)>, ControlError> {
        let answer = self.there(pid, method, params, age)?;
        let writable = answer.get("writable").and_then(Value::as_array);
        let can_write = |name: &str| writable.is_some_and(|all| all.iter().any(|own| own == name));
        let names = answer.get("values").and_then(Value::as_object);
        let names = names.into_iter().flat_map(|values| values.keys());
        Ok(names.map(|name| (name.clone(), can_write(name))).collect())
    }

    /// What is in a folder.
    pub(super) fn entries(&self, folder: &Node, age: Age) -> Result<Vec<Entry>, ControlError> {
        let entry = |name: &str, node: Node| Entry {
            name: name.to_owned(),
            node,
        };
        Ok(match folder {
            Node::Root => {
                let pids = serving();
                // What is known of those that are gone is of no use.
                lock(&self.processes).retain(|pid, _| pids.contains(pid));
                pids.into_iter()
                    .map(|pid| entry(&pid.to_string(), Node::Process(pid)))
                    .collect()
            }
            Node::Process(pid) => {
                let queues = self.there(*pid, "queues", &json!({}), age)?;
                let queues = queues.as_array().into_iter().flatten();
                let mut entries: Vec<Entry> = queues
                    .filter_map(Value::as_str)
                    .map(|key| entry(key, Node::Queue(*pid, key.to_owned())))
                    .collect();
                entries.push(entry(PARAMETERS, Node::Parameters(*pid)));
                entries.extend(self.parameters(*pid, true, age)?);
                entries
            }
            Node::Parameters(pid) => self.parameters(*pid, false, age)?,
            Node::Queue(pid, key) => self
                .names(*pid, "get", &json!({ "queue": key }), age)?
                .iter()
                .map(|(name, _)| {
                    let node = Node::Attribute(*pid, key.clone(), name.clone());
                    entry(name, node)
                })
                .collect(),
            Node::Parameter(..) | Node::Attribute(..) => {
                return Err(ControlError::new("EINVAL", "not a folder"));
            }
        })
    }

    fn parameters(&self, pid: u32, global: bool, age: Age) -> Result<Vec<Entry>, ControlError> {
        // A process without an engine has none.
        let names = match self.names(pid, "param", &json!({}), age) {
            Err(error) if error.errno == "ENOENT" => Vec::new(),
            names => names?,
        };
        let own = names
            .into_iter()
            .filter(|(name, _)| is_global_file(name) == global);
        Ok(own
            .map(|(name, _)| Entry {
                node: Node::Parameter(pid, name.clone()),
                name,
            })
            .collect())
    }

    /// What a name in a folder stands for; `ENOENT` if for nothing.
    pub(super) fn lookup(&self, folder: &Node, name: &str) -> Result<Node, ControlError> {
        for age in [Age::Remembered, Age::New] {
            let entries = self.entries(folder, age)?;
            if let Some(found) = entries.into_iter().find(|entry| entry.name == name) {
                return Ok(found.node);
            }
        }
        Err(ControlError::new("ENOENT", format!("no {name:?} here")))
    }

    /// Whether a file can be written; no folder can.
    pub(super) fn is_writable(&self, node: &Node) -> Result<bool, ControlError> {
        let (names, name) = match node {
            Node::Parameter(pid, name) => {
                let names = self.names(*pid, "param", &json!({}), Age::Remembered)?;
                (names, name)
            }
            Node::Attribute(pid, key, name) => {
                let params = json!({ "queue": key });
                (self.names(*pid, "get", &params, Age::Remembered)?, name)
            }
            Node::Root | Node::Process(_) | Node::Parameters(_) | Node::Queue(..) => {
                return Ok(false);
            }
        };
        let found = names.into_iter().find(|(own, _)| own == name);
        found
            .map(|(_, writable)| writable)
            .ok_or_else(|| ControlError::new("ENOENT", format!("no {name:?} any more")))
    }

    /// What a file holds.
    pub(super) fn read(&self, node: &Node) -> Result<String, ControlError> {
        let answer = match node {
            Node::Parameter(pid, name) => self.call(*pid, "param", &json!({ "name": name }))?,
            Node::Attribute(pid, key, name) => {
                self.call(*pid, "get", &json!({ "queue": key, "attribute": name }))?
            }
            _ => return Err(ControlError::new("EINVAL", "a folder")),
        };
        let value = answer.get("value").and_then(Value::as_str);
        Ok(format!("{}\n", value.unwrap_or_default()))
    }

    /// Writes a file, all at once, as the kernel's take it.
    pub(super) fn write(&self, node: &Node, text: &str) -> Result<(), ControlError> {
        match node {
            Node::Parameter(pid, name) => {
                self.change(*pid, "param", &json!({ "name": name, "value": text }))
            }
            Node::Attribute(pid, key, name) => {
                let params = json!({ "queue": key, "attribute": name, "value": text });
                self.change(*pid, "set", &params)
            }
            _ => Err(ControlError::new("EINVAL", "a folder")),
        }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
