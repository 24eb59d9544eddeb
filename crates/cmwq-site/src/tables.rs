//! The tables of docs/lab: files of comma-separated values, and tables in Markdown.

use std::fs;
use std::path::Path;

/// A table of a measurement.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<String>,
    /// Each as long as `columns`.
    pub(crate) rows: Vec<Vec<String>>,
}

impl Table {
    /// The number of the first column with this name.
    pub(crate) fn column(&self, name: &str) -> Result<usize, String> {
        let found = self.columns.iter().position(|column| column == name);
        found.ok_or_else(|| format!("no column '{name}' in {:?}", self.columns))
    }

    /// Only the rows that have this in that column.
    pub(crate) fn only(mut self, column: &str, value: &str) -> Result<Self, String> {
        let number = self.column(column)?;
        self.rows.retain(|row| row[number] == value);
        if self.rows.is_empty() {
            return Err(format!("no row with '{value}' in '{column}'"));
        }
        Ok(self)
    }
}

/// The table in a file of comma-separated values. None of those that are read has quotes.
pub(crate) fn values(path: &Path) -> Result<Table, String> {
    let name = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("{name}: {error}"))?;
    parse_values(&text).map_err(|error| format!("{name}: {error}"))
}

fn parse_values(text: &str) -> Result<Table, String> {
    let mut lines = text
        .lines()
        .map(|line| line.split(',').map(str::to_owned).collect());
    let columns: Vec<String> = lines.next().unwrap_or_default();
    let rows: Vec<Vec<String>> = lines.collect();
    checked(Table { columns, rows })
}

/// The first table of Markdown below this heading.
pub(crate) fn below_heading(text: &str, heading: &str) -> Result<Table, String> {
    let is_heading =
        |line: &&str| line.starts_with('#') && line.trim_start_matches('#').trim() == heading;
    let mut lines = text.lines().skip_while(|line| !is_heading(line));
    if lines.next().is_none() {
        return Err(format!("there is no heading '{heading}'"));
    }
    let mut lines = lines.skip_while(|line| !line.starts_with('|'));
    let columns = piped(lines.next().unwrap_or_default());
    // The first of them is the line of dashes.
    let rows = lines
        .skip(1)
        .take_while(|line| line.starts_with('|'))
        .map(piped)
        .collect();
    checked(Table { columns, rows }).map_err(|error| format!("'{heading}': {error}"))
}

/// The paragraph that begins with this.
pub(crate) fn paragraph(text: &str, beginning: &str) -> Result<String, String> {
    let mut paragraphs = text.split("\n\n");
    let found = paragraphs.find(|paragraph| paragraph.starts_with(beginning));
    let found = found.ok_or_else(|| format!("no paragraph begins with '{beginning}'"))?;
    Ok(found.replace('\n', " ").trim().to_owned())
}

fn checked(table: Table) -> Result<Table, String> {
    let width = table.columns.len();
    match table.rows.iter().find(|row| row.len() != width) {
        Some(row) => Err(format!("{width} columns, but {row:?}")),
        None if table.rows.is_empty() => Err("no table".to_owned()),
        None => Ok(table),
    }
}

fn piped(line: &str) -> Vec<String> {
    let line = line.trim().trim_start_matches('|').trim_end_matches('|');
    let cells = line.split('|').map(|cell| cell.trim().replace("**", ""));
    cells.collect()
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Unit {
    Number,
    Nanoseconds,
}

/// A figure as the tables write it: `32407336`, `6.71 us`, `0.42`. None for what was not measured.
pub(crate) fn figure(text: &str) -> Result<Option<(f64, Unit)>, String> {
    let text = text.trim();
    if matches!(text, "" | "-" | "–") {
        return Ok(None);
    }
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let number: f64 = number
        .parse()
        .map_err(|_| format!("'{text}' is no figure"))?;
    let times = match unit {
        "" => return Ok(Some((number, Unit::Number))),
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => return Err(format!("'{text}': what is '{unit}'?")),
    };
    Ok(Some((number * times, Unit::Nanoseconds)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUES: &str = "runs,loop,peer,items_per_s\n3,flood,cmwq,32407\n3,block,rayon,7\n";
    const PAGE: &str = "# A page\n\n**Machine.** A CPU,\nof one kind.\n\n## Pipes\n\ntext\n\n\
        | pool | p99 |\n|---|---:|\n| **cmwq** | **31 ms** |\n";

    #[test]
    fn values_are_chosen_by_their_columns() {
        let table = parse_values(VALUES).unwrap();
        assert_eq!(table.column("items_per_s"), Ok(3));
        assert!(table.column("p95").is_err());
        assert!(table.clone().only("peer", "nobody").is_err());
        assert_eq!(
            table.only("loop", "block").unwrap().rows,
            [["3", "block", "rayon", "7"]]
        );
        assert!(
            parse_values("a,b\n1,2\n3\n")
                .unwrap_err()
                .contains("2 columns")
        );
        assert!(parse_values("a,b\n").is_err());
        assert!(
            values(Path::new("/nowhere.csv"))
                .unwrap_err()
                .contains("/nowhere.csv")
        );
    }

    #[test]
    fn a_table_of_markdown_is_found_by_its_heading() {
        let table = below_heading(PAGE, "Pipes").unwrap();
        assert_eq!(table.columns, ["pool", "p99"]);
        assert_eq!(table.rows, [["cmwq", "31 ms"]]);
        assert!(
            below_heading(PAGE, "A page").is_ok(),
            "the next table counts"
        );
        assert!(
            below_heading(PAGE, "Another")
                .unwrap_err()
                .contains("Another")
        );
        assert!(below_heading("# A\ntext\n", "A").is_err());
    }

    #[test]
    fn a_paragraph_becomes_one_line() {
        let found = paragraph(PAGE, "**Machine.**");
        assert_eq!(found.as_deref(), Ok("**Machine.** A CPU, of one kind."));
        assert!(paragraph(PAGE, "**Command.**").is_err());
    }

    #[test]
    fn figures_have_the_units_of_the_tables() {
        let ns = |value| Ok(Some((value, Unit::Nanoseconds)));
        let number = |value| Ok(Some((value, Unit::Number)));
        assert_eq!(figure("32407336"), number(32_407_336.0));
        assert_eq!(figure("1.17"), number(1.17));
        assert_eq!(figure("37 ns"), ns(37.0));
        assert_eq!(figure("6.5 us"), ns(6_500.0));
        assert_eq!(figure("26 µs"), ns(26_000.0));
        assert_eq!(figure("1.5 ms"), ns(1.5e6));
        assert_eq!(figure("4.5 s"), ns(4.5e9));
        assert_eq!(figure("-"), Ok(None));
        assert_eq!(figure(""), Ok(None));
        assert!(figure("soon").is_err());
        assert!(figure("3 miles").is_err());
    }
}
