//! Thresholds: `metric{tag:value,…}` and `agg op number[unit]`, read before a run and judged after it.

use super::duration;
use super::latency::Latency;
use super::nearest::nearest;
use super::plan::ThresholdText;
use super::stats::{ScenarioStats, StepKind};

/// How a metric's samples are put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
    Rate,
    Trend,
}

impl Kind {
    fn aggregations(self) -> &'static str {
        match self {
            Self::Counter => "count, rate",
            Self::Gauge => "value",
            Self::Rate => "rate",
            Self::Trend => "avg, min, med, max, p(N)",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Metric {
    HttpReqs,
    HttpReqDuration,
    HttpReqTotal,
    HttpReqFailed,
    HttpReqRateLimited,
    Iterations,
    IterationFailed,
    IterationDuration,
    IterationResponseTime,
    ScheduleLag,
    StepDuration,
    Checks,
    DroppedIterations,
    Vus,
    VusMax,
    DataSent,
    DataReceived,
}

/// Name, kind, and the tags by which the metric can be narrowed.
const METRICS: &[(&str, Metric, Kind, &[&str])] = &[
    ("http_reqs", Metric::HttpReqs, Kind::Counter, &["step"]),
    ("http_req_duration", Metric::HttpReqDuration, Kind::Trend, &["step"]),
    ("http_req_total", Metric::HttpReqTotal, Kind::Trend, &["step"]),
    ("http_req_failed", Metric::HttpReqFailed, Kind::Rate, &["step"]),
    ("http_req_rate_limited", Metric::HttpReqRateLimited, Kind::Rate, &["step"]),
    ("iterations", Metric::Iterations, Kind::Counter, &[]),
    ("iteration_failed", Metric::IterationFailed, Kind::Rate, &[]),
    ("iteration_duration", Metric::IterationDuration, Kind::Trend, &[]),
    ("iteration_response_time", Metric::IterationResponseTime, Kind::Trend, &[]),
    ("schedule_lag", Metric::ScheduleLag, Kind::Trend, &[]),
    ("step_duration", Metric::StepDuration, Kind::Trend, &["step"]),
    ("checks", Metric::Checks, Kind::Rate, &["check"]),
    ("dropped_iterations", Metric::DroppedIterations, Kind::Counter, &[]),
    ("vus", Metric::Vus, Kind::Gauge, &[]),
    ("vus_max", Metric::VusMax, Kind::Gauge, &[]),
    ("data_sent", Metric::DataSent, Kind::Counter, &["step"]),
    ("data_received", Metric::DataReceived, Kind::Counter, &["step"]),
];

#[derive(Debug, Clone, Copy, PartialEq)]
enum Aggregation {
    Count,
    Rate,
    Value,
    Avg,
    Min,
    Max,
    Percentile(f64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
}

/// A threshold that was read and makes sense.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Threshold {
    text: ThresholdText,
    metric: Metric,
    tag: Option<(String, String)>,
    aggregation: Aggregation,
    operator: Operator,
    /// Milliseconds where the metric is a duration.
    limit: f64,
}

/// What a threshold found.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Judgement {
    pub(crate) observed: Option<f64>,
    pub(crate) passed: bool,
    pub(crate) text: String,
}

impl Threshold {
    /// Reads a threshold. The error says what is wrong and names the nearest thing that would be right.
    pub(crate) fn parse(metric: &str, expression: &str) -> Result<Self, String> {
        let (name, tags) = match metric.split_once('{') {
            None => (metric.trim(), None),
            Some((name, rest)) => {
                let tags = rest
                    .trim_end()
                    .strip_suffix('}')
                    .ok_or_else(|| format!("`{metric}` has no closing `}}`"))?;
                (name.trim(), Some(tags))
            }
        };
        let Some((_, id, kind, known_tags)) = METRICS.iter().find(|(known, ..)| *known == name) else {
            let known = METRICS.iter().map(|(known, ..)| *known);
            return Err(format!("unknown metric `{name}`{}", nearest(name, known)));
        };
        let tags = tags.map(parse_tags).transpose()?.unwrap_or_default();
        for (tag, _) in &tags {
            if !known_tags.contains(&tag.as_str()) {
                let can = if known_tags.is_empty() {
                    "it has no tags".into()
                } else {
                    format!("it has {}", known_tags.join(", "))
                };
                return Err(format!("`{name}` has no tag `{tag}`; {can}"));
            }
        }
        if tags.len() > 1 {
            return Err(format!("`{metric}` names a tag twice"));
        }
        let (aggregation, operator, limit) = parse_expression(expression, name, *kind)?;
        Ok(Self {
            text: ThresholdText { metric: metric.to_owned(), expression: expression.to_owned() },
            metric: *id,
            tag: tags.into_iter().next(),
            aggregation,
            operator,
            limit,
        })
    }

    /// As its author wrote it.
    pub(crate) fn text(&self) -> &ThresholdText {
        &self.text
    }

    /// Judges the whole run of one scenario, which took `seconds`. No samples: failed.
    pub(crate) fn judge(&self, stats: &ScenarioStats, seconds: f64) -> Judgement {
        let tag = self.tag.as_ref().map(|(_, value)| value.as_str());
        let steps = |kind| {
            let steps = stats.steps.iter().filter(move |(key, _)| key.kind == kind);
            steps.filter(move |(key, _)| tag.is_none_or(|tag| tag == key.name)).map(|(_, stats)| stats)
        };
        let requests = || steps(StepKind::Request);
        let sum = |field: fn(&super::stats::StepStats) -> u64| requests().map(field).sum::<u64>();
        let trend = |kind| {
            let mut all = Latency::default();
            steps(kind).for_each(|stats| all.merge(&stats.latency));
            self.judge_trend(&all)
        };
        match self.metric {
            Metric::HttpReqs => self.judge_count(sum(|s| s.count), seconds),
            Metric::DataSent => self.judge_count(sum(|s| s.bytes_sent), seconds),
            Metric::DataReceived => self.judge_count(sum(|s| s.bytes_received), seconds),
            Metric::Iterations => self.judge_count(stats.iterations, seconds),
            Metric::DroppedIterations => self.judge_count(stats.dropped_iterations, seconds),
            Metric::IterationFailed => self.judge_rate(stats.failed_iterations, stats.iterations),
            Metric::HttpReqFailed => self.judge_rate(sum(|s| s.failed), sum(|s| s.count)),
            Metric::HttpReqRateLimited => self.judge_rate(sum(|s| s.rate_limited), sum(|s| s.count)),
            Metric::Checks => {
                let checks =
                    stats.checks.iter().filter(|(name, _)| tag.is_none_or(|tag| tag == name.as_str()));
                let (passes, fails) =
                    checks.fold((0, 0), |(p, f), (_, check)| (p + check.passes, f + check.fails));
                self.judge_rate(passes, passes + fails)
            }
            Metric::HttpReqDuration | Metric::HttpReqTotal => trend(StepKind::Request),
            Metric::StepDuration => trend(StepKind::Step),
            Metric::IterationDuration => self.judge_trend(&stats.iteration),
            Metric::IterationResponseTime => self.judge_trend(&stats.response),
            Metric::ScheduleLag => self.judge_trend(&stats.lag),
            Metric::Vus => self.judge_value(f64::from(stats.vus)),
            Metric::VusMax => self.judge_value(f64::from(stats.vus_max)),
        }
    }

    fn judge_count(&self, count: u64, seconds: f64) -> Judgement {
        let rate = if seconds > 0.0 { count as f64 / seconds } else { 0.0 };
        match self.aggregation {
            Aggregation::Rate => self.judgement(rate, format!("rate={rate:.2}/s ({count} in {seconds:.1}s)")),
            _ => self.judgement(count as f64, format!("count={count}")),
        }
    }

    fn judge_rate(&self, part: u64, whole: u64) -> Judgement {
        if whole == 0 {
            return no_samples();
        }
        let rate = part as f64 / whole as f64;
        self.judgement(rate, format!("rate={rate:.4} ({part} of {whole})"))
    }

    fn judge_value(&self, value: f64) -> Judgement {
        self.judgement(value, format!("value={value}"))
    }

    /// What was cut off could have gone on for ever: the threshold must hold for the lowest and the highest value that
    /// the aggregate can have.
    fn judge_trend(&self, latency: &Latency) -> Judgement {
        let (name, range) = match self.aggregation {
            Aggregation::Min => ("min".to_owned(), latency.min_range()),
            Aggregation::Max => ("max".to_owned(), latency.percentile_range(100.0)),
            Aggregation::Percentile(percent) => (format!("p({percent})"), latency.percentile_range(percent)),
            _ => ("avg".to_owned(), latency.mean_range()),
        };
        let Some((lowest, highest)) = range.map(|(lowest, highest)| (lowest / 1e6, highest / 1e6)) else {
            return no_samples();
        };
        let sign = if highest > lowest { "≥" } else { "=" };
        Judgement {
            observed: Some(super::summary::millis(lowest * 1e6)),
            passed: self.holds_within(lowest, highest),
            text: format!("{name}{sign}{lowest:.1}ms"),
        }
    }

    fn judgement(&self, observed: f64, text: String) -> Judgement {
        Judgement { observed: Some(observed), passed: self.holds(observed), text }
    }

    /// Whether it holds wherever in this range the value lies.
    fn holds_within(&self, lowest: f64, highest: f64) -> bool {
        if highest <= lowest {
            return self.holds(lowest);
        }
        match self.operator {
            Operator::Equal => false,
            Operator::NotEqual => self.limit < lowest || self.limit > highest,
            _ => self.holds(lowest) && self.holds(highest),
        }
    }

    fn holds(&self, value: f64) -> bool {
        match self.operator {
            Operator::Greater => value > self.limit,
            Operator::GreaterOrEqual => value >= self.limit,
            Operator::Less => value < self.limit,
            Operator::LessOrEqual => value <= self.limit,
            Operator::Equal => (value - self.limit).abs() <= f64::EPSILON * value.abs().max(1.0),
            Operator::NotEqual => (value - self.limit).abs() > f64::EPSILON * value.abs().max(1.0),
        }
    }
}

fn no_samples() -> Judgement {
    Judgement { observed: None, passed: false, text: "no samples".into() }
}

/// `tag:value,…`; a value that is not a plain word is in double quotes, in which `\"` and `\\` stand for themselves.
fn parse_tags(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut tags = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (tag, after) = rest
            .split_once(':')
            .ok_or_else(|| format!("`{rest}` is no tag; write tag:value or tag:\"a value\""))?;
        let after = after.trim_start();
        let (value, after) = if let Some(quoted) = after.strip_prefix('"') {
            unquote(quoted)
                .ok_or_else(|| format!("the value of tag `{}` has no closing quote", tag.trim()))?
        } else {
            let end = after.find(',').unwrap_or(after.len());
            let value = after[..end].trim();
            if value.is_empty() || value.contains(|c: char| c.is_whitespace() || "{}\":".contains(c)) {
                return Err(format!("quote the value of tag `{}`: {0}:\"{value}\"", tag.trim()));
            }
            (value.to_owned(), &after[end..])
        };
        tags.push((tag.trim().to_owned(), value));
        rest = after.trim_start();
        if let Some(more) = rest.strip_prefix(',') {
            rest = more.trim_start();
        } else if !rest.is_empty() {
            return Err(format!("`{rest}` stands where a comma or the end is due"));
        }
    }
    Ok(tags)
}

fn unquote(text: &str) -> Option<(String, &str)> {
    let mut value = String::new();
    let mut chars = text.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => value.push(chars.next()?.1),
            _ => value.push(c),
        }
    }
    None
}

fn parse_expression(text: &str, metric: &str, kind: Kind) -> Result<(Aggregation, Operator, f64), String> {
    let at = text
        .find(['<', '>', '=', '!'])
        .ok_or_else(|| format!("`{text}` has no comparison; write it like p(95)<600ms or rate<0.01"))?;
    let (left, rest) = text.split_at(at);
    let operators = [
        (">=", Operator::GreaterOrEqual),
        ("<=", Operator::LessOrEqual),
        ("==", Operator::Equal),
        ("!=", Operator::NotEqual),
        (">", Operator::Greater),
        ("<", Operator::Less),
    ];
    let Some((symbol, operator)) = operators.into_iter().find(|(symbol, _)| rest.starts_with(symbol)) else {
        return Err(format!("`{text}` has no operator that is known; there are >, >=, <, <=, == and !="));
    };
    let aggregation = parse_aggregation(left.trim(), text)?;
    let fits = match aggregation {
        Aggregation::Count => kind == Kind::Counter,
        Aggregation::Rate => matches!(kind, Kind::Counter | Kind::Rate),
        Aggregation::Value => kind == Kind::Gauge,
        Aggregation::Avg | Aggregation::Min | Aggregation::Max | Aggregation::Percentile(_) => {
            kind == Kind::Trend
        }
    };
    if !fits {
        return Err(format!(
            "`{}` cannot be taken of `{metric}`; it has {}",
            left.trim(),
            kind.aggregations()
        ));
    }
    let limit = rest[symbol.len()..].trim();
    let number = limit.parse::<f64>().ok().filter(|number| number.is_finite());
    let limit = match (number, kind) {
        (Some(number), _) => number,
        (None, Kind::Trend) => duration::parse(limit)?.as_secs_f64() * 1e3,
        (None, _) => return Err(format!("`{limit}` is not a number; `{metric}` has no unit")),
    };
    Ok((aggregation, operator, limit))
}

fn parse_aggregation(text: &str, expression: &str) -> Result<Aggregation, String> {
    Ok(match text {
        "count" => Aggregation::Count,
        "rate" => Aggregation::Rate,
        "value" => Aggregation::Value,
        "avg" => Aggregation::Avg,
        "min" => Aggregation::Min,
        "max" => Aggregation::Max,
        "med" => Aggregation::Percentile(50.0),
        _ => {
            let percent = text.strip_prefix("p(").and_then(|rest| rest.strip_suffix(')')).map(str::trim);
            let Some(percent) = percent else {
                let known = ["count", "rate", "value", "avg", "min", "med", "max", "p(95)"];
                return Err(format!(
                    "`{expression}` begins with an unknown aggregation `{text}`{}",
                    nearest(text, known)
                ));
            };
            match percent.parse::<f64>() {
                Ok(percent) if (0.0..=100.0).contains(&percent) => Aggregation::Percentile(percent),
                _ => return Err(format!("`p({percent})` is no percentile; N is within 0 to 100")),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::stats::{CheckStats, StepKey, StepStats};
    use super::*;

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
            (0..100).for_each(|_| step.latency.record(Duration::from_millis(ms)));
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
            ("http_req_failed", "rate<0.01", false, "rate=0.0500 (10 of 200)"),
            ("http_reqs", "count>=200", true, "count=200"),
            ("http_reqs", "rate>20", false, "rate=20.00/s (200 in 10.0s)"),
            ("iterations", "count!=10", false, "count=10"),
            ("iteration_failed", "rate<0.5", true, "rate=0.2000 (2 of 10)"),
            ("checks", "rate>0.8", true, "rate=0.9000 (9 of 10)"),
            ("checks{check:ok}", "rate>0.95", false, "rate=0.9000 (9 of 10)"),
            ("vus_max", "value==5", true, "value=5"),
        ] {
            let threshold = Threshold::parse(metric, expression).unwrap();
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
            ("http_req_duration{stage:\"x\"}", "p(95)<1s", "no tag `stage`"),
            ("http_req_duration{step:\"x}", "p(95)<1s", "no closing quote"),
            ("http_req_duration{step:x", "p(95)<1s", "no closing `}`"),
            ("iterations{step:x}", "count>1", "it has no tags"),
        ] {
            let error = Threshold::parse(metric, expression).unwrap_err();
            assert!(error.contains(words), "{metric}: {expression}: {error}");
        }
    }

    #[test]
    fn a_threshold_that_a_cut_off_request_could_break_fails() {
        let mut stats = ScenarioStats::default();
        let step = stats.steps.entry(StepKey { kind: StepKind::Request, name: "GET /".into() }).or_default();
        (0..10).for_each(|_| step.latency.record(Duration::from_millis(10)));
        step.latency.record_censored(Duration::from_millis(1));
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
            let judgement = Threshold::parse("http_req_duration", expression).unwrap().judge(&stats, 1.0);
            assert_eq!((judgement.passed, judgement.text.as_str()), (passed, text), "{expression}");
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
            let judgement = Threshold::parse("iteration_duration", expression).unwrap().judge(&stats, 1.0);
            assert_eq!(judgement.passed, passed, "{expression}: {}", judgement.text);
            assert!(judgement.text.ends_with("≥20.0ms"), "{}", judgement.text);
        }
    }
}
