//! How a run is going, in one line: a bar that is redrawn on a terminal, a plain line every ten seconds elsewhere.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::Style;
use crate::model::latency::Latency;
use crate::model::load::{LoadModel, Timing};
use crate::model::plan::ScenarioInfo;
use crate::model::stats::{Interval, Phase, StepKind};

/// Rate and percentile are those of so much time before now.
const WINDOW_MS: u64 = 10_000;
/// How often a line is printed where nothing can be redrawn.
const PLAIN_EVERY: Duration = Duration::from_secs(10);
const BAR_WIDTH: usize = 30;

/// The state of one scenario binary's load, from its intervals. Pure.
#[derive(Debug)]
pub(crate) struct Progress {
    scenarios: BTreeMap<String, ScenarioProgress>,
    elapsed: Duration,
    requests: u64,
    errors: u64,
    recent: VecDeque<Recent>,
}

#[derive(Debug)]
struct ScenarioProgress {
    load: LoadModel,
    timing: Timing,
    /// From when on it is measured, once it is.
    measured_from: Option<Duration>,
    vus: u32,
    /// That ended, or never will: interrupted and dropped ones are done with as well.
    iterations: u64,
}

/// One interval of the window.
#[derive(Debug)]
struct Recent {
    start_ms: u64,
    end_ms: u64,
    requests: u64,
    iterations: u64,
    request_latency: Latency,
    step_latency: Latency,
}

impl Progress {
    /// Nothing measured yet, of the scenarios of one binary.
    pub(crate) fn new(scenarios: &[ScenarioInfo]) -> Self {
        let scenarios = scenarios.iter().map(|info| {
            let (load, timing) = (info.load.clone(), info.timing.clone());
            let progress = ScenarioProgress { load, timing, measured_from: None, vus: 0, iterations: 0 };
            (info.name.clone(), progress)
        });
        Self {
            scenarios: scenarios.collect(),
            elapsed: Duration::ZERO,
            requests: 0,
            errors: 0,
            recent: VecDeque::new(),
        }
    }

    /// Takes an interval of the load; the reference phase is no progress, and the warm-up has no figures.
    pub(crate) fn update(&mut self, interval: &Interval) {
        if interval.phase != Phase::Reference {
            self.take_iterations(interval);
        }
        if interval.phase != Phase::Load {
            return;
        }
        self.elapsed = self.elapsed.max(Duration::from_millis(interval.end_ms));
        let mut recent = Recent {
            start_ms: interval.start_ms,
            end_ms: interval.end_ms,
            requests: 0,
            iterations: 0,
            request_latency: Latency::default(),
            step_latency: Latency::default(),
        };
        for (name, stats) in &interval.scenarios {
            if let Some(scenario) = self.scenarios.get_mut(name) {
                scenario.vus = stats.vus;
                let measured = stats.measured.map(|span| Duration::from_nanos(span.from_ns));
                scenario.measured_from = scenario.measured_from.or(measured);
            }
            recent.iterations += stats.iterations;
            for (key, step) in &stats.steps {
                match key.kind {
                    StepKind::Request => {
                        recent.requests += step.count;
                        self.errors += step.errors;
                        recent.request_latency.merge(&step.latency);
                    }
                    StepKind::Step => recent.step_latency.merge(&step.latency),
                }
            }
        }
        self.requests += recent.requests;
        self.recent.push_back(recent);
        let oldest = interval.end_ms.saturating_sub(WINDOW_MS);
        while self.recent.front().is_some_and(|recent| recent.start_ms < oldest) {
            self.recent.pop_front();
        }
    }

    fn take_iterations(&mut self, interval: &Interval) {
        for (name, stats) in &interval.scenarios {
            if let Some(scenario) = self.scenarios.get_mut(name) {
                scenario.iterations +=
                    stats.iterations + stats.interrupted_iterations + stats.dropped_iterations;
            }
        }
    }

    /// 0 to 1: as far as the scenario that is furthest from its end.
    pub(crate) fn fraction(&self) -> f64 {
        let fractions = self.scenarios.values().map(|scenario| {
            let running = scenario.begun().map_or(Duration::ZERO, |begun| self.elapsed.saturating_sub(begun));
            let by_time = part(running.as_secs_f64(), scenario.load.duration().as_secs_f64());
            let iterations = scenario.load.iterations();
            iterations.map_or(by_time, |all| part(scenario.iterations as f64, all as f64).max(by_time))
        });
        fractions.fold(1.0, f64::min)
    }

    /// ` 00:01:12  60%  20 VUs  15 req/s  p95 1.20 s  0 errors`
    pub(crate) fn line(&self) -> String {
        format!(" {}  {}", self.clock(), self.figures())
    }

    /// The same with a bar in it.
    pub(crate) fn bar_line(&self, style: Style) -> String {
        let done = ((self.fraction() * BAR_WIDTH as f64) as usize).min(BAR_WIDTH);
        let head = usize::from(done < BAR_WIDTH);
        let filled = format!("{}{}", "━".repeat(done), "╸".repeat(head));
        let rest = "━".repeat(BAR_WIDTH - done - head);
        // Without colours the two halves could not be told apart.
        let rest = if style == Style::Plain { " ".repeat(BAR_WIDTH - done - head) } else { style.dim(&rest) };
        format!(" {} {}{rest}  {}", self.clock(), style.green(&filled), self.figures())
    }

    fn clock(&self) -> String {
        let seconds = self.elapsed.as_secs();
        format!("{:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60)
    }

    fn figures(&self) -> String {
        let vus: u64 = self.scenarios.values().map(|scenario| u64::from(scenario.vus)).sum();
        let percent = self.fraction() * 100.0;
        let rate = self.rate();
        let mut latency = Latency::default();
        for recent in &self.recent {
            latency.merge(if self.requests > 0 { &recent.request_latency } else { &recent.step_latency });
        }
        let p95 = latency.percentile(95.0).map_or("-".to_owned(), |p95| {
            let sign = if p95.at_least { "≥" } else { "" };
            format!("{sign}{}", short(p95.nanos as f64 / 1e6))
        });
        let errors = self.errors;
        let unit = if errors == 1 { "error" } else { "errors" };
        format!("{percent:>3.0}%  {vus} VUs  {rate}  p95 {p95}  {errors} {unit}")
    }

    /// Requests a second; iterations a second where the scenario makes no requests of its own.
    fn rate(&self) -> String {
        let from = self.recent.front().map_or(0, |recent| recent.start_ms);
        let to = self.recent.back().map_or(0, |recent| recent.end_ms);
        let seconds = to.saturating_sub(from).max(1) as f64 / 1e3;
        let sum = |of: fn(&Recent) -> u64| self.recent.iter().map(of).sum::<u64>() as f64;
        let iterations: u64 = self.scenarios.values().map(|scenario| scenario.iterations).sum();
        let (count, unit) = if self.requests == 0 && iterations > 0 {
            (sum(|recent| recent.iterations), "iter/s")
        } else {
            (sum(|recent| recent.requests), "req/s")
        };
        let rate = count / seconds;
        if rate > 0.0 && rate < 10.0 { format!("{rate:.1} {unit}") } else { format!("{rate:.0} {unit}") }
    }
}

impl ScenarioProgress {
    /// When its load began, or will; `None` while another scenario has to end first.
    fn begun(&self) -> Option<Duration> {
        match &self.timing.start_after {
            None => Some(self.timing.start_time),
            Some(_) => self.measured_from.map(|from| from.saturating_sub(self.timing.warm_up)),
        }
    }
}

fn part(done: f64, all: f64) -> f64 {
    if all > 0.0 { (done / all).clamp(0.0, 1.0) } else { 1.0 }
}

/// A duration with three digits: `1.20 s`, `812 ms`, `9.80 ms`.
fn short(ms: f64) -> String {
    let (value, unit) = if ms >= 1e3 { (ms / 1e3, "s") } else { (ms, "ms") };
    match value {
        v if v >= 100.0 => format!("{v:.0} {unit}"),
        v if v >= 10.0 => format!("{v:.1} {unit}"),
        v => format!("{v:.2} {unit}"),
    }
}

/// Shows a [`Progress`] on stderr.
#[derive(Debug)]
pub(crate) enum Live {
    /// Redrawn in place.
    Terminal { bar: ProgressBar, style: Style },
    /// Lines that the caller prints, the next one when so much time of the load has passed.
    Lines { next: Duration },
}

impl Live {
    pub(crate) fn on_terminal(style: Style) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
        bar.set_style(ProgressStyle::with_template("{msg}").expect("the template is a constant that parses"));
        Self::Terminal { bar, style }
    }

    pub(crate) fn as_lines() -> Self {
        Self::Lines { next: PLAIN_EVERY }
    }

    /// Shows how things stand: redraws, or hands back the line that is due now.
    pub(crate) fn show(&mut self, progress: &Progress) -> Option<String> {
        match self {
            Self::Terminal { bar, style } => {
                bar.set_message(progress.bar_line(*style));
                None
            }
            Self::Lines { next } => {
                if progress.elapsed < *next {
                    return None;
                }
                while *next <= progress.elapsed {
                    *next += PLAIN_EVERY;
                }
                Some(progress.line())
            }
        }
    }

    /// Takes the bar away while `print` writes to the terminal.
    pub(crate) fn suspend<R>(&self, print: impl FnOnce() -> R) -> R {
        match self {
            Self::Terminal { bar, .. } => bar.suspend(print),
            Self::Lines { .. } => print(),
        }
    }

    /// Takes the bar away for good.
    pub(crate) fn finish(&self) {
        if let Self::Terminal { bar, .. } = self {
            bar.finish_and_clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::sample;
    use crate::model::stats::{ScenarioStats, Span, StepKey, StepStats};

    fn after(seconds: usize) -> Progress {
        let mut progress = Progress::new(&sample::infos());
        // The first is of the reference phase.
        sample::intervals().iter().take(1 + seconds).for_each(|interval| progress.update(interval));
        progress
    }

    #[test]
    fn the_line_says_time_share_users_rate_percentile_and_errors() {
        assert_eq!(after(0).line(), " 00:00:00    0%  0 VUs  0 req/s  p95 -  0 errors");
        assert_eq!(after(72).line(), " 00:01:12   60%  20 VUs  15 req/s  p95 1.23 s  0 errors");
        let line = after(120).line();
        assert!(line.starts_with(" 00:02:00  100%  20 VUs  15 req/s"), "{line}");
    }

    #[test]
    fn the_bar_is_as_full_as_the_load_is_done() {
        for (seconds, done) in [(0, 0), (60, 15), (72, 18), (120, 30)] {
            let line = after(seconds).bar_line(Style::Plain);
            assert_eq!(line.matches('━').count(), done, "{line}");
            assert_eq!(line.matches('╸').count(), usize::from(done < 30), "{line}");
        }
        let coloured = after(60).bar_line(Style::Colour);
        assert_eq!(crate::model::plain::plain(&coloured).matches(['━', '╸']).count(), 30);
    }

    fn interval(end_s: u64, ms: u64, count: u64, kind: StepKind) -> Interval {
        let mut step = StepStats { count, errors: 1, ..StepStats::default() };
        (0..count).for_each(|_| step.latency.record(Duration::from_millis(ms)));
        let key = StepKey { kind, name: "x".into() };
        let scenario =
            ScenarioStats { iterations: 3, vus: 2, steps: [(key, step)].into(), ..Default::default() };
        Interval {
            phase: Phase::Load,
            start_ms: (end_s - 1) * 1000,
            end_ms: end_s * 1000,
            scenarios: [(sample::SCENARIO.to_owned(), scenario)].into(),
        }
    }

    #[test]
    fn rate_and_percentile_forget_what_is_older_than_ten_seconds_and_errors_do_not() {
        let mut progress = Progress::new(&sample::infos());
        (1..=5).for_each(|second| progress.update(&interval(second, 900, 100, StepKind::Request)));
        (6..=15).for_each(|second| progress.update(&interval(second, 20, 4, StepKind::Request)));
        let line = progress.line();
        assert!(line.ends_with("  2 VUs  4.0 req/s  p95 20.0 ms  15 errors"), "{line}");
        assert_eq!(progress.recent.len(), 10);
    }

    #[test]
    fn without_requests_the_line_speaks_of_iterations_and_steps() {
        let mut progress = Progress::new(&sample::infos());
        progress.update(&interval(1, 5, 3, StepKind::Step));
        assert!(progress.line().contains("  3.0 iter/s  p95 5.00 ms"), "{}", progress.line());
    }

    #[test]
    fn an_iteration_model_is_as_far_as_its_iterations() {
        let mut infos = sample::infos();
        infos[0].load =
            LoadModel::SharedIterations { vus: 2, iterations: 6, max_duration: Duration::from_secs(600) };
        let mut progress = Progress::new(&infos);
        progress.update(&interval(1, 5, 3, StepKind::Request));
        assert!((progress.fraction() - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_scenario_is_as_far_as_its_own_time() {
        let mut infos = sample::infos();
        infos[0].load = LoadModel::ConstantVus { vus: 1, duration: Duration::from_secs(4) };
        infos[0].timing.start_time = Duration::from_secs(2);
        let at = |infos: &[ScenarioInfo], from: Option<u64>| {
            let mut progress = Progress::new(infos);
            let mut interval = interval(3, 5, 3, StepKind::Request);
            let stats = interval.scenarios.get_mut(sample::SCENARIO).unwrap();
            let span = |from| Span::new(Duration::from_secs(from), Duration::from_secs(9));
            stats.measured = from.and_then(span);
            progress.update(&interval);
            progress.fraction()
        };
        assert!((at(&infos, None) - 0.25).abs() < 1e-9);
        infos[0].timing.start_after = Some("other".into());
        infos[0].timing.warm_up = Duration::from_secs(1);
        assert!(at(&infos, None).abs() < 1e-9);
        assert!((at(&infos, Some(2)) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_plain_line_is_due_every_ten_seconds_of_load() {
        let mut live = Live::as_lines();
        let mut progress = Progress::new(&sample::infos());
        let mut lines = Vec::new();
        for interval in &sample::intervals() {
            progress.update(interval);
            lines.extend(live.show(&progress));
        }
        assert_eq!(lines.len(), 12);
        assert!(lines[0].starts_with(" 00:00:10 ") && lines[11].starts_with(" 00:02:00 "), "{lines:?}");
    }
}
