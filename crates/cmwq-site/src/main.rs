//! Writes docs/site/index.html and docs/service.svg from the tables of docs/lab. Run by
//! `scripts/site`.

mod bars;
mod prose;
mod ratios;
mod service;
mod tables;
mod template;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const TEMPLATE: &str = include_str!("page.html");
const STYLE: &str = include_str!("page.css");

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match arguments[..] {
        [] => write(),
        ["--check"] => check(),
        _ => Err("usage: cmwq-site [--check]".to_owned()),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// The files that are written, below docs, and their contents.
fn files() -> Result<[(&'static str, String); 2], String> {
    let lab = docs().join("lab");
    let page = TEMPLATE.replace("/* style */\n", STYLE);
    Ok([
        ("site/index.html", template::expand(&page, &lab)?),
        ("service.svg", service::chart(&lab)?),
    ])
}

fn write() -> Result<(), String> {
    for (name, contents) in files()? {
        let path = docs().join(name);
        std::fs::write(&path, contents).map_err(|error| format!("{}: {error}", path.display()))?;
        println!("docs/{name}");
    }
    Ok(())
}

/// Whether the files that are there are what would be written.
fn check() -> Result<(), String> {
    for (name, contents) in files()? {
        let path = docs().join(name);
        let there = std::fs::read_to_string(&path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        if there != contents {
            return Err(format!(
                "docs/{name} is not what docs/lab says: run scripts/site"
            ));
        }
    }
    Ok(())
}
