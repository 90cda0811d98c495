//! Sorting of numbers in constants.
//!
//! Owns an order of steps that the compiler's limit on constants allows for thousands of numbers.

/// Returns the numbers in ascending order.
pub(crate) const fn sorted<const N: usize>(mut all: [i64; N]) -> [i64; N] {
    if !is_ascending(&all) {
        sort(&mut all);
    }
    all
}

/// Whether each number is larger than the one before.
pub(crate) const fn is_ascending(all: &[i64]) -> bool {
    let mut index = 1;
    while index < all.len() {
        if all[index - 1] >= all[index] {
            return false;
        }
        index += 1;
    }
    true
}

/// Heap sort, which needs no memory and no trait.
const fn sort(all: &mut [i64]) {
    let mut root = all.len() / 2;
    while root > 0 {
        root -= 1;
        sift(all, root, all.len());
    }
    let mut end = all.len();
    while end > 1 {
        end -= 1;
        all.swap(0, end);
        sift(all, 0, end);
    }
}

/// Moves the number at the root down to its place in the heap.
const fn sift(all: &mut [i64], mut root: usize, end: usize) {
    loop {
        let mut child = 2 * root + 1;
        if child >= end {
            return;
        }
        if child + 1 < end && all[child] < all[child + 1] {
            child += 1;
        }
        if all[root] >= all[child] {
            return;
        }
        all.swap(root, child);
        root = child;
    }
}
