//! A paragraph of Markdown as HTML: code, strong words and links, which is all that the paragraphs
//! shown have.

use crate::bars::escape;

/// The paragraph, with its links seen from another folder: `prefix` leads to where the page lies.
pub(crate) fn html(text: &str, prefix: &str) -> String {
    let mut html = String::new();
    let mut rest = text;
    while let Some(at) = rest.find(['`', '*', '[']) {
        html.push_str(&escape(&rest[..at]));
        rest = &rest[at..];
        let (done, after) = code(rest)
            .or_else(|| strong(rest))
            .or_else(|| link(rest, prefix))
            // A character that means nothing by itself.
            .unwrap_or_else(|| (rest[..1].to_owned(), &rest[1..]));
        html.push_str(&done);
        rest = after;
    }
    html + &escape(rest)
}

fn code(text: &str) -> Option<(String, &str)> {
    let (code, after) = text.strip_prefix('`')?.split_once('`')?;
    Some((format!("<code>{}</code>", escape(code)), after))
}

fn strong(text: &str) -> Option<(String, &str)> {
    let (words, after) = text.strip_prefix("**")?.split_once("**")?;
    Some((format!("<strong>{}</strong>", escape(words)), after))
}

fn link<'a>(text: &'a str, prefix: &str) -> Option<(String, &'a str)> {
    let (words, after) = text.strip_prefix('[')?.split_once("](")?;
    let (target, after) = after.split_once(')')?;
    let link = format!(
        "<a href=\"{prefix}{}\">{}</a>",
        escape(target),
        escape(words)
    );
    Some((link, after))
}

#[cfg(test)]
mod tests {
    use super::html;

    #[test]
    fn code_strong_words_and_links_become_tags_and_the_rest_stays() {
        let text = "**Machine.** 2 * 3 < 7, `a --b <c>`; [the loops](../x.md#y) of `d`.";
        let expected = "<strong>Machine.</strong> 2 * 3 &lt; 7, <code>a --b &lt;c&gt;</code>; \
            <a href=\"../lab/../x.md#y\">the loops</a> of <code>d</code>.";
        assert_eq!(html(text, "../lab/"), expected);
    }

    #[test]
    fn what_does_not_end_is_text() {
        for text in ["`a", "**b", "[c](d", "[c]", ""] {
            assert_eq!(html(text, ""), text);
        }
    }
}
