//! Conversion of IDL comments to Rust documentation.
//!
//! Owns that the text of every comment is harmless in Rust: no accidental link, no list that clippy
//! would indent, and above all nothing that `cargo test` would run as an example.

/// Returns the comment as lines to write after `///`.
pub(super) fn lines(comment: &[String]) -> Vec<String> {
    let comment: Vec<&str> = {
        let first = comment.iter().position(|line| !line.trim().is_empty()).unwrap_or(0);
        let last = comment.iter().rposition(|line| !line.trim().is_empty());
        last.map_or_else(Vec::new, |last| {
            comment[first..=last].iter().map(|line| line.trim_end()).collect()
        })
    };
    if comment.iter().all(|line| is_plain(line)) {
        return comment.iter().map(|line| escaped(line)).collect();
    }
    // Lists, tables and pictures keep their layout.
    let mut lines = vec!["```text".to_owned()];
    lines.extend(comment.iter().map(|line| printable(line).replace("```", "'''")));
    lines.push("```".to_owned());
    lines
}

/// Whether a line is a sentence and not part of a list, a heading or a picture.
fn is_plain(line: &str) -> bool {
    let mut chars = line.chars();
    match chars.next() {
        None => true,
        Some(first) if first.is_alphabetic() => true,
        Some('(' | '[' | '"' | '<' | '\'' | '%') => true,
        // `1.` and `1)` begin a list.
        Some(first) if first.is_ascii_digit() => {
            let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
            !rest.starts_with(['.', ')'])
        }
        Some(_) => false,
    }
}

fn escaped(line: &str) -> String {
    let mut text = String::new();
    for (index, word) in printable(line).split(' ').enumerate() {
        if index > 0 {
            text.push(' ');
        }
        if word.starts_with("http://") || word.starts_with("https://") {
            let end = word.trim_end_matches([',', '.', ')', ';', ':']).len();
            let (link, behind) = word.split_at(end);
            if !link.contains(['<', '>', '[', ']', '`']) {
                text += &format!("<{link}>{behind}");
                continue;
            }
        }
        for c in word.chars() {
            if matches!(c, '[' | ']' | '<' | '>' | '`' | '*' | '_' | '\\' | '#' | '|' | '~') {
                text.push('\\');
            }
            text.push(c);
        }
    }
    // Text that resembles a name is more readable without escapes.
    text.replace("\\_", "_")
}

/// Removes tabs and characters that are not allowed in a line of Rust.
fn printable(line: &str) -> String {
    line.chars()
        .map(|c| match c {
            '\t' => "    ".to_owned(),
            c if c.is_control() || is_directional(c) => format!("\\u{{{:x}}}", u32::from(c)),
            c => c.to_string(),
        })
        .collect()
}

/// Whether a character changes the direction of text; rustc refuses such characters in comments.
pub(super) fn is_directional(c: char) -> bool {
    matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<String> {
        lines(&text.lines().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn doc_comment_keeps_sentences_and_escapes_markdown() {
        assert_eq!(of("In [m/s], see a_b."), ["In \\[m/s\\], see a_b."]);
        assert_eq!(of("See https://a.b/c."), ["See <https://a.b/c>."]);
        assert_eq!(of(""), [""; 0]);
    }

    #[test]
    fn doc_comment_keeps_formatted_text_in_code_block() {
        assert_eq!(
            of("Cases:\n- a\n    fn x();"),
            ["```text", "Cases:", "- a", "    fn x();", "```"]
        );
        assert_eq!(of("```\nx"), ["```text", "'''", "x", "```"]);
    }
}
