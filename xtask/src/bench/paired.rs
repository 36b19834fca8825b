//! Figures of two ways whose runs alternate within a round.
//!
//! The speed of a shared machine changes from round to round, and hardly within one. So the ratio is the median of the
//! ratios of single rounds, and a table shows the time that has this ratio to the median of the other way. The median
//! of all rounds, which may have another ratio, would contradict it.

use super::{median, range};

/// A figure in each round, in the way that is compared with and in the other one.
pub struct Paired {
    base: Vec<f64>,
    ours: Vec<f64>,
}

impl Paired {
    pub fn new(base: Vec<f64>, ours: Vec<f64>) -> Paired {
        Paired { base, ours }
    }

    /// Median of the way that is compared with.
    pub fn base(&self) -> f64 {
        median(self.base.clone())
    }

    /// Figure of the other way that has the ratio to the base.
    pub fn ours(&self) -> f64 {
        self.base() * self.ratio()
    }

    /// Median of the ratios of single rounds.
    pub fn ratio(&self) -> f64 {
        median(self.ratios())
    }

    /// Lowest, median and highest of these ratios.
    pub fn spread(&self) -> (f64, f64, f64) {
        range(&self.ratios())
    }

    /// Ratios of single rounds.
    pub fn ratios(&self) -> Vec<f64> {
        let rounds = self.base.iter().zip(&self.ours);
        rounds.map(|(base, ours)| ours / base).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::Paired;

    #[test]
    fn the_time_agrees_with_the_ratio() {
        // The machine was slower in two rounds of three, and in each the second way took a tenth more.
        let paired = Paired::new(vec![100.0, 300.0, 290.0], vec![110.0, 330.0, 319.0]);
        assert!((paired.ratio() - 1.1).abs() < 1e-9);
        assert!((paired.ours() - 319.0).abs() < 1e-9);
        // A median of its own may lie on the other side.
        let crossed = Paired::new(vec![100.0, 300.0, 200.0], vec![120.0, 150.0, 240.0]);
        assert!((crossed.ours() / crossed.base() - crossed.ratio()).abs() < 1e-9);
    }
}
