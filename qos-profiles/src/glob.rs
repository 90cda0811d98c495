//! Patterns for names, as in POSIX `fnmatch`.
//!
//! Owns: the meaning of a pattern, and the bound on matching time: at most proportional to pattern
//! length times name length. Never does: know what the names refer to.

use crate::PartitionQosPolicy;
use std::fmt;

/// A pattern for names: `*` is any text, `?` any character, `[a-c]` one of these, `[!a-c]` none of
/// these; a backslash makes the next character literal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Glob {
    text: Box<str>,
}

impl Glob {
    /// Parses a pattern; the error describes the mistake.
    pub fn new(text: &str) -> Result<Self, String> {
        let mut rest = text;
        while let Some((_, after)) = Piece::next(rest)? {
            rest = after;
        }
        Ok(Self { text: text.into() })
    }

    /// Returns the text of the pattern.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a text contains pattern characters and is not a plain name.
    pub fn is_pattern(text: &str) -> bool {
        text.contains(['*', '?', '[', '\\'])
    }

    /// Whether a name matches this pattern.
    pub fn matches(&self, name: &str) -> bool {
        let (mut pattern, mut name) = (&*self.text, name);
        // Position from which to retry if the text after the last `*` does not match; only the last
        // `*` needs it.
        let mut again: Option<(&str, &str)> = None;
        loop {
            let step = match Piece::next(pattern) {
                Ok(Some((Piece::Any, after))) => {
                    again = Some((after, name));
                    pattern = after;
                    continue;
                }
                Ok(Some((piece, after))) => {
                    let mut letters = name.chars();
                    letters
                        .next()
                        .filter(|letter| piece.takes(*letter))
                        .map(|_| (after, letters.as_str()))
                }
                Ok(None) if name.is_empty() => return true,
                Ok(None) | Err(_) => None,
            };
            if let Some(next) = step {
                (pattern, name) = next;
                continue;
            }
            let Some((after, skipped)) = again else { return false };
            let mut letters = skipped.chars();
            if letters.next().is_none() {
                return false;
            }
            again = Some((after, letters.as_str()));
            (pattern, name) = (after, letters.as_str());
        }
    }
}

impl fmt::Display for Glob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Elements of a pattern.
enum Piece<'a> {
    Any,
    One,
    Letter(char),
    /// Text between the brackets, and whether the class is negated.
    Class(&'a str, bool),
}

impl<'a> Piece<'a> {
    /// Returns the first element of a pattern, and the rest.
    fn next(pattern: &'a str) -> Result<Option<(Self, &'a str)>, String> {
        let mut letters = pattern.chars();
        let Some(first) = letters.next() else { return Ok(None) };
        let piece = match first {
            '*' => Piece::Any,
            '?' => Piece::One,
            '\\' => Piece::Letter(
                letters.next().ok_or("the backslash at the end of the pattern escapes nothing")?,
            ),
            '[' => {
                let inside = letters.as_str();
                let (inside, not) = match inside.strip_prefix(['!', '^']) {
                    Some(inside) => (inside, true),
                    None => (inside, false),
                };
                // A closing bracket in first position is a literal member of the class.
                let from = inside.chars().next().map_or(0, char::len_utf8);
                let end = inside[from..].find(']').map(|end| from + end);
                let end = end.ok_or("`[` has no `]`")?;
                let class = &inside[..end];
                for (low, high) in ranges(class) {
                    if low > high {
                        return Err(format!("the range `{low}-{high}` is empty"));
                    }
                }
                return Ok(Some((Piece::Class(class, not), &inside[end + 1..])));
            }
            letter => Piece::Letter(letter),
        };
        Ok(Some((piece, letters.as_str())))
    }

    fn takes(&self, letter: char) -> bool {
        match self {
            Piece::Any => false,
            Piece::One => true,
            Piece::Letter(own) => *own == letter,
            Piece::Class(class, not) => {
                ranges(class).any(|(low, high)| (low..=high).contains(&letter)) != *not
            }
        }
    }
}

/// Returns the characters of a class as ranges.
fn ranges(class: &str) -> impl Iterator<Item = (char, char)> {
    let mut letters = class.chars();
    std::iter::from_fn(move || {
        let low = letters.next()?;
        let mut ahead = letters.clone();
        match (ahead.next(), ahead.next()) {
            (Some('-'), Some(high)) => {
                letters = ahead;
                Some((low, high))
            }
            _ => Some((low, low)),
        }
    })
}

impl PartitionQosPolicy {
    /// Whether a publisher and a subscriber with these partitions match: they share a name, or a
    /// name of one matches a pattern of the other. Two patterns never match each other, and an
    /// invalid pattern counts as a name.
    pub fn meets(&self, other: &Self) -> bool {
        const DEFAULT: &[String] = &[String::new()];
        let (ours, theirs) = (
            if self.name.is_empty() { DEFAULT } else { &self.name },
            if other.name.is_empty() { DEFAULT } else { &other.name },
        );
        ours.iter().any(|ours| {
            theirs.iter().any(|theirs| match (pattern(ours), pattern(theirs)) {
                (None, None) => ours == theirs,
                (Some(pattern), None) => pattern.matches(theirs),
                (None, Some(pattern)) => pattern.matches(ours),
                (Some(_), Some(_)) => false,
            })
        })
    }
}

fn pattern(text: &str) -> Option<Glob> {
    if Glob::is_pattern(text) { Glob::new(text).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Glob::new(pattern).unwrap().matches(name)
    }

    #[test]
    fn glob_matches_like_posix() {
        for (pattern, yes, no) in [
            ("", "", "a"),
            ("a", "a", "b"),
            ("a*", "abc", "bac"),
            ("*c", "abc", "abcd"),
            ("a*b*c", "a1b2b3c", "a1c2b"),
            ("a?c", "abc", "ac"),
            ("[a-c]x", "bx", "dx"),
            ("[!a-c]x", "dx", "bx"),
            ("[^a]x", "bx", "ax"),
            ("[]a]", "]", "b"),
            ("[a-]", "-", "b"),
            ("\\*", "*", "a"),
            ("ä?", "äö", "ä"),
        ] {
            assert!(matches(pattern, yes), "{pattern} {yes}");
            assert!(!matches(pattern, no), "{pattern} {no}");
        }
        assert!(matches("*", "") && matches("*", "all"));
        let read = Glob::new("a*").unwrap();
        assert_eq!((read.as_str(), read.to_string().as_str()), ("a*", "a*"));
    }

    #[test]
    fn invalid_glob_is_rejected_with_reason() {
        let error = |text| Glob::new(text).unwrap_err();
        assert_eq!(error("a[b"), "`[` has no `]`");
        assert_eq!(error("[]"), "`[` has no `]`");
        assert_eq!(error("[z-a]"), "the range `z-a` is empty");
        assert_eq!(error("a\\"), "the backslash at the end of the pattern escapes nothing");
    }

    #[test]
    fn glob_matching_ends_quickly_for_hostile_pattern() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(&pattern, &"a".repeat(5000)));
    }

    #[test]
    fn partitions_match_by_name_or_pattern() {
        let meets = |ours: &[&str], theirs: &[&str]| {
            let of = |names: &[&str]| PartitionQosPolicy {
                name: names.iter().map(|name| (*name).to_owned()).collect(),
            };
            assert_eq!(of(ours).meets(&of(theirs)), of(theirs).meets(&of(ours)));
            of(ours).meets(&of(theirs))
        };
        assert!(meets(&[], &[]));
        assert!(meets(&[], &[""]));
        assert!(meets(&["a", "b"], &["c", "b"]));
        assert!(!meets(&["a"], &[]));
        assert!(meets(&["wing/*"], &["wing/left"]));
        assert!(meets(&["*"], &[]));
        assert!(!meets(&["a*"], &["a*"]));
    }
}
