//! Lists of places of profiles.
//!
//! Owns: the meaning of a list of URIs, as in other products: `file://...;str://"<dds>...</dds>"`.
//! Never does: open a file.

use std::fmt;
use std::path::PathBuf;

/// Place of profiles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Location {
    /// A file, which must exist.
    File(PathBuf),
    /// A file, if it exists.
    FileIfThere(PathBuf),
    /// A text, with its name in errors.
    Text(String, String),
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::FileIfThere(path) if path.exists() => write!(f, "{}", path.display()),
            Self::FileIfThere(path) => {
                write!(f, "{} (missing in the working folder)", path.display())
            }
            Self::Text(name, _) => f.write_str(name),
        }
    }
}

/// Returns the places in a list; the error describes the mistake.
pub(super) fn locations(list: &str) -> Result<Vec<Location>, String> {
    let mut found = Vec::new();
    let mut texts = 0;
    let mut rest = list.trim_start();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(';') {
            rest = after.trim_start();
        } else if let Some(text) = rest.strip_prefix("str://") {
            let text = text.strip_prefix('"').ok_or("expected `\"` after `str://`")?;
            let end = end_of_text(text)
                .ok_or("the text of `str://\"` does not end with `\"` after an element")?;
            texts += 1;
            found.push(Location::Text(format!("str:{texts}"), text[..end].to_owned()));
            rest = text[end + 1..].trim_start();
        } else {
            let (location, after) = rest.split_once(';').unwrap_or((rest, ""));
            let location = location.trim_end();
            let path = location.strip_prefix("file://").unwrap_or(location);
            if let Some((scheme, _)) = path.split_once("://") {
                return Err(format!(
                    "`{scheme}://` is not supported; expected `file://` or `str://`"
                ));
            }
            if path.is_empty() {
                return Err("`file://` has no path behind it".to_owned());
            }
            found.push(Location::File(path.into()));
            rest = after.trim_start();
        }
    }
    Ok(found)
}

/// Finds the end of a text: a quotation mark after an element, followed by `;` or the end.
fn end_of_text(text: &str) -> Option<usize> {
    let ends = text.match_indices('"').map(|(at, _)| at);
    ends.into_iter().find(|at| {
        let (before, after) = (text[..*at].trim_end(), text[at + 1..].trim_start());
        before.ends_with('>') && (after.is_empty() || after.starts_with(';'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_list_is_split_into_locations() {
        let file = |path: &str| Location::File(path.into());
        let text = |number, text: &str| Location::Text(format!("str:{number}"), text.to_owned());
        assert_eq!(locations(""), Ok(vec![]));
        assert_eq!(locations(" ; "), Ok(vec![]));
        assert_eq!(locations("a.xml"), Ok(vec![file("a.xml")]));
        assert_eq!(
            locations("file:///etc/a b.xml ;file://b.xml;"),
            Ok(vec![file("/etc/a b.xml"), file("b.xml")])
        );
        assert_eq!(
            locations("str://\"<dds a=\"b\">c\";d</dds>\" ; a.xml; str://\"<e/>\""),
            Ok(vec![text(1, "<dds a=\"b\">c\";d</dds>"), file("a.xml"), text(2, "<e/>")])
        );
    }

    #[test]
    fn invalid_uri_list_is_rejected_with_reason() {
        let error = |list| locations(list).unwrap_err();
        assert_eq!(
            error("http://x/a.xml"),
            "`http://` is not supported; expected `file://` or `str://`"
        );
        assert_eq!(error("str://<dds/>"), "expected `\"` after `str://`");
        assert_eq!(error("file://"), "`file://` has no path behind it");
        assert_eq!(
            error("str://\"<dds/>"),
            "the text of `str://\"` does not end with `\"` after an element"
        );
    }
}
