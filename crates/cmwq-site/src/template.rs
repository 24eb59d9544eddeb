//! The page's text, with instructions in comments where figures go: `<!-- @NAME key="value" … -->`.
//! What stands below the first line of such a comment is its body.

use crate::bars::{self, Choice, Columns, escape};
use crate::prose;
use crate::ratios::{self, Ratio};
use crate::tables::{self, Table};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::Path;

/// The measurements of peers: what the machine is called, and what its files in docs/lab begin with.
const MACHINES: [(&str, &str); 2] = [
    ("Intel Xeon", "2026-11-23-peers-2cpu-intel"),
    ("AMD EPYC", "2026-11-22-peers-2cpu"),
];
/// Of the runs in those files, the complete ones.
const RUNS: &str = "3";

/// Fills in the figures that docs/lab has.
pub(crate) fn expand(template: &str, lab: &Path) -> Result<String, String> {
    let mut page = String::new();
    let mut rest = template;
    while let Some((before, after)) = rest.split_once("<!-- @") {
        page.push_str(before);
        let (instruction, after) = after.split_once("-->").ok_or("a comment without an end")?;
        page.push_str(&instruct(instruction, lab).map_err(|error| {
            let first = instruction.lines().next().unwrap_or_default().trim();
            format!("@{first}: {error}")
        })?);
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    Ok(page + rest)
}

/// What an instruction was given.
struct Given<'a>(BTreeMap<&'a str, &'a str>);

impl<'a> Given<'a> {
    fn parse(text: &'a str) -> Result<Self, String> {
        let mut given = BTreeMap::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let parts = rest.split_once("=\"").and_then(|(key, after)| {
                let (value, after) = after.split_once('"')?;
                Some((key, value, after))
            });
            let (key, value, after) =
                parts.ok_or_else(|| format!("'{rest}' is not key=\"value\""))?;
            given.insert(key, value);
            rest = after.trim();
        }
        Ok(Self(given))
    }

    fn get(&self, key: &str) -> Result<&'a str, String> {
        self.0
            .get(key)
            .copied()
            .ok_or_else(|| format!("it has no {key}"))
    }

    fn words(&self, key: &str) -> Vec<String> {
        let words = self
            .0
            .get(key)
            .copied()
            .unwrap_or_default()
            .split_whitespace();
        words.map(str::to_owned).collect()
    }
}

fn instruct(instruction: &str, lab: &Path) -> Result<String, String> {
    let (line, body) = instruction.split_once('\n').unwrap_or((instruction, ""));
    let (name, given) = line.trim().split_once(' ').unwrap_or((line.trim(), ""));
    let given = Given::parse(given)?;
    match name {
        "conditions" => conditions(lab),
        "overview" => {
            let all = MACHINES.iter().map(|(_, file)| ratios_of(lab, file));
            ratios::known(&all.collect::<Result<Vec<_>, _>>()?, body)?;
            each_machine(|file| ratios::overview(&ratios_of(lab, file)?, body))
        }
        "losses" => each_machine(|file| Ok(ratios::losses(&ratios_of(lab, file)?))),
        "loop" => in_loop(&given, lab),
        "bars" => {
            let table = chosen(&given, lab)?;
            let columns = Columns {
                label: given.get("label")?,
                figure: given.get("figure")?,
                range: given.0.get("range").copied(),
                unit: given.0.get("unit").copied(),
            };
            let bars = bars::of_rows(&table, &columns)?;
            Ok(bars::draw(&bars, given.get("title")?))
        }
        "peers" => {
            let table = chosen(&given, lab)?;
            let bars = bars::of_peers(&table, given.get("figure")?, &choice(&given))?;
            Ok(bars::draw(&bars, given.get("title")?))
        }
        "table" => Ok(plain(&table(&given, lab)?)),
        _ => Err("nobody knows what that is".to_owned()),
    }
}

fn ratios_of(lab: &Path, file: &str) -> Result<Vec<Ratio>, String> {
    let table = tables::values(&lab.join(format!("{file}-ratios.csv")))?;
    ratios::read(&table.only("runs", RUNS)?)
}

fn read(lab: &Path, name: &str) -> Result<String, String> {
    fs::read_to_string(lab.join(name)).map_err(|error| format!("{name}: {error}"))
}

/// The table that `file` is, or that stands in it below `heading`.
fn table(given: &Given, lab: &Path) -> Result<Table, String> {
    let file = given.get("file")?;
    if file.ends_with(".csv") {
        tables::values(&lab.join(file))
    } else {
        tables::below_heading(&read(lab, file)?, given.get("heading")?)
    }
}

/// The rows of that table that have, in each column of an `only-COLUMN`, the value given there.
fn chosen(given: &Given, lab: &Path) -> Result<Table, String> {
    let mut chosen = table(given, lab)?;
    for (key, value) in &given.0 {
        if let Some(column) = key.strip_prefix("only-") {
            chosen = chosen.only(column, value)?;
        }
    }
    Ok(chosen)
}

/// Which modes of cmwq and of the other pools are drawn.
fn choice(given: &Given) -> Choice {
    Choice {
        ours: given.words("ours"),
        theirs: given.words("theirs"),
        without: given.words("without"),
    }
}

/// A table as it is.
fn plain(table: &Table) -> String {
    let row = |cells: &[String], open: &str, close: &str| {
        let cells = cells
            .iter()
            .map(|cell| format!("{open}{}{close}", escape(cell)));
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let head = row(&table.columns, "<th scope=\"col\">", "</th>");
    let rows: String = table
        .rows
        .iter()
        .map(|cells| row(cells, "<td>", "</td>"))
        .collect();
    format!(
        "<div class=\"scroll\"><table>\n<thead>{head}</thead>\n<tbody>\n{rows}</tbody>\n</table></div>\n"
    )
}

/// What each machine has to say, side by side where there is room.
fn each_machine(show: impl Fn(&str) -> Result<String, String>) -> Result<String, String> {
    let mut html = "<div class=\"machines\">\n".to_owned();
    for (name, file) in MACHINES {
        let _ = write!(html, "<div>\n<h3>{name}</h3>\n{}</div>\n", show(file)?);
    }
    Ok(html + "</div>\n")
}

/// The machines and the commands, as the pages of the measurements have them.
fn conditions(lab: &Path) -> Result<String, String> {
    let mut html = String::new();
    for (name, file) in MACHINES {
        let page = read(lab, &format!("{file}.md"))?;
        let _ = writeln!(html, "<h3>{name}, {}</h3>", &file[.."2026-11-22".len()]);
        for beginning in ["**Machine.**", "**Command.**", "**All rows**"] {
            let text = tables::paragraph(&page, beginning)?;
            let _ = writeln!(html, "<p>{}</p>", prose::html(&text, "../lab/"));
        }
    }
    Ok(html)
}

/// A loop: one choice of the number of issuers, and for each the machines.
fn in_loop(given: &Given, lab: &Path) -> Result<String, String> {
    let (id, name, figure) = (given.get("id")?, given.get("loop")?, given.get("figure")?);
    let numbers = given.words("issuers");
    let shown = given.get("shown").unwrap_or("2");
    let choice = choice(given);
    let mut html = String::new();
    if numbers.len() > 1 {
        html.push_str("<fieldset class=\"choice\">\n<legend>issuers</legend>\n");
        for number in &numbers {
            let checked = if number == shown { " checked" } else { "" };
            let _ = writeln!(
                html,
                "<label><input type=\"radio\" name=\"{id}\" value=\"{number}\"{checked}/>{number}</label>"
            );
        }
        html.push_str("</fieldset>\n");
    }
    for (place, number) in numbers.iter().enumerate() {
        let panels = each_machine(|file| {
            let table = tables::values(&lab.join(format!("{file}.csv")))?;
            let table = table
                .only("runs", RUNS)?
                .only("loop", name)?
                .only("issuers", number)?;
            let bars = bars::of_peers(&table, figure, &choice)?;
            Ok(bars::draw(&bars, &format!("{name}, issuers: {number}")))
        })?;
        let _ = write!(
            html,
            "<div class=\"option o{}\">\n{panels}</div>\n",
            place + 1
        );
    }
    Ok(html)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(text: &str) -> Result<Vec<(&str, &str)>, String> {
        Given::parse(text).map(|given| given.0.into_iter().collect())
    }

    #[test]
    fn instructions_have_keys_and_values() {
        assert_eq!(given(""), Ok(Vec::new()));
        assert_eq!(
            given(" a=\"1 2\" b-c=\"x\" "),
            Ok(vec![("a", "1 2"), ("b-c", "x")])
        );
        assert!(given("a=1").is_err());
    }

    #[test]
    fn text_without_instructions_stays_as_it_is() {
        let text = "<p>a</p><!-- not one --><p>b</p>";
        assert_eq!(expand(text, Path::new("/nowhere")).as_deref(), Ok(text));
    }

    #[test]
    fn what_cannot_be_done_names_the_instruction() {
        for (text, says) in [
            ("<!-- @dance -->", "@dance: nobody"),
            ("<!-- @bars file=\"a.md\" -->", "a.md"),
            ("<!-- @bars -->", "no file"),
            ("<!-- @losses", "without an end"),
        ] {
            let error = expand(text, Path::new("/nowhere")).unwrap_err();
            assert!(error.contains(says), "{error}");
        }
    }
}
