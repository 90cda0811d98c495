//! The LIKE operator.

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

#[cfg(test)]
mod tests {
    use super::is_like;

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
