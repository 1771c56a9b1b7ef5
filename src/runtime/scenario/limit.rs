//! What a threshold demands.

use std::time::Duration;

use crate::model::plan::ThresholdText;

/// What [`Scenario::threshold`](crate::Scenario::threshold) demands of a metric, and what happens when it does not hold.
///
/// A plain string is a limit, too. Made by [`limit`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limit {
    expression: String,
    abort_on_fail: bool,
    delay_abort_eval: Duration,
    allow_empty: bool,
}

/// A limit from its expression: an aggregation, a comparison and a number, such as `rate<0.01` or `p(95)<600ms`.
///
/// ```
/// use loadtest::prelude::*;
///
/// # async fn flow(_: &Vu) -> Result { Ok(()) }
/// # let _ =
/// scenario("checkout", flow)
///     .threshold("http_req_failed", limit("rate<0.01").abort_on_fail().delay_abort_eval(secs(10)))
///     .threshold("http_reqs{status:503}", limit("count<5").allow_empty())
/// # ;
/// ```
pub fn limit(expression: impl Into<String>) -> Limit {
    Limit {
        expression: expression.into(),
        abort_on_fail: false,
        delay_abort_eval: Duration::ZERO,
        allow_empty: false,
    }
}

impl Limit {
    /// Ends the run when the limit does not hold: running iterations are cut off, scenarios that have not begun do not
    /// begin, and the exit code is 99. The limit is looked at every two seconds of the load; without samples it ends
    /// nothing.
    #[must_use]
    pub fn abort_on_fail(mut self) -> Self {
        self.abort_on_fail = true;
        self
    }

    /// How long the load has to have run before the limit can end it. Nothing unless set; it says nothing of the
    /// judgement at the end.
    #[must_use]
    pub fn delay_abort_eval(mut self, at_least: Duration) -> Self {
        self.delay_abort_eval = at_least;
        self
    }

    /// Lets the threshold pass where its metric has no samples at all, which otherwise fails it.
    #[must_use]
    pub fn allow_empty(mut self) -> Self {
        self.allow_empty = true;
        self
    }

    /// On a metric.
    pub(super) fn on(self, metric: String) -> ThresholdText {
        ThresholdText {
            metric,
            expression: self.expression,
            abort_on_fail: self.abort_on_fail,
            delay_abort_eval: self.delay_abort_eval,
            allow_empty: self.allow_empty,
        }
    }
}

impl From<&str> for Limit {
    fn from(expression: &str) -> Self {
        limit(expression)
    }
}

impl From<String> for Limit {
    fn from(expression: String) -> Self {
        limit(expression)
    }
}
