//! Thresholds: `metric{tag:value,…}` and `aggregation operator number[unit]`, read before a run, judged while it goes on and
//! after it.

mod condition;
mod judge;
mod metric;
mod selection;

use std::fmt;

use self::condition::Condition;
use self::selection::Selection;
use super::plan::{Declared, ScenarioInfo, ThresholdText};
use super::tags::{BuiltIn, Selector};

/// A threshold that was read and makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold {
    text: ThresholdText,
    selection: Selection,
    condition: Condition,
    /// The number of the series that its samples make, where the rows do not have them.
    series: Option<u32>,
}

/// What a threshold found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) observed: Option<f64>,
    pub(crate) passed: bool,
    pub(crate) text: String,
}

/// Of what samples a series is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Samples {
    Requests,
    Steps,
    Iterations,
    Checks,
    /// The author's metric of this name.
    Metric(String),
}

/// Samples that a threshold asks for by tags that no row has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeriesOf {
    pub(crate) number: u32,
    pub(crate) samples: Samples,
    pub(crate) selector: Selector,
}

/// Whether a metric of the tool's own has this name.
pub(crate) fn is_built_in(name: &str) -> bool {
    metric::METRICS.iter().any(|(known, _)| *known == name)
}

impl Threshold {
    /// Reads one of a scenario's thresholds. The error says what is wrong and names the nearest thing that would be right.
    pub(crate) fn parse(text: &ThresholdText, scenario: &str, declared: &Declared) -> Result<Self, String> {
        let selection = Selection::parse(&text.metric, scenario, declared)?;
        let condition = Condition::parse(&text.expression, selection.metric.name(), selection.metric.kind())?;
        Ok(Self { text: text.clone(), selection, condition, series: None })
    }

    /// Reads all thresholds of a scenario, and numbers the series that they need: both halves come to the same numbers.
    pub(crate) fn of(info: &ScenarioInfo) -> Vec<Result<Self, String>> {
        let mut known: Vec<(Samples, Selector)> = Vec::new();
        let mut numbered = |mut threshold: Self| {
            if !threshold.selection.is_of_rows() {
                let series = (threshold.selection.samples(), threshold.selection.selector.clone());
                let number = known.iter().position(|other| *other == series).unwrap_or(known.len());
                if number == known.len() {
                    known.push(series);
                }
                threshold.series = Some(number as u32);
            }
            threshold
        };
        let parse = |text| Self::parse(text, &info.name, &info.declared);
        info.thresholds.iter().map(parse).map(|threshold| threshold.map(&mut numbered)).collect()
    }

    /// As its author wrote it.
    pub(crate) fn text(&self) -> &ThresholdText {
        &self.text
    }

    /// The step or check that it names, and of what samples.
    pub(crate) fn names(&self) -> Option<(Samples, &str)> {
        let value = |tag| self.selection.selector.value(tag);
        let name = value(BuiltIn::Step).or_else(|| value(BuiltIn::Check))?;
        Some((self.selection.samples(), name))
    }

    /// The series that has to be recorded for it.
    pub(crate) fn series_of(&self) -> Option<SeriesOf> {
        self.series.map(|number| SeriesOf {
            number,
            samples: self.selection.samples(),
            selector: self.selection.selector.clone(),
        })
    }
}

/// In one line: `http_reqs{status:200} count>10`.
impl fmt::Display for Threshold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.selection, self.condition)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::custom::{MetricKind, MetricSample};
    use super::super::sample;
    use super::super::stats::{CheckStats, ScenarioStats, Series, StepKey, StepKind, StepStats};
    use super::*;
    use crate::model::phases::{HttpPhase, PhaseTimes};

    fn declared() -> Declared {
        let metrics = [
            ("orders", MetricKind::Counter),
            ("queue", MetricKind::Gauge),
            ("hits", MetricKind::Rate),
            ("render", MetricKind::Trend),
        ];
        Declared {
            metrics: metrics.map(|(name, kind)| (name.to_owned(), kind)).into(),
            tags: ["tier".to_owned()].into(),
            flows: ["browse".to_owned(), "buy".to_owned()].into(),
        }
    }

    /// A scenario `s` with these thresholds.
    fn info(thresholds: &[(&str, &str)]) -> ScenarioInfo {
        let text = |(metric, expression): &(&str, &str)| ThresholdText {
            metric: (*metric).to_owned(),
            expression: (*expression).to_owned(),
            ..ThresholdText::default()
        };
        ScenarioInfo {
            name: "s".to_owned(),
            thresholds: thresholds.iter().map(text).collect(),
            declared: declared(),
            ..sample::infos().remove(0)
        }
    }

    fn parse(metric: &str, expression: &str) -> Result<Threshold, String> {
        Threshold::of(&info(&[(metric, expression)])).remove(0)
    }

    fn stats() -> ScenarioStats {
        let mut stats = ScenarioStats {
            iterations: 10,
            failed_iterations: 2,
            vus: 2,
            vus_max: 5,
            ..ScenarioStats::default()
        };
        for (name, ms) in [("GET /users/{id}", 10), ("POST /a,b", 1000)] {
            let mut step = StepStats { count: 100, failed: 5, ..StepStats::default() };
            let mut phases = PhaseTimes::default();
            phases.set(HttpPhase::Waiting, Duration::from_millis(ms));
            (0..99).for_each(|_| step.respond(Duration::from_millis(ms), &phases));
            phases.set(HttpPhase::Connecting, Duration::from_millis(8));
            step.respond(Duration::from_millis(ms + 8), &phases);
            stats.steps.insert(StepKey { kind: StepKind::Request, name: name.into() }, step);
        }
        stats.checks.insert("ok".into(), CheckStats { passes: 9, fails: 1 });
        stats
    }

    #[test]
    fn thresholds_are_judged_over_the_whole_run() {
        for (metric, expression, passed, text) in [
            ("http_req_duration", "p(95)<600ms", false, "p(95)=1000.0ms"),
            ("http_req_duration", "p(95)<1500", true, "p(95)=1000.0ms"),
            ("http_req_duration", "p(95)<1.5s", true, "p(95)=1000.0ms"),
            (r#"http_req_duration{step:"GET /users/{id}"}"#, "max<=11ms", true, "max=10.0ms"),
            (r#"http_req_duration{step:"POST /a,b"}"#, "med>999ms", true, "p(50)=1000.0ms"),
            (r#"http_req_duration{step:"GET /none"}"#, "max<11ms", false, "no samples"),
            ("http_req_duration", "avg==505", true, "avg=505.0ms"),
            ("http_req_total", "avg<=505.08", true, "avg=505.1ms"),
            (r#"http_req_total{step:"GET /users/{id}"}"#, "max<=11ms", false, "max=18.0ms"),
            (r#"http_req_waiting{step:"POST /a,b"}"#, "min==1s", true, "min=1000.0ms"),
            ("http_req_connecting", "p(99)<1ms", true, "p(99)=0.0ms"),
            ("http_req_connecting", "max<1ms", false, "max=8.0ms"),
            ("http_req_connecting", "avg==80us", true, "avg=0.1ms"),
            ("http_req_dns", "max<=0", true, "max=0.0ms"),
            (r#"http_req_dns{step:"GET /none"}"#, "max<=0", false, "no samples"),
            ("http_req_retries", "count<1", true, "count=0"),
            ("http_req_failed", "rate<0.01", false, "rate=0.0500 (10 of 200)"),
            ("http_reqs", "count>=200", true, "count=200"),
            ("http_reqs", "rate>20", false, "rate=20.00/s (200 in 10.0s)"),
            ("iterations", "count!=10", false, "count=10"),
            ("iteration_failed", "rate<0.5", true, "rate=0.2000 (2 of 10)"),
            ("checks", "rate>0.8", true, "rate=0.9000 (9 of 10)"),
            ("checks{check:ok}", "rate>0.95", false, "rate=0.9000 (9 of 10)"),
            ("vus_max", "value==5", true, "value=5"),
        ] {
            let threshold = parse(metric, expression).unwrap();
            let judgement = threshold.judge(&stats(), 10.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{metric}: {expression}");
        }
    }

    #[test]
    fn what_cannot_be_judged_is_refused_with_the_way_out() {
        for (metric, expression, words) in [
            ("http_req_durations", "p(95)<1s", "did you mean `http_req_duration`?"),
            ("nonsense", "p(95)<1s", "there are http_reqs, "),
            ("http_req_duration", "rate<1", "it has avg, min, med, max, p(N)"),
            ("http_reqs", "p(95)<1s", "it has count, rate"),
            ("http_req_duration", "p(101)<1s", "within 0 to 100"),
            ("http_req_duration", "p(95)<fast", "`fast` is not a duration"),
            ("http_req_failed", "rate<1%", "not a number"),
            ("http_req_duration", "p(95)", "no comparison"),
            ("http_req_duration", "p95<1s", "did you mean `p(95)`?"),
            ("http_req_duration{step:GET /}", "p(95)<1s", "quote the value"),
            ("http_req_duration{stage:\"x\"}", "p(95)<1s", "no tag `stage`; there are step, method"),
            ("http_req_duration{step:\"x}", "p(95)<1s", "no closing quote"),
            ("http_req_duration{step:x", "p(95)<1s", "no closing `}`"),
            ("iterations{step:x}", "count>1", "no tag `step`"),
            ("orderz", "count>1", "did you mean `orders`?"),
            ("orders", "p(95)<1s", "it has count, rate"),
            ("render{teir:x}", "max<1", "did you mean `tier`?"),
            ("http_reqs{flow:bye}", "count>1", "the mix `s` has no flow `bye`; did you mean `buy`?"),
            (
                "vus{flow:buy}",
                "value>1",
                "no tag `flow`; there are scenario; only the flows of a mix have it",
            ),
            ("http_reqs{size:x}", "count>1", ".declare_tag(\"size\")"),
            ("vus{tier:x}", "value>1", "no tag `tier`"),
            ("checks{status:200}", "rate>1", "no tag `status`"),
            ("http_reqs{status:ok}", "count>1", "`ok` is no status"),
            ("http_reqs{expected_response:yes}", "count>1", "true or false, not `yes`"),
            ("http_reqs{scenario:other}", "count>1", "threshold of scenario `s`"),
            ("http_reqs{step:a,step:b}", "count>1", "names the tag `step` twice"),
        ] {
            let error = parse(metric, expression).unwrap_err();
            assert!(error.contains(words), "{metric}: {expression}: {error}");
        }
    }

    #[test]
    fn a_threshold_that_a_cut_off_request_could_break_fails() {
        let mut stats = ScenarioStats::default();
        let step = stats.steps.entry(StepKey { kind: StepKind::Request, name: "GET /".into() }).or_default();
        (0..10).for_each(|_| step.duration.record(Duration::from_millis(10)));
        step.duration.record_censored(Duration::from_millis(1));
        for (expression, passed, text) in [
            ("p(95)<100ms", false, "p(95)≥10.0ms"),
            ("p(50)<100ms", true, "p(50)=10.0ms"),
            ("p(95)>5ms", true, "p(95)≥10.0ms"),
            ("max<100ms", false, "max≥10.0ms"),
            // 101 ms by 11, if the one that was cut off ended there and then.
            ("avg<1h", false, "avg≥9.2ms"),
            ("avg<=1h", false, "avg≥9.2ms"),
            ("avg>9ms", true, "avg≥9.2ms"),
            ("avg>=10ms", false, "avg≥9.2ms"),
            ("avg!=9ms", true, "avg≥9.2ms"),
            ("avg!=20ms", false, "avg≥9.2ms"),
            ("avg==20ms", false, "avg≥9.2ms"),
            ("min<=10ms", true, "min≥1.0ms"),
            ("min<5ms", false, "min≥1.0ms"),
            ("min>5ms", false, "min≥1.0ms"),
            ("min>=1ms", true, "min≥1.0ms"),
        ] {
            let judgement = parse("http_req_duration", expression).unwrap().judge(&stats, 1.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{expression}");
        }
    }

    #[test]
    fn a_threshold_on_a_phase_is_broken_by_a_request_that_was_cut_off_there() {
        let mut stats = ScenarioStats::default();
        let step = stats.steps.entry(StepKey { kind: StepKind::Request, name: "GET /".into() }).or_default();
        let ms = Duration::from_millis;
        let mut phases = PhaseTimes::default();
        phases.set(HttpPhase::Waiting, ms(10));
        (0..9).for_each(|_| step.respond(ms(10), &phases));
        phases.set(HttpPhase::Waiting, ms(500));
        phases.last = HttpPhase::Waiting;
        step.cut_off(ms(500), &phases);
        for (metric, expression, passed, text) in [
            ("http_req_waiting", "p(95)<200ms", false, "p(95)≥500.0ms"),
            ("http_req_waiting", "p(95)<1h", false, "p(95)≥500.0ms"),
            ("http_req_waiting", "p(90)<200ms", true, "p(90)=10.0ms"),
            ("http_req_waiting", "avg>50ms", true, "avg≥59.0ms"),
            ("http_req_connecting", "max<1ms", true, "max=0.0ms"),
            ("http_req_sending", "max<1ms", true, "max=0.0ms"),
            ("http_req_receiving", "max<1ms", false, "max≥0.0ms"),
        ] {
            let judgement = parse(metric, expression).unwrap().judge(&stats, 1.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{metric}: {expression}");
        }
    }

    #[test]
    fn what_was_never_seen_to_end_has_no_upper_bound() {
        let mut stats = ScenarioStats::default();
        stats.iteration.record_censored(Duration::from_millis(20));
        for (expression, passed) in [
            ("avg<1h", false),
            ("avg>10ms", true),
            ("avg>30ms", false),
            ("min<1h", false),
            ("min>10ms", true),
            ("med>10ms", true),
            ("med==20ms", false),
        ] {
            let judgement = parse("iteration_duration", expression).unwrap().judge(&stats, 1.0);
            assert_eq!(judgement.passed, passed, "{expression}: {}", judgement.text);
            assert!(judgement.text.ends_with("≥20.0ms"), "{}", judgement.text);
        }
    }

    #[test]
    fn samples_that_no_row_has_are_judged_by_their_series() {
        let thresholds = [
            (r#"http_req_total{step:"GET /users/{id}",status:200}"#, "max<=20ms", true, "max=20.0ms"),
            ("http_reqs{status:503}", "count<4", true, "count=3"),
            (
                r#"http_req_failed{status:200,step:"GET /users/{id}"}"#,
                "rate<0.1",
                false,
                "rate=0.5000 (1 of 2)",
            ),
            ("http_req_failed{method:PUT}", "rate<0.1", false, "no samples"),
            ("http_reqs{method:PUT}", "count<1", true, "count=0"),
            ("http_reqs{method:PUT,step:nowhere}", "count<1", false, "no samples"),
            ("iterations{tier:gold}", "rate>=0.7", true, "rate=0.70/s (7 in 10.0s)"),
            ("checks{group:login}", "rate>0.5", true, "rate=0.6000 (3 of 5)"),
            ("orders{tier:gold}", "count>3", true, "count=3.5"),
        ];
        let pairs: Vec<_> =
            thresholds.iter().map(|(metric, expression, ..)| (*metric, *expression)).collect();
        let read: Vec<Threshold> = Threshold::of(&info(&pairs)).into_iter().map(Result::unwrap).collect();
        let numbers: Vec<Option<u32>> =
            read.iter().map(|threshold| threshold.series_of().map(|of| of.number)).collect();
        let expected = [0, 1, 0, 2, 2, 3, 4, 5, 6].map(Some);
        assert_eq!(numbers, expected, "the same samples are one series");
        let mut stats = stats();
        let mut requests = StepStats { count: 2, failed: 1, ..StepStats::default() };
        requests.latency.record(Duration::from_millis(20));
        let mut orders = super::super::custom::MetricStats::default();
        orders.record(MetricKind::Counter, MetricSample::Add(3.5));
        stats.tagged = [
            (0, Series::Work(Box::new(requests))),
            (1, Series::Work(Box::new(StepStats { count: 3, ..StepStats::default() }))),
            (4, Series::Iterations(Box::new(ScenarioStats { iterations: 7, ..ScenarioStats::default() }))),
            (5, Series::Checks(CheckStats { passes: 3, fails: 2 })),
            (6, Series::Metric(orders)),
        ]
        .into();
        for (threshold, (metric, _, passed, text)) in read.iter().zip(thresholds) {
            let judgement = threshold.judge(&stats, 10.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{metric}");
        }
    }

    #[test]
    fn metrics_of_the_scenarios_own_are_judged_by_their_kind() {
        use MetricSample::{Add, Held, Millis, Number, Set};
        let mut stats = ScenarioStats::default();
        for (name, sample) in [
            ("orders", Add(3.0)),
            ("orders", Add(4.0)),
            ("queue", Set { value: 2.5, at_ns: 1 }),
            ("hits", Held(true)),
            ("hits", Held(false)),
            ("render", Millis(40.0)),
            ("render", Millis(80.0)),
        ] {
            stats.metrics.entry(name.to_owned()).or_default().record(sample.kind(), sample);
        }
        for (metric, expression, passed, text) in [
            ("orders", "count==7", true, "count=7"),
            ("orders", "rate>1", false, "rate=0.70/s (7 in 10.0s)"),
            ("queue", "value<3", true, "value=2.5"),
            ("hits", "rate>=0.5", true, "rate=0.5000 (1 of 2)"),
            ("render", "p(95)<0.1s", true, "p(95)=80.0ms"),
            ("render", "avg<50", false, "avg=60.0ms"),
        ] {
            let judgement = parse(metric, expression).unwrap().judge(&stats, 10.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{metric}: {expression}");
        }
        let nothing = ScenarioStats::default();
        assert_eq!(parse("orders", "count<1").unwrap().judge(&nothing, 1.0).text, "count=0");
        assert_eq!(parse("queue", "value<1").unwrap().judge(&nothing, 1.0).text, "no samples");
        let mut plain = ScenarioStats::default();
        plain.metrics.entry("render".to_owned()).or_default().record(MetricKind::Trend, Number(-0.25));
        assert_eq!(parse("render", "max<0").unwrap().judge(&plain, 1.0).text, "max=-0.250");
    }

    #[test]
    fn without_samples_a_threshold_fails_unless_that_is_allowed() {
        let mut info = info(&[("http_req_failed", "rate<1")]);
        for (allow_empty, passed) in [(false, false), (true, true)] {
            info.thresholds[0].allow_empty = allow_empty;
            let judgement = Threshold::of(&info).remove(0).unwrap().judge(&ScenarioStats::default(), 1.0);
            assert_eq!((judgement.passed, judgement.observed), (passed, None));
        }
    }
}
