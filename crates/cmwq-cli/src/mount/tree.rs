//! What there is to see, and what reading and writing it does.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use cmwq_control::{Client, ControlError, connect, processes};
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

/// The processes, and connections to those that were asked before.
#[derive(Default)]
pub(super) struct Tree {
    clients: Mutex<HashMap<u32, Client>>,
}

impl Tree {
    /// Asks a process, over the connection that there is, or over a new one if that has gone.
    fn call(&self, pid: u32, method: &str, params: &Value) -> Result<Value, ControlError> {
        let mut clients = self.clients.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(client) = clients.get_mut(&pid) {
            match client.call(method, params.clone()) {
                Err(error) if error.errno == "EIO" => {
                    clients.remove(&pid);
                }
                answer => return answer,
            }
        }
        let mut client = connect(Some(&pid.to_string()))?;
        let answer = client.call(method, params.clone());
        clients.insert(pid, client);
        answer
    }

    /// Names and whether they can be written.
    fn names(
        &self,
        pid: u32,
        method: &str,
        params: &Value,
    ) -> Result<Vec<(String, bool)>, ControlError> {
        let answer = self.call(pid, method, params)?;
        let writable = answer.get("writable").and_then(Value::as_array);
        let can_write = |name: &str| writable.is_some_and(|all| all.iter().any(|own| own == name));
        let names = answer.get("values").and_then(Value::as_object);
        let names = names.into_iter().flat_map(|values| values.keys());
        Ok(names.map(|name| (name.clone(), can_write(name))).collect())
    }

    /// What is in a folder.
    pub(super) fn entries(&self, folder: &Node) -> Result<Vec<Entry>, ControlError> {
        let entry = |name: &str, node: Node| Entry {
            name: name.to_owned(),
            node,
        };
        Ok(match folder {
            Node::Root => processes()
                .into_iter()
                .filter(|(_, hello)| hello.is_ok())
                .map(|(pid, _)| entry(&pid.to_string(), Node::Process(pid)))
                .collect(),
            Node::Process(pid) => {
                let queues = self.call(*pid, "queues", &json!({}))?;
                let queues = queues.as_array().into_iter().flatten();
                let mut entries: Vec<Entry> = queues
                    .filter_map(Value::as_str)
                    .map(|key| entry(key, Node::Queue(*pid, key.to_owned())))
                    .collect();
                entries.push(entry(PARAMETERS, Node::Parameters(*pid)));
                entries.extend(self.parameters(*pid, true)?);
                entries
            }
            Node::Parameters(pid) => self.parameters(*pid, false)?,
            Node::Queue(pid, key) => self
                .names(*pid, "get", &json!({ "queue": key }))?
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

    fn parameters(&self, pid: u32, global: bool) -> Result<Vec<Entry>, ControlError> {
        // A process without an engine has none.
        let names = match self.names(pid, "param", &json!({})) {
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
        let entries = self.entries(folder)?;
        let found = entries.into_iter().find(|entry| entry.name == name);
        found
            .map(|entry| entry.node)
            .ok_or_else(|| ControlError::new("ENOENT", format!("no {name:?} here")))
    }

    /// Whether something is still there, and whether it can be written.
    pub(super) fn is_writable(&self, node: &Node) -> Result<bool, ControlError> {
        let (names, name) = match node {
            Node::Parameter(pid, name) => (self.names(*pid, "param", &json!({}))?, name),
            Node::Attribute(pid, key, name) => {
                (self.names(*pid, "get", &json!({ "queue": key }))?, name)
            }
            Node::Root => return Ok(false),
            Node::Process(pid) | Node::Parameters(pid) => {
                return self.call(*pid, "hello", &json!({})).map(|_| false);
            }
            Node::Queue(pid, key) => {
                let params = json!({ "queue": key, "attribute": "per_cpu" });
                return self.call(*pid, "get", &params).map(|_| false);
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
                self.call(*pid, "param", &json!({ "name": name, "value": text }))?
            }
            Node::Attribute(pid, key, name) => {
                let params = json!({ "queue": key, "attribute": name, "value": text });
                self.call(*pid, "set", &params)?
            }
            _ => return Err(ControlError::new("EINVAL", "a folder")),
        };
        Ok(())
    }
}
