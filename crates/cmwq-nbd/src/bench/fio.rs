//! Running fio, and what it says.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::plan::{Load, Target};
use crate::bench::subject::{Workspace, interrupted, stop};
use cmwq_command::CliError;

/// fio takes a while to start many jobs, and to end.
const GRACE: Duration = Duration::from_secs(120);

/// What fio measured, reads and writes together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    pub(super) bytes: u64,
    pub(super) mib_per_s: f64,
    pub(super) iops: f64,
    /// Completion latency at the 50th and 99th percentile in ms: the worse of reading and writing.
    pub(super) p50_ms: f64,
    pub(super) p99_ms: f64,
}

/// That fio is there and has the engine.
pub(super) fn check() -> Result<(), CliError> {
    let get_it = "get it with: apt-get install fio";
    match Command::new("fio").arg("--enghelp=nbd").output() {
        Ok(help) if help.status.success() => Ok(()),
        Ok(_) => Err(CliError::new(format!(
            "this fio has no nbd engine; {get_it}"
        ))),
        Err(error) => Err(CliError::new(format!("fio: {error}; {get_it}"))),
    }
}

/// What fio reads and writes: so many bytes there.
pub(super) struct Place {
    /// `--uri=` or `--filename=`.
    argument: String,
    size: u64,
}

impl Place {
    pub(super) fn export(uri: &str, size: u64) -> Self {
        Place {
            argument: format!("--uri={uri}"),
            size,
        }
    }

    pub(super) fn file(path: &Path, size: u64) -> Self {
        Place {
            argument: format!("--filename={}", path.display()),
            size,
        }
    }
}

/// Writes all of `place` once. The first touch of memory is expensive, on a virtual machine more so; the run after another
/// server's memory was given back would otherwise pay for all of it.
pub(super) fn fill(place: &Place, engine: &str, workspace: &Workspace) -> Result<(), CliError> {
    let output = workspace.path("fill.json");
    let child = Command::new("fio")
        .args(["--name=fill", "--thread=1", "--rw=write", "--end_fsync=1"])
        .args(["--bs=256k", "--iodepth=16", "--output-format=json"])
        .arg(format!("--ioengine={engine}"))
        .arg(format!("--output={}", output.display()))
        .arg(&place.argument)
        .arg(format!("--size={}", place.size))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| CliError::new(format!("fio: {error}")))?;
    wait(child, GRACE, workspace)?;
    let text = std::fs::read_to_string(&output)
        .map_err(|error| CliError::new(format!("fio's output: {error}")))?;
    parse(&text)
        .map(|_| ())
        .map_err(|what| CliError::new(format!("filling the disk: fio: {what}")))
}

/// Runs `load` against `place`.
pub(super) fn run(
    load: &Load,
    place: &Place,
    runtime: Duration,
    workspace: &Workspace,
) -> Result<Measured, CliError> {
    // Each job has a part of its own, or they would overwrite what others verify.
    let part = place.size / load.jobs as u64 / load.block * load.block;
    let output = workspace.path("fio.json");
    let mut command = Command::new("fio");
    command
        .args([
            "--name=load",
            "--thread=1",
            "--group_reporting",
            "--time_based",
        ])
        .arg("--percentile_list=50:99")
        .arg("--output-format=json")
        .arg(format!("--output={}", output.display()))
        .arg(format!("--ioengine={}", load.engine))
        .arg(&place.argument)
        .arg(format!("--rw={}", load.pattern))
        .arg(format!("--bs={}", load.block))
        .arg(format!("--iodepth={}", load.depth))
        .arg(format!("--numjobs={}", load.jobs))
        .arg(format!("--runtime={}", runtime.as_secs()))
        .arg(format!("--size={part}"))
        .arg(format!("--offset_increment={part}"));
    if load.verify {
        command.args(["--verify=sha512", "--verify_state_save=0"]);
    }
    match load.target {
        Target::Export => {}
        // The file is there; its size is the disk's.
        Target::File => {
            command.args(["--allow_file_create=0", "--fallocate=none"]);
        }
        // Through the page cache, but not only into it: fio empties the cache of the file whenever it begins with it again, so
        // that reads come from the device, and the last writes are on the device before the clock stops.
        Target::FileSystem => {
            command.args(["--direct=0", "--invalidate=1", "--end_fsync=1"]);
            command.arg("--allow_file_create=0");
        }
    }
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| CliError::new(format!("fio: {error}")))?;
    wait(child, runtime + GRACE, workspace)?;
    let text = std::fs::read_to_string(&output)
        .map_err(|error| CliError::new(format!("fio's output: {error}")))?;
    parse(&text).map_err(|what| CliError::new(format!("{}: fio: {what}", load.title)))
}

fn wait(mut child: Child, limit: Duration, workspace: &Workspace) -> Result<(), CliError> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait() {
            // What went wrong is in its output.
            Ok(Some(_)) => return Ok(()),
            Ok(None) if workspace.is_interrupted() => {
                stop(&mut child);
                return Err(interrupted());
            }
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                stop(&mut child);
                return Err(CliError::new("fio does not come to an end"));
            }
        }
    }
}

/// Reads fio's JSON: of one group of jobs.
fn parse(text: &str) -> Result<Measured, String> {
    // Messages may come first.
    let start = text.find('{').ok_or("it says nothing")?;
    let value: Value = serde_json::from_str(&text[start..]).map_err(|error| error.to_string())?;
    let job = &value["jobs"][0];
    match job["error"].as_u64() {
        Some(0) => {}
        Some(error) => return Err(format!("error {error} (verification, or the server's)")),
        None => return Err("its output is not what was expected".to_owned()),
    }
    let both = ["read", "write"].map(|direction| &job[direction]);
    let sum = |field: &str| {
        both.iter()
            .filter_map(|side| side[field].as_f64())
            .sum::<f64>()
    };
    let worst = |percentile: &str| {
        let of = |side: &&Value| side["clat_ns"]["percentile"][percentile].as_f64();
        both.iter().filter_map(of).fold(0.0, f64::max) / 1e6
    };
    let measured = Measured {
        bytes: sum("io_bytes") as u64,
        mib_per_s: sum("bw") / 1024.0,
        iops: sum("iops"),
        p50_ms: worst("50.000000"),
        p99_ms: worst("99.000000"),
    };
    if measured.bytes == 0 {
        return Err("nothing was transferred".to_owned());
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_directions_are_added_and_the_worse_latency_counts() {
        let side = |bytes, bw, p99| {
            format!(
                r#"{{"io_bytes":{bytes},"bw":{bw},"iops":10.5,"clat_ns":{{"percentile":{{"50.000000":1000000,"99.000000":{p99}}}}}}}"#
            )
        };
        let text = format!(
            r#"note: something first
{{"jobs":[{{"error":0,"read":{},"write":{}}}]}}"#,
            side(1048576, 1024, 5000000),
            side(1048576, 2048, 9000000)
        );
        let measured = parse(&text).unwrap();
        assert_eq!(measured.bytes, 2 << 20);
        assert_eq!((measured.mib_per_s, measured.iops), (3.0, 21.0));
        assert_eq!((measured.p50_ms, measured.p99_ms), (1.0, 9.0));
    }

    #[test]
    fn what_failed_is_no_measurement() {
        for (text, why) in [
            ("", "nothing"),
            ("fio: no such engine", "nothing"),
            ("{}", "not what was expected"),
            (r#"{"jobs":[{"error":84}]}"#, "error 84"),
            (r#"{"jobs":[{"error":0}]}"#, "nothing was transferred"),
            (r#"{"jobs":["#, "EOF"),
        ] {
            let message = parse(text).unwrap_err();
            assert!(message.contains(why), "{text}: {message}");
        }
    }
}
