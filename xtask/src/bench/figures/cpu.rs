//! CPU time per request.

use serde::Serialize;

use super::{Spread, judged, shown, table};

/// The contestants that the ratios are to.
const YARDSTICKS: [&str; 3] = ["wrk", "oha", "goose"];

/// What the ratio to oha shall not exceed.
const TARGETS: [(&str, f64); 3] =
    [("loadtest --trace off", 1.0), ("loadtest", 1.1), ("loadtest --trace all", 1.5)];

/// One run of one contestant.
#[derive(Debug, Clone, Copy)]
pub(in crate::bench) struct Sample {
    pub(in crate::bench) requests: u64,
    /// CPU seconds of the process that makes the requests.
    pub(in crate::bench) load: f64,
    /// CPU seconds of the tool around it; zero where there is none.
    pub(in crate::bench) tool: f64,
}

impl Sample {
    pub(in crate::bench) fn micros(&self) -> f64 {
        (self.load + self.tool) * 1e6 / self.requests as f64
    }

    fn tool_micros(&self) -> f64 {
        self.tool * 1e6 / self.requests as f64
    }
}

/// All runs of one contestant.
#[derive(Debug, Serialize)]
pub(in crate::bench) struct Row {
    name: &'static str,
    /// µs of CPU a request.
    micros: Spread,
    /// The part of it that the tool's own process has.
    tool_micros: Spread,
    requests: Spread,
    /// To each yardstick, of the runs in the same round.
    ratios: [Spread; 3],
}

/// Of the samples of each contestant, one a round.
pub(in crate::bench) fn rows(samples: &[(&'static str, Vec<Sample>)]) -> Vec<Row> {
    let yardstick = |name: &str| samples.iter().find(|(other, _)| *other == name).map(|(_, samples)| samples);
    let row = |(name, samples): &(&'static str, Vec<Sample>)| Row {
        name,
        micros: Spread::of(samples.iter().map(Sample::micros)),
        tool_micros: Spread::of(samples.iter().map(Sample::tool_micros)),
        requests: Spread::of(samples.iter().map(|sample| sample.requests as f64)),
        ratios: YARDSTICKS.map(|name| {
            let others = yardstick(name).into_iter().flatten();
            Spread::of(samples.iter().zip(others).map(|(own, other)| own.micros() / other.micros()))
        }),
    };
    samples.iter().map(row).collect()
}

pub(in crate::bench) fn markdown(rows: &[Row]) -> String {
    let mut head: Vec<String> = ["", "µs a request", "of tool", "requests a run"].map(str::to_owned).to_vec();
    head.extend(YARDSTICKS.map(|name| format!("× {name}")));
    head.extend(["target".to_owned(), "met".to_owned()]);
    let cells = |row: &Row| {
        let tool = if row.tool_micros.most > 0.0 {
            format!("{:.2}", row.tool_micros.median)
        } else {
            "–".to_owned()
        };
        let mut cells =
            vec![shown(row.name), row.micros.to_string(), tool, format!("{:.0}", row.requests.median)];
        cells.extend(row.ratios.map(|ratio| ratio.to_string()));
        let target = TARGETS.iter().find(|(name, _)| *name == row.name);
        let target = target.map(|(_, bound)| (*bound, format!("≤ {bound:.1} × oha")));
        cells.extend(judged(target, row.ratios[1].median));
        cells
    };
    table(&head, &rows.iter().map(cells).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::{Sample, markdown, rows};

    fn samples(micros: &[f64], tool: f64) -> Vec<Sample> {
        micros.iter().map(|total| Sample { requests: 1_000_000, load: total - tool, tool }).collect()
    }

    #[test]
    fn ratios_are_of_the_runs_in_the_same_round_and_judged_by_their_median() {
        let samples = [
            ("loadtest", samples(&[14.0, 12.0, 22.0], 1.0)),
            ("wrk", samples(&[4.0, 4.0, 4.0], 0.0)),
            ("oha", samples(&[10.0, 10.0, 20.0], 0.0)),
        ];
        // By rounds 1.4, 1.2 and 1.1; of the medians it would be 1.4.
        let expected = "\
| | µs a request | of tool | requests a run | × wrk | × oha | × goose | target | met |
|---|---|---|---|---|---|---|---|---|
| `loadtest` (the default: 500 traced iterations a second) | 14.00 (12.00 to 22.00) | 1.00 | 1000000 | 3.50 (3.00 to 5.50) | 1.20 (1.10 to 1.40) | – | ≤ 1.1 × oha | no |
| `wrk` | 4.00 | – | 1000000 | 1.00 | 0.40 (0.20 to 0.40) | – | – | – |
| `oha` | 10.00 (10.00 to 20.00) | – | 1000000 | 2.50 (2.50 to 5.00) | 1.00 | – | – | – |
";
        assert_eq!(markdown(&rows(&samples)), expected);
    }
}
