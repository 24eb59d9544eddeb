//! How far each program has come, across runs of the command.

use super::{Checked, Way};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// What is known of one program under one scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Entry {
    /// Runs so far.
    pub runs: u64,
    /// Runs that the bound asks for.
    pub needed: u64,
    /// Threads that did anything, and steps of the longest run.
    pub size: (u64, u64),
    /// The seed that failed.
    pub failed: Option<u64>,
}

/// The program, how it was run, and the depth.
type Key = (String, String, u32);

/// All of them, and the file that they are in.
pub struct Ledger {
    path: Option<PathBuf>,
    entries: BTreeMap<Key, Entry>,
}

const HEAD: &str = "program scheduler depth runs needed threads steps failed\n";

impl Ledger {
    /// What the file says; without one, or where there is none yet, nothing is known.
    ///
    /// # Errors
    /// It cannot be read, or is another file.
    pub fn read(path: Option<&Path>) -> Result<Ledger, String> {
        let mut ledger = Ledger {
            path: path.map(Path::to_owned),
            entries: BTreeMap::new(),
        };
        let Some(path) = path.filter(|path| path.exists()) else {
            return Ok(ledger);
        };
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("{}: {error}", path.display()))?;
        let lines = text.strip_prefix(HEAD);
        for line in lines.map_or("?", |lines| lines).lines() {
            let entry = parse(line);
            let (key, entry) =
                entry.ok_or_else(|| format!("{}: it is no state of a corpus", path.display()))?;
            ledger.entries.insert(key, entry);
        }
        Ok(ledger)
    }

    /// Writes it, if it has a file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn write(&self) -> Result<(), String> {
        let Some(path) = &self.path else {
            return Ok(());
        };
        let mut text = HEAD.to_owned();
        for ((program, scheduler, depth), entry) in &self.entries {
            let (threads, steps) = entry.size;
            let failed = entry.failed.map_or("-".to_owned(), |seed| seed.to_string());
            let (runs, needed) = (entry.runs, entry.needed);
            let _ = writeln!(
                text,
                "{program} {scheduler} {depth} {runs} {needed} {threads} {steps} {failed}"
            );
        }
        // As a whole, or not at all.
        let new = path.with_extension("new");
        let written = std::fs::write(&new, text).and_then(|()| std::fs::rename(&new, path));
        written.map_err(|error| format!("{}: {error}", path.display()))
    }

    /// What is known of a program.
    #[must_use]
    pub fn get(&self, program: &str, way: Way) -> Entry {
        let key = (program.to_owned(), way.name(), way.depth);
        self.entries.get(&key).cloned().unwrap_or_default()
    }

    /// Some runs more.
    pub fn add(&mut self, program: &str, way: Way, checked: &Checked) {
        let key = (program.to_owned(), way.name(), way.depth);
        let entry = self.entries.entry(key).or_default();
        entry.runs += checked.runs;
        let (threads, steps) = entry.size;
        entry.size = (
            threads.max(checked.size.threads),
            steps.max(checked.size.length),
        );
        entry.needed = entry.needed.max(checked.size.runs(way.depth));
        entry.failed = entry
            .failed
            .or(checked.failure.as_ref().map(|(seed, _)| *seed));
    }

    /// How many of the programs have all the runs that the bound asks for.
    #[must_use]
    pub fn text(&self, programs: impl Iterator<Item = String>, way: Way) -> String {
        let (mut all, mut begun, mut bound) = (0, 0, 0);
        for program in programs {
            let entry = self.get(&program, way);
            all += 1;
            begun += usize::from(entry.runs > 0);
            bound += usize::from(entry.runs > 0 && entry.runs >= entry.needed);
        }
        format!(
            "of {all} programs {begun} have been run, {bound} to the bound of depth {}",
            way.depth
        )
    }
}

fn parse(line: &str) -> Option<(Key, Entry)> {
    let mut words = line.split(' ');
    let program = words.next()?.to_owned();
    let (name, depth) = (words.next()?, words.next()?.parse().ok()?);
    let way = Way::parse(name, depth).ok()?;
    let mut number = || words.next()?.parse::<u64>().ok();
    let (runs, needed) = (number()?, number()?);
    let size = (number()?, number()?);
    let failed = words.next()?.parse().ok();
    let entry = Entry {
        runs,
        needed,
        size,
        failed,
    };
    Some(((program, way.name(), depth), entry))
}
