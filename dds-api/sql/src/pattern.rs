//! The operators LIKE and MATCH.

/// Whether a text matches a pattern, in which `%` stands for any text and `_` for any
/// one character.
///
/// Compares text and pattern from left to right, and returns to the last `%` where they
/// differ. The number of steps is at most the product of both lengths for any pattern, and
/// nothing is allocated.
pub(crate) fn is_like(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text.chars(), pattern.chars());
    // The pattern behind the last `%`, and the text that this `%` has not taken yet.
    let mut retry: Option<(std::str::Chars<'_>, std::str::Chars<'_>)> = None;
    loop {
        let (before, at) = (text.clone(), pattern.clone());
        match (text.next(), pattern.next()) {
            (_, Some('%')) => {
                text = before.clone();
                retry = Some((pattern.clone(), before));
                continue;
            }
            (None, None) => return true,
            (Some(_), Some('_')) => continue,
            (Some(found), Some(wanted)) if found == wanted => continue,
            (None, Some(_)) => return false,
            _ => drop((before, at)),
        }
        // The last `%` takes one more character.
        let Some((behind, mut left)) = retry.take() else { return false };
        if left.next().is_none() {
            return false;
        }
        (text, pattern) = (left.clone(), behind.clone());
        retry = Some((behind, left));
    }
}

/// Whether a text matches one of the patterns, which have commas between them. In a pattern, `*`
/// stands for any text, `?` for any one character, `[abx-z]` for one of these, `[!abc]` for one of
/// the others, and a backslash takes the meaning from the next character.
///
/// The number of steps is bounded as for [`is_like`].
pub(crate) fn is_match(text: &str, patterns: &str) -> bool {
    let mut rest = Some(patterns);
    while let Some(patterns) = rest {
        let (pattern, behind) = first_pattern(patterns);
        if is_one_match(text, pattern) {
            return true;
        }
        rest = behind;
    }
    false
}

/// Returns the part up to the first comma that separates patterns, and what follows it.
fn first_pattern(patterns: &str) -> (&str, Option<&str>) {
    let mut characters = patterns.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '\\' => drop(characters.next()),
            ',' => return (&patterns[..at], Some(&patterns[at + 1..])),
            _ => {}
        }
    }
    (patterns, None)
}

fn is_one_match(text: &str, pattern: &str) -> bool {
    let (mut text, mut pattern) = (text, pattern);
    // The pattern behind the last `*`, and the text that this `*` has not taken yet.
    let mut retry: Option<(&str, &str)> = None;
    loop {
        if let Some(behind) = pattern.strip_prefix('*') {
            (pattern, retry) = (behind, Some((behind, text)));
            continue;
        }
        let mut left = text.chars();
        match (left.next(), pattern.is_empty()) {
            (None, true) => return true,
            (Some(found), false) => {
                if let Some(behind) = one_character(found, pattern) {
                    (text, pattern) = (left.as_str(), behind);
                    continue;
                }
            }
            (None, false) => return false,
            (Some(_), true) => {}
        }
        // The last `*` takes one more character.
        let Some((behind, untaken)) = retry else { return false };
        let mut untaken = untaken.chars();
        if untaken.next().is_none() {
            return false;
        }
        (text, pattern) = (untaken.as_str(), behind);
        retry = Some((behind, text));
    }
}

/// Returns the pattern behind its first element, if the character matches this element.
fn one_character(found: char, pattern: &str) -> Option<&str> {
    let mut rest = pattern.chars();
    let is = match rest.next()? {
        '?' => true,
        '\\' => rest.next() == Some(found),
        '[' => {
            if let Some((set, behind)) = rest.as_str().split_once(']') {
                return is_in(found, set).then_some(behind);
            }
            found == '['
        }
        wanted => wanted == found,
    };
    is.then_some(rest.as_str())
}

/// Whether a character is in a set, as between brackets.
fn is_in(found: char, set: &str) -> bool {
    let (set, wanted) = match set.strip_prefix(['!', '^']) {
        Some(others) => (others, false),
        None => (set, true),
    };
    let mut rest = set.chars();
    while let Some(low) = rest.next() {
        let mut range = rest.clone();
        let high = match (range.next(), range.next()) {
            (Some('-'), Some(high)) => {
                rest = range;
                high
            }
            _ => low,
        };
        if (low..=high).contains(&found) {
            return wanted;
        }
    }
    !wanted
}

#[cfg(test)]
mod tests {
    use super::{is_like, is_match};

    #[test]
    fn match_knows_wildcards_sets_and_several_patterns() {
        for (text, patterns, is) in [
            ("", "", true),
            ("", "*", true),
            ("", "?", false),
            ("F-GABC", "F-*", true),
            ("F-GABC", "D-*,F-????", true),
            ("F-GABC", "D-*,F-???", false),
            ("mississippi", "m*iss*i", true),
            ("mississippi", "m*iss*s", false),
            ("ab", "a[a-c]", true),
            ("ad", "a[a-c]", false),
            ("ad", "a[!a-c]", true),
            ("a-", "a[x-]", true),
            ("a[", "a[", true),
            ("a*", "a\\*", true),
            ("ab", "a\\*", false),
            ("a,b", "a\\,b", true),
            ("100%", "1*%", true),
            ("höhe", "h?he", true),
            ("a", "a,", true),
            ("b", "a,", false),
        ] {
            assert_eq!(is_match(text, patterns), is, "{text} MATCH {patterns}");
        }
        let long = "a".repeat(5_000);
        assert!(!is_match(&long, &format!("{}b", "*a".repeat(50))), "in bounded time");
    }

    #[test]
    fn patterns() {
        for (text, pattern, is) in [
            ("", "", true),
            ("", "%", true),
            ("", "_", false),
            ("a", "_", true),
            ("ab", "_", false),
            ("F-GABC", "F-%", true),
            ("D-GABC", "F-%", false),
            ("F-GABC", "%ABC", true),
            ("F-GABCD", "%ABC", false),
            ("xABCABC", "%ABC", true),
            ("mississippi", "m%iss%i", true),
            ("mississippi", "m%iss%s", false),
            ("aXbXc", "a_b_c", true),
            ("höhe", "h_he", true),
            ("abc", "%%%", true),
            ("abc", "a%%c", true),
            ("abc", "abc%", true),
            ("abc", "%abcd", false),
        ] {
            assert_eq!(is_like(text, pattern), is, "{text} LIKE {pattern}");
        }
        let long = "a".repeat(5_000);
        assert!(!is_like(&long, &format!("{}b", "%a".repeat(50))), "in bounded time");
    }
}
