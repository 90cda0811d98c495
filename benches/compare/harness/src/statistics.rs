//! Medians, quartiles and ratios of pairs.

/// Lower quartile, median and upper quartile.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Quartiles {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// Returns the quartiles, interpolated between neighbours, or `None` for no values.
pub(crate) fn quartiles(values: &[f64]) -> Option<Quartiles> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let last = sorted.len().checked_sub(1)?;
    let at = |part: f64| {
        let position = part * last as f64;
        let (below, above) = (position.floor() as usize, position.ceil() as usize);
        sorted[below] + (sorted[above] - sorted[below]) * position.fract()
    };
    Some(Quartiles { low: at(0.25), median: at(0.5), high: at(0.75) })
}

/// Returns a figure with three significant digits and commas between thousands.
pub(crate) fn three_digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return "0".to_owned();
    }
    let magnitude = value.abs().log10().floor() as i32;
    let unit = 10f64.powi(magnitude - 2);
    let rounded = (value / unit).round() * unit;
    // Rounding may reach the next power of ten.
    let magnitude = rounded.abs().log10().floor() as i32;
    let decimals = usize::try_from((2 - magnitude).max(0)).unwrap_or(0);
    let text = format!("{rounded:.decimals$}");
    let (whole, fraction) = text.split_once('.').unwrap_or((&text, ""));
    let mut grouped = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    if fraction.is_empty() { grouped } else { format!("{grouped}.{fraction}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_are_interpolated() {
        assert_eq!(quartiles(&[]), None);
        assert_eq!(quartiles(&[7.0]), Some(Quartiles { low: 7.0, median: 7.0, high: 7.0 }));
        let of_four = quartiles(&[4.0, 1.0, 3.0, 2.0]);
        assert_eq!(of_four, Some(Quartiles { low: 1.75, median: 2.5, high: 3.25 }));
    }

    #[test]
    fn figures_have_three_digits_and_commas() {
        let cases = [
            (0.0, "0"),
            (0.02345, "0.0234"),
            (0.999_9, "1.00"),
            (1.0, "1.00"),
            (12.34, "12.3"),
            (999.6, "1,000"),
            (1234.0, "1,230"),
            (34_567_890.0, "34,600,000"),
        ];
        for (value, text) in cases {
            assert_eq!(three_digits(value), text);
        }
    }
}
