//! `cmwq-nbd bench`: the published storage tests on this server and on others, driven by fio.
#![forbid(unsafe_code)]

mod args;
mod counts;
mod fio;
mod html;
mod machine;
mod mount;
mod plan;
mod report;
mod subject;
mod text;

use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;

use indicatif::ProgressBar;

pub(crate) use args::Args;
use args::Format;
use fio::Place;
use mount::{ExportedFile, FileSystem};
use plan::{Load, PEERS, Scenario, Subject, Target};
use report::{Outcome, Report, Run, Table};
use subject::{Disk, Medium, Workspace};

use cmwq_command::figures::progress_bar;
use cmwq_command::{CliError, output};

/// Times that a measurement is tried.
const ATTEMPTS: usize = 3;

pub(crate) fn run(args: &Args) -> Result<(), CliError> {
    args.check()?;
    if args.print_jobs {
        return output::print(&job_files(args)?);
    }
    fio::check()?;
    if let Some(path) = &args.html {
        // Found out before an hour has passed; the page of an earlier run stays until there is another.
        let mut file = File::options();
        file.append(true).create(true).open(path).map_err(|error| {
            CliError::failed(format!("--html: cannot write {}: {error}", path.display()))
        })?;
    }
    let report = measure(args)?;
    if let Some(path) = &args.html {
        std::fs::write(path, html::render(&report)).map_err(|error| {
            CliError::failed(format!("--html: cannot write {}: {error}", path.display()))
        })?;
    }
    if args.format == Format::Json {
        let json = serde_json::to_string(&report).map_err(CliError::failed)?;
        output::print(&(json + "\n"))
    } else {
        output::print(&text::render(&report))
    }
}

fn measure(options: &Args) -> Result<Report, CliError> {
    let mut left_out = Vec::new();
    let workspace = Workspace::new(options.medium(), options.io_uring)?;
    let peers = peers(options, &mut left_out)?;
    let mut loads: Vec<Cell> = Vec::new();
    let mut tables = Vec::new();
    for scenario in options.scenarios() {
        let possible = match scenario {
            Scenario::Mounted => ExportedFile::is_possible(),
            Scenario::Buffered => FileSystem::is_possible(&workspace),
            _ => Ok(()),
        };
        if let Err(why) = possible {
            left_out.push(format!("scenario {}: {why}", scenario.name()));
            continue;
        }
        let subjects = subjects(scenario, options, &peers);
        if subjects.is_empty() {
            left_out.push(format!(
                "scenario {}: none of its scopes was chosen",
                scenario.name()
            ));
            continue;
        }
        for load in scenario.loads(machine::cpus(), &options.nfs_blocks()) {
            tables.push(Table {
                scenario: scenario.name(),
                title: load.title.clone(),
                pattern: load.pattern,
                rate: scenario.rate(),
                outcomes: subjects
                    .iter()
                    .map(|&subject| outcome(subject))
                    .collect::<Result<_, _>>()?,
            });
            loads.push(Cell {
                load,
                subjects: subjects.clone(),
                disk: disk(scenario, options)?,
            });
        }
    }
    if loads.is_empty() {
        return Err(CliError::failed(format!(
            "nothing is left to measure: {}",
            left_out.join("; ")
        )));
    }
    for line in &left_out {
        crate::warn(format_args!("left out: {line}"));
    }
    let cells: usize = loads.iter().map(|cell| cell.subjects.len()).sum();
    let bar = progress_bar(cells * options.runs);
    for run in 0..options.runs {
        for (cell, table) in loads.iter().zip(&mut tables) {
            for nth in 0..cell.subjects.len() {
                // Each run begins with another one.
                let nth = (nth + run) % cell.subjects.len();
                let subject = cell.subjects[nth];
                let (title, label, kind) = (&cell.load.title, subject.label(), subject.kind());
                announce(&bar, format!("run {}: {title}: {label} ({kind})", run + 1));
                let measured = patiently(cell, subject, options, &workspace, &bar)?;
                bar.inc(1);
                table.outcomes[nth].runs.push(measured);
            }
        }
    }
    bar.finish_and_clear();
    let mut report = Report {
        tool: concat!("cmwq-nbd ", env!("CARGO_PKG_VERSION")),
        machine: machine::description(),
        disk: describe(options, &loads),
        runtime_s: options.runtime().as_secs(),
        runs: options.runs,
        same_pods: machine::same_pods(&options.scopes(), &options.shard_sizes())?,
        left_out,
        tables,
        over_engines: Vec::new(),
    };
    let blocks: Vec<u64> = loads.iter().map(|cell| cell.load.block).collect();
    report.compare(&blocks);
    Ok(report)
}

/// A load, and the servers that are put under it.
struct Cell {
    load: Load,
    subjects: Vec<Subject>,
    disk: Disk,
}

/// The job file of each load of the chosen scenarios, as it is given to fio for each server.
fn job_files(options: &Args) -> Result<String, CliError> {
    let mut text = String::new();
    for scenario in options.scenarios() {
        let size = disk(scenario, options)?.size;
        for load in scenario.loads(machine::cpus(), &options.nfs_blocks()) {
            let place = match load.target {
                Target::Export => Place::export("nbd+unix:///?socket=SOCKET", size),
                Target::File => Place::file(Path::new("MOUNTED"), size),
                Target::FileSystem => Place::file(Path::new("FILE"), FileSystem::room(size)),
            };
            let job = fio::job_file(&load, &place, options.runtime());
            let _ = writeln!(
                text,
                "# scenario {}: {}\n{job}",
                scenario.name(),
                load.title
            );
        }
    }
    Ok(text)
}

/// The disk of a scenario: of the published size if there is room for it.
fn disk(scenario: Scenario, options: &Args) -> Result<Disk, CliError> {
    let wanted = options.size.unwrap_or(scenario.size());
    let size = match &options.medium() {
        Medium::Memory => {
            let free = machine::memory_available().unwrap_or(u64::MAX);
            in_memory(options.size, scenario.size(), free)?
        }
        Medium::Folder(_) => wanted,
        Medium::Device(device) => {
            let failed =
                |error| CliError::failed(format!("--device: {}: {error}", device.display()));
            let mut file = File::open(device).map_err(failed)?;
            let whole = file.seek(SeekFrom::End(0)).map_err(failed)?;
            if whole < args::LEAST {
                return Err(CliError::new(format!(
                    "--device: {} has {whole} bytes: it must have {} or more",
                    device.display(),
                    args::LEAST
                )));
            }
            wanted.min(whole)
        }
    };
    Ok(Disk {
        size,
        key_bits: options.key_size.unwrap_or(scenario.key_bits()),
    })
}

/// The size of a disk in memory, of which `free` bytes are free.
///
/// # Errors
/// It was said, and does not fit: the system would end processes.
fn in_memory(said: Option<u64>, published: u64, free: u64) -> Result<u64, CliError> {
    match said {
        Some(size) if size > free => Err(CliError::new(format!(
            "--size: {size} is too large for a disk in memory: it must be at most the {free} bytes that are free"
        ))),
        Some(size) => Ok(size),
        None => Ok(published.min((free / 2) >> 20 << 20)),
    }
}

/// The disks, in words.
fn describe(options: &Args, loads: &[Cell]) -> String {
    let mut all: Vec<String> = loads
        .iter()
        .map(|Cell { disk, .. }| format!("{} MiB, {}-bit key", disk.size >> 20, disk.key_bits))
        .collect();
    all.dedup();
    let medium = match &options.medium() {
        Medium::Memory => "memory".to_owned(),
        Medium::Folder(folder) => format!("a file in {}", folder.display()),
        Medium::Device(device) => device.display().to_string(),
    };
    let how = if options.io_uring { " by io_uring" } else { "" };
    format!("disk: {medium}{how}, {}", all.join("; "))
}

/// A row without runs.
fn outcome(subject: Subject) -> Result<Outcome, CliError> {
    let pods = match subject {
        Subject::Ours {
            scope, shard_size, ..
        } => Some(machine::pods(scope, shard_size)?.len()),
        Subject::OursPlain { .. } => Some(machine::pods("cache_shard", None)?.len()),
        Subject::Peer(_) => None,
    };
    Ok(Outcome::new(subject, pods))
}

/// The peers to measure: those asked for, which must be there, or those that are there.
fn peers(options: &Args, left_out: &mut Vec<String>) -> Result<Vec<Subject>, CliError> {
    let asked = options.peers();
    let asked = asked.as_deref();
    let mut found = Vec::new();
    for &name in asked.unwrap_or(&PEERS) {
        let has_medium = match options.medium() {
            Medium::Memory => true,
            Medium::Folder(_) => !name.contains("memory"),
            Medium::Device(_) => ["nbdkit-file", "qemu"].contains(&name),
        };
        if !has_medium {
            if asked.is_some() {
                return Err(CliError::new(format!(
                    "--peers: {name} cannot serve what --file or --device names"
                )));
            }
            continue;
        }
        let peer = Subject::Peer(name);
        let needs = subject::programs(peer).iter();
        let missing = needs
            .filter_map(|(program, package)| subject::install(program, package).err())
            .next();
        match missing.map(|why| format!("{name}: {why}")) {
            None => found.push(peer),
            Some(why) if asked.is_some() => {
                return Err(CliError::failed(format!("--peers: {why}")));
            }
            Some(why) => left_out.push(why),
        }
    }
    Ok(found)
}

fn subjects(scenario: Scenario, options: &Args, peers: &[Subject]) -> Vec<Subject> {
    let scopes = scenario.scopes(&options.scopes());
    if scopes.is_empty() {
        return Vec::new();
    }
    let mut subjects = plan::ours(&scopes, &options.shard_sizes());
    if scenario.is_short() {
        // As a server does by itself: beside the rows that are compared.
        subjects.push(Subject::Ours {
            scope: scopes[0],
            shard_size: None,
            inline: true,
        });
    }
    if matches!(scenario, Scenario::Mounted | Scenario::Buffered) {
        // Beside the mounting the servers hardly count: the best peer is enough.
        let best = Subject::Peer("nbdkit-memory-luks");
        subjects.extend(peers.iter().filter(|&&peer| peer == best));
    } else {
        subjects.push(Subject::OursPlain { inline: false });
        if scenario.is_short() {
            subjects.push(Subject::OursPlain { inline: true });
        }
        subjects.extend(peers);
    }
    subjects
}

/// As [`one`], tried again if it fails: an hour's work is not lost to a moment.
fn patiently(
    cell: &Cell,
    subject: Subject,
    options: &Args,
    workspace: &Workspace,
    bar: &ProgressBar,
) -> Result<Run, CliError> {
    let mut left = ATTEMPTS;
    loop {
        left -= 1;
        match one(cell, subject, options, workspace) {
            // Whatever failed may have been stopped by the same signal.
            _ if workspace.is_interrupted() => return Err(subject::interrupted()),
            Err(error) if left > 0 => {
                bar.suspend(|| crate::warn(format_args!("{error}; once more")));
            }
            done => return done,
        }
    }
}

fn one(
    Cell { load, disk, .. }: &Cell,
    subject: Subject,
    options: &Args,
    workspace: &Workspace,
) -> Result<Run, CliError> {
    let size = disk.size;
    let server = workspace.start(subject, disk)?;
    let uri = server.uri();
    let disk = Place::export(&uri, size);
    // Held while they are in use.
    let (mut exported, mut file_system) = (None, None);
    let place = match load.target {
        Target::Export => {
            fio::fill(&disk, "nbd", workspace)?;
            disk
        }
        Target::File => {
            fio::fill(&disk, "nbd", workspace)?;
            let file = exported.insert(ExportedFile::new(&uri, workspace)?);
            Place::file(file.path(), size)
        }
        Target::FileSystem => {
            let mounted = file_system.insert(FileSystem::new(&uri, workspace)?);
            let place = Place::file(&mounted.file(), FileSystem::room(size));
            fio::fill(&place, "psync", workspace)?;
            place
        }
    };
    let gone = || CliError::failed(format!("{} has gone", subject.label()));
    let is_ours = !matches!(subject, Subject::Peer(_));
    let before = is_ours.then(|| server.counts()).transpose()?;
    let cpu = machine::cpu_time(server.id()).ok_or_else(gone)?;
    let (measured, cpu_percent) =
        fio::run(load, &place, options.runtime(), workspace).map_err(|error| {
            CliError::failed(format!("{} ({}): {error}", subject.label(), subject.kind()))
        })?;
    let cpu = machine::cpu_time(server.id())
        .ok_or_else(gone)?
        .saturating_sub(cpu);
    let named = |error: CliError| CliError::failed(format!("{}: {error}", subject.label()));
    let counted = match before {
        Some(before) => Some(
            server
                .counts()?
                .since(before, subject.is_inline())
                .map_err(named)?,
        ),
        None => None,
    };
    Ok(Run {
        read_mib_per_s: measured.read_mib_per_s,
        write_mib_per_s: measured.write_mib_per_s,
        iops: measured.iops,
        cpu_percent,
        server_cpu_s_per_gib: cpu.as_secs_f64() / (measured.bytes as f64 / (1u64 << 30) as f64),
        p50_us: measured.p50_us,
        p99_us: measured.p99_us,
        requests: counted.map(|(requests, _)| requests),
        items_per_request: counted.map(|(_, items)| items),
    })
}

/// Says what runs: on the bar, or on standard error in a line of its own if that is no terminal.
fn announce(bar: &ProgressBar, message: String) {
    if bar.is_hidden() {
        let (nth, all) = (bar.position() + 1, bar.length().unwrap_or_default());
        let left = match bar.position() {
            0 => String::new(),
            _ => format!(" (about {} s left)", bar.eta().as_secs()),
        };
        // Without standard error there is no way to report anything.
        let _ = writeln!(io::stderr(), "{nth}/{all}{left}: {message}");
    }
    bar.set_message(message);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_in_memory_must_fit_into_what_is_free() {
        let of = |said, free: u64| in_memory(said, 4 << 30, free).map_err(|e| e.to_string());
        assert_eq!(of(None, 16 << 30), Ok(4 << 30));
        assert_eq!(of(None, (2 << 30) + 1), Ok(1 << 30));
        assert_eq!(of(Some(1 << 30), 1 << 30), Ok(1 << 30));
        let message = of(Some((1 << 30) + 512), 1 << 30).unwrap_err();
        assert!(
            message.contains("--size: 1073742336") && message.contains("1073741824 bytes"),
            "{message}"
        );
    }
}
