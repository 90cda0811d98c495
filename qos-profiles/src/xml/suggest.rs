//! Suggestion of a similar name.
//!
//! Owns: the required similarity of two names. Never does: correct anything.

/// Longer names are compared by their first characters.
const LONGEST: usize = 64;

/// Returns the candidate most similar to a name; `None` if none is similar.
pub fn suggest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<String> {
    let name = plain(name);
    let (distance, best) = candidates
        .into_iter()
        .map(|candidate| (distance(&name, &plain(candidate)), candidate))
        .min_by_key(|(distance, _)| *distance)?;
    (distance <= (name.len() / 3).clamp(1, 4)).then(|| best.to_owned())
}

/// Removes case and separators, which do not count in comparisons.
fn plain(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|letter| !matches!(letter, '_' | '-' | ' '));
    letters.map(|letter| letter.to_ascii_lowercase()).take(LONGEST).collect()
}

/// Number of letters left out, added, replaced, or swapped with the next.
fn distance(a: &[char], b: &[char]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, letter) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(b.len() + 1);
        row.push(i + 1);
        for (j, other) in b.iter().enumerate() {
            let replaced = last[j] + usize::from(letter != other);
            let mut least = replaced.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *letter == b[j - 1] && a[i - 1] == *other {
                least = least.min(before[j - 1] + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::suggest;

    #[test]
    fn nearest_name_is_suggested_only_if_similar() {
        let names = ["reliability", "durability", "deadline", "history"];
        let meant = |name| suggest(name, names);
        assert_eq!(meant("relaibility").as_deref(), Some("reliability"));
        assert_eq!(meant("Durabilty").as_deref(), Some("durability"));
        assert_eq!(meant("dead_line").as_deref(), Some("deadline"));
        assert_eq!(meant("partition"), None);
        assert_eq!(suggest("kind", []), None);
        assert_eq!(suggest("", ["a"]).as_deref(), Some("a"));
    }

    /// One mistake per three letters is allowed, and at most four.
    #[test]
    fn suggestion_allows_one_mistake_per_three_letters_up_to_four() {
        let meant = |name| suggest(name, ["history"]).is_some();
        // Added letters at the start.
        assert!(meant("xxxhistory") && !meant("xxxxhistory"));
        assert!(suggest("xxxxhistories", ["histories"]).is_some());
        assert!(suggest("xxxxxhistories", ["histories"]).is_none());
        // Swapped letters.
        assert!(suggest("ihtsor", ["histor"]).is_some() && suggest("ihtsro", ["histor"]).is_none());
    }
}
