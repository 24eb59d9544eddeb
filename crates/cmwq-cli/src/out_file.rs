//! A file that an option names for a result: opened before the work begins, filled at its end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use cmwq_command::CliError;

/// The file. Until it is written, one that was there before is left as it was, and there is no new
/// one: a command may be killed.
pub(crate) struct OutFile {
    option: &'static str,
    path: PathBuf,
    old: Option<File>,
}

impl OutFile {
    /// Opens it: that it cannot be written is found out now.
    pub(crate) fn open(option: &'static str, path: &Path) -> Result<Self, CliError> {
        let made = OpenOptions::new().write(true).create_new(true).open(path);
        let old = match made {
            // What a dangling link names is made, and stays.
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                let mut options = OpenOptions::new();
                options.write(true).create(true).truncate(false);
                options.open(path).map(Some)
            }
            // One that will not go stays.
            made => made.map(|made| std::fs::remove_file(path).is_err().then_some(made)),
        };
        Ok(OutFile {
            option,
            path: path.to_owned(),
            old: old.map_err(|error| refused(option, path, &error))?,
        })
    }

    /// Replaces what was there.
    pub(crate) fn write(self, text: &str) -> Result<(), CliError> {
        let written = match self.old {
            Some(file) => replace(file, text),
            None => make(&self.path, text),
        };
        written.map_err(|error| refused(self.option, &self.path, &error))
    }
}

fn replace(mut file: File, text: &str) -> io::Result<()> {
    if file.metadata()?.is_file() {
        file.set_len(0)?;
    }
    file.write_all(text.as_bytes())
}

fn make(path: &Path, text: &str) -> io::Result<()> {
    let written = File::create(path)?.write_all(text.as_bytes());
    if written.is_err() {
        // Nothing more can be done about a file that will not go.
        let _ = std::fs::remove_file(path);
    }
    written
}

fn refused(option: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::failed(format!(
        "{option} {}: cannot write: {error}; name a file that can be written",
        path.display()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_made_or_changed_before_it_is_written() {
        let dir = tempfile::tempdir().expect("a folder");
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("old"), "text").expect("a file");
        std::os::unix::fs::symlink(path("nothing"), path("link")).expect("a link");
        let open = |name: &str| OutFile::open("--html", &path(name)).expect("it can be written");
        let (old, new, link) = (open("old"), open("new"), open("link"));
        let read = |name: &str| std::fs::read_to_string(path(name)).ok();
        assert_eq!((read("old").as_deref(), read("new")), (Some("text"), None));
        assert!(path("link").is_symlink());
        for (name, file) in [("old", old), ("new", new), ("link", link)] {
            file.write("a").expect("written");
            assert_eq!(read(name).as_deref(), Some("a"), "{name}");
        }
        assert!(path("link").is_symlink());
        drop(open("another"));
        assert_eq!(read("another"), None);
    }
}
