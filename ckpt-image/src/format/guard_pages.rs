//! The guard pages of an image (MADV_GUARD_INSTALL). The section *guard pages* holds them.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::region::Region;

/// Pages that a region covers and that the program may not access, whatever the region allows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GuardPages {
    /// First address, and one past the last, in ascending order.
    runs: Vec<Range<u64>>,
}

impl GuardPages {
    /// Guard pages in these runs, if there are any.
    pub fn of(runs: Vec<Range<u64>>) -> Option<GuardPages> {
        (!runs.is_empty()).then_some(GuardPages { runs })
    }

    /// Those of a region.
    pub fn in_region<'a>(&'a self, region: &'a Region) -> impl Iterator<Item = Range<u64>> + 'a {
        let inside = |run: &Range<u64>| run.start.max(region.start)..run.end.min(region.end());
        self.runs.iter().map(inside).filter(|run| !run.is_empty())
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Advice, Backing};

    #[test]
    fn a_region_has_the_parts_inside() {
        let region = Region {
            start: 0x4000,
            len: 0x4000,
            prot: 3,
            grows_down: false,
            no_reserve: false,
            advice: Advice::default(),
            backing: Backing::Anonymous,
        };
        let guards = GuardPages::of(vec![0x1000..0x2000, 0x3000..0x5000, 0x7000..0x8000]).unwrap();
        let inside: Vec<_> = guards.in_region(&region).collect();
        assert_eq!(inside, [0x4000..0x5000, 0x7000..0x8000]);
        assert_eq!(GuardPages::of(Vec::new()), None);
    }
}
