//! How sure shares are: percentile intervals by bootstrap over iterations.

/// Resamples drawn.
const RESAMPLES: usize = 500;

/// A fixed seed: the same run gives the same report.
const SEED: u64 = 0x10ad_7e57;

/// Iterations beyond this number are dealt into as many groups, and groups are drawn instead. The variance of a sum
/// over randomly dealt groups of equal size is that of the sum over their members, at a bounded cost.
pub(super) const MAX_GROUPS: usize = 1000;

/// 95% intervals of `Σ parts / Σ total` for each column of parts. `groups` holds for each iteration (or group of
/// iterations) its parts, and its total last. Of one iteration alone nothing is known: 0 to 1.
pub(super) fn share_intervals(groups: &[Vec<f64>]) -> Vec<[f64; 2]> {
    let columns = groups.first().map_or(0, |group| group.len().saturating_sub(1));
    if groups.len() < 2 {
        return vec![[0.0, 1.0]; columns];
    }
    let mut random = fastrand::Rng::with_seed(SEED);
    let mut shares = vec![Vec::with_capacity(RESAMPLES); columns];
    let mut sums = vec![0.0; columns + 1];
    for _ in 0..RESAMPLES {
        sums.fill(0.0);
        for _ in 0..groups.len() {
            for (sum, part) in sums.iter_mut().zip(&groups[random.usize(..groups.len())]) {
                *sum += part;
            }
        }
        let total = sums[columns];
        for (share, sum) in shares.iter_mut().zip(&sums) {
            share.push(if total > 0.0 { sum / total } else { 0.0 });
        }
    }
    shares
        .into_iter()
        .map(|mut share| {
            share.sort_unstable_by(f64::total_cmp);
            // Nearest rank: of 500, the 13th and the 488th.
            let at = |quantile: f64| share[(quantile * RESAMPLES as f64).ceil() as usize - 1];
            [at(0.025), at(0.975)]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_iterations_leave_no_doubt_and_one_alone_leaves_all() {
        assert_eq!(share_intervals(&vec![vec![3.0, 1.0, 4.0]; 40]), [[0.75, 0.75], [0.25, 0.25]]);
        assert_eq!(share_intervals(&[vec![3.0, 4.0]]), [[0.0, 1.0]]);
        assert!(share_intervals(&[]).is_empty());
    }

    #[test]
    fn the_interval_holds_the_true_share_about_as_often_as_it_says() {
        // Each iteration's share is 0.2 or 0.6 at even odds, its total 1: the true share is 0.4.
        let mut random = fastrand::Rng::with_seed(3);
        let held = (0..200).filter(|_| {
            let groups: Vec<_> = (0..100).map(|_| vec![if random.bool() { 0.6 } else { 0.2 }, 1.0]).collect();
            let [low, high] = share_intervals(&groups)[0];
            (low..=high).contains(&0.4)
        });
        let held = held.count();
        assert!((180..=199).contains(&held), "{held} of 200");
    }

    #[test]
    fn iterations_count_and_not_requests() {
        // Ten iterations of one share each; each twice as large changes nothing, twice as many narrows.
        let width = |groups: &[Vec<f64>]| {
            let [low, high] = share_intervals(groups)[0];
            high - low
        };
        let ten: Vec<_> = (0..10).map(|n| vec![f64::from(n % 2), 1.0]).collect();
        let doubled: Vec<_> = ten.iter().map(|group| vec![group[0] * 2.0, 2.0]).collect();
        let forty: Vec<_> = ten.iter().cycle().take(40).cloned().collect();
        assert!((width(&ten) - width(&doubled)).abs() < 1e-12);
        assert!(width(&forty) < width(&ten) * 0.7);
    }
}
