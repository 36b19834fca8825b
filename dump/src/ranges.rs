//! Set operations on lists of address ranges, which are in ascending order and do not overlap.

use std::ops::Range;

type Runs = Vec<Range<u64>>;

/// The number of bytes in all ranges.
pub fn total_bytes(runs: &[Range<u64>]) -> u64 {
    runs.iter().map(|run| run.end - run.start).sum()
}

/// Adds a range that follows all others. It becomes one with the last if they touch.
pub fn push(runs: &mut Runs, run: Range<u64>) {
    match runs.last_mut() {
        Some(last) if last.end == run.start => last.end = run.end,
        _ => runs.push(run),
    }
}

/// The addresses in both lists. No range of the result extends beyond the end of a range of either list.
pub fn intersection(these: &[Range<u64>], those: &[Range<u64>]) -> Runs {
    let (mut here, mut there, mut out) = (0, 0, Runs::new());
    while let (Some(this), Some(that)) = (these.get(here), those.get(there)) {
        let both = this.start.max(that.start)..this.end.min(that.end);
        if !both.is_empty() {
            out.push(both);
        }
        match this.end <= that.end {
            true => here += 1,
            false => there += 1,
        }
    }
    out
}

/// The ranges that overlap `range`.
pub fn within<'a>(runs: &'a [Range<u64>], range: &Range<u64>) -> &'a [Range<u64>] {
    let first = runs.partition_point(|run| run.end <= range.start);
    let count = runs[first..].partition_point(|run| run.start < range.end);
    &runs[first..first + count]
}

/// The addresses in `these` that are not in `without`.
pub fn difference(these: &[Range<u64>], without: &[Range<u64>]) -> Runs {
    let mut out = Runs::new();
    let mut first = 0;
    for this in these {
        first += without[first..].partition_point(|hole| hole.end <= this.start);
        let mut from = this.start;
        for hole in without[first..]
            .iter()
            .take_while(|hole| hole.start < this.end)
        {
            if from < hole.start {
                out.push(from..hole.start);
            }
            from = from.max(hole.end);
        }
        if from < this.end {
            out.push(from..this.end);
        }
    }
    out
}

/// At most `most` ranges: the longest.
pub fn keep_longest(mut runs: Runs, most: usize) -> Runs {
    let mut shortest = ckpt_image::PAGE;
    while runs.len() > most {
        runs.retain(|run| run.end - run.start > shortest);
        shortest *= 2;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The runs of the bits that are set.
    fn of(bits: u32) -> Runs {
        let mut runs = Runs::new();
        for bit in (0..32).filter(|bit| bits >> bit & 1 != 0) {
            push(&mut runs, bit..bit + 1);
        }
        runs
    }

    fn bits(runs: &[Range<u64>]) -> u32 {
        let all = runs.iter().cloned().flatten();
        all.fold(0, |bits, bit| {
            assert_eq!(bits >> bit & 1, 0, "twice: {runs:?}");
            bits | 1 << bit
        })
    }

    #[test]
    fn sets_of_runs_are_sets() {
        let mut noise = 1_u32;
        let mut next = || {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            noise.rotate_left(11)
        };
        for _ in 0..20_000 {
            let (a, b) = (next(), next());
            assert_eq!(bits(&intersection(&of(a), &of(b))), a & b);
            assert_eq!(bits(&difference(&of(a), &of(b))), a & !b);
            assert_eq!(total_bytes(&of(a)), u64::from(a.count_ones()));
            let range = u64::from(b & 31)..u64::from(b >> 5 & 31);
            let all = of(a);
            let overlaps = |run: &&Range<u64>| run.start < range.end && range.start < run.end;
            let expected: Runs = all.iter().filter(overlaps).cloned().collect();
            assert!(range.is_empty() || within(&all, &range) == expected);
        }
    }

    #[test]
    fn the_shortest_go_first() {
        let page = ckpt_image::PAGE;
        let runs: Runs = (0..100)
            .map(|n| n * 200 * page..(n * 201 + 1) * page)
            .collect();
        let left = keep_longest(runs.clone(), 40);
        assert!((1..=40).contains(&left.len()), "{}", left.len());
        assert_eq!(left.last(), runs.last());
        assert_eq!(keep_longest(runs.clone(), 100), runs);
    }
}
