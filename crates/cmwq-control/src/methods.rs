//! What can be asked for.

use crate::error::ControlError;
use crate::metrics;
use crate::protocol::{EndpointCounts, Hello, PROTOCOL_VERSION, Reply, Request};
use crate::state;
use crate::trace::Tracer;
use cmwq::Engine;
use cmwq::observe::LiveQueue;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// All methods, for the error that names them.
const METHODS: [&str; 11] = [
    "hello",
    "queues",
    "state",
    "busy",
    "get",
    "set",
    "param",
    "metrics",
    "trace_start",
    "trace_read",
    "trace_stop",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Busy {
    /// Of freezable queues only.
    #[serde(default)]
    freezable: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Get {
    queue: String,
    /// None: all.
    attribute: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Set {
    queue: String,
    attribute: String,
    value: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Param {
    engine: Option<u64>,
    /// None: all.
    name: Option<String>,
    /// None: read.
    value: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct TraceStart {
    events_per_thread: Option<usize>,
}

/// Answers one line.
pub(crate) fn answer(line: &[u8], tracer: &mut Tracer, counts: &EndpointCounts) -> Reply {
    let request: Request = match serde_json::from_slice(line) {
        Ok(request) => request,
        Err(error) => {
            let message = format!(
                "not a request: {error}; a request is one line such as {{\"method\":\"hello\"}}"
            );
            return failed(Value::Null, ControlError::new("EBADMSG", message));
        }
    };
    match call(&request, tracer, counts) {
        Ok(result) => Reply {
            result: Some(result),
            error: None,
            id: request.id,
        },
        Err(error) => failed(request.id, error),
    }
}

pub(crate) fn failed(id: Value, error: ControlError) -> Reply {
    Reply {
        result: None,
        error: Some(error),
        id,
    }
}

fn params<T: DeserializeOwned>(request: &Request) -> Result<T, ControlError> {
    let given = match &request.params {
        Value::Null => json!({}),
        given @ Value::Object(_) => given.clone(),
        _ => {
            let message = format!("params of {}: they must be an object", request.method);
            return Err(ControlError::inval(message));
        }
    };
    serde_json::from_value(given)
        .map_err(|error| ControlError::inval(format!("params of {}: {error}", request.method)))
}

fn to_json<T: serde::Serialize>(value: T) -> Result<Value, ControlError> {
    serde_json::to_value(value).map_err(|error| ControlError::new("EIO", error.to_string()))
}

fn call(
    request: &Request,
    tracer: &mut Tracer,
    counts: &EndpointCounts,
) -> Result<Value, ControlError> {
    match request.method.as_str() {
        "hello" => {
            let Nothing {} = params(request)?;
            to_json(hello(*counts))
        }
        "state" => {
            let Nothing {} = params(request)?;
            to_json(state::state())
        }
        "queues" => {
            let Nothing {} = params(request)?;
            let keys = state::keyed_queues();
            to_json(keys.into_iter().map(|(key, ..)| key).collect::<Vec<_>>())
        }
        "busy" => {
            let busy: Busy = params(request)?;
            let engines = Engine::all();
            let dumps = engines.iter().map(|engine| match busy.freezable {
                true => engine.dump_freezable(),
                false => engine.dump(),
            });
            let texts = dumps.map(|dump| dump.to_string() + &dump.threads());
            Ok(json!({ "text": texts.collect::<String>() }))
        }
        "get" => get(&params(request)?),
        "set" => {
            let set: Set = params(request)?;
            find(&set.queue)?.set_attribute(&set.attribute, &set.value)?;
            Ok(json!({}))
        }
        "param" => param(&params(request)?),
        "metrics" => {
            let Nothing {} = params(request)?;
            Ok(json!({ "text": metrics::render(counts)? }))
        }
        "trace_start" => {
            let TraceStart { events_per_thread } = params(request)?;
            tracer.start(events_per_thread)?;
            Ok(json!({}))
        }
        "trace_read" => {
            let Nothing {} = params(request)?;
            to_json(tracer.read()?)
        }
        "trace_stop" => {
            let Nothing {} = params(request)?;
            tracer.stop()?;
            Ok(json!({}))
        }
        other => {
            // At its full length it would make a long line.
            let shown: String = other.chars().take(40).collect();
            let message = format!(
                "there is no method {shown:?}: there are {}",
                METHODS.join(", ")
            );
            Err(ControlError::new("ENOSYS", message))
        }
    }
}

fn hello(endpoint: EndpointCounts) -> Hello {
    let engines = Engine::all();
    let queues = engines.iter().flat_map(Engine::live_queues);
    let groups: BTreeSet<u64> = queues
        .filter_map(|queue| Some(queue.group()?.serial))
        .collect();
    Hello {
        protocol: PROTOCOL_VERSION,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        pid: std::process::id(),
        name: state::process_name(),
        uid: crate::place::own_uid(),
        queues: engines
            .iter()
            .map(|engine| engine.live_queues().len())
            .sum(),
        groups: groups.len(),
        workers: engines
            .iter()
            .map(|engine| engine.stats().workers as usize)
            .sum(),
        endpoint,
    }
}

/// The queue that a key means: its own, or `NAME#SERIAL`, or a name that only one has.
fn find(key: &str) -> Result<LiveQueue, ControlError> {
    let mut all = state::keyed_queues();
    if let Some(at) = all.iter().position(|(own, ..)| own == key) {
        return Ok(all.swap_remove(at).2);
    }
    let serial = key.rsplit_once('#').and_then(|(name, serial)| {
        let serial: u64 = serial.parse().ok()?;
        Some((name.to_owned(), serial))
    });
    let exact = all.iter().position(|(_, _, queue)| {
        serial
            .as_ref()
            .is_some_and(|(name, serial)| queue.serial() == *serial && queue.name() == name)
    });
    if let Some(at) = exact {
        return Ok(all.swap_remove(at).2);
    }
    let named: Vec<usize> = (0..all.len())
        .filter(|&at| all[at].2.name() == key)
        .collect();
    let shown: String = key.chars().take(40).collect();
    match named.len() {
        1 => Ok(all.swap_remove(named[0]).2),
        0 if Engine::all().is_empty() => Err(no_engine()),
        0 => {
            let keys: Vec<&str> = all.iter().map(|(own, ..)| own.as_str()).collect();
            Err(ControlError::noent(format!(
                "there is no workqueue {shown:?}; there are: {}",
                listed(&keys, ", ")
            )))
        }
        _ => {
            let keys: Vec<&str> = named.iter().map(|&at| all[at].0.as_str()).collect();
            Err(ControlError::inval(format!(
                "several workqueues are called {shown:?}: say which, {}",
                listed(&keys, " or ")
            )))
        }
    }
}

/// Not more than make a line.
fn listed(keys: &[&str], between: &str) -> String {
    match keys.len() {
        0 => "none".to_owned(),
        1..=20 => keys.join(between),
        more => format!("{} and {} more", keys[..20].join(between), more - 20),
    }
}

fn get(get: &Get) -> Result<Value, ControlError> {
    let queue = find(&get.queue)?;
    match &get.attribute {
        Some(name) => Ok(json!({ "value": queue.attribute(name)? })),
        None => {
            let mut values = serde_json::Map::new();
            let mut writable = Vec::new();
            for (name, may_be_written) in queue.attributes() {
                values.insert(name.to_owned(), Value::String(queue.attribute(name)?));
                if may_be_written {
                    writable.push(name);
                }
            }
            Ok(json!({ "values": values, "writable": writable }))
        }
    }
}

/// The engines that are meant: the one of that number, or all; never none.
fn engines(serial: Option<u64>) -> Result<Vec<Engine>, ControlError> {
    let engines = Engine::all();
    let numbers: Vec<String> = engines
        .iter()
        .map(|engine| engine.serial().to_string())
        .collect();
    let numbers = numbers.join(", ");
    match serial {
        Some(serial) => engines
            .into_iter()
            .find(|engine| engine.serial() == serial)
            .map(|engine| vec![engine])
            .ok_or_else(|| {
                ControlError::noent(format!("there is no engine {serial}; there are: {numbers}"))
            }),
        None if engines.is_empty() => Err(no_engine()),
        None => Ok(engines),
    }
}

/// The request was right, but the process has no engine yet that could answer it.
fn no_engine() -> ControlError {
    ControlError::new("ENODEV", "the process has made no workqueue yet")
}

fn param(param: &Param) -> Result<Value, ControlError> {
    let engines = engines(param.engine)?;
    // As the kernel has one, a process has its first: what is written goes to all.
    let engine = &engines[0];
    match (&param.name, &param.value) {
        (Some(name), Some(value)) => {
            Engine::set_parameter_of(&engines, name, value)?;
            Ok(json!({}))
        }
        (Some(name), None) => Ok(json!({ "value": engine.parameter(name)? })),
        (None, Some(_)) => Err(ControlError::inval("params of param: a value needs a name")),
        (None, None) => {
            let mut values = serde_json::Map::new();
            let mut writable = Vec::new();
            for setting in Engine::parameter_settings() {
                let value = Value::String(engine.parameter(setting.name)?);
                values.insert(setting.name.to_owned(), value);
                if setting.writable {
                    writable.push(setting.name);
                }
            }
            Ok(json!({ "values": values, "writable": writable }))
        }
    }
}

/// For tests of the parser: any bytes give an answer.
#[cfg(test)]
mod tests {
    use super::*;

    fn errno(line: &str) -> String {
        let reply = answer(
            line.as_bytes(),
            &mut Tracer::default(),
            &EndpointCounts::default(),
        );
        assert!(reply.result.is_none(), "{line}: {reply:?}");
        reply.error.expect("an error").errno
    }

    #[test]
    fn what_is_no_request_is_an_error_of_its_own() {
        for line in [
            "",
            "{",
            "[]",
            "1",
            "null",
            "{}",
            "{\"method\":1}",
            "{\"method\":\"hello\",\"x\":1}",
        ] {
            assert_eq!(errno(line), "EBADMSG", "{line}");
        }
        assert_eq!(errno("{\"method\":\"nonsense\"}"), "ENOSYS");
        for line in [
            "{\"method\":\"hello\",\"params\":{\"a\":1}}",
            "{\"method\":\"get\",\"params\":{}}",
            "{\"method\":\"get\",\"params\":[]}",
            "{\"method\":\"hello\",\"params\":[]}",
            "{\"method\":\"get\",\"params\":[\"a\",\"nice\"]}",
            "{\"method\":\"set\",\"params\":{\"queue\":\"a\",\"attribute\":\"nice\",\"value\":5}}",
            "{\"method\":\"trace_read\"}",
            "{\"method\":\"trace_stop\"}",
        ] {
            assert_eq!(errno(line), "EINVAL", "{line}");
        }
        assert_eq!(
            errno("{\"method\":\"get\",\"params\":{\"queue\":\"no such\"}}"),
            "ENOENT"
        );
    }

    #[test]
    fn a_request_without_params_is_told_which_it_lacks() {
        let said = |line: &str| {
            let counts = EndpointCounts::default();
            let reply = answer(line.as_bytes(), &mut Tracer::default(), &counts);
            reply.error.map(|error| error.message)
        };
        let lacks = |method: &str, field: &str| {
            Some(format!("params of {method}: missing field `{field}`"))
        };
        assert_eq!(said(r#"{"method":"get"}"#), lacks("get", "queue"));
        assert_eq!(
            said(r#"{"method":"set","params":{"queue":"a"}}"#),
            lacks("set", "attribute")
        );
        for method in ["hello", "queues", "state", "busy", "metrics"] {
            assert_eq!(said(&format!(r#"{{"method":"{method}"}}"#)), None);
        }
    }

    #[test]
    fn the_id_comes_back() {
        let line = b"{\"method\":\"nonsense\",\"id\":[1,\"a\"]}";
        let reply = answer(line, &mut Tracer::default(), &EndpointCounts::default());
        assert_eq!(reply.id, json!([1, "a"]));
    }
}
