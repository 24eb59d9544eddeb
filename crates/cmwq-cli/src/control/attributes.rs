//! `cmwq get`, `cmwq set`, `cmwq param`: what the kernel has files for.

use std::fmt::Write as _;

use cmwq::Engine;
use cmwq::affinity::AffinityScope;
use cmwq::observe::{LiveQueue, Setting};
use cmwq_control::{Client, ControlError};
use serde_json::{Value, json};

use super::{Format, ProcessArgs, refused};
use crate::output;
use cmwq_command::{CliError, whole};

const GET_EXAMPLES: &str = "\
Examples:
  cmwq get io
  cmwq get -p 1234 io affinity_scope

The names and the values are those of the kernel's files in /sys/devices/virtual/workqueue/NAME/.";

/// Examples, and each setting with its meaning below it, whose lines stay to the right of the names
/// however narrow the terminal is.
fn with_settings(examples: &str, title: &str, settings: &[Setting]) -> String {
    let mut text = format!("{examples}\n\n{title}:");
    for Setting {
        name,
        help,
        variable,
        ..
    } in settings
    {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  {name}\n          {help}");
        if let Some(variable) = variable {
            let _ = write!(text, " [{variable}]");
        }
    }
    text
}

fn attributes() -> Vec<Setting> {
    LiveQueue::attribute_settings()
}

fn writable(mut settings: Vec<Setting>) -> Vec<Setting> {
    settings.retain(|setting| setting.writable);
    settings
}

#[derive(clap::Args)]
#[command(after_help = with_settings(GET_EXAMPLES, "Attributes", &attributes()))]
pub(crate) struct GetArgs {
    #[command(flatten)]
    process: ProcessArgs,

    /// The name of the workqueue; NAME#SERIAL where several have the same name
    queue: String,

    /// The attribute, of those below that the workqueue has [default: all of them]
    attribute: Option<String>,

    /// Text to read, or JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn get(args: &GetArgs) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    let params = match &args.attribute {
        Some(attribute) => json!({ "queue": args.queue, "attribute": attribute }),
        None => json!({ "queue": args.queue }),
    };
    let asked = client.call("get", params);
    let attribute = args.attribute.as_deref().unwrap_or_default();
    let asked = asked.map_err(|error| meant(error, &mut client, &args.queue, attribute, ""));
    print(&asked?, args.format)
}

/// What the process says, with the name that the user may have meant: of a workqueue, of an
/// attribute, or of an affinity scope.
fn meant(
    error: ControlError,
    client: &mut Client,
    queue: &str,
    attribute: &str,
    value: &str,
) -> CliError {
    let errno = error.errno.clone();
    let said = refused(error);
    match errno.as_str() {
        "ENOENT" => {
            let keys = client.call("queues", json!({})).ok();
            let keys: Vec<String> = keys
                .and_then(|keys| serde_json::from_value(keys).ok())
                .unwrap_or_default();
            match keys.iter().any(|key| key == queue) {
                true => said.suggest(attribute, attributes().iter().map(|own| own.name)),
                false => said.suggest(queue, keys),
            }
        }
        "EINVAL" => with_scope(said, attribute, value),
        _ => said,
    }
}

fn with_scope(said: CliError, setting: &str, value: &str) -> CliError {
    match setting {
        "affinity_scope" => said.suggest(value, AffinityScope::ALL.map(AffinityScope::name)),
        "default_affinity_scope" => {
            said.suggest(value, AffinityScope::CONCRETE.map(AffinityScope::name))
        }
        _ => said,
    }
}

/// One value, or all with their names.
fn print(result: &Value, format: Format) -> Result<(), CliError> {
    if format == Format::Json {
        return output::print(&super::json(result)?);
    }
    if let Some(value) = result.get("value").and_then(Value::as_str) {
        return output::print(&format!("{}\n", output::printable(value)));
    }
    let mut text = String::new();
    let values = result.get("values").and_then(Value::as_object);
    for (name, value) in values.into_iter().flatten() {
        // Writing to a string cannot fail.
        let value = value.as_str().unwrap_or_default();
        let _ = writeln!(text, "{}", output::printable(&format!("{name}={value}")));
    }
    output::print(&text)
}

const SET_EXAMPLES: &str = "\
Examples:
  cmwq set io affinity_scope cache
  cmwq set -p 1234 io max_active 16
  cmwq set io cpumask ff
  cmwq set io group_max_active 8

A value is accepted or refused as the kernel's file of the same name would do. Items that are already queued finish under the old \
value; items that are queued afterwards follow the new one.";

#[derive(clap::Args)]
#[command(after_help = with_settings(SET_EXAMPLES, "Attributes that can be set", &writable(attributes())))]
pub(crate) struct SetArgs {
    #[command(flatten)]
    process: ProcessArgs,

    /// The name of the workqueue; NAME#SERIAL where several have the same name
    queue: String,

    /// The attribute, of those below that the workqueue has; or NAME=VALUE
    attribute: String,

    /// The value
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,
}

/// A name and a value: two arguments, or one with `=` between them.
fn assignment<'a>(name: &'a str, value: Option<&'a str>) -> (&'a str, Option<&'a str>) {
    match (value, name.split_once('=')) {
        (None, Some((name, value))) => (name, Some(value)),
        (value, _) => (name, value),
    }
}

pub(crate) fn set(args: &SetArgs) -> Result<(), CliError> {
    let (attribute, value) = assignment(&args.attribute, args.value.as_deref());
    let value = value.ok_or_else(|| {
        let queue = &args.queue;
        CliError::new(format!(
            "{attribute}: its value is missing; `cmwq get {queue} {attribute}` shows the present one"
        ))
    })?;
    let mut client = args.process.connect()?;
    let result = client.set(&args.queue, attribute, value);
    result.map_err(|error| meant(error, &mut client, &args.queue, attribute, value))
}

const PARAM_EXAMPLES: &str = "\
Examples:
  cmwq param
  cmwq param default_affinity_scope
  cmwq param default_affinity_scope cache
  cmwq param cpumask f

The names and values are those of the kernel's files in /sys/module/workqueue/parameters/, and of its global masks.";

#[derive(clap::Args)]
#[command(after_help = with_settings(PARAM_EXAMPLES, "Parameters [with the environment variable of the first value]", &Engine::parameter_settings()))]
pub(crate) struct ParamArgs {
    #[command(flatten)]
    process: ProcessArgs,

    /// The engine, where the process has several
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true, value_parser = whole(0, u64::MAX))]
    engine: Option<u64>,

    /// The parameter, of those below; or NAME=VALUE [default: show all]
    parameter: Option<String>,

    /// Its new value [default: show it]
    #[arg(allow_hyphen_values = true)]
    value: Option<String>,

    /// Text to read, or JSON
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
}

pub(crate) fn param(args: &ParamArgs) -> Result<(), CliError> {
    let mut client = args.process.connect()?;
    let (name, value) = match args.parameter.as_deref() {
        None => (None, None),
        Some(text) => {
            let (name, value) = assignment(text, args.value.as_deref());
            (Some(name), value)
        }
    };
    let params = json!({ "engine": args.engine, "name": name, "value": value });
    let result = client.call("param", params).map_err(|error| {
        let (name, value) = (name.unwrap_or_default(), value.unwrap_or_default());
        match error.errno.as_str() {
            "ENOENT" => {
                let all = Engine::parameter_settings();
                refused(error).suggest(name, all.iter().map(|own| own.name))
            }
            "EINVAL" => with_scope(refused(error), name, value),
            _ => refused(error),
        }
    })?;
    match value {
        Some(_) => Ok(()),
        None => print(&result, args.format),
    }
}
