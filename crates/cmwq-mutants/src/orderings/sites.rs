//! The orderings in the library's sources, and what each can be weakened to.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// What an ordering belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Load,
    Store,
    Update,
    /// The load of a compare-exchange that fails.
    Failure,
    Fence,
}

/// One ordering.
#[derive(Clone, Debug)]
pub(crate) struct Site {
    /// Below `crates/cmwq/src`.
    pub(crate) file: String,
    pub(crate) line: usize,
    /// Which of the line's orderings it is, from 0 on.
    pub(crate) nth: usize,
    pub(crate) operation: Operation,
    /// As the sources name it.
    pub(crate) shipped: String,
    /// The source line, without its indentation.
    pub(crate) text: String,
    /// Where the name begins in the file.
    at: usize,
}

const PREFIX: &str = "Ordering::";
const UPDATES: [&str; 8] = [
    "swap",
    "fetch_add",
    "fetch_sub",
    "fetch_and",
    "fetch_or",
    "fetch_max",
    "fetch_min",
    "fetch_update",
];

impl Site {
    /// Its place, for the table: file and line.
    pub(crate) fn place(&self) -> String {
        match self.nth {
            0 => format!("{}:{}", self.file, self.line),
            nth => format!("{}:{}#{}", self.file, self.line, nth + 1),
        }
    }

    /// The next weaker orderings, and then the weakest: that one only matters if the others are not found.
    pub(crate) fn weaker(&self) -> Vec<&'static str> {
        match (self.operation, self.shipped.as_str()) {
            (Operation::Load | Operation::Failure, "SeqCst") => vec!["Acquire", "Relaxed"],
            (Operation::Store, "SeqCst") => vec!["Release", "Relaxed"],
            (Operation::Update | Operation::Fence, "SeqCst") => vec!["AcqRel", "Relaxed"],
            (_, "AcqRel") => vec!["Acquire", "Release"],
            _ => vec!["Relaxed"],
        }
    }
}

/// All orderings that can be weakened, file by file.
pub(crate) fn find(sources: &Path) -> io::Result<Vec<Site>> {
    let mut files = Vec::new();
    list(sources, &mut files)?;
    files.sort();
    let mut sites = Vec::new();
    for path in files {
        let file = path.strip_prefix(sources).expect("it is below");
        let file = file.to_string_lossy().into_owned();
        if is_shipped(&file) {
            find_in(&file, &fs::read_to_string(&path)?, &mut sites);
        }
    }
    Ok(sites)
}

/// The sources below a folder.
pub(crate) fn list(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            list(&path, files)?;
        } else if path.extension().is_some_and(|ext| ext == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Neither a test or a model, nor a back end of one.
pub(crate) fn is_shipped(file: &str) -> bool {
    let back_end = ["sys/sim/", "sys/modelled.rs"];
    let test = ["/tests/", "/model/", "tests.rs", "model.rs"];
    !back_end.iter().any(|begins| file.starts_with(begins))
        && !test.iter().any(|part| file.contains(part))
}

/// The sources with comments and modules of tests blanked out, of the same length.
fn without_tests(source: &str) -> String {
    let mut kept = String::with_capacity(source.len());
    let mut lines = source.split_inclusive('\n').peekable();
    while let Some(line) = lines.next() {
        let trimmed = line.trim_start();
        let of_tests = trimmed.starts_with("#[cfg(") && {
            trimmed.contains("test") && !trimmed.contains("not(test)")
                || trimmed.starts_with("#[cfg(cmwq_loom)]")
        };
        let opens = |line: &&str| {
            let words = line.trim_start().trim_start_matches("pub(crate) ");
            words.starts_with("mod ") && line.trim_end().ends_with('{')
        };
        if of_tests && lines.peek().is_some_and(opens) {
            blank(line, &mut kept);
            let indent = line.len() - trimmed.len();
            let end = format!("{}}}", " ".repeat(indent));
            for line in lines.by_ref() {
                blank(line, &mut kept);
                if line.trim_end() == end {
                    break;
                }
            }
            continue;
        }
        let code = line.find("//").unwrap_or(line.len());
        kept.push_str(&line[..code]);
        blank(&line[code..], &mut kept);
    }
    kept
}

fn blank(line: &str, kept: &mut String) {
    kept.extend(line.bytes().map(|b| if b == b'\n' { '\n' } else { ' ' }));
}

fn find_in(file: &str, source: &str, sites: &mut Vec<Site>) {
    let code = without_tests(source);
    for (at, _) in code.match_indices(PREFIX) {
        let name: String = code[at + PREFIX.len()..]
            .chars()
            .take_while(|c| c.is_alphanumeric())
            .collect();
        let can_be_weaker = ["SeqCst", "AcqRel", "Acquire", "Release"].contains(&name.as_str());
        let Some(operation) = operation(&code[..at]).filter(|_| can_be_weaker) else {
            continue;
        };
        let line = code[..at].matches('\n').count() + 1;
        let same_line = |site: &&Site| site.file == file && site.line == line;
        let nth = sites.iter().rev().take_while(same_line).count();
        sites.push(Site {
            file: file.to_owned(),
            line,
            nth,
            operation,
            shipped: name,
            text: source.lines().nth(line - 1).unwrap_or("").trim().to_owned(),
            at,
        });
    }
}

/// The operation in whose arguments the text before ends.
fn operation(before: &str) -> Option<Operation> {
    let (mut depth, mut commas) = (0, 0);
    for (at, c) in before.char_indices().rev() {
        match c {
            ')' | ']' | '}' => depth += 1,
            '(' | '[' | '{' if depth > 0 => depth -= 1,
            '(' => {
                let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
                let name = before[..at].rsplit(|c| !of_a_name(c)).next();
                return named(name.unwrap_or(""), commas);
            }
            '[' | '{' | ';' if depth == 0 => return None,
            ',' if depth == 0 => commas += 1,
            _ => {}
        }
    }
    None
}

fn named(name: &str, argument: usize) -> Option<Operation> {
    match name {
        "load" => Some(Operation::Load),
        "store" => Some(Operation::Store),
        "fence" => Some(Operation::Fence),
        "fetch_update" if argument == 1 => Some(Operation::Failure),
        "compare_exchange" | "compare_exchange_weak" if argument == 3 => Some(Operation::Failure),
        "compare_exchange" | "compare_exchange_weak" => Some(Operation::Update),
        name => UPDATES.contains(&name).then_some(Operation::Update),
    }
}

/// Makes each ordering of a copy of the sources a question: which of them is weakened, to what.
pub(crate) fn put_in(copy: &Path, sites: &[Site]) -> io::Result<()> {
    for (number, site) in sites.iter().enumerate().rev() {
        let path = copy.join(&site.file);
        let mut source = fs::read_to_string(&path)?;
        let end = site.at + PREFIX.len() + site.shipped.len();
        let name = &source[site.at..end];
        let (from, question) = match site.operation {
            // A fence that is relaxed is none.
            Operation::Fence => {
                let call = source[..site.at].rfind("fence(").expect("it is a fence");
                let question = format!("crate::weaken::fence({number}, {name}");
                (call, question)
            }
            _ => (site.at, format!("crate::weaken::order({number}, {name})")),
        };
        source.replace_range(from..end, &question);
        fs::write(&path, source)?;
    }
    let root = copy.join("lib.rs");
    let library = fs::read_to_string(&root)?;
    fs::write(&root, library + include_str!("weaken.txt"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orderings_are_found_with_what_they_belong_to() {
        let source = "\
fn f() {
    a.load(Ordering::Acquire); // Ordering::SeqCst
    b.compare_exchange(
        1,
        g(2, 3),
        Ordering::AcqRel,
        Ordering::Acquire,
    );
    match o {
        Ordering::Release => {}
    }
    c.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |x| x);
    fence(Ordering::Acquire);
}
#[cfg(test)]
mod tests {
    fn f() {
        a.load(Ordering::Acquire);
    }
}
fn after() {
    d.store(1, Ordering::Release);
}
";
        let mut sites = Vec::new();
        find_in("x.rs", source, &mut sites);
        let found: Vec<_> = sites.iter().map(|s| (s.line, s.operation)).collect();
        let expected = [
            (2, Operation::Load),
            (6, Operation::Update),
            (7, Operation::Failure),
            (12, Operation::Update),
            (13, Operation::Fence),
            (22, Operation::Store),
        ];
        assert_eq!(found, expected);
        assert_eq!(sites[1].weaker(), ["Acquire", "Release"]);
    }

    /// What the operation is on: the last name before it, without calls and indices.
    fn receiver(before: &str) -> Option<&str> {
        let mut depth = 0;
        let open = before.char_indices().rev().find_map(|(at, c)| {
            match c {
                ')' => depth += 1,
                '(' if depth > 0 => depth -= 1,
                '(' => return Some(at),
                _ => {}
            }
            None
        })?;
        let of_a_name = |c: char| c.is_alphanumeric() || c == '_';
        let dotted = before[..open].trim_end_matches(of_a_name).trim_end();
        let mut rest = dotted.strip_suffix('.')?.trim_end();
        while rest.ends_with([')', ']']) {
            rest = rest[..rest.rfind(['(', '['])?].trim_end();
        }
        rest.rsplit(|c| !of_a_name(c)).next()
    }

    /// The names of fields and statics in this file whose type is a plain atomic under loom too.
    fn plain_names(source: &str) -> Vec<&str> {
        let mut types = Vec::new();
        let mut before = "";
        for line in source.lines() {
            let listed = line.strip_prefix("use crate::sys::atomic::plain::");
            if let Some(listed) = listed.filter(|_| before != "#[cfg(not(cmwq_loom))]") {
                let names = listed.split(|c: char| !c.is_alphanumeric());
                types.extend(names.filter(|name| name.starts_with("Atomic")));
            }
            before = line;
        }
        let declares = |line: &&str| {
            let plain = |name: &&str| {
                line.contains("plain::Atomic") || types.contains(name) && !line.contains("::Atomic")
            };
            let mut words = line.split(|c: char| !c.is_alphanumeric());
            !line.contains("::new(") && words.any(|word| word.starts_with("Atomic") && plain(&word))
        };
        source
            .lines()
            .filter(declares)
            .filter_map(|line| line.split_once(": "))
            .filter_map(|(name, _)| name.rsplit(' ').next())
            .collect()
    }

    #[test]
    fn an_atomic_that_loom_does_not_see_orders_nothing() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cmwq/src");
        let folder = |file: &str| file.rsplit_once('/').map(|(folder, _)| folder.to_owned());
        let mut files = Vec::new();
        list(&sources, &mut files).unwrap();
        let mut plain = std::collections::BTreeSet::new();
        for path in &files {
            let file = path.strip_prefix(&sources).unwrap().to_string_lossy();
            if is_shipped(&file) {
                let source = fs::read_to_string(path).unwrap();
                let names = plain_names(&source);
                plain.extend(names.iter().map(|name| (folder(&file), (*name).to_owned())));
            }
        }
        assert!(plain.len() > 60, "{plain:?}");
        for site in find(&sources).unwrap() {
            let source = fs::read_to_string(sources.join(&site.file)).unwrap();
            let name = receiver(&without_tests(&source)[..site.at]).map(str::to_owned);
            let is_plain = name.is_some_and(|name| plain.contains(&(folder(&site.file), name)));
            assert!(!is_plain, "{}: {}", site.place(), site.text);
        }
    }
}
