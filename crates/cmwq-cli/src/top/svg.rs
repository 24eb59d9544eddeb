//! A screen as a picture.

use std::fmt::Write as _;

use ratatui::buffer::{Buffer, Cell};
use ratatui::style::{Color, Modifier};

/// A character cell, in the units of the picture.
const WIDTH: usize = 9;
const HEIGHT: usize = 18;
const MARGIN: usize = 12;
const BACKGROUND: &str = "#101418";
const FOREGROUND: &str = "#d8dee9";

fn colour(colour: Color, otherwise: &'static str) -> &'static str {
    match colour {
        Color::Red => "#e05f65",
        Color::Green => "#78b892",
        Color::Yellow => "#e5c76b",
        Color::Cyan => "#70b8ca",
        Color::DarkGray => "#7b8794",
        _ => otherwise,
    }
}

/// Text and ground of a cell.
fn colours(cell: &Cell) -> (&'static str, &'static str) {
    let text = colour(cell.fg, FOREGROUND);
    let ground = colour(cell.bg, BACKGROUND);
    if cell.modifier.contains(Modifier::REVERSED) {
        (ground, text)
    } else {
        (text, ground)
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// The screen as SVG, with the characters as text.
pub(super) fn render(screen: &Buffer) -> String {
    let area = screen.area();
    let (columns, lines) = (area.width as usize, area.height as usize);
    let (width, height) = (columns * WIDTH + 2 * MARGIN, lines * HEIGHT + 2 * MARGIN);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"DejaVu Sans Mono, Menlo, Consolas, monospace\" \
         font-size=\"15\">\n<rect width=\"{width}\" height=\"{height}\" rx=\"8\" fill=\"{BACKGROUND}\"/>\n"
    );
    for line in 0..lines {
        let cells: Vec<&Cell> = (0..columns)
            .filter_map(|column| screen.cell((column as u16, line as u16)))
            .collect();
        let mut column = 0;
        for run in cells.chunk_by(|a, b| colours(a) == colours(b) && a.modifier == b.modifier) {
            let (text, ground) = colours(run[0]);
            let (x, y) = (MARGIN + column * WIDTH, MARGIN + line * HEIGHT);
            // Writing to a string cannot fail.
            if ground != BACKGROUND {
                let _ = writeln!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{}\" height=\"{HEIGHT}\" fill=\"{ground}\"/>",
                    run.len() * WIDTH
                );
            }
            let symbols: String = run.iter().map(|cell| cell.symbol()).collect();
            if !symbols.trim().is_empty() {
                let bold = if run[0].modifier.contains(Modifier::BOLD) {
                    " font-weight=\"bold\""
                } else {
                    ""
                };
                let _ = writeln!(
                    out,
                    "<text x=\"{x}\" y=\"{}\" fill=\"{text}\"{bold} textLength=\"{}\" lengthAdjust=\"spacingAndGlyphs\" \
                     xml:space=\"preserve\">{}</text>",
                    y + HEIGHT - 4,
                    run.len() * WIDTH,
                    escaped(&symbols)
                );
            }
            column += run.len();
        }
    }
    out += "</svg>\n";
    out
}
