//! Tables for a terminal and for a page.

use std::fmt::Write;

use super::page::escape;

/// Describes a column of a table: its headings, and to which side its cells are aligned.
///
/// ```
/// use cmwq_command::figures::{Column, Row, layout};
///
/// let columns = [Column::words("scope"), Column::new("latency", "p50")];
/// let row = Row::Cells(vec!["cache".to_owned(), "120".to_owned()]);
/// let text = layout(&columns, &[row]);
/// assert_eq!(text.lines().last(), Some("cache      120"));
/// ```
#[derive(Clone, Debug)]
pub struct Column {
    /// Neighbours with the same group share one heading.
    group: String,
    name: String,
    /// Words are aligned to the left, figures to the right.
    has_words: bool,
}

impl Column {
    /// A column of figures.
    pub fn new(group: impl Into<String>, name: impl Into<String>) -> Self {
        Column {
            group: group.into(),
            name: name.into(),
            has_words: false,
        }
    }

    /// A column of words.
    pub fn words(name: impl Into<String>) -> Self {
        Column {
            has_words: true,
            ..Column::new("", name)
        }
    }

    fn align(&self, text: &str, width: usize) -> String {
        if self.has_words {
            format!("{text:<width$}")
        } else {
            format!("{text:>width$}")
        }
    }
}

/// A line of a table that [`layout`] or [`html`] lays out.
///
/// ```
/// use cmwq_command::figures::{Column, Row, layout};
///
/// let columns = [Column::words("scope"), Column::new("ns", "p50")];
/// let remark = Row::Remark(vec!["numa".to_owned()], "as cache".to_owned());
/// assert!(layout(&columns, &[remark]).ends_with("numa   as cache\n"));
/// ```
#[derive(Clone, Debug)]
pub enum Row {
    /// A cell for each column.
    Cells(Vec<String>),
    /// Cells for the first columns, and words where the figures would be.
    Remark(Vec<String>, String),
}

/// Lays out a table with two blanks between columns and a line of group headings.
pub fn layout(columns: &[Column], rows: &[Row]) -> String {
    let width_of = |text: &str| text.chars().count();
    let mut widths: Vec<usize> = columns
        .iter()
        .map(|column| width_of(&column.name))
        .collect();
    for row in rows {
        let (Row::Cells(cells) | Row::Remark(cells, _)) = row;
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = (*width).max(width_of(cell));
        }
    }
    let mut groups = String::new();
    let mut first = 0;
    while first < columns.len() {
        let group = columns[first].group.as_str();
        let same = columns[first..]
            .iter()
            .take_while(|c| c.group == group && !group.is_empty())
            .count()
            .max(1);
        let last = first + same - 1;
        let taken: usize = widths[first..last].iter().map(|width| width + 2).sum();
        widths[last] = widths[last].max(width_of(group).saturating_sub(taken));
        let span = taken + widths[last];
        if first > 0 {
            groups += "  ";
        }
        groups += &columns[first].align(group, span);
        first += same;
    }
    let line = |cells: Vec<&str>, remark: Option<&str>| {
        let padded = cells
            .into_iter()
            .zip(columns.iter().zip(&widths))
            .map(|(cell, (column, &width))| column.align(cell, width));
        let words: Vec<String> = padded.chain(remark.map(str::to_owned)).collect();
        words.join("  ").trim_end().to_owned() + "\n"
    };
    let mut text = String::new();
    if !groups.trim().is_empty() {
        text += groups.trim_end();
        text.push('\n');
    }
    text += &line(
        columns.iter().map(|column| column.name.as_str()).collect(),
        None,
    );
    for row in rows {
        let (cells, remark) = match row {
            Row::Cells(cells) => (cells, None),
            Row::Remark(cells, remark) => (cells, Some(remark.as_str())),
        };
        text += &line(cells.iter().map(String::as_str).collect(), remark);
    }
    text
}

/// The same for a page: a table that scrolls if it is wider than the window.
pub fn html(columns: &[Column], rows: &[Row]) -> String {
    let mut text = "<div class=\"scroll\"><table>\n<thead>\n<tr>".to_owned();
    for column in columns {
        let class = if column.has_words {
            " class=\"words\""
        } else {
            ""
        };
        let name = [column.group.as_str(), column.name.as_str()];
        let name = name.join(" ");
        let _ = write!(text, "<th{class}>{}</th>", escape(name.trim()));
    }
    text += "</tr>\n</thead>\n<tbody>\n";
    for row in rows {
        text += "<tr>";
        let (Row::Cells(cells) | Row::Remark(cells, _)) = row;
        for (nth, (cell, column)) in cells.iter().zip(columns).enumerate() {
            let class = if column.has_words {
                " class=\"words\""
            } else {
                ""
            };
            let _ = match nth {
                0 => write!(text, "<th{class} scope=\"row\">{}</th>", escape(cell)),
                _ => write!(text, "<td{class}>{}</td>", escape(cell)),
            };
        }
        if let Row::Remark(cells, remark) = row {
            let span = columns.len() - cells.len();
            let _ = write!(
                text,
                "<td class=\"words same\" colspan=\"{span}\">{}</td>",
                escape(remark)
            );
        }
        text += "</tr>\n";
    }
    text + "</tbody>\n</table></div>"
}

/// A whole number with its thousands marked.
pub fn grouped(number: f64) -> String {
    let digits = format!("{:.0}", number.max(0.0));
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_marked() {
        assert_eq!(
            [0.0, 999.0, 1000.0, 1_234_567.6].map(grouped),
            ["0", "999", "1,000", "1,234,568"]
        );
    }

    #[test]
    fn columns_line_up_and_groups_stand_over_them() {
        let columns = [
            Column::words("scope"),
            Column::new("ns", "p50"),
            Column::new("ns", "p90"),
        ];
        let rows = vec![
            Row::Cells(vec!["cpu".into(), "1".into(), "22".into()]),
            Row::Cells(vec!["cache_shard".into(), "10,000".into(), "3".into()]),
            Row::Remark(
                vec!["numa".into()],
                "as another, which has more to say".into(),
            ),
        ];
        assert_eq!(
            layout(&columns, &rows),
            "                      ns\nscope           p50  p90\ncpu               1   22\ncache_shard  10,000    3\n\
             numa         as another, which has more to say\n"
        );
    }

    #[test]
    fn a_group_wider_than_its_columns_widens_them() {
        let columns = [
            Column::words("scope"),
            Column::new("enqueue latency", "p50"),
        ];
        let text = layout(&columns, &[Row::Cells(vec!["cpu".into(), "1".into()])]);
        let widths: Vec<_> = text.lines().map(|line| line.chars().count()).collect();
        assert_eq!(widths, [22, 22, 22]);
    }

    #[test]
    fn a_page_has_the_same_cells_and_no_foreign_tags() {
        let columns = [Column::words("scope"), Column::new("ns", "p50")];
        let rows = [
            Row::Cells(vec!["a<b".into(), "1".into()]),
            Row::Remark(vec!["c".into()], "as another".into()),
        ];
        let html = html(&columns, &rows);
        assert!(html.contains("<th class=\"words\" scope=\"row\">a&lt;b</th><td>1</td>"));
        assert!(html.contains("<th>ns p50</th>") && html.contains("colspan=\"1\">as another</td>"));
    }
}
