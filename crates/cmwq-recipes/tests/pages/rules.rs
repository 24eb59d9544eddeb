//! What must hold for each kind of quote.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

use crate::foreign;
use crate::page::{Page, Quote};
use crate::sources::Sources;

/// The commands of the project; what follows them is looked up.
const COMMANDS: [&str; 3] = ["cmwq", "cmwq-nbd", "cmwq-sim"];
/// The endings of files that are the project's when a page names them. (`.json`, `.html` and the
/// like are what a reader makes.)
const ENDINGS: [&str; 8] = [".rs", ".md", ".c", ".h", ".hpp", ".cpp", ".csv", ".svg"];
/// The project's folders: what begins so must be there.
const FOLDERS: [&str; 5] = ["crates/", "docs/", "scripts/", "benches/", ".ci/"];

/// Where cargo looks for an example or a test if no package is named.
const DEFAULT_PACKAGE: &str = "cmwq-cli";

/// Pages for crates.io name the project's files so.
const REPOSITORY: &str = "https://github.com/cmwq/cmwq/blob/HEAD/";

pub(crate) struct Rules<'a> {
    sources: &'a Sources,
    anchors: BTreeMap<String, Vec<String>>,
}

impl<'a> Rules<'a> {
    pub(crate) fn new(sources: &'a Sources, pages: &[Page]) -> Rules<'a> {
        let anchors = pages.iter().map(|page| (page.path.clone(), page.anchors()));
        Rules {
            sources,
            anchors: anchors.collect(),
        }
    }

    /// A line for everything in a page that is not there.
    pub(crate) fn check(&self, page: &Page) -> Vec<String> {
        let mut complaints = Vec::new();
        for (line, quote) in page.quotes() {
            let complaint = match &quote {
                Quote::Link(target) => self.link(page, target),
                Quote::Code(code) => self.code(code),
                Quote::Shell(line) => self.command(line),
            };
            if let Err(what) = complaint {
                complaints.push(format!("{}:{line}: {what}", page.path));
            }
        }
        complaints
    }

    fn link(&self, page: &Page, target: &str) -> Result<(), String> {
        let ours = target.strip_prefix(REPOSITORY);
        if ours.is_none() && (target.starts_with("https://") || target.starts_with("mailto:")) {
            return Ok(());
        }
        let link = ours.unwrap_or(target);
        let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
        let path = if file.is_empty() {
            page.path.clone()
        } else if ours.is_some() {
            file.to_owned()
        } else {
            let folder = Path::new(&page.path).parent().expect("a folder");
            normal(&folder.join(file))
        };
        let folder = format!("{path}/");
        let there = self.anchors.contains_key(&path)
            || self.sources.files.contains(&path)
            || self.sources.files.contains(&folder);
        if !there {
            return Err(format!("nothing at {target}"));
        }
        match self.anchors.get(&path) {
            Some(anchors) if !anchor.is_empty() && !anchors.iter().any(|a| a == anchor) => {
                Err(format!("no heading {target}"))
            }
            _ => Ok(()),
        }
    }

    fn code(&self, code: &str) -> Result<(), String> {
        let code = code.trim();
        let missing = || Err(format!("`{code}` is not in the sources"));
        if let Some(option) = code.strip_prefix("--") {
            return self.option(option);
        }
        if let Some(header) = code.strip_prefix('<').and_then(|c| c.strip_suffix(".h>")) {
            let header = format!("{header}.h");
            let there = self.sources.has_path(&header) || foreign::knows(&header);
            return if there { Ok(()) } else { missing() };
        }
        if code.contains(' ') {
            return match code.split_once(' ') {
                Some(("struct" | "enum" | "fn", name)) if ident(name) => self.code(name),
                _ => self.command(code),
            };
        }
        if foreign::knows(code) {
            return Ok(());
        }
        if is_path(code) {
            return self.path(code);
        }
        let name = code.split_once('=').map_or(code, |(name, _)| name);
        let name = name.strip_suffix('!').unwrap_or(name);
        let name = name.split_once('(').map_or(name, |(name, _)| name);
        let name = name.split_once('<').map_or(name, |(name, _)| name);
        if let Some(prefix) = name.strip_suffix('*').filter(|prefix| ident(prefix)) {
            return if self.sources.has_prefix(prefix) {
                Ok(())
            } else {
                missing()
            };
        }
        let parts: Vec<_> = name.trim_start_matches('.').split("::").collect();
        if parts.iter().any(|part| !ident(part)) || foreign::knows(parts[0]) {
            return Ok(());
        }
        let there = match parts[..] {
            [word] => self.word(word),
            [.., owner, name] => self.sources.has_both(owner, name),
            [] => true,
        };
        if there { Ok(()) } else { missing() }
    }

    /// A word of the sources; the end of one, where a page names a family (`_sync`); or a metric,
    /// whose prefix and unit are put to it.
    fn word(&self, word: &str) -> bool {
        let metric = word.strip_prefix("cmwq_").is_some_and(|metric| {
            let metric = metric.strip_suffix("_total").unwrap_or(metric);
            let metric = metric.strip_suffix("_seconds").unwrap_or(metric);
            // Counters have theirs from the library's own table.
            let tables = ["metrics", "counters"];
            tables
                .iter()
                .any(|table| self.sources.has_both(table, metric))
        });
        let family = word.starts_with('_') && self.sources.has_part(word);
        self.sources.has_word(word) || metric || family
    }

    /// A command of the project, or cargo: its subcommand, its options, and the paths that it names.
    fn command(&self, line: &str) -> Result<(), String> {
        for part in line.split([';', '|', '&']) {
            let mut words = part.split_whitespace().peekable();
            while words.next_if(|word| assignment(word)).is_some() {}
            let Some(program) = words.next() else {
                continue;
            };
            let words: Vec<_> = words.collect();
            for word in &words {
                let word = word.trim_matches(['\'', '"', '(', ')']);
                if FOLDERS.iter().any(|folder| word.starts_with(folder)) {
                    self.path(word)?;
                }
            }
            let name = program.rsplit('/').next().expect("a name");
            if program == "cargo" {
                self.cargo(&words)?;
            } else if COMMANDS.contains(&name) {
                self.ours(&words)?;
            } else if FOLDERS.iter().any(|folder| program.starts_with(folder)) {
                self.path(program)?;
                self.options(&words)?;
            }
        }
        Ok(())
    }

    fn ours(&self, words: &[&str]) -> Result<(), String> {
        let subcommand = words.first().filter(|word| {
            word.chars().all(|c| c.is_ascii_lowercase() || c == '-') && !word.starts_with('-')
        });
        if let Some(name) = subcommand
            && !self.sources.has_subcommand(name)
        {
            return Err(format!("no command has the subcommand {name}"));
        }
        self.options(words)
    }

    fn cargo(&self, words: &[&str]) -> Result<(), String> {
        let end = words.iter().position(|word| *word == "--");
        let (cargo, rest) = words.split_at(end.unwrap_or(words.len()));
        let package = cargo.iter().skip_while(|word| **word != "-p").nth(1);
        let package = package.unwrap_or(&DEFAULT_PACKAGE);
        let has_target = |folder: &str, name: &str| {
            let path = format!("crates/{package}/{folder}/{name}");
            let files = [format!("{path}.rs"), format!("{path}/main.rs")];
            files.iter().any(|file| self.sources.has_path(file))
        };
        for pair in cargo.windows(2) {
            let there = match pair[0] {
                "-p" => self.sources.has_package(pair[1]),
                "--example" => has_target("examples", pair[1]),
                "--test" => has_target("tests", pair[1]),
                "--bin" => has_target("src/bin", pair[1]),
                _ => true,
            };
            if !there {
                return Err(format!("{} {}: not there", pair[0], pair[1]));
            }
        }
        match rest {
            [] => Ok(()),
            [_, words @ ..] => self.ours(words),
        }
    }

    fn options(&self, words: &[&str]) -> Result<(), String> {
        let mut options = words.iter().filter_map(|word| word.strip_prefix("--"));
        options.try_for_each(|option| self.option(option))
    }

    fn option(&self, option: &str) -> Result<(), String> {
        let end = option.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
        let name = &option[..end.unwrap_or(option.len())];
        if name.is_empty() || self.sources.has_option(name) || foreign::knows(&format!("--{name}"))
        {
            Ok(())
        } else {
            Err(format!("no command has the option --{name}"))
        }
    }

    fn path(&self, path: &str) -> Result<(), String> {
        let path = path.split_once(':').map_or(path, |(path, _)| path);
        let path = path.trim_start_matches("../");
        if path.contains(['*', '[', '{']) || foreign::knows(path) || self.sources.has_path(path) {
            Ok(())
        } else {
            Err(format!("no file {path}"))
        }
    }
}

fn is_path(code: &str) -> bool {
    let plain = code
        .chars()
        .all(|c| c.is_alphanumeric() || "/._-*[]{}".contains(c));
    let ours = FOLDERS.iter().any(|folder| code.starts_with(folder));
    let named = ENDINGS
        .iter()
        .any(|ending| code.ends_with(ending) && code != *ending);
    plain && !code.starts_with('/') && (ours || named)
}

/// `NAME=value` in front of a command.
fn assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| ident(name))
}

fn ident(text: &str) -> bool {
    let first = text.chars().next();
    first.is_some_and(|c| c.is_alphabetic() || c == '_')
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// A path without `..` and `.`.
fn normal(path: &Path) -> String {
    let mut parts = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                parts.pop();
            }
            Component::CurDir => {}
            part => parts.push(part),
        }
    }
    parts.to_string_lossy().into_owned()
}
