//! What the sources of the project have: files, words, options, subcommands.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const FOLDERS: [&str; 6] = ["crates", "docs", "dropins", "scripts", "benches", ".ci"];

/// The paths of all files, from the root.
pub(crate) fn files(root: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir(root).expect("the root") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.path().is_file() {
            found.push(name);
        } else if FOLDERS.contains(&name.as_str()) {
            below(root, &name, &mut found);
        }
    }
    found.sort();
    found
}

fn below(root: &Path, folder: &str, found: &mut Vec<String>) {
    for entry in fs::read_dir(root.join(folder)).expect("a folder") {
        let entry = entry.expect("an entry");
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = format!("{folder}/{name}");
        if entry.path().is_dir() {
            if name != "target" {
                found.push(format!("{path}/"));
                below(root, &path, found);
            }
        } else {
            found.push(path);
        }
    }
}

/// A source: the words of its code, in which order they stand does not matter.
struct Source {
    path: String,
    words: BTreeSet<String>,
}

pub(crate) struct Sources {
    pub files: Vec<String>,
    sources: Vec<Source>,
    words: BTreeSet<String>,
    options: BTreeSet<String>,
    subcommands: BTreeSet<String>,
    packages: BTreeSet<String>,
}

const EXTENSIONS: [&str; 13] = [
    ".rs", ".c", ".h", ".hpp", ".cpp", ".go", ".java", ".toml", ".map", ".socket", ".service",
    ".json", "run",
];

impl Sources {
    pub(crate) fn read(root: &Path) -> Sources {
        let files = files(root);
        let mut sources = Sources {
            files: Vec::new(),
            sources: Vec::new(),
            words: BTreeSet::new(),
            options: BTreeSet::new(),
            subcommands: BTreeSet::new(),
            packages: BTreeSet::new(),
        };
        for path in &files {
            let script = path.starts_with("scripts/") || path.ends_with("/install");
            if script || EXTENSIONS.iter().any(|end| path.ends_with(end)) {
                // This test has made-up names.
                if !path.starts_with("crates/cmwq-recipes/tests/pages/") && !path.ends_with('/') {
                    let text = fs::read(root.join(path)).expect("a source");
                    sources.add(path, &String::from_utf8_lossy(&text), script);
                }
            }
        }
        sources.files = files;
        sources
    }

    fn add(&mut self, path: &str, text: &str, script: bool) {
        let code = text.lines().filter(|line| {
            let line = line.trim_start();
            script || !["//", "* ", "/*"].iter().any(|mark| line.starts_with(mark))
        });
        let mut words = BTreeSet::new();
        let mut previous = "";
        for line in code.clone() {
            let ident = |c: char| c.is_alphanumeric() || c == '_';
            words.extend(
                line.split(|c| !ident(c))
                    .filter(|word| !word.is_empty())
                    .map(str::to_owned),
            );
            self.add_options(line, previous);
            previous = line;
        }
        if path.ends_with("Cargo.toml") {
            let named = text.lines().filter_map(|line| line.strip_prefix("name = "));
            self.packages
                .extend(named.map(|name| name.trim_matches('"').to_owned()));
        }
        if text.contains("Subcommand") {
            self.add_subcommands(text);
        }
        self.words.extend(words.iter().cloned());
        self.sources.push(Source {
            path: path.to_owned(),
            words,
        });
    }

    /// Options that stand in a string or a script, and fields that clap makes options of.
    fn add_options(&mut self, line: &str, previous: &str) {
        for part in line.split("--").skip(1) {
            let end = part.find(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
            self.options
                .insert(part[..end.unwrap_or(part.len())].to_owned());
        }
        if let Some((_, name)) = line.split_once("long = \"") {
            self.options
                .extend(name.split('"').next().map(str::to_owned));
        }
        let field = line.trim_start().trim_start_matches("pub ");
        let field = field.trim_start_matches("pub(crate) ").split_once(": ");
        let above = previous.trim();
        if let (Some((name, _)), true) = (field, above.starts_with("#[arg") || above == ")]") {
            self.options.insert(name.replace('_', "-"));
        }
    }

    /// The variants below `#[derive(Subcommand)]`.
    fn add_subcommands(&mut self, text: &str) {
        let Some((_, after)) = text.split_once("Subcommand)]") else {
            return;
        };
        let body = after.split("\n}").next().expect("the end of an enum");
        for line in body.lines() {
            let name = line.trim().split(['(', ',', ' ']).next().expect("a word");
            let variant = name.chars().all(char::is_alphanumeric);
            if variant && name.starts_with(|c: char| c.is_ascii_uppercase()) {
                self.subcommands.insert(kebab(name));
            }
        }
    }

    pub(crate) fn has_word(&self, word: &str) -> bool {
        self.words.contains(word)
    }

    pub(crate) fn has_prefix(&self, prefix: &str) -> bool {
        let after = self.words.range(prefix.to_owned()..).next();
        after.is_some_and(|word| word.starts_with(prefix))
    }

    /// Whether a word has this in it.
    pub(crate) fn has_part(&self, part: &str) -> bool {
        self.words.iter().any(|word| word.contains(part))
    }

    /// Whether one source has both words: a type and its method, a module and what is in it.
    pub(crate) fn has_both(&self, owner: &str, name: &str) -> bool {
        self.sources.iter().any(|source| {
            let owner = source.words.contains(owner)
                || source.path.contains(&format!("/{owner}"))
                || owner == "cmwq";
            owner && source.words.contains(name)
        })
    }

    pub(crate) fn has_option(&self, option: &str) -> bool {
        self.options.contains(option)
    }

    pub(crate) fn has_subcommand(&self, name: &str) -> bool {
        self.subcommands.contains(name)
    }

    pub(crate) fn has_package(&self, name: &str) -> bool {
        self.packages.contains(name)
    }

    /// Whether a file or folder has this path, or one that ends so.
    pub(crate) fn has_path(&self, path: &str) -> bool {
        let ending = format!("/{}", path.trim_end_matches('/'));
        let mut files = self.files.iter().map(|file| file.trim_end_matches('/'));
        files.any(|file| file == &ending[1..] || file.ends_with(&ending))
    }
}

/// `NoSuch` as `no-such`.
fn kebab(name: &str) -> String {
    let mut kebab = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !kebab.is_empty() {
            kebab.push('-');
        }
        kebab.push(c.to_ascii_lowercase());
    }
    kebab
}
