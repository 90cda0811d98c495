//! The experiments, by the sections of the papers.

pub(crate) mod counting;
pub(crate) mod detection;
pub(crate) mod routing;
pub(crate) mod spindle;
pub(crate) mod throughput;
pub(crate) mod views;

/// Whether two positive numbers differ by at most this factor.
fn within(a: f64, b: f64, factor: f64) -> bool {
    a / b <= factor && b / a <= factor
}
