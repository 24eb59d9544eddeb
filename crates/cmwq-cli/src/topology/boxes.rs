//! Text in boxes, and boxes side by side. A piece of text here is a list of lines; every character
//! is one column wide.

pub(super) type Lines = Vec<String>;

/// What a frame takes of the width: a line and a blank on either side.
pub(super) const FRAME_COLUMNS: usize = 4;

const BETWEEN_BOXES: &str = " ";

fn columns(text: &str) -> usize {
    text.chars().count()
}

/// Joins `items` by blanks into lines of at most `width`, a longer item alone on its line.
pub(super) fn wrap(items: &[String], width: usize) -> Lines {
    let mut lines: Lines = Vec::new();
    for item in items {
        match lines.last_mut() {
            Some(line) if columns(line) + 1 + columns(item) <= width => {
                line.push(' ');
                line.push_str(item);
            }
            _ => lines.push(item.clone()),
        }
    }
    lines
}

/// A box around `body` with `title` in its upper edge. The body sets the width; a title that would
/// make the box wider than `width` is cut.
pub(super) fn frame(title: &str, body: &[String], width: usize) -> Lines {
    let body_columns = body.iter().map(|line| columns(line)).max().unwrap_or(0);
    let room = body_columns.max(width.saturating_sub(FRAME_COLUMNS));
    let title = cut(title, room);
    let inner = body_columns.max(columns(&title));
    let edge = |used: usize| "─".repeat(inner.saturating_sub(used));
    let mut lines = vec![format!("┌ {title} {}┐", edge(columns(&title)))];
    for line in body {
        lines.push(format!(
            "│ {line}{:pad$} │",
            "",
            pad = inner - columns(line)
        ));
    }
    lines.push(format!("└─{}─┘", "─".repeat(inner)));
    lines
}

fn cut(text: &str, width: usize) -> String {
    if columns(text) <= width {
        return text.into();
    }
    let kept: String = text.chars().take(width.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// The boxes side by side from left to right, as many in a row as `width` takes.
pub(super) fn flow(boxes: Vec<Lines>, width: usize) -> Lines {
    let mut out = Vec::new();
    let mut row: Vec<Lines> = Vec::new();
    let mut row_columns = 0;
    for next in boxes {
        let next_columns = box_columns(&next);
        if !row.is_empty() && row_columns + columns(BETWEEN_BOXES) + next_columns > width {
            out.extend(join(&row));
            row.clear();
            row_columns = 0;
        }
        row_columns += next_columns
            + if row.is_empty() {
                0
            } else {
                columns(BETWEEN_BOXES)
            };
        row.push(next);
    }
    out.extend(join(&row));
    out
}

fn box_columns(lines: &Lines) -> usize {
    lines.iter().map(|line| columns(line)).max().unwrap_or(0)
}

/// The boxes of one row; shorter ones are followed by blanks.
fn join(row: &[Lines]) -> Lines {
    let height = row.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let parts: Vec<String> = row
                .iter()
                .map(|lines| {
                    let line = lines.get(at).map_or("", String::as_str);
                    format!(
                        "{line}{:pad$}",
                        "",
                        pad = box_columns(lines) - columns(line)
                    )
                })
                .collect();
            parts.join(BETWEEN_BOXES).trim_end().to_string()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn items(text: &str) -> Lines {
        text.split(' ').map(String::from).collect()
    }

    #[test]
    fn items_wrap_at_the_width_and_a_long_one_stands_alone() {
        assert_eq!(wrap(&items("aa bb cc"), 5), ["aa bb", "cc"]);
        assert_eq!(wrap(&items("aa bbbbbb cc"), 5), ["aa", "bbbbbb", "cc"]);
        assert!(wrap(&[], 5).is_empty());
    }

    #[test]
    fn a_frame_is_as_wide_as_its_widest_line() {
        assert_eq!(
            frame("t", &items("abc de"), 20),
            ["┌ t ──┐", "│ abc │", "│ de  │", "└─────┘"]
        );
        assert_eq!(
            frame("title", &items("a"), 20),
            ["┌ title ┐", "│ a     │", "└───────┘"]
        );
        assert_eq!(
            frame("long title", &items("abc"), 9),
            ["┌ long… ┐", "│ abc   │", "└───────┘"]
        );
    }

    #[test]
    fn boxes_flow_into_rows() {
        let small = frame("a", &items("1"), 9);
        let tall = frame("b", &items("2 3"), 9);
        assert_eq!(
            flow(vec![small.clone(), tall.clone()], 11),
            ["┌ a ┐ ┌ b ┐", "│ 1 │ │ 2 │", "└───┘ │ 3 │", "      └───┘"]
        );
        assert_eq!(
            flow(vec![small.clone(), tall.clone()], 10),
            [small, tall].concat()
        );
    }
}
