//! What samples become in a shard, and what of it is taken.

use std::time::Duration;

use super::*;
use crate::model::custom::{MetricSample, MetricValues};
use crate::model::phases::{HttpPhase, PhaseTimes};
use crate::model::plan::{Declared, ScenarioInfo, ThresholdText};
use crate::model::sample;
use crate::model::stats::{CheckStats, Series, StepKey};

const MS: Duration = Duration::from_millis(1);
const LIMIT: usize = 20;

fn recording(thresholds: &[&str]) -> Arc<Recording> {
    let text = |metric: &&str| ThresholdText {
        metric: (*metric).to_owned(),
        expression: if metric.starts_with("orders") { "count>0" } else { "rate>0" }.to_owned(),
        ..ThresholdText::default()
    };
    let info = ScenarioInfo {
        thresholds: thresholds.iter().map(text).collect(),
        declared: Declared {
            metrics: [("orders".to_owned(), MetricKind::Counter)].into(),
            tags: ["tier".to_owned(), "zone".to_owned()].into(),
        },
        ..sample::infos().remove(0)
    };
    let mut tags = Tags::default();
    tags.set("zone", "north");
    Arc::new(Recording::new(&info, tags, LIMIT))
}

fn shard_of(recording: &Arc<Recording>) -> (Shard, Instant) {
    let now = crate::sys::clock::now();
    (Shard::new([recording.clone()].into_iter(), now), now)
}

fn shard() -> (Shard, Instant) {
    shard_of(&recording(&[]))
}

/// Runs `with` for a sample from nowhere in particular, or with tags.
fn from<T>(group: Option<&str>, tags: &[(&str, &str)], with: impl FnOnce(Origin<'_>) -> T) -> T {
    let (user, mut own) = (Tags::default(), Tags::default());
    tags.iter().for_each(|(name, value)| own.set(name, *value));
    with(Origin { group, user: &user, own: &own })
}

fn request(shard: &mut Shard, path: &str, end: &RequestEnd, tags: &[(&str, &str)]) {
    let method = http::Method::GET;
    let (id, _) = shard.request_step(0, &method, path);
    from(None, tags, |origin| shard.request(0, id, &method, end, &taken(), origin));
}

fn taken() -> Taken {
    let mut phases = PhaseTimes::default();
    phases.set(HttpPhase::Connecting, 2 * MS);
    phases.set(HttpPhase::Waiting, 5 * MS);
    Taken { total: 7 * MS, phases, retries: 2, bytes_sent: 3 }
}

fn response(status: u16, expected: bool) -> RequestEnd {
    RequestEnd::Response { status, expected, bytes_received: 7 }
}

const RESET: RequestEnd = RequestEnd::Error { class: "reset", timed_out: false };
const TIMEOUT: RequestEnd = RequestEnd::Error { class: "timeout", timed_out: true };

#[test]
fn a_request_counts_in_the_columns_that_its_end_belongs_to() {
    for (end, count, errors, limited, failed, complete, censored) in [
        (response(200, true), 1, 0, 0, 0, 1, 0),
        (response(404, false), 1, 1, 0, 1, 0, 0),
        (response(404, true), 1, 0, 0, 0, 1, 0),
        (response(429, false), 1, 0, 1, 1, 0, 0),
        (response(503, false), 1, 1, 0, 1, 0, 0),
        (RESET, 1, 1, 0, 1, 0, 0),
        (TIMEOUT, 1, 1, 0, 1, 0, 1),
        (RequestEnd::Error { class: "generator_descriptors", timed_out: false }, 0, 0, 0, 0, 0, 0),
        (RequestEnd::Interrupted, 0, 0, 0, 0, 0, 1),
    ] {
        let (mut shard, now) = shard();
        request(&mut shard, "/a/{id}", &end, &[]);
        let taken = shard.take(now).remove(0);
        assert_eq!(taken.steps.keys().next().unwrap().name, "GET /a/{id}");
        let stats = taken.requests();
        assert_eq!(
            (stats.count, stats.errors, stats.rate_limited, stats.failed),
            (count, errors, limited, failed)
        );
        for latency in [&stats.latency, &stats.duration] {
            let counts = (latency.complete_count(), latency.censored_count());
            assert_eq!(counts, (complete, censored), "{end:?}");
        }
        let own = stats.error_types.contains_key("generator_descriptors");
        assert_eq!(stats.generator_errors, u64::from(own));
        assert_eq!((stats.bytes_sent, stats.retries), if own { (0, 0) } else { (3, 2) });
        assert!(taken.tagged.is_empty());
    }
}

#[test]
fn user_information_of_a_template_is_in_no_name() {
    let (mut shard, now) = shard();
    for template in ["http://ada:pw@127.0.0.1/x", "http://127.0.0.1/x", "http://bob:pw@127.0.0.1/x"] {
        for _ in 0..2 {
            request(&mut shard, template, &response(200, true), &[]);
        }
    }
    let taken = shard.take(now).remove(0);
    let rows: Vec<_> = taken.steps.iter().map(|(key, stats)| (key.name.as_str(), stats.count)).collect();
    assert_eq!(rows, [("GET http://127.0.0.1/x", 6)]);
}

#[test]
fn a_duration_is_without_what_was_before_the_first_byte() {
    let (mut shard, now) = shard();
    request(&mut shard, "/", &response(200, true), &[]);
    let stats = shard.take(now).remove(0).requests();
    assert_eq!(stats.latency.mean_nanos(), Some(7e6));
    assert_eq!(stats.duration.mean_nanos(), Some(5e6));
    assert_eq!(stats.phases.of(HttpPhase::Connecting, 1).mean_nanos(), Some(2e6));
    assert_eq!(stats.phases.of(HttpPhase::Waiting, 1).mean_nanos(), Some(5e6));
}

#[test]
fn what_is_taken_is_gone_and_users_stay() {
    let (mut shard, start) = shard();
    shard.user_started(0, start);
    from(None, &[], |origin| shard.iteration(0, &WorkEnd::Panicked("boom".into()), MS, origin));
    from(None, &[], |origin| shard.check(0, "ok", false, origin));
    let taken = shard.take(start + 2 * MS).remove(0);
    assert_eq!((taken.iterations, taken.failed_iterations, taken.panics, taken.vus), (1, 1, 1, 1));
    assert_eq!(taken.errors.commonest(), Some("boom"));
    assert_eq!(taken.checks["ok"].fails, 1);
    assert_eq!(taken.vu_ns, 2_000_000);
    shard.user_ended(0, start + 5 * MS);
    let taken = shard.take(start + 9 * MS).remove(0);
    assert_eq!((taken.iterations, taken.vus, taken.vus_max, taken.vu_ns), (0, 0, 0, 3_000_000));
}

#[test]
fn the_users_of_an_interval_in_which_the_time_is_up_are_those_of_that_instant() {
    let (mut shard, start) = shard();
    let users = |shard: &mut Shard| shard.take(start).remove(0).vus;
    (0..3).for_each(|_| shard.user_started(0, start));
    shard.note_users(0);
    (0..2).for_each(|_| shard.user_ended(0, start));
    assert_eq!((users(&mut shard), users(&mut shard)), (3, 1));
}

/// The limit is one of all threads together, and what is over it is named once.
#[test]
fn names_beyond_the_limit_share_a_row_on_every_thread() {
    let recording = recording(&[]);
    let (mut one, now) = shard_of(&recording);
    let (mut other, _) = shard_of(&recording);
    for n in 0..LIMIT + 10 {
        let shard = if n % 2 == 0 { &mut one } else { &mut other };
        request(shard, &format!("/{n}"), &RequestEnd::Interrupted, &[]);
    }
    // A name that another thread has brought in has a row here, too.
    request(&mut other, "/0", &RequestEnd::Interrupted, &[]);
    let mut all = one.take(now).remove(0);
    all.merge(&other.take(now).remove(0));
    let row = |name: &str| StepKey { kind: StepKind::Request, name: name.into() };
    assert_eq!(all.steps.len(), LIMIT + 1);
    assert_eq!((all.steps[&row(OTHER)].interrupted, all.steps[&row("GET /0")].interrupted), (10, 2));
    assert_eq!(all.steps[&row("GET /7")].rank, 7, "in the order of their first appearance anywhere");
    let news = recording.take_news();
    assert!(news.len() == 1 && news[0].starts_with("more than 20 distinct steps: `GET /20` and"), "{news:?}");
    request(&mut one, "/more", &RequestEnd::Interrupted, &[]);
    assert!(recording.take_news().is_empty());
}

#[test]
fn checks_and_metrics_beyond_the_limit_are_counted_together_in_every_interval() {
    let recording = recording(&[]);
    let (mut shard, now) = shard_of(&recording);
    for _ in 0..2 {
        for n in 0..LIMIT + 10 {
            from(None, &[], |origin| shard.check(0, &format!("check {n}"), n != LIMIT, origin));
            from(None, &[], |origin| shard.metric(0, &format!("metric {n}"), MetricSample::Add(1.0), origin));
        }
        let taken = shard.take(now).remove(0);
        assert_eq!(taken.checks.len(), LIMIT + 1);
        assert_eq!(taken.checks[OTHER], CheckStats { passes: 9, fails: 1 });
        assert_eq!(taken.checks["check 19"], CheckStats { passes: 1, fails: 0 });
        // One name is taken by the declared one.
        assert_eq!(taken.metrics["(other counters)"].values, Some(MetricValues::Counter { sum: 11.0 }));
    }
    let news = recording.take_news();
    assert!(news.len() == 2 && news.iter().any(|text| text.contains("checks: `check 20`")), "{news:?}");
}

#[test]
fn what_a_threshold_names_has_its_row_however_many_names_came_before() {
    let recording = recording(&[
        r#"http_req_failed{step:"GET /judged"}"#,
        r#"http_req_failed{step:"GET /gold",tier:gold}"#,
        "checks{check:judged}",
    ]);
    let (mut shard, now) = shard_of(&recording);
    for n in 0..=LIMIT {
        request(&mut shard, &format!("/{n}"), &RequestEnd::Interrupted, &[]);
        from(None, &[], |origin| shard.check(0, &format!("check {n}"), true, origin));
    }
    request(&mut shard, "/judged", &response(200, true), &[]);
    request(&mut shard, "/gold", &response(200, true), &[("tier", "gold")]);
    from(None, &[], |origin| shard.check(0, "judged", false, origin));
    let taken = shard.take(now).remove(0);
    let row = |name: &str| &taken.steps[&StepKey { kind: StepKind::Request, name: name.into() }];
    assert_eq!((row("GET /judged").count, row("GET /gold").count, row(OTHER).interrupted), (1, 1, 1));
    assert_eq!(taken.steps.len(), LIMIT + 3);
    assert_eq!(series(&taken, 0), (1, 0, 1, 0), "its series sees the name, too");
    assert_eq!(taken.checks["judged"], CheckStats { passes: 0, fails: 1 });
    assert_eq!(taken.checks[OTHER], CheckStats { passes: 1, fails: 0 });
}

fn series(stats: &ScenarioStats, number: u32) -> (u64, u64, u64, u64) {
    let Some(Series::Work(stats)) = stats.tagged.get(&number) else { return (0, 0, 0, 0) };
    (stats.count, stats.failed, stats.latency.complete_count(), stats.latency.censored_count())
}

#[test]
fn a_request_counts_in_the_series_that_ask_for_all_of_its_tags() {
    let (mut shard, now) = shard_of(&recording(&[
        "http_req_failed{status:503}",
        r#"http_req_failed{step:"GET /a",tier:gold}"#,
        "http_req_failed{expected_response:true}",
        "http_req_failed{error_type:reset}",
        "http_req_failed{zone:north,method:GET}",
        "http_req_failed{zone:south}",
    ]));
    for (end, tags) in [
        (response(200, true), &[("tier", "gold")][..]),
        (response(200, true), &[("tier", "silver"), ("zone", "south")]),
        (response(503, false), &[]),
        (RESET, &[]),
        (TIMEOUT, &[]),
        (RequestEnd::Interrupted, &[("tier", "gold")]),
    ] {
        request(&mut shard, "/a", &end, tags);
    }
    request(&mut shard, "/b", &response(200, true), &[("tier", "gold")]);
    let taken = shard.take(now).remove(0);
    assert_eq!(series(&taken, 0), (1, 1, 1, 0), "the duration is asked for, although it was not expected");
    assert_eq!(series(&taken, 1), (1, 0, 1, 1));
    assert_eq!(series(&taken, 2), (3, 0, 3, 2), "what was cut off might have been expected");
    assert_eq!(series(&taken, 3), (1, 1, 1, 0));
    assert_eq!(series(&taken, 4), (5, 3, 2, 2), "as without tags: durations of expected responses");
    assert_eq!(series(&taken, 5), (1, 0, 1, 0), "a request's tag stands over the scenario's");
    assert!(shard.take(now).remove(0).tagged.is_empty());
}

#[test]
fn iterations_checks_and_metrics_have_series_too() {
    let (mut shard, now) = shard_of(&recording(&[
        "iteration_failed{tier:gold}",
        "checks{group:login}",
        "checks{check:ok,tier:gold}",
        "orders{tier:gold}",
    ]));
    for (tier, end) in
        [("gold", WorkEnd::Done), ("gold", WorkEnd::Failed("no".into())), ("tin", WorkEnd::Done)]
    {
        from(None, &[("tier", tier)], |origin| shard.iteration(0, &end, MS, origin));
        from(Some("login"), &[("tier", tier)], |origin| shard.check(0, "ok", tier == "tin", origin));
        from(None, &[("tier", tier)], |origin| shard.check(0, "other", true, origin));
        from(None, &[("tier", tier)], |origin| shard.metric(0, "orders", MetricSample::Add(2.0), origin));
    }
    let taken = shard.take(now).remove(0);
    let Some(Series::Iterations(iterations)) = taken.tagged.get(&0) else { panic!("{taken:?}") };
    assert_eq!(
        (iterations.iterations, iterations.failed_iterations, iterations.iteration.count()),
        (2, 1, 2)
    );
    let checks = |number| match taken.tagged.get(&number) {
        Some(Series::Checks(checks)) => (checks.passes, checks.fails),
        other => panic!("{other:?}"),
    };
    assert_eq!((checks(1), checks(2)), ((1, 2), (0, 2)));
    let Some(Series::Metric(orders)) = taken.tagged.get(&3) else { panic!("{taken:?}") };
    assert_eq!(orders.values, Some(MetricValues::Counter { sum: 4.0 }));
    assert_eq!(taken.metrics["orders"].values, Some(MetricValues::Counter { sum: 6.0 }));
}

#[test]
fn a_metric_keeps_its_first_kind_on_every_thread() {
    let recording = recording(&[]);
    let (mut one, now) = shard_of(&recording);
    let (mut other, _) = shard_of(&recording);
    from(None, &[], |origin| one.metric(0, "size", MetricSample::Number(4.0), origin));
    from(None, &[], |origin| other.metric(0, "size", MetricSample::Add(1.0), origin));
    from(None, &[], |origin| other.metric(0, "orders", MetricSample::Held(true), origin));
    let mut all = one.take(now).remove(0);
    all.merge(&other.take(now).remove(0));
    assert_eq!(all.metrics["size"].misfits, 1);
    assert!(matches!(all.metrics["size"].values, Some(MetricValues::Trend { .. })));
    assert_eq!((all.metrics["orders"].misfits, &all.metrics["orders"].values), (1, &None), "it is declared");
}
