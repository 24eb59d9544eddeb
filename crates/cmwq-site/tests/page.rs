//! docs/site/index.html without a browser: it is what docs/lab says, it is whole, and it needs nothing else.
//!
//! Sabotage tried: a figure changed by hand, a tag left open, a link to nowhere, a style sheet from
//! outside, a name twice each fail a test here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn site() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/site")
}

fn page() -> String {
    fs::read_to_string(site().join("index.html")).expect("the page")
}

/// The values of an attribute.
fn values<'a>(page: &'a str, attribute: &str) -> Vec<&'a str> {
    let before = format!(" {attribute}=\"");
    let starts = page
        .match_indices(&before)
        .map(|(at, found)| &page[at + found.len()..]);
    starts
        .map(|rest| rest.split('"').next().expect("a part"))
        .collect()
}

#[test]
fn it_is_what_the_tables_say() {
    let output = Command::new(env!("CARGO_BIN_EXE_cmwq-site"))
        .arg("--check")
        .output()
        .expect("it runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let refused = Command::new(env!("CARGO_BIN_EXE_cmwq-site"))
        .arg("--dance")
        .output()
        .expect("it runs");
    assert_eq!(refused.status.code(), Some(2));
    assert_eq!(String::from_utf8_lossy(&refused.stderr).lines().count(), 1);
}

#[test]
fn every_tag_that_is_opened_is_closed() {
    let page = page();
    let mut open: Vec<&str> = Vec::new();
    let mut rest = page.strip_prefix("<!DOCTYPE html>").expect("a doctype");
    while let Some(start) = rest.find('<') {
        let end = start + rest[start..].find('>').expect("a tag that ends");
        let tag = &rest[start + 1..end];
        assert_eq!(tag.matches('"').count() % 2, 0, "quotes in <{tag}>");
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "closing </{name}>");
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().expect("a name"));
        }
        rest = &rest[end + 1..];
    }
    assert!(open.is_empty(), "left open: {open:?}");
}

#[test]
fn nothing_is_loaded_and_links_lead_somewhere() {
    let page = page();
    for outside in [
        "<link", "src=", "@import", "url(", "<script", "http:", "https:", "NaN", "inf%",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    let links = values(&page, "href");
    assert!(links.len() > 5);
    for link in links {
        assert!(site().join(link).exists(), "{link}");
    }
}

#[test]
fn names_are_unique_and_one_number_of_issuers_is_chosen() {
    let page = page();
    let mut ids = values(&page, "id");
    let all = ids.len();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), all);
    for choice in page.split("<fieldset").skip(1) {
        let choice = choice.split("</fieldset>").next().expect("its end");
        assert_eq!(choice.matches(" checked/>").count(), 1, "{choice}");
    }
}
