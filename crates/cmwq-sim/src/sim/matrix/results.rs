//! The file with the runs that are done: one on each line, and in the first line which program has
//! run them, since another program's would be of another library.

use super::super::rows::Ran;
use super::plan::Key;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Serialize, Deserialize)]
struct First {
    /// A number that follows from the program file.
    program: String,
}

#[derive(Serialize, Deserialize)]
struct Line {
    #[serde(flatten)]
    key: Key,
    ran: Ran,
}

/// What is done.
pub(super) struct Results {
    runs: HashMap<Key, Ran>,
    file: File,
    path: PathBuf,
}

impl Results {
    /// Reads what an earlier call has left, and adds to it from now on.
    pub(super) fn open(path: &Path) -> Result<Results, String> {
        let failed = |error: io::Error| format!("--matrix {}: {error}", path.display());
        let program = program().map_err(failed)?;
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            read => read.map_err(failed)?,
        };
        // A line that was cut off when the program was ended is run again.
        let whole = text.rfind('\n').map_or("", |end| &text[..=end]);
        let mut lines = whole.lines();
        let first = lines.next();
        let said: Option<First> = first.and_then(|line| serde_json::from_str(line).ok());
        if first.is_some() && said.is_none() {
            return Err(format!(
                "--matrix {}: it is no file of results; name another one",
                path.display()
            ));
        }
        if said.as_ref().is_some_and(|said| said.program != program) {
            return Err(format!(
                "--matrix {}: these are results of another build; name another file, or remove this one",
                path.display()
            ));
        }
        let mut runs = HashMap::new();
        for (number, line) in lines.enumerate() {
            let line: Line = serde_json::from_str(line).map_err(|error| {
                format!("--matrix {}: line {}: {error}", path.display(), number + 2)
            })?;
            runs.insert(line.key, line.ran);
        }
        let options = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(false)
            .clone();
        let mut file = options.open(path).map_err(failed)?;
        file.set_len(whole.len() as u64).map_err(failed)?;
        io::Seek::seek(&mut file, io::SeekFrom::End(0)).map_err(failed)?;
        if said.is_none() {
            let first = serde_json::to_string(&First { program }).unwrap_or_default();
            writeln!(file, "{first}").map_err(failed)?;
        }
        Ok(Results {
            runs,
            file,
            path: path.to_owned(),
        })
    }

    pub(super) fn has(&self, key: &Key) -> bool {
        self.runs.contains_key(key)
    }

    pub(super) fn add(&mut self, key: Key, ran: Ran) -> Result<(), String> {
        let failed = |error: &dyn std::fmt::Display, path: &Path| {
            format!("--matrix {}: {error}", path.display())
        };
        let line = Line { key, ran };
        let text = serde_json::to_string(&line).map_err(|error| failed(&error, &self.path))?;
        writeln!(self.file, "{text}").map_err(|error| failed(&error, &self.path))?;
        self.runs.insert(line.key, line.ran);
        Ok(())
    }

    /// All runs for which `wanted` says so, by their seeds.
    pub(super) fn of(&self, wanted: impl Fn(&Key) -> bool) -> Vec<(&Key, &Ran)> {
        let mut found: Vec<_> = self.runs.iter().filter(|(key, _)| wanted(key)).collect();
        found.sort_unstable_by_key(|(key, _)| key.seed);
        found
    }
}

/// What this program is: the library is compiled into it.
fn program() -> io::Result<String> {
    let bytes = std::fs::read(std::env::current_exe()?)?;
    // No keys: the same file has the same number in each process.
    let mut hasher = std::hash::DefaultHasher::new();
    hasher.write(&bytes);
    Ok(format!("{:016x}", hasher.finish()))
}
