//! No two types of the library have one name.

use super::super::{root, root_of};
use crate::layers::source::Sources;
use std::collections::{BTreeMap, BTreeSet};

/// The files that define each type. The back ends of `sys` have the same names by design, and files
/// of models are no part of the library.
fn definitions<'a>(
    files: impl Iterator<Item = (&'a str, &'a str)>,
) -> BTreeMap<String, BTreeSet<&'a str>> {
    let mut found = BTreeMap::<String, BTreeSet<&str>>::new();
    for (file, text) in files {
        if file.starts_with("sys/sim/") || file.ends_with("_model.rs") {
            continue;
        }
        for line in text.lines() {
            let mut words = line.split_whitespace().skip_while(|word| {
                word.starts_with("pub")
                    || *word == "crate)"
                    || word.starts_with("crate::")
                    || *word == "unsafe"
            });
            if !matches!(words.next(), Some("struct" | "enum" | "union" | "trait")) {
                continue;
            }
            // A macro's variable is no name.
            let name = words.next().filter(|name| !name.starts_with('$'));
            let Some(name) = name else { continue };
            let end = name.find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = &name[..end.unwrap_or(name.len())];
            found.entry(name.to_owned()).or_default().insert(file);
        }
    }
    found
}

fn named_twice<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<String> {
    let twice = definitions(files)
        .into_iter()
        .filter(|(_, files)| files.len() > 1);
    twice
        .map(|(name, files)| format!("{name}: {files:?}"))
        .collect()
}

#[test]
fn no_two_types_have_one_name() {
    let library = Sources::read(&root());
    let types = definitions(library.texts()).len();
    assert!(types > 300, "the types were not found: {types}");
    let wrong = named_twice(library.texts());
    assert!(wrong.is_empty(), "types of one name:\n{}", wrong.join("\n"));
    for part in ["cmwq-topology", "cmwq-trace"] {
        let part = Sources::read(&root_of(part));
        assert_eq!(named_twice(part.texts()), Vec::<String>::new());
    }
}

/// The check itself: on sources that are made up.
#[test]
fn two_types_of_one_name_are_found() {
    let one = (
        "pool/a.rs",
        "pub(in crate::pool) struct Entry<T> {\n    x: T,\n}\n",
    );
    let other = (
        "item/b.rs",
        "enum Entry {\n}\npub(crate) struct Other(u32);\n",
    );
    let of_sim = ("sys/sim/b.rs", "struct Other;\n");
    assert_eq!(named_twice([one, of_sim].into_iter()), Vec::<String>::new());
    let macros = [
        ("a.rs", "pub struct $name { }\n"),
        ("b.rs", "struct $name;\n"),
    ];
    assert_eq!(named_twice(macros.into_iter()), Vec::<String>::new());
    let found = named_twice([one, other, of_sim].into_iter());
    assert_eq!(found, [r#"Entry: {"item/b.rs", "pool/a.rs"}"#]);
}
