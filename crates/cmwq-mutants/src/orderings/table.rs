//! What was found, as a table in Markdown.

use super::run::Outcome;
use super::sites::Site;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Of these orderings.
pub(crate) fn table(sites: &[Site], results: &BTreeMap<(String, String), Outcome>) -> String {
    let mut text = String::from(
        "| place | operation | shipped | weakened to | found by | runs | how it showed |\n|---|---|---|---|---|---|---|\n",
    );
    let (mut tried, mut found) = (0, 0);
    for site in sites {
        let mut before = false;
        for to in site.weaker() {
            let Some(outcome) = results.get(&(site.place(), to.to_owned())) else {
                continue;
            };
            // The weakest is tried if the one before was not found: one of the two is enough.
            let counts = !(to == "Relaxed" && site.shipped == "SeqCst" && before);
            before = true;
            tried += usize::from(counts);
            found += usize::from(!outcome.by.is_empty());
            let by = match outcome.by.as_str() {
                "" => "**not found**",
                by => by,
            };
            let how: String = outcome.how.chars().take(90).collect();
            let how = how.replace('|', "/");
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {} | {:?} | {} | {to} | {by} | {} | {how} |",
                site.place(),
                site.operation,
                site.shipped,
                outcome.runs,
            );
        }
    }
    let _ = writeln!(text, "\n{found} of {tried} are found.");
    text
}
