//! Set of all region names ever used, stored as intervals. Names are mostly consecutive, so a link
//! that opens regions all its life stores only a few numbers.

use std::collections::BTreeMap;

/// Set of numbers that only grows.
#[derive(Default)]
pub(crate) struct UsedNames {
    /// First name of each interval to its last.
    intervals: BTreeMap<u64, u64>,
}

impl UsedNames {
    /// Whether `name` was used.
    pub(crate) fn contains(&self, name: u64) -> bool {
        self.intervals.range(..=name).next_back().is_some_and(|(_, last)| name <= *last)
    }

    /// Marks `name` as used.
    pub(crate) fn insert(&mut self, name: u64) {
        if self.contains(name) {
            return;
        }
        let mut first = name;
        let mut last = name;
        if let Some((&before, &end)) = self.intervals.range(..name).next_back()
            && end.checked_add(1) == Some(name)
        {
            first = before;
        }
        if let Some(next) = name.checked_add(1)
            && let Some(end) = self.intervals.remove(&next)
        {
            last = end;
        }
        self.intervals.insert(first, last);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    #[test]
    fn consecutive_names_are_stored_as_one_interval() {
        let mut used = UsedNames::default();
        (0..1000).for_each(|name| used.insert(name));
        assert_eq!(used.intervals.len(), 1);
        used.insert(u64::MAX);
        assert!(used.contains(999) && used.contains(u64::MAX));
        assert!(!used.contains(1000));
    }

    proptest! {
        #[test]
        fn used_names_contain_exactly_inserted_names(names in prop::collection::vec(0_u64..50, 0..60)) {
            let mut used = UsedNames::default();
            let mut model = BTreeSet::new();
            for name in names {
                used.insert(name);
                model.insert(name);
                for probe in 0..50 {
                    prop_assert_eq!(used.contains(probe), model.contains(&probe));
                }
            }
        }
    }
}
