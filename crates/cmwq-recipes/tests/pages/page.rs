//! What a page of Markdown quotes: links, code in a line, and lines of shell.

/// A page, and its path from the root of the project.
pub(crate) struct Page {
    pub(crate) path: String,
    pub(crate) text: String,
}

/// Something in a page that can be looked up.
#[derive(Debug)]
pub(crate) enum Quote {
    Link(String),
    Code(String),
    /// A command in a block of shell lines.
    Shell(String),
}

impl Page {
    pub(crate) fn new(path: &str, text: &str) -> Page {
        Page {
            path: path.to_owned(),
            text: text.to_owned(),
        }
    }

    /// The names that links to the page's headings have.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let headings = self.prose().filter(|line| line.starts_with('#'));
        headings.map(|line| slug(&line)).collect()
    }

    /// All that the page quotes, with the numbers of the lines.
    pub(crate) fn quotes(&self) -> Vec<(usize, Quote)> {
        let mut quotes = Vec::new();
        let mut block: Option<&str> = None;
        for (number, line) in self.text.lines().enumerate() {
            let trimmed = line.trim_start();
            if let Some(language) = trimmed.strip_prefix("```") {
                block = match block {
                    None => Some(language),
                    Some(_) => None,
                };
                continue;
            }
            match block {
                Some("sh") => quotes.push((number + 1, Quote::Shell(uncommented(line)))),
                Some(_) => {}
                None => quote_line(number + 1, line, &mut quotes),
            }
        }
        quotes
    }

    /// The lines outside of blocks of code.
    fn prose(&self) -> impl Iterator<Item = String> {
        let mut inside = false;
        self.text.lines().filter_map(move |line| {
            let fence = line.trim_start().starts_with("```");
            inside ^= fence;
            (!inside && !fence).then(|| line.to_owned())
        })
    }
}

/// A line of shell without the comment at its end.
fn uncommented(line: &str) -> String {
    let comment = line
        .find(" #")
        .filter(|_| !line.contains('\''))
        .unwrap_or(line.len());
    if line.starts_with('#') {
        String::new()
    } else {
        line[..comment].to_owned()
    }
}

/// Splits a line of prose at its backticks; links are in what is outside, and around what is inside.
fn quote_line(number: usize, line: &str, quotes: &mut Vec<(usize, Quote)>) {
    let mut rest = line;
    while let Some((_, after)) = rest.split_once("](") {
        let Some((target, after)) = after.split_once(')') else {
            break;
        };
        quotes.push((number, Quote::Link(target.to_owned())));
        rest = after;
    }
    for (index, part) in line.split('`').enumerate() {
        // A span that is not closed on its line is none.
        if index % 2 == 1 && line.matches('`').count() > index {
            quotes.push((number, Quote::Code(part.to_owned())));
        }
    }
}

/// What GitHub makes of a heading: small letters, hyphens for blanks, and nothing else but letters
/// and digits.
fn slug(heading: &str) -> String {
    let heading = heading.trim_start_matches('#').trim().to_lowercase();
    let kept = heading.chars().filter_map(|c| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    });
    kept.collect()
}
