//! Comments as documentation.
//!
//! Owns the assignment of comments to definitions: a definition gets the comments on the lines
//! directly before it, a member also a comment after it on the same line. A comment followed by an
//! empty line belongs to no definition, so that a file's licence does not document its first type.

use crate::lexer::Comment;

use super::Parser;

/// Maximum number of documentation lines of one definition.
const MAX_LINES: usize = 400;

impl Parser<'_> {
    /// Returns the comment before the next token.
    pub(super) fn comments_before(&self) -> Vec<String> {
        let token = self.peek();
        let comments = &self.comments[token.comments.0 as usize..token.comments.1 as usize];
        let previous = self.next.checked_sub(1).map(|index| &self.tokens[index]);
        let previous = previous.filter(|previous| previous.span.file == token.span.file);
        let mut line = token.line;
        let mut found: Vec<&Comment> = Vec::new();
        for comment in comments.iter().rev() {
            let is_behind_previous = previous.is_some_and(|token| token.end_line == comment.line);
            if comment.end_line + 1 < line
                || comment.span.file != token.span.file
                || is_behind_previous
            {
                break;
            }
            line = comment.line;
            found.push(comment);
        }
        found.reverse();
        self.lines(&found)
    }

    /// Returns the comment after the construct just read, on the line where the construct ends.
    pub(super) fn comment_behind(&self) -> Vec<String> {
        let (Some(index), token) = (self.next.checked_sub(1), self.peek()) else {
            return Vec::new();
        };
        let previous = &self.tokens[index];
        if token.line == previous.end_line && token.span.file == previous.span.file {
            return Vec::new();
        }
        let comments = &self.comments[token.comments.0 as usize..token.comments.1 as usize];
        let mut line = previous.end_line;
        let mut found = Vec::new();
        for comment in comments {
            let is_here = comment.line == previous.end_line
                || !found.is_empty() && comment.line == line + 1 && self.continues(comment, &found);
            if comment.span.file != previous.span.file || !is_here {
                break;
            }
            line = comment.end_line;
            found.push(comment);
        }
        self.lines(&found)
    }

    /// Whether a comment on a line of its own stands below the previous one and continues it.
    fn continues(&self, comment: &Comment, found: &[&Comment]) -> bool {
        let column = |comment: &Comment| {
            let text = &self.sources.file(comment.span.file).text;
            let start = comment.span.start as usize;
            start - text[..start].rfind('\n').map_or(0, |newline| newline + 1)
        };
        let is_line = |comment: &Comment| comment.line == comment.end_line;
        found.last().is_some_and(|last| {
            is_line(last) && is_line(comment) && column(last) == column(comment)
        })
    }

    fn lines(&self, comments: &[&Comment]) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for comment in comments {
            let text = &self.sources.file(comment.span.file).text;
            let text = &text[comment.span.start as usize..comment.span.end as usize];
            match text.strip_prefix("//") {
                // An annotation documents nothing.
                Some(line) if line.starts_with('@') => {}
                Some(line) => {
                    let line = line.trim_start_matches('/');
                    let line = line.strip_prefix('!').unwrap_or(line);
                    let line = line.strip_prefix('<').unwrap_or(line);
                    lines.push(line.strip_prefix(' ').unwrap_or(line).trim_end().to_owned());
                }
                None => block(text, &mut lines),
            }
        }
        while lines.last().is_some_and(String::is_empty) {
            lines.pop();
        }
        let empty = lines.iter().take_while(|line| line.is_empty()).count();
        lines.drain(..empty);
        // A line of only strokes separates parts of a file and documents nothing.
        if lines.iter().all(|line| !line.contains(|c: char| c.is_alphanumeric())) {
            lines.clear();
        }
        lines.truncate(MAX_LINES);
        lines
    }
}

/// Reads the lines of a comment in `/* */`, without leading stars.
fn block(text: &str, lines: &mut Vec<String>) {
    let inside = text.trim_start_matches("/*").trim_end_matches("*/");
    let inside = inside.trim_start_matches(['*', '!']);
    let inside = inside.strip_prefix('<').unwrap_or(inside);
    let has_stars = inside.lines().skip(1).all(|line| {
        let line = line.trim_start();
        line.is_empty() || line.starts_with('*')
    });
    let margin = inside
        .lines()
        .skip(1)
        .filter(|line| !line.trim().is_empty())
        .map(|line| line.len() - line.trim_start_matches(' ').len())
        .min()
        .unwrap_or(0);
    for (index, line) in inside.lines().enumerate() {
        let line = if index == 0 {
            line.trim_start()
        } else if has_stars {
            let line = line.trim_start().trim_start_matches('*');
            line.strip_prefix(' ').unwrap_or(line)
        } else {
            line.get(margin..).unwrap_or_else(|| line.trim_start())
        };
        lines.push(line.trim_end().to_owned());
    }
    while lines.last().is_some_and(String::is_empty) {
        lines.pop();
    }
}
