//! The sources' modules, and what each imports.

use std::collections::BTreeMap;
use std::path::Path;

/// A module's path: its names below the crate.
type Module = Vec<String>;

/// A module's re-exports: each name, and what it stands for.
type Exports = BTreeMap<String, Vec<String>>;

/// The sources of a crate, without tests.
pub(crate) struct Sources {
    /// Each module's file and text.
    modules: BTreeMap<Module, (String, String)>,
    exports: BTreeMap<Module, Exports>,
}

/// Whether a file is compiled for tests and models only.
fn is_test(file: &str) -> bool {
    let names = || file.trim_end_matches(".rs").split('/');
    names().any(|name| ["tests", "model", "stubs", "silent", "timelines"].contains(&name))
}

fn module_of(file: &str) -> Module {
    let mut names: Module = file
        .trim_end_matches(".rs")
        .split('/')
        .map(str::to_owned)
        .collect();
    if names
        .last()
        .is_some_and(|name| name == "mod" || name == "lib")
    {
        names.pop();
    }
    names
}

impl Sources {
    /// All files below a folder.
    pub(crate) fn read(root: &Path) -> Self {
        let mut files = Vec::new();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).expect("the sources") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|ext| ext == "rs") {
                    let name = path.strip_prefix(root).expect("below the root");
                    let text = std::fs::read_to_string(&path).expect("text");
                    files.push((name.to_string_lossy().into_owned(), text));
                }
            }
        }
        Self::from(files)
    }

    /// Of these files: names below the root, and texts.
    pub(crate) fn from(files: impl IntoIterator<Item = (String, String)>) -> Self {
        let kept = files.into_iter().filter(|(file, _)| !is_test(file));
        let modules: BTreeMap<Module, (String, String)> = kept
            .map(|(file, text)| (module_of(&file), (file, without_tests(&code_of(&text)))))
            .collect();
        let exports = modules
            .iter()
            .map(|(module, (_, text))| {
                let public = uses(text).into_iter().filter(|found| found.exported);
                let names = public.flat_map(|found| leaves(&found.tree));
                (module.clone(), names.collect())
            })
            .collect();
        Sources { modules, exports }
    }

    /// Each file, and its text without comments, strings and tests.
    pub(crate) fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        let texts = self.modules.values();
        texts.map(|(file, text)| (file.as_str(), text.as_str()))
    }

    /// For each file that imports anything: the files that it imports from, and by which path.
    pub(crate) fn imports(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let mut all = BTreeMap::new();
        for (module, (file, text)) in &self.modules {
            let mut own = BTreeMap::new();
            for path in self.paths(module, text) {
                if let Some((other, _)) = self.file_of(module, &path, 0)
                    && other != file
                {
                    own.entry(other.clone()).or_insert_with(|| path.join("::"));
                }
            }
            all.insert(file.clone(), own);
        }
        all
    }

    /// Paths that lead up: to what a module above the file re-exports from elsewhere. Each with its file.
    pub(crate) fn ways_up(&self) -> Vec<(&str, String)> {
        let mut found = Vec::new();
        for (module, (file, text)) in &self.modules {
            for path in self.paths(module, text) {
                let Some((at, rest)) = self.start(module, &path) else {
                    continue;
                };
                let Some(name) = rest.first() else { continue };
                let mut child = at.clone();
                child.push(name.clone());
                let is_above = at.len() < module.len() && module.starts_with(&at);
                let is_exported = self
                    .exports
                    .get(&at)
                    .is_some_and(|own| own.contains_key(name));
                if is_above && is_exported && !self.modules.contains_key(&child) {
                    found.push((file.as_str(), path.join("::")));
                }
            }
        }
        found
    }

    /// The paths that a module names.
    fn paths(&self, module: &Module, text: &str) -> Vec<Vec<String>> {
        let mut paths = Vec::new();
        let is_parent = |own: &Module| own.len() == module.len() + 1 && own.starts_with(module);
        let is_facade = self.modules.keys().any(is_parent);
        let mut rest = text.to_owned();
        for found in uses(text) {
            rest = rest.replacen(&found.text, "", 1);
            // What a facade exports it does not use.
            if !found.exported || !is_facade {
                paths.extend(leaves(&found.tree).into_iter().map(|(_, path)| path));
            }
        }
        // Visibilities name no use.
        let rest = rest.replace("(in crate::", "(in ");
        let word = |c: char| c.is_alphanumeric() || c == '_' || c == ':' || c == '$';
        for token in rest.split(|c| !word(c)) {
            let names: Vec<String> = token
                .trim_start_matches('$')
                .split("::")
                .map(str::to_owned)
                .collect();
            let child = || {
                let mut child = module.clone();
                child.push(names[0].clone());
                self.modules.contains_key(&child)
            };
            if names.len() > 1 && (names[0] == "crate" || names[0] == "super" || child()) {
                paths.push(names);
            }
        }
        paths
    }

    /// The file that defines what `path` names in `module`.
    fn file_of(&self, module: &Module, path: &[String], depth: usize) -> Option<(&String, Module)> {
        if depth > 8 {
            return None;
        }
        let (mut at, mut rest) = self.start(module, path)?;
        while let Some((name, behind)) = rest.split_first() {
            let mut child = at.clone();
            child.push(name.clone());
            if self.modules.contains_key(&child) {
                (at, rest) = (child, behind);
                continue;
            }
            let Some(target) = self.exports.get(&at).and_then(|exports| exports.get(name)) else {
                break;
            };
            let mut target = target.clone();
            target.extend_from_slice(behind);
            return self.file_of(&at, &target, depth + 1);
        }
        self.modules.get(&at).map(|(file, _)| (file, at))
    }

    /// The module where a path begins, and what is left of it.
    fn start<'p>(&self, module: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.clone(), rest)),
            "super" => {
                let up = path.iter().take_while(|name| *name == "super").count();
                let kept = module.len().checked_sub(up)?;
                Some((module[..kept].to_vec(), &path[up..]))
            }
            _ => {
                let mut child = module.clone();
                child.push(first.clone());
                self.modules
                    .contains_key(&child)
                    .then(|| (module.clone(), path))
            }
        }
    }
}

/// A text without its comments and what stands in its strings.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    for line in text.lines() {
        let mut in_string = false;
        let mut chars = line.chars().peekable();
        while let Some(next) = chars.next() {
            match next {
                '\\' if in_string => {
                    chars.next();
                }
                '"' => in_string = !in_string,
                '/' if !in_string && chars.peek() == Some(&'/') => break,
                '\'' if !in_string && chars.peek() == Some(&'"') => {
                    chars.next();
                }
                _ if in_string => {}
                other => code.push(other),
            }
        }
        code.push('\n');
    }
    code
}

/// A text without its inline modules of tests.
fn without_tests(text: &str) -> String {
    let mut kept = String::new();
    let mut attribute = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[cfg(") && line.contains("test") {
            attribute = format!("{line}\n");
            continue;
        }
        let opens = line.ends_with('{') && (line.starts_with("mod ") || line.contains(") mod "));
        if !attribute.is_empty() && opens {
            // rustfmt puts the end of the module at the beginning of a line.
            lines.by_ref().find(|line| *line == "}");
        } else {
            kept += &attribute;
            kept += line;
            kept.push('\n');
        }
        attribute.clear();
    }
    kept
}

/// A `use` declaration.
struct Use {
    text: String,
    tree: String,
    exported: bool,
}

fn uses(text: &str) -> Vec<Use> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.find("use ") {
        let begin = rest[..at].rfind('\n').map_or(0, |end| end + 1);
        let before = rest[begin..at].trim();
        let is_use = before.is_empty() || (before.starts_with("pub") && !before.contains(' '));
        let in_scope = before.starts_with("pub(in ");
        let end = rest[at..].find(';').map(|end| at + end);
        let Some(end) = end.filter(|_| is_use || in_scope) else {
            rest = &rest[at + 4..];
            continue;
        };
        found.push(Use {
            text: rest[begin..=end].to_owned(),
            tree: rest[at + 4..end].to_owned(),
            exported: !before.is_empty(),
        });
        rest = &rest[end + 1..];
    }
    found
}

/// The names that a `use` tree brings in, and the path of each.
fn leaves(tree: &str) -> Vec<(String, Vec<String>)> {
    let tree = tree.trim();
    let names = |path: &str| -> Vec<String> {
        let names = path.split("::").map(|name| name.trim().to_owned());
        names.filter(|name| !name.is_empty()).collect()
    };
    let Some(open) = tree.find('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let mut path = names(path);
        if path.len() > 1 && path.last().is_some_and(|name| name == "self") {
            path.pop();
        }
        let name = match alias.trim() {
            "" => path.last().cloned().unwrap_or_default(),
            alias => alias.to_owned(),
        };
        return vec![(name, path)];
    };
    let prefix = names(&tree[..open]);
    let inside = &tree[open + 1..tree.rfind('}').unwrap_or(tree.len())];
    let mut all = Vec::new();
    let (mut depth, mut begin) = (0, 0);
    let ends = inside.char_indices().chain([(inside.len(), ',')]);
    for (at, c) in ends {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                let part = &inside[begin..at];
                begin = (at + 1).min(inside.len());
                if part.trim().is_empty() {
                    continue;
                }
                for (name, path) in leaves(part) {
                    let mut full = prefix.clone();
                    if path != ["self"] {
                        full.extend(path);
                    }
                    let name = if name == "self" {
                        full.last().cloned().unwrap_or_default()
                    } else {
                        name
                    };
                    all.push((name, full));
                }
            }
            _ => {}
        }
    }
    all
}
