//! "where the time goes": the attribution of each step as text.

use std::fmt::Write as _;

use super::Style;
use crate::model::plain::plain;
use crate::model::summary::{Attribution, Band, Health, Operation, Summary};
use crate::model::table::{Labels, ms};

/// Operations below this share are folded into one row.
const FOLD_BELOW: f64 = 0.005;
/// From this ratio of loaded to unloaded time on, the row says so.
const SLOWED_FROM: f64 = 1.5;
/// A service whose threads waited as long for a CPU as they had one is waiting for CPU.
const WAITING_FROM: f64 = 1.0;
/// How the analysis calls rows that are no span's.
const PSEUDO: &str = "pseudo";

/// The section, or nothing where no iteration was considered for tracing.
pub(super) fn section(summary: &Summary, style: Style) -> String {
    let trace = &summary.run.trace;
    if trace.iterations_seen == 0 && summary.attribution.is_empty() {
        return String::new();
    }
    if trace.requests_traced > 0 && nothing_of_services(summary) {
        let title = style.bold("where the time goes");
        return format!("\n{title}   unknown: no service sent spans; see the warnings\n");
    }
    let mut out = format!(
        "\n{}   ({} of {} iterations traced, {} of {} requests joined with their server spans)\n",
        style.bold("where the time goes"),
        trace.iterations_traced,
        trace.iterations_seen,
        trace.requests_joined,
        trace.requests_traced,
    );
    for (reason, count) in &trace.not_joined {
        let _ = writeln!(out, "  not joined: {count} {} ({})", requests(*count), plain(reason));
    }
    let labels = Labels::of(summary);
    for bands in by_step(&summary.attribution) {
        step(&mut out, &bands, labels, &summary.health, style);
    }
    out
}

/// Whether there is nothing to tell but that requests took as long as they took.
fn nothing_of_services(summary: &Summary) -> bool {
    let operations = summary.attribution.iter().flat_map(|one| &one.operations);
    summary.run.trace.requests_joined == 0 && operations.into_iter().all(|operation| operation.kind == PSEUDO)
}

/// The bands of each step, in the order of the summary.
fn by_step(all: &[Attribution]) -> Vec<Vec<&Attribution>> {
    let key = |one: &Attribution| (one.package.clone(), one.scenario.clone(), one.kind, one.step.clone());
    let mut steps: Vec<Vec<&Attribution>> = Vec::new();
    for one in all {
        match steps.iter_mut().find(|bands| bands.first().is_some_and(|first| key(first) == key(one))) {
            Some(bands) => bands.push(one),
            None => steps.push(vec![one]),
        }
    }
    steps
}

fn step(out: &mut String, bands: &[&Attribution], labels: Labels, health: &Health, style: Style) {
    let band = |wanted| bands.iter().copied().find(|one| one.band == wanted);
    let average = band(Band::All);
    let Some(tail) = band(Band::P95).or_else(|| band(Band::SlowerHalf)).or(average) else { return };
    let name = labels.label(&tail.package, &tail.scenario, &tail.step);
    let which = match tail.band {
        Band::P95 => "around p95",
        Band::SlowerHalf => "the slower half",
        Band::All => "all",
    };
    let [from, to] = tail.band_ms.map(coarse);
    let n = tail.requests_in_band;
    let _ = writeln!(
        out,
        "  {}   {which}: {n} {} of {from} to {to} ms, mean {} ms",
        style.bold(&name),
        requests(n),
        ms(Some(tail.mean_ms))
    );
    if tail.operations.is_empty() {
        let _ = writeln!(out, "    too few for shares: {} {} traced", tail.requests, requests(tail.requests));
    } else {
        out.push_str(&table(&tail.operations, health));
    }
    if let Some(average) = average.filter(|average| average.band != tail.band)
        && let Some(top) = average.operations.iter().max_by(|a, b| a.critical_ms.total_cmp(&b.critical_ms))
    {
        let n = average.requests_in_band;
        let (operation, share) = (plain(&top.operation), percent(top.share));
        let _ = writeln!(out, "    on average ({n} {}): {operation} {share}", requests(n));
    }
    let shown = if tail.operations.is_empty() { 3 } else { 1 };
    for slow in slowest(bands).iter().take(shown) {
        let _ = writeln!(out, "  slowest: {} ms  trace {}", ms(Some(slow.0)), plain(slow.1));
    }
}

/// The slowest traces of a step, whichever band names them.
fn slowest<'a>(bands: &[&'a Attribution]) -> Vec<(f64, &'a str)> {
    let mut all: Vec<_> = bands
        .iter()
        .flat_map(|band| &band.slowest)
        .map(|slow| (slow.duration_ms, slow.trace_id.as_str()))
        .collect();
    all.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    all.dedup();
    all
}

struct Row {
    service: String,
    operation: String,
    critical_ms: f64,
    share: f64,
    unloaded_ms: Option<f64>,
    hint: String,
}

/// The rows sum to the band's mean: what is too small to show is folded, not left out.
fn table(operations: &[Operation], health: &Health) -> String {
    let (mut shown, folded): (Vec<_>, Vec<_>) =
        operations.iter().partition(|operation| operation.share >= FOLD_BELOW);
    let mut rest = None;
    match folded.as_slice() {
        [] => {}
        [one] => shown.push(*one),
        several => rest = Some(others(several)),
    }
    shown.sort_by(|a, b| b.critical_ms.total_cmp(&a.critical_ms));
    let rows: Vec<Row> = shown.into_iter().map(|operation| row(operation, health)).chain(rest).collect();
    let widest = |of: fn(&Row) -> &str, least: usize| {
        rows.iter().map(|row| of(row).chars().count()).fold(least, usize::max)
    };
    let service_width = widest(|row| &row.service, "service".len());
    let operation_width = widest(|row| &row.operation, 22);
    let mut out = format!(
        "    {:service_width$}   {:operation_width$}   {:>12}   {:>5}   {:>12}\n",
        "service", "operation", "critical(ms)", "share", "unloaded(ms)"
    );
    for Row { service, operation, critical_ms, share, unloaded_ms, hint } in &rows {
        let (critical, share, unloaded) = (ms(Some(*critical_ms)), percent(*share), ms(*unloaded_ms));
        let line = format!(
            "    {service:service_width$}   {operation:operation_width$}   {critical:>12}   {share:>5}   {unloaded:>12}   {hint}"
        );
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

fn row(operation: &Operation, health: &Health) -> Row {
    Row {
        service: plain(&operation.service),
        operation: plain(&operation.operation),
        critical_ms: operation.critical_ms,
        share: operation.share,
        unloaded_ms: operation.unloaded_ms,
        hint: hint(operation, health),
    }
}

fn others(operations: &[&Operation]) -> Row {
    Row {
        service: "-".to_owned(),
        operation: format!("others ({})", operations.len()),
        critical_ms: operations.iter().map(|operation| operation.critical_ms).sum(),
        share: operations.iter().map(|operation| operation.share).sum(),
        unloaded_ms: operations.iter().map(|operation| operation.unloaded_ms).sum(),
        hint: String::new(),
    }
}

/// `×9, waiting for CPU`
fn hint(operation: &Operation, health: &Health) -> String {
    let Some(unloaded) = operation.unloaded_ms.filter(|unloaded| *unloaded > 0.0) else {
        return String::new();
    };
    let slowed = operation.critical_ms / unloaded;
    if operation.kind == PSEUDO || slowed < SLOWED_FROM {
        return String::new();
    }
    let times = if slowed < 5.0 { format!("×{slowed:.1}") } else { format!("×{slowed:.0}") };
    if waits_for_cpu(&operation.service, health) { format!("{times}, waiting for CPU") } else { times }
}

fn waits_for_cpu(service: &str, health: &Health) -> bool {
    let mut own = health.processes.iter().filter(|process| process.name == service);
    own.any(|process| process.runqueue_wait_ratio.is_some_and(|ratio| ratio >= WAITING_FROM))
}

/// Milliseconds of a range: whole ones from ten on.
fn coarse(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { ms(Some(value)) }
}

fn percent(share: f64) -> String {
    format!("{:.0}%", share * 100.0)
}

fn requests(count: u64) -> &'static str {
    if count == 1 { "request" } else { "requests" }
}
