//! The files of a sysfs tree. One that cannot be read or understood counts as missing, and is remembered.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::cpuset::{CpuSet, MAX_CPUS};
use crate::error::TopologyError;

/// Upper bound of the files read here: a list of every second CPU below `MAX_CPUS` takes 20 KiB.
const MAX_FILE_BYTES: u64 = 64 * 1024;

/// Most files here are shorter: a file of sysfs is at most a page long, unless it is binary.
const USUAL_FILE_BYTES: usize = 4096;

/// How many faults are remembered: a reason that holds for one CPU's files mostly holds for all.
const MAX_FAULTS: usize = 8;

/// The format of a set of CPUs in a file.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Form {
    List,
    Mask,
}

#[derive(Default)]
pub(super) struct Files {
    /// Parsed sets by their text: most CPUs of a machine share theirs with other CPUs, and long
    /// lists are slow to parse.
    sets: HashMap<(Form, String), CpuSet>,
    /// The first files at fault.
    faults: Vec<TopologyError>,
    /// The process could not open or read one: it says nothing of the machine.
    exhausted: Option<TopologyError>,
}

impl Files {
    /// The files at fault. An error if the process had no descriptor or memory left for one: what
    /// is missing then is there, and must not be guessed.
    pub(super) fn into_faults(self) -> Result<Vec<TopologyError>, TopologyError> {
        match self.exhausted {
            Some(error) => Err(error),
            None => Ok(self.faults),
        }
    }

    pub(super) fn parse_fault(&mut self, path: PathBuf, reason: String) {
        self.fault(TopologyError::Parse { path, reason });
    }

    fn fault(&mut self, fault: TopologyError) {
        let text = fault.to_string();
        let known = self.faults.iter().any(|known| known.to_string() == text);
        if self.faults.len() < MAX_FAULTS && !known {
            self.faults.push(fault);
        }
    }

    /// What `parse` makes of the text of a file; its error is the reason why it cannot.
    pub(super) fn value<T>(
        &mut self,
        path: &Path,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let text = self.text(path)?;
        let parsed = parse(&text);
        parsed
            .map_err(|reason| self.parse_fault(path.into(), reason))
            .ok()
    }

    /// The set in the first of `files` that has a set `fit`.
    pub(super) fn first_set(
        &mut self,
        dir: &Path,
        files: &[(&str, Form)],
        fit: impl Fn(&CpuSet) -> bool,
    ) -> Option<CpuSet> {
        let mut files = files.iter();
        files.find_map(|(name, form)| self.set(&dir.join(name), *form).filter(&fit))
    }

    pub(super) fn set(&mut self, path: &Path, form: Form) -> Option<CpuSet> {
        let key = (form, self.text(path)?);
        if let Some(set) = self.sets.get(&key) {
            return Some(set.clone());
        }
        let parsed = match form {
            Form::List => CpuSet::parse_list(&key.1),
            Form::Mask => CpuSet::parse_mask(&key.1),
        };
        match parsed {
            Ok(set) => {
                self.sets.insert(key, set.clone());
                Some(set)
            }
            Err(error) => {
                self.parse_fault(path.into(), error.to_string());
                None
            }
        }
    }

    /// The entries `prefixN` of a directory, ascending by `N`; none when the directory is missing.
    pub(super) fn directories(&mut self, dir: &Path, prefix: &str) -> Vec<(usize, PathBuf)> {
        self.known(dir, numbered_entries(dir, prefix))
            .unwrap_or_default()
    }

    /// The text of a file, without a trailing newline, or blanks or NULs of some kernels and copies of trees.
    fn text(&mut self, path: &Path) -> Option<String> {
        let bytes = self.known(path, bytes_of(path, MAX_FILE_BYTES + 1))?;
        if bytes.len() as u64 > MAX_FILE_BYTES {
            self.parse_fault(
                path.into(),
                format!("it is longer than {MAX_FILE_BYTES} bytes"),
            );
            return None;
        }
        let behind = |byte: &u8| *byte == 0 || byte.is_ascii_whitespace();
        let length = bytes.iter().rposition(|byte| !behind(byte));
        let text = std::str::from_utf8(&bytes[..length.map_or(0, |last| last + 1)]);
        match text {
            Ok(text) => Some(text.into()),
            Err(_) => {
                self.parse_fault(path.into(), "it is not text".into());
                None
            }
        }
    }

    /// What was read, if anything: that it is missing is no fault.
    fn known<T>(&mut self, path: &Path, read: io::Result<T>) -> Option<T> {
        match read {
            Ok(read) => Some(read),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                let errno = Errno::from_io_error(&error);
                let exhausted = matches!(errno, Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM));
                let path = path.into();
                let fault = TopologyError::Read { path, error };
                match exhausted {
                    true => self.exhausted = Some(fault),
                    false => self.fault(fault),
                }
                None
            }
        }
    }
}

/// The first bytes of a file. Does not wait: in a copy of a tree there may be a pipe.
pub(crate) fn bytes_of(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let options = options.read(true).custom_flags(libc::O_NONBLOCK);
    // Without room, the first reads would be of a few bytes each.
    let mut bytes = Vec::with_capacity(USUAL_FILE_BYTES);
    options.open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn numbered_entries(dir: &Path, prefix: &str) -> io::Result<Vec<(usize, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        let Some(digits) = name.to_str().and_then(|name| name.strip_prefix(prefix)) else {
            continue;
        };
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            continue;
        }
        // All are digits: a number that does not fit is larger than any limit.
        found.push((digits.parse().unwrap_or(usize::MAX), entry.path()));
    }
    found.sort();
    found.truncate(MAX_CPUS + 1);
    Ok(found)
}
