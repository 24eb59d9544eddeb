//! Running fio, and what it says.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::bench::machine::{Busy, BusyJobs};
use crate::bench::plan::{Load, Target};
use crate::bench::subject::{Workspace, interrupted, stop};
use cmwq_command::CliError;

/// fio takes a while to start many jobs, and to end.
const GRACE: Duration = Duration::from_secs(120);
/// A disk that is slower than this, in bytes a second, is given up.
const SLOWEST_DISK: u64 = 16 << 20;

/// What fio measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Measured {
    /// Read and written.
    pub(super) bytes: u64,
    pub(super) read_mib_per_s: f64,
    pub(super) write_mib_per_s: f64,
    pub(super) iops: f64,
    /// Completion latency at the 50th and 99th percentile: the worse of reading and writing.
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
}

/// That fio is there and has the engine.
pub(super) fn check() -> Result<(), CliError> {
    let get_it = "get it with: apt-get install fio";
    match Command::new("fio").arg("--enghelp=nbd").output() {
        Ok(help) if help.status.success() => Ok(()),
        Ok(_) => Err(CliError::failed(format!(
            "this fio has no nbd engine; {get_it}"
        ))),
        Err(error) => Err(CliError::failed(format!("fio: {error}; {get_it}"))),
    }
}

/// What fio reads and writes: so many bytes there.
pub(super) struct Place {
    /// `uri=` or `filename=`, as in a job file.
    line: String,
    size: u64,
}

impl Place {
    pub(super) fn export(uri: &str, size: u64) -> Self {
        Place {
            line: format!("uri={uri}"),
            size,
        }
    }

    pub(super) fn file(path: &Path, size: u64) -> Self {
        Place {
            line: format!("filename={}", path.display()),
            size,
        }
    }
}

/// Writes all of `place` once. The first touch of memory is expensive, on a virtual machine more
/// so; the run after another server's memory was given back would otherwise pay for all of it.
pub(super) fn fill(place: &Place, engine: &str, workspace: &Workspace) -> Result<(), CliError> {
    let job = format!(
        "[fill]\nthread=1\nrw=write\nend_fsync=1\nbs=256k\niodepth=16\nioengine={engine}\n{}\nsize={}\n",
        place.line, place.size
    );
    run_job(&job, limit_of_filling(place.size), workspace, |_| ())
        .map(drop)
        .map_err(|what| CliError::failed(format!("filling the disk: {what}")))
}

/// How long a disk of `size` bytes may take to be filled.
fn limit_of_filling(size: u64) -> Duration {
    GRACE + Duration::from_secs(size / SLOWEST_DISK)
}

/// The job file of a load, for every server alike: as published, but for the engine `nbd` where the
/// published ones have a block device.
pub(super) fn job_file(load: &Load, place: &Place, runtime: Duration) -> String {
    let Load {
        pattern,
        engine,
        block,
        depth,
        jobs,
        ..
    } = load;
    let mut job = format!(
        "[load]\nthread=1\ngroup_reporting=1\ntime_based=1\nruntime={}\nrw={pattern}\nbs={block}\niodepth={depth}\n\
         numjobs={jobs}\nioengine={engine}\n{}\npercentile_list=50:99\n",
        runtime.as_secs(),
        place.line
    );
    job += &if load.verify {
        // Each job has a part of its own, or they would overwrite what others verify.
        let part = place.size / load.jobs as u64 / load.block * load.block;
        format!("size={part}\noffset_increment={part}\nverify=sha512\nverify_state_save=0\n")
    } else {
        format!("size={}\n", place.size)
    };
    job += match load.target {
        Target::Export => "",
        // The file is there; its size is the disk's. Around the page cache: each read and write is
        // a request of the server.
        Target::File => "direct=1\nallow_file_create=0\nfallocate=none\n",
        // Through the page cache, but not only into it: fio empties the cache of the file whenever
        // it begins with it again, so that reads come from the device, and the last writes are on
        // the device before the clock stops.
        Target::FileSystem => "direct=0\ninvalidate=1\nend_fsync=1\nallow_file_create=0\n",
    };
    job
}

/// Runs `load` against `place`. The second: the CPU use of the machine meanwhile, in percent.
pub(super) fn run(
    load: &Load,
    place: &Place,
    runtime: Duration,
    workspace: &Workspace,
) -> Result<(Measured, f64), CliError> {
    let mut busy = BusyJobs::of(runtime);
    let job = job_file(load, place, runtime);
    let look = |elapsed| busy.look(elapsed, Busy::now);
    let measured = run_job(&job, runtime + GRACE, workspace, look)
        .map_err(|what| CliError::failed(format!("{}: {what}", load.title)))?;
    Ok((measured, busy.percent()))
}

/// `look` is called with the time since fio was started, again and again until it ends.
fn run_job(
    job: &str,
    limit: Duration,
    workspace: &Workspace,
    look: impl FnMut(Duration),
) -> Result<Measured, CliError> {
    let (file, output) = (workspace.path("job.fio"), workspace.path("fio.json"));
    let no_file = |error: std::io::Error| CliError::failed(format!("fio's files: {error}"));
    std::fs::write(&file, job).map_err(no_file)?;
    // What an earlier one said is not taken for its answer.
    let _ = std::fs::remove_file(&output);
    let child = Command::new("fio")
        .arg("--output-format=json")
        .arg(format!("--output={}", output.display()))
        .arg(&file)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        .spawn()
        .map_err(|error| CliError::failed(format!("fio: {error}")))?;
    wait(child, limit, workspace, look)?;
    let text = std::fs::read_to_string(&output).map_err(no_file)?;
    parse(&text).map_err(|what| CliError::failed(format!("fio: {what}")))
}

fn wait(
    mut child: Child,
    limit: Duration,
    workspace: &Workspace,
    mut look: impl FnMut(Duration),
) -> Result<(), CliError> {
    let start = Instant::now();
    loop {
        look(start.elapsed());
        match child.try_wait() {
            // What went wrong is in its output.
            Ok(Some(_)) => return Ok(()),
            Ok(None) if workspace.is_interrupted() => {
                stop(&mut child);
                return Err(interrupted());
            }
            Ok(None) if start.elapsed() < limit => std::thread::sleep(Duration::from_millis(20)),
            _ => {
                stop(&mut child);
                return Err(CliError::failed("fio does not come to an end"));
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
        both.iter().filter_map(of).fold(0.0, f64::max) / 1e3
    };
    let measured = Measured {
        bytes: sum("io_bytes") as u64,
        read_mib_per_s: job["read"]["bw"].as_f64().unwrap_or_default() / 1024.0,
        write_mib_per_s: job["write"]["bw"].as_f64().unwrap_or_default() / 1024.0,
        iops: sum("iops"),
        p50_us: worst("50.000000"),
        p99_us: worst("99.000000"),
    };
    if measured.bytes == 0 {
        return Err("nothing was transferred".to_owned());
    }
    Ok(measured)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::plan::{DEFAULT_SIZE, NFS_BLOCK, Scenario};

    #[test]
    fn jobs_use_the_whole_disk_as_published_unless_they_verify() {
        let lines = |scenario: Scenario| -> Vec<String> {
            let size = scenario.size();
            let place = Place::export("URI", size);
            let load = &scenario.loads(2, &[NFS_BLOCK])[0];
            let job = job_file(load, &place, Duration::from_secs(1));
            job.lines().map(str::to_owned).collect()
        };
        let has = |lines: &[String], line: &str| lines.iter().any(|each| each == line);
        let mounted = lines(Scenario::Mounted);
        for line in ["size=4294967296", "direct=1", "bs=512", "numjobs=200"] {
            assert!(has(&mounted, line), "{line}: {mounted:?}");
        }
        let small = lines(Scenario::Small);
        assert!(has(&small, &format!("size={DEFAULT_SIZE}")), "{small:?}");
        let verified = lines(Scenario::Jobs(8));
        let part = DEFAULT_SIZE / 8;
        for line in [format!("size={part}"), format!("offset_increment={part}")] {
            assert!(has(&verified, &line), "{line}: {verified:?}");
        }
        assert!(
            ![mounted, small]
                .concat()
                .iter()
                .any(|line| line.starts_with("offset"))
        );
    }

    #[test]
    fn both_directions_are_read_and_the_worse_latency_counts() {
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
        assert_eq!(
            (measured.read_mib_per_s, measured.write_mib_per_s),
            (1.0, 2.0)
        );
        assert_eq!(measured.iops, 21.0);
        assert_eq!((measured.p50_us, measured.p99_us), (1000.0, 9000.0));
    }

    #[test]
    fn a_large_disk_may_be_filled_slowly() {
        // A hard disk writes 100 MB a second.
        for size in [64 << 20, 4 << 30, 1 << 40] {
            assert!(
                limit_of_filling(size) > Duration::from_secs(size / 100_000_000),
                "{size}"
            );
        }
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
