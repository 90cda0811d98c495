//! The machine and the commit of a measurement, without which a number is not meaningful.

use serde_json::{Value, json};

/// Returns the processor's name and the number of cores that this process may use.
pub(crate) fn machine() -> Value {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(':'))
        .map_or("unknown", |(_, name)| name.trim());
    json!({ "cpu": model, "cores": cores() })
}

/// Returns the number of cores that this process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Returns the commit that this command was built from.
pub(crate) fn commit() -> &'static str {
    option_env!("SQUALL_COMMIT").unwrap_or("unknown")
}

/// Returns the median of some values; zero if there are none.
pub(crate) fn median(values: impl IntoIterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.into_iter().collect();
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        n if n % 2 == 1 => values[n / 2],
        n => (values[n / 2 - 1] + values[n / 2]) / 2.0,
    }
}

/// Returns the lower quartile, the median and the upper quartile of some values.
pub(crate) fn quartiles(values: impl IntoIterator<Item = f64>) -> [f64; 3] {
    let mut sorted: Vec<f64> = values.into_iter().collect();
    sorted.sort_by(f64::total_cmp);
    let quarter = |part: usize| sorted.get(sorted.len() * part / 4).copied().unwrap_or_default();
    [quarter(1), median(sorted.iter().copied()), quarter(3)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn median_is_middle_value_or_mean_of_two_middle_values() {
        assert_eq!(median([3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median([4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median([]), 0.0);
    }

    #[test]
    fn quartiles_are_values_at_a_quarter_and_three_quarters() {
        assert_eq!(quartiles([4.0, 1.0, 3.0, 2.0]), [2.0, 2.5, 4.0]);
        assert_eq!(quartiles([7.0]), [7.0; 3]);
    }
}
