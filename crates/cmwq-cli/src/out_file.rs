//! A file that an option names for a result: opened before the work begins, filled at its end.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use cmwq_command::CliError;

/// The file. Until it is written, one that was there before is left as it was.
pub(crate) struct OutFile {
    option: &'static str,
    path: PathBuf,
    file: File,
    /// Removed again if nothing comes of it.
    is_new: bool,
    is_written: bool,
}

impl OutFile {
    /// Opens it: that it cannot be written is found out now.
    pub(crate) fn open(option: &'static str, path: &Path) -> Result<Self, CliError> {
        let open = |new: bool| {
            let mut options = OpenOptions::new();
            options.write(true).create(true).create_new(new).open(path)
        };
        // What a dangling link names is made, but the link was there before.
        let (file, is_new) = match open(true) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => (open(false), false),
            made => (made, true),
        };
        let file = file.map_err(|error| refused(option, path, &error))?;
        Ok(OutFile {
            option,
            path: path.to_owned(),
            file,
            is_new,
            is_written: false,
        })
    }

    /// Replaces what was there.
    pub(crate) fn write(mut self, text: &str) -> Result<(), CliError> {
        let written = self.replace(text);
        self.is_written = written.is_ok();
        written.map_err(|error| refused(self.option, &self.path, &error))
    }

    fn replace(&mut self, text: &str) -> io::Result<()> {
        if self.file.metadata()?.is_file() {
            self.file.set_len(0)?;
        }
        self.file.write_all(text.as_bytes())
    }
}

fn refused(option: &str, path: &Path, error: &io::Error) -> CliError {
    CliError::new(format!(
        "{option} {}: cannot write: {error}; name a file that can be written",
        path.display()
    ))
}

impl Drop for OutFile {
    fn drop(&mut self) {
        if self.is_new && !self.is_written {
            // Nothing more can be done about a file that will not go.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_made_goes_when_nothing_comes_of_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (old, new, link) = (
            dir.path().join("old"),
            dir.path().join("new"),
            dir.path().join("link"),
        );
        std::fs::write(&old, "text").expect("a file");
        std::os::unix::fs::symlink(dir.path().join("nothing"), &link).expect("a link");
        for path in [&old, &new, &link] {
            drop(OutFile::open("--html", path).expect("it can be written"));
        }
        assert_eq!(std::fs::read_to_string(&old).expect("left"), "text");
        assert!(!new.exists() && link.is_symlink());
        OutFile::open("--html", &link)
            .expect("it can be written")
            .write("a")
            .expect("written");
        assert_eq!(std::fs::read_to_string(&link).expect("written"), "a");
    }
}
