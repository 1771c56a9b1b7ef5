//! What a scenario measures beyond the built-in, and what it demands: thresholds, tags, metrics of its own.

use super::Scenario;
use super::limit::Limit;
use crate::model::custom::MetricKind;
use crate::model::flow::FlowInfo;
use crate::model::plan::{Declared, ThresholdText};
use crate::model::tags::{self, Tags};
use crate::model::threshold::is_built_in;

/// Distinct steps of a scenario that get rows of their own, distinct checks, and distinct metrics.
const MOST_NAMES: usize = 500;

/// The part of a scenario that is about its figures.
#[derive(Debug, PartialEq)]
pub(crate) struct Measures {
    pub(super) thresholds: Vec<ThresholdText>,
    pub(super) declared: Declared,
    /// What every sample has.
    pub(crate) tags: Tags,
    pub(crate) max_names: usize,
    /// The first thing that contradicts itself.
    pub(super) problem: Option<String>,
}

impl Default for Measures {
    fn default() -> Self {
        Self {
            thresholds: Vec::new(),
            declared: Declared::default(),
            tags: Tags::default(),
            max_names: MOST_NAMES,
            problem: None,
        }
    }
}

impl Measures {
    fn declare(&mut self, name: &str, kind: MetricKind) {
        let problem = match self.declared.metrics.insert(name.to_owned(), kind) {
            _ if name.is_empty() || name.contains(['{', '}']) || name.trim() != name => {
                Some(format!("`{name}` is no name of a metric; it has no braces and no space at its ends"))
            }
            _ if is_built_in(name) => {
                Some(format!("`{name}` is a metric of the tool's own; choose another name"))
            }
            Some(other) if other != kind => {
                Some(format!("the metric `{name}` is declared as a {other} and as a {kind}"))
            }
            _ => None,
        };
        self.refuse(problem);
    }

    pub(super) fn declare_flows(&mut self, flows: &[FlowInfo]) {
        self.declared.flows = flows.iter().map(|flow| flow.name.clone()).collect();
    }

    fn refuse(&mut self, problem: Option<String>) {
        self.problem = self.problem.take().or(problem);
    }
}

impl Scenario {
    /// What the run has to keep: a metric with optional tags in braces, and an aggregation, a comparison and a number. A
    /// duration has a unit; a bare number is milliseconds. It is judged over the whole load; without samples it has
    /// failed. See [`limit`](crate::limit) for one that ends the run.
    ///
    /// Metrics: `http_reqs`, `http_req_duration`, `http_req_total`, its phases `http_req_blocked`,
    /// `http_req_dns`, `http_req_connecting`, `http_req_tls_handshaking`, `http_req_sending`, `http_req_waiting` and
    /// `http_req_receiving`, `http_req_retries`, `http_req_failed`, `http_req_rate_limited`,
    /// `iterations`, `iteration_failed`, `iteration_duration`, `step_duration`, `checks`, `dropped_iterations`, `vus`, `vus_max`,
    /// `data_sent`, `data_received`, and those that the scenario declares. Aggregations: `count` and `rate` of counters;
    /// `rate` of shares; `value` of gauges; `avg`, `min`, `med`, `max` and `p(N)` of durations and other distributions.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # async fn flow(_: &Vu) -> Result { Ok(()) }
    /// # let _ =
    /// scenario("auth", flow)
    ///     .threshold("http_req_failed", "rate<0.01")
    ///     .threshold(r#"http_req_duration{step:"POST /auth/register",status:201}"#, "p(95)<1500ms")
    /// # ;
    /// ```
    #[must_use]
    pub fn threshold(mut self, metric: impl Into<String>, limit: impl Into<Limit>) -> Self {
        self.measures.thresholds.push(limit.into().on(metric.into()));
        self
    }

    /// A tag of all the scenario's samples, which thresholds can narrow a metric by, and of its spans
    /// (`loadtest.tag.NAME`). [`Vu::tag`](crate::Vu::tag) and [`Request::tag`](crate::Request::tag) can give it
    /// another value.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     vu.get("/search").tag("size", "large").send().await?;
    ///     Ok(())
    /// }
    /// # let _ =
    /// scenario("search", flow)
    ///     .tag("size", "small")
    ///     .threshold("http_req_duration{size:large}", "p(95)<2s")
    /// # ;
    /// ```
    #[must_use]
    pub fn tag(mut self, name: &str, value: impl Into<String>) -> Self {
        self.measures.tags.set(name, value);
        self.declare_tag(name)
    }

    /// Says that some samples have a tag of this name, so that a threshold can ask for it. A threshold on a tag that is
    /// declared nowhere is an error: it may be misspelt.
    #[must_use]
    pub fn declare_tag(mut self, name: &str) -> Self {
        self.measures.refuse(tags::check_name(name).err());
        self.measures.declared.tags.insert(name.to_owned());
        self
    }

    /// Declares a metric of the scenario's own that only grows, for [`Vu::counter`](crate::Vu::counter).
    ///
    /// Metrics need no declaration but for thresholds on them, which are checked before anything runs.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn buy(vu: &Vu) -> Result {
    ///     vu.post("/orders").send().await?.expect_status(201)?;
    ///     vu.counter("orders").add(1);
    ///     Ok(())
    /// }
    /// # let _ =
    /// scenario("buy", buy).counter("orders").threshold("orders", "rate>10")
    /// # ;
    /// ```
    #[must_use]
    pub fn counter(mut self, name: impl Into<String>) -> Self {
        self.measures.declare(&name.into(), MetricKind::Counter);
        self
    }

    /// Declares a metric whose last value counts, for [`Vu::gauge`](crate::Vu::gauge).
    #[must_use]
    pub fn gauge(mut self, name: impl Into<String>) -> Self {
        self.measures.declare(&name.into(), MetricKind::Gauge);
        self
    }

    /// Declares a metric that is the share of samples that held, for [`Vu::rate`](crate::Vu::rate).
    #[must_use]
    pub fn rate(mut self, name: impl Into<String>) -> Self {
        self.measures.declare(&name.into(), MetricKind::Rate);
        self
    }

    /// Declares a metric that is a distribution, for [`Vu::trend`](crate::Vu::trend).
    #[must_use]
    pub fn trend(mut self, name: impl Into<String>) -> Self {
        self.measures.declare(&name.into(), MetricKind::Trend);
        self
    }

    /// How many distinct steps of the scenario get rows of their own, how many distinct checks, and how many distinct
    /// metrics; what comes beyond is counted together as `(other)`, with a warning. 500 unless set, at least 1.
    #[must_use]
    pub fn max_names(mut self, most: usize) -> Self {
        self.measures.refuse((most == 0).then(|| "max_names is at least 1".to_owned()));
        self.measures.max_names = most;
        self
    }
}
