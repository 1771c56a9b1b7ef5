//! Rows of an attribution: the weighted shares of operations in a set of requests.

use std::collections::HashMap;

use super::attribute::{Reference, Request};
use super::bootstrap::{MAX_GROUPS, share_intervals};
use super::op::{LabelId, Operations};
use crate::model::id::TraceId;
use crate::model::summary::{Operation, millis};

/// Rows printed; smaller operations are summed in the row `(other)`.
const MAX_ROWS: usize = 50;

#[derive(Debug, Default, Clone, Copy)]
struct Sum {
    critical: f64,
    calls: f64,
}

/// The weighted mean duration in milliseconds.
pub(super) fn mean_ms(requests: &[&Request]) -> f64 {
    let weight: f64 = requests.iter().map(|request| request.weight).sum();
    let total: f64 = requests.iter().map(|request| request.weight * request.duration_ns as f64).sum();
    if weight > 0.0 { millis(total / weight) } else { 0.0 }
}

/// The operations by their share, and the mean duration that they sum to, in milliseconds.
///
/// Operations that differ in their path alone are one row: a row has no path to tell them apart by, and a union of
/// parts of a partition is a part.
pub(super) fn operations(
    requests: &[&Request],
    reference: &Reference,
    table: &Operations,
) -> (Vec<Operation>, f64) {
    let weight: f64 = requests.iter().map(|request| request.weight).sum();
    if weight <= 0.0 {
        return (Vec::new(), 0.0);
    }
    let rows = rank(requests, table);
    let row_of: HashMap<LabelId, usize> =
        rows.iter().enumerate().map(|(at, (label, _))| (*label, at)).collect();
    let row_of = |label| row_of.get(&label).copied().unwrap_or(rows.len() - 1);

    let intervals = share_intervals(&group(requests, rows.len(), |cost| row_of(table.label_of(cost))));
    // The mean is the sum of the rows, so that they cannot disagree.
    let total: f64 = rows.iter().map(|(_, sum)| sum.critical).sum();
    let means: Vec<f64> = rows.iter().map(|(_, sum)| sum.critical / weight).collect();
    let (micros, mean_micros) = round_to_sum(&means);
    let rounded = |share: f64| (share * 1e6).round() / 1e6;
    let operations = rows
        .iter()
        .zip(micros)
        .zip(intervals)
        .map(|(((label, sum), micros), [low, high])| {
            let name = table.label(*label);
            Operation {
                service: name.service.to_string(),
                operation: name.name.to_string(),
                kind: name.kind.as_str().to_owned(),
                critical_ms: micros as f64 / 1e3,
                share: if total > 0.0 { rounded(sum.critical / total) } else { 0.0 },
                share_ci95: [rounded(low), rounded(high)],
                calls: (sum.calls / weight * 1e3).round() / 1e3,
                unloaded_ms: reference.mean_ns(*label).map(millis),
            }
        })
        .collect();
    (operations, mean_micros as f64 / 1e3)
}

/// Weighted sums by label, the largest first; what has no row of its own is summed in the last one.
fn rank(requests: &[&Request], table: &Operations) -> Vec<(LabelId, Sum)> {
    let mut sums: HashMap<LabelId, Sum> = HashMap::new();
    for request in requests {
        for cost in &request.ops {
            let sum = sums.entry(table.label_of(cost.op)).or_default();
            sum.critical += request.weight * cost.critical_ns as f64;
            sum.calls += request.weight * f64::from(cost.calls);
        }
    }
    let mut rows: Vec<(LabelId, Sum)> = sums.into_iter().collect();
    rows.sort_by(|(a, a_sum), (b, b_sum)| {
        b_sum.critical.total_cmp(&a_sum.critical).then_with(|| table.label(*a).cmp(table.label(*b)))
    });
    if rows.len() > MAX_ROWS {
        let other = table.other_label();
        let (own, small) = {
            let known = rows.iter().position(|(label, _)| *label == other);
            let own = known.map_or_else(Sum::default, |at| rows.remove(at).1);
            (own, rows.split_off(MAX_ROWS - 1))
        };
        let sum = small.into_iter().fold(own, |all, (_, sum)| Sum {
            critical: all.critical + sum.critical,
            calls: all.calls + sum.calls,
        });
        rows.push((other, sum));
    }
    rows
}

/// For each iteration its weighted time by row, and its weighted total last; beyond a number, for groups of them.
fn group(requests: &[&Request], rows: usize, row_of: impl Fn(super::op::OpId) -> usize) -> Vec<Vec<f64>> {
    let mut traces: Vec<TraceId> = requests.iter().map(|request| request.trace).collect();
    traces.sort_unstable();
    traces.dedup();
    let groups = traces.len().min(MAX_GROUPS);
    // Trace ids are random: dealing them in their order is dealing at random.
    let group_of: HashMap<TraceId, usize> =
        traces.into_iter().enumerate().map(|(at, trace)| (trace, at % groups)).collect();
    let mut sums = vec![vec![0.0; rows + 1]; groups];
    for request in requests {
        let sum = &mut sums[group_of[&request.trace]];
        for cost in &request.ops {
            let time = request.weight * cost.critical_ns as f64;
            sum[row_of(cost.op)] += time;
            sum[rows] += time;
        }
    }
    sums
}

/// Rounds nanoseconds to microseconds such that the rounded parts sum to the rounded whole, by largest remainder.
fn round_to_sum(parts_ns: &[f64]) -> (Vec<u64>, u64) {
    let whole = (parts_ns.iter().sum::<f64>() / 1e3).round() as u64;
    let mut parts: Vec<u64> = parts_ns.iter().map(|ns| (ns / 1e3) as u64).collect();
    let missing = whole.saturating_sub(parts.iter().sum()) as usize;
    let mut by_remainder: Vec<usize> = (0..parts.len()).collect();
    by_remainder.sort_by(|a, b| {
        let remainder = |at: &usize| parts_ns[*at] / 1e3 - parts[*at] as f64;
        remainder(b).total_cmp(&remainder(a))
    });
    for at in by_remainder.into_iter().take(missing) {
        parts[at] += 1;
    }
    let sum = parts.iter().sum();
    (parts, sum)
}
