//! Memory over time: whether it grows with the requests made.

use serde::Serialize;

use super::{judged, median, shown, sorted, table};

const MIB: f64 = 1024.0 * 1024.0;

/// Growth that still counts as flat: allocators and the kernel's count are not exact to the page.
const TARGET_MIB: f64 = 1.0;

/// One long run of one contestant.
#[derive(Debug, Serialize)]
pub(in crate::bench) struct Row {
    name: &'static str,
    requests: u64,
    quarter_mib: f64,
    end_mib: f64,
    /// The part of the growth that is in the tool around the process that makes the requests.
    tool_growth_mib: f64,
}

impl Row {
    /// Of the resident bytes of generator and tool at each look, which are equally far apart.
    pub(in crate::bench) fn new(name: &'static str, requests: u64, resident: &[(u64, u64)]) -> Self {
        let between = |from: f64, to: f64, of: fn(&(u64, u64)) -> u64| {
            let at = |share: f64| (share * resident.len() as f64).round() as usize;
            let looks = resident.get(at(from)..at(to)).unwrap_or_default();
            median(&sorted(looks.iter().map(|look| of(look) as f64 / MIB)))
        };
        let quarter = |of| between(0.2, 0.3, of);
        let end = |of| between(0.9, 1.0, of);
        Self {
            name,
            requests,
            quarter_mib: quarter(|(load, tool)| load + tool),
            end_mib: end(|(load, tool)| load + tool),
            tool_growth_mib: end(|(_, tool)| *tool) - quarter(|(_, tool)| *tool),
        }
    }

    fn growth_mib(&self) -> f64 {
        self.end_mib - self.quarter_mib
    }

    /// About: seven tenths of the run lie between the two looks, and its requests are taken as evenly made.
    fn bytes_a_request(&self) -> f64 {
        self.growth_mib() * MIB / (0.7 * self.requests as f64)
    }
}

pub(in crate::bench) fn markdown(rows: &[Row]) -> String {
    let head = [
        "",
        "requests",
        "MiB at a quarter",
        "MiB at the end",
        "growth",
        "of tool",
        "bytes a request",
        "target",
        "met",
    ];
    let cells = |row: &Row| {
        let ours = row.name.starts_with("loadtest");
        let mut cells = vec![
            shown(row.name),
            row.requests.to_string(),
            format!("{:.1}", row.quarter_mib),
            format!("{:.1}", row.end_mib),
            format!("{:+.1}", row.growth_mib()),
            if ours { format!("{:+.1}", row.tool_growth_mib) } else { "–".to_owned() },
            format!("{:.1}", row.bytes_a_request()),
        ];
        cells.extend(judged(ours.then(|| (TARGET_MIB, format!("≤ {TARGET_MIB:.0} MiB"))), row.growth_mib()));
        cells
    };
    table(&head.map(str::to_owned), &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Row, markdown};

    #[test]
    fn growth_is_from_a_quarter_to_the_end_and_neither_start_nor_a_spike_counts() {
        // From 10 MiB at a quarter to 17 at the end, 5 of it in the tool, after a start of nothing and with a spike in
        // either window.
        let (first, second) = ((9 << 20, 1 << 20), (11 << 20, 6 << 20));
        let mut resident: Vec<_> = (0..1000).map(|look| if look < 500 { first } else { second }).collect();
        resident[..100].fill((0, 0));
        resident[250] = (900 << 20, 0);
        resident[999] = (0, 900 << 20);
        let grows = Row::new("loadtest", 1_000_000, &resident);
        let flat = Row::new("oha", 1_000_000, &[(5 << 20, 0); 100]);
        let expected = "\
| | requests | MiB at a quarter | MiB at the end | growth | of tool | bytes a request | target | met |
|---|---|---|---|---|---|---|---|---|
| `loadtest` (the default: 500 traced iterations a second) | 1000000 | 10.0 | 17.0 | +7.0 | +5.0 | 10.5 | ≤ 1 MiB | no |
| `oha` | 1000000 | 5.0 | 5.0 | +0.0 | – | 0.0 | – | – |
";
        assert_eq!(markdown(&[grows, flat]), expected);
    }

    #[test]
    fn a_run_that_was_hardly_seen_has_no_figures_and_meets_no_target() {
        assert!(markdown(&[Row::new("loadtest", 1, &[(1, 0)])]).contains("| no |"));
    }
}
