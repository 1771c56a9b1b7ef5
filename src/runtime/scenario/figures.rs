//! What a user counts beside its requests: checks, metrics of the author's own, and the tags of its samples.

use std::time::Duration;

use super::Vu;
use crate::model::custom::MetricSample;
use crate::model::tags::{self, Tags};
use crate::runtime::record::Origin;

impl Vu {
    /// Counts whether something held. A failed check does not end the iteration; a threshold on `checks` can fail
    /// the run. Gives `passed` back.
    pub fn check(&self, name: &str, passed: bool) -> bool {
        self.check_tagged(name, passed, [])
    }

    /// Like [`check`](Self::check), with tags of this check alone, which a threshold can ask for:
    /// `checks{plan:premium}`.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     let status = vu.get("/").send().await?.status();
    ///     vu.check_tagged("answers", status == 200, [("plan", "premium")]);
    ///     Ok(())
    /// }
    /// ```
    pub fn check_tagged<'t>(
        &self,
        name: &str,
        passed: bool,
        tags: impl IntoIterator<Item = (&'t str, &'t str)>,
    ) -> bool {
        let mut own = Tags::default();
        tags.into_iter().for_each(|(name, value)| self.tag_into(&mut own, name, value.to_owned()));
        if let Some(shard) = self.shard() {
            let (user, group) = (self.tags(), self.current().group);
            let origin = Origin { group: group.as_deref(), user: &user, own: &own };
            shard.borrow_mut().check(self.slot(), name, passed, origin);
        }
        passed
    }

    /// Gives every sample of this user a tag, for the rest of the iteration; its spans have it as `loadtest.tag.NAME`.
    /// Tags make no rows: a threshold that asks for one makes a series of its own.
    ///
    /// A name that the tool uses itself, such as `status`, ends the run as wrongly configured.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     vu.tag("plan", if vu.id() % 10 == 0 { "premium" } else { "free" });
    ///     vu.get("/").send().await?;
    ///     Ok(())
    /// }
    /// # let _ =
    /// scenario("flow", flow).declare_tag("plan").threshold("http_req_duration{plan:premium}", "p(95)<300ms")
    /// # ;
    /// ```
    pub fn tag(&self, name: &str, value: impl Into<String>) {
        match tags::check_name(name) {
            Ok(()) => self.set_tag(name, value.into()),
            Err(why) => self.note_misconfiguration(&why),
        }
    }

    /// A metric of the scenario's own that only grows. It needs no declaration but for thresholds; see
    /// [`Scenario::counter`](crate::Scenario::counter).
    pub fn counter(&self, name: &str) -> Counter<'_> {
        Counter(Handle::new(self, name))
    }

    /// A metric of the scenario's own whose last value counts, whichever user sets it. See
    /// [`Scenario::gauge`](crate::Scenario::gauge).
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     let waiting: u32 = vu.get("/queue/length").send().await?.json()?;
    ///     vu.gauge("queue").set(waiting);
    ///     Ok(())
    /// }
    /// ```
    pub fn gauge(&self, name: &str) -> Gauge<'_> {
        Gauge(Handle::new(self, name))
    }

    /// A metric of the scenario's own that is the share of samples that held. See
    /// [`Scenario::rate`](crate::Scenario::rate).
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     let response = vu.get("/").send().await?;
    ///     vu.rate("cache_hits").add(response.header("x-cache") == Some("hit"));
    ///     Ok(())
    /// }
    /// ```
    pub fn rate(&self, name: &str) -> Rate<'_> {
        Rate(Handle::new(self, name))
    }

    /// A metric of the scenario's own that is a distribution, of plain numbers or of durations. See
    /// [`Scenario::trend`](crate::Scenario::trend).
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn flow(vu: &Vu) -> Result {
    ///     let response = vu.get("/search").send().await?;
    ///     vu.trend("hits").record(response.json::<Vec<String>>()?.len());
    ///     vu.trend("age").tag("kind", "search").record(secs(3));
    ///     Ok(())
    /// }
    /// ```
    pub fn trend(&self, name: &str) -> Trend<'_> {
        Trend(Handle::new(self, name))
    }

    fn tag_into(&self, tags: &mut Tags, name: &str, value: String) {
        match tags::check_name(name) {
            Ok(()) => tags.set(name, value),
            Err(why) => self.note_misconfiguration(&why),
        }
    }
}

/// One metric, and the tags of the sample to come.
#[derive(Debug)]
struct Handle<'v> {
    vu: &'v Vu,
    name: String,
    tags: Tags,
}

impl<'v> Handle<'v> {
    fn new(vu: &'v Vu, name: &str) -> Self {
        Self { vu, name: name.to_owned(), tags: Tags::default() }
    }

    fn tag(mut self, name: &str, value: impl Into<String>) -> Self {
        self.vu.tag_into(&mut self.tags, name, value.into());
        self
    }

    /// In setup and teardown nothing is counted.
    fn record(&self, sample: MetricSample) {
        let Some(shard) = self.vu.shard() else { return };
        let (user, group) = (self.vu.tags(), self.vu.current().group);
        let origin = Origin { group: group.as_deref(), user: &user, own: &self.tags };
        shard.borrow_mut().metric(self.vu.slot(), &self.name, sample, origin);
    }
}

/// A counter; made by [`Vu::counter`].
#[derive(Debug)]
#[must_use = "a metric without a sample says nothing"]
pub struct Counter<'v>(Handle<'v>);

impl Counter<'_> {
    /// Gives the sample a tag, beside those of the scenario and the user.
    pub fn tag(self, name: &str, value: impl Into<String>) -> Self {
        Self(self.0.tag(name, value))
    }

    /// Adds to it. What is negative or not finite is not added, but counted, and the report says so.
    pub fn add(self, amount: impl Number) {
        self.0.record(MetricSample::Add(amount.number()));
    }
}

/// A gauge; made by [`Vu::gauge`].
#[derive(Debug)]
#[must_use = "a metric without a sample says nothing"]
pub struct Gauge<'v>(Handle<'v>);

impl Gauge<'_> {
    /// Gives the sample a tag, beside those of the scenario and the user.
    pub fn tag(self, name: &str, value: impl Into<String>) -> Self {
        Self(self.0.tag(name, value))
    }

    /// Sets it. What is not finite is not taken, but counted, and the report says so.
    pub fn set(self, value: impl Number) {
        let at_ns = self.0.vu.now_ns();
        self.0.record(MetricSample::Set { value: value.number(), at_ns });
    }
}

/// A rate; made by [`Vu::rate`].
#[derive(Debug)]
#[must_use = "a metric without a sample says nothing"]
pub struct Rate<'v>(Handle<'v>);

impl Rate<'_> {
    /// Gives the sample a tag, beside those of the scenario and the user.
    pub fn tag(self, name: &str, value: impl Into<String>) -> Self {
        Self(self.0.tag(name, value))
    }

    /// Counts a sample: one that held, or one that did not.
    pub fn add(self, held: bool) {
        self.0.record(MetricSample::Held(held));
    }
}

/// A trend; made by [`Vu::trend`].
#[derive(Debug)]
#[must_use = "a metric without a sample says nothing"]
pub struct Trend<'v>(Handle<'v>);

impl Trend<'_> {
    /// Gives the sample a tag, beside those of the scenario and the user.
    pub fn tag(self, name: &str, value: impl Into<String>) -> Self {
        Self(self.0.tag(name, value))
    }

    /// Records a number, or a duration, which is shown in milliseconds. What is not finite is not recorded, but counted,
    /// and the report says so.
    pub fn record(self, value: impl TrendValue) {
        self.0.record(match value.value() {
            (millis, true) => MetricSample::Millis(millis),
            (number, false) => MetricSample::Number(number),
        });
    }
}

mod sealed {
    pub trait Sealed {}
}

/// A number of any of the primitive types. Whole numbers beyond 2^53 are rounded.
pub trait Number: sealed::Sealed + Copy {
    #[doc(hidden)]
    fn number(self) -> f64;
}

/// What a trend records: a [`Number`], or a [`Duration`].
pub trait TrendValue: sealed::Sealed {
    /// The value, and whether it is a duration, in milliseconds.
    #[doc(hidden)]
    fn value(self) -> (f64, bool);
}

macro_rules! numbers {
    ($($number:ty)*) => {$(
        impl sealed::Sealed for $number {}
        impl Number for $number {
            fn number(self) -> f64 {
                self as f64
            }
        }
        impl TrendValue for $number {
            fn value(self) -> (f64, bool) {
                (self.number(), false)
            }
        }
    )*};
}

numbers!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize f32);

impl sealed::Sealed for f64 {}
impl Number for f64 {
    fn number(self) -> f64 {
        self
    }
}
impl TrendValue for f64 {
    fn value(self) -> (f64, bool) {
        (self, false)
    }
}

impl sealed::Sealed for Duration {}
impl TrendValue for Duration {
    fn value(self) -> (f64, bool) {
        (self.as_secs_f64() * 1e3, true)
    }
}
