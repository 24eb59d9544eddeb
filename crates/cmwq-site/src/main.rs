//! Writes docs/site/index.html from the tables of docs/lab. Run by `scripts/site`.

mod bars;
mod prose;
mod ratios;
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

/// The whole page.
fn render() -> Result<String, String> {
    let page = TEMPLATE.replace("/* style */\n", STYLE);
    template::expand(&page, &docs().join("lab"))
}

fn write() -> Result<(), String> {
    let path = docs().join("site/index.html");
    std::fs::write(&path, render()?).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("docs/site/index.html");
    Ok(())
}

/// Whether the page that is there is what would be written.
fn check() -> Result<(), String> {
    let path = docs().join("site/index.html");
    let there =
        std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    if there == render()? {
        Ok(())
    } else {
        Err("docs/site/index.html is not what docs/lab says: run scripts/site".to_owned())
    }
}
