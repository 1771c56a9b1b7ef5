//! The scenario builder.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use super::Vu;
use super::flow::{Flow, Full, Plain, Setup, Teardown, UserSetup};
use super::load::Extent;
use super::measures::Measures;
use crate::model::flow::FlowInfo;
use crate::model::load::{DEFAULT_GRACE, LoadModel, Timing};
use crate::model::plan::{ReferencePlan, ScenarioInfo};
use crate::model::threshold::Threshold;
use crate::runtime::data::{Data, Feeder, SharedBy, UsersOfData};
use crate::runtime::error::Result;
use crate::runtime::http::{RequestDefaults, Site};

/// What one user does in one iteration, under a name, with the load that it is put under and the thresholds that
/// it has to keep.
///
/// Made by [`scenario`] or [`stateful`] and handed to [`main`](crate::main). Without a load model it runs one
/// iteration of one user.
pub struct Scenario {
    pub(crate) name: String,
    pub(crate) flow: Arc<dyn Flow>,
    /// As its model says; [`Scenario::model`] adds the rest.
    pub(crate) load: LoadModel,
    pub(super) extent: Extent,
    pub(crate) timing: Timing,
    /// What `vu.env(key)` answers where the run says nothing.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) reference: ReferencePlan,
    pub(crate) graceful_stop: Duration,
    pub(crate) graceful_ramp_down: Duration,
    pub(crate) requests: RequestDefaults,
    /// What its users send requests to; settled before a run.
    pub(crate) site: Arc<Site>,
    /// Feeders that are read before the load.
    pub(crate) data: Vec<Box<dyn Data>>,
    /// Of a mix.
    pub(super) flows: Vec<FlowInfo>,
    /// What is wrong with the mix.
    pub(super) fault: Option<String>,
    pub(crate) measures: Measures,
}

impl fmt::Debug for Scenario {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scenario").field("name", &self.name).field("load", &self.load).finish_non_exhaustive()
    }
}

/// A scenario whose iteration is `f`, which is called again and again for each user.
///
/// `name` consists of letters, digits, `_` and `-`.
///
/// ```
/// use loadtest::prelude::*;
///
/// async fn front_page(vu: &Vu) -> Result {
///     vu.get("/").send().await?.expect_status(200)?;
///     Ok(())
/// }
/// let front = scenario("front", front_page).constant_vus(10, secs(30));
/// # let _ = front;
/// ```
pub fn scenario<F>(name: impl Into<Cow<'static, str>>, f: F) -> Scenario
where
    F: AsyncFn(&Vu) -> Result + Send + Sync + 'static,
{
    Scenario::new(name.into(), Arc::new(Plain(f)))
}

/// A scenario that prepares something once, or once for each user, and cleans up afterwards.
///
/// Setup, per-user setup and teardown are in no figure.
///
/// ```
/// use loadtest::prelude::*;
///
/// let reading = stateful("reading")
///     .setup(async |vu: &Vu| -> Result<Vec<u64>> { vu.get("/posts").send().await?.json() })
///     .vu_setup(async |_: &Vu, posts: &Vec<u64>| -> Result<usize> { Ok(posts.len()) })
///     .teardown(async |_posts: Vec<u64>| -> Result { Ok(()) })
///     .iteration(async |vu: &Vu, seen: &mut usize, posts: &Vec<u64>| -> Result {
///         *seen += 1;
///         vu.get("/posts/{id}").path("id", posts[*seen % posts.len()]).send().await?;
///         Ok(())
///     });
/// # let _ = reading;
/// ```
pub fn stateful(name: impl Into<Cow<'static, str>>) -> Stateful<(), ()> {
    Stateful {
        name: name.into(),
        setup: Box::new(async |_: &Vu| Ok(())),
        user_setup: Box::new(async |_: &Vu, (): &()| Ok(())),
        teardown: None,
    }
}

/// A scenario in the making, with what all users share (`T`) and what each user keeps (`S`). Made by [`stateful`].
pub struct Stateful<T, S> {
    name: Cow<'static, str>,
    setup: Box<dyn Setup<T>>,
    user_setup: Box<dyn UserSetup<T, S>>,
    teardown: Option<Box<dyn Teardown<T>>>,
}

impl<T, S> fmt::Debug for Stateful<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stateful").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Stateful<(), ()> {
    /// Runs once before any user; all users share what it returns.
    #[must_use]
    pub fn setup<T, F>(self, setup: F) -> Stateful<T, ()>
    where
        T: Send + Sync + 'static,
        F: AsyncFn(&Vu) -> Result<T> + Send + Sync + 'static,
    {
        Stateful {
            name: self.name,
            setup: Box::new(setup),
            user_setup: Box::new(async |_: &Vu, _: &T| Ok(())),
            teardown: None,
        }
    }
}

impl<T: Send + Sync + 'static> Stateful<T, ()> {
    /// Runs once for each user before its first iteration; the user keeps what it returns.
    #[must_use]
    pub fn vu_setup<S, F>(self, user_setup: F) -> Stateful<T, S>
    where
        S: 'static,
        F: AsyncFn(&Vu, &T) -> Result<S> + Send + Sync + 'static,
    {
        Stateful {
            name: self.name,
            setup: self.setup,
            user_setup: Box::new(user_setup),
            teardown: self.teardown,
        }
    }
}

impl<T: Send + Sync + 'static, S: 'static> Stateful<T, S> {
    /// Runs once after all users, with what the setup returned.
    #[must_use]
    pub fn teardown<F>(mut self, teardown: F) -> Self
    where
        F: AsyncFn(T) -> Result + Send + Sync + 'static,
    {
        self.teardown = Some(Box::new(teardown));
        self
    }

    /// What a user does in one iteration. Ends the making.
    #[must_use]
    pub fn iteration<F>(self, iteration: F) -> Scenario
    where
        F: AsyncFn(&Vu, &mut S, &T) -> Result + Send + Sync + 'static,
    {
        let flow = Full {
            setup: self.setup,
            user_setup: self.user_setup,
            teardown: self.teardown,
            iteration,
            state: PhantomData,
        };
        Scenario::new(self.name, Arc::new(flow))
    }
}

impl Scenario {
    pub(super) fn new(name: Cow<'static, str>, flow: Arc<dyn Flow>) -> Self {
        Self {
            name: name.into_owned(),
            flow,
            load: LoadModel::default(),
            extent: Extent::default(),
            timing: Timing::default(),
            env: BTreeMap::new(),
            reference: ReferencePlan::default(),
            graceful_stop: DEFAULT_GRACE,
            graceful_ramp_down: DEFAULT_GRACE,
            requests: RequestDefaults::default(),
            site: Arc::default(),
            data: Vec::new(),
            flows: Vec::new(),
            fault: None,
            measures: Measures::default(),
        }
    }

    /// How many iterations one user runs alone before the load, for the unloaded figures; at most 3 s. 5 unless
    /// set; 0 turns it off, which a rate-limit test needs.
    #[must_use]
    pub fn reference(mut self, iterations: u32) -> Self {
        self.reference.iterations = iterations;
        self
    }

    /// Rows that the scenario's users take: they are read, and checked, before any load. `feeder` is a `static`'s
    /// reference, or an [`Arc`].
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// static CITIES: Feeder<String> = json("data/cities.json").random();
    ///
    /// async fn search(vu: &Vu) -> Result {
    ///     vu.get("/search").query("q", CITIES.next(vu)?).send().await?;
    ///     Ok(())
    /// }
    /// let searching = scenario("search", search).data(&CITIES);
    /// # let _ = searching;
    /// ```
    #[must_use]
    pub fn data<T, D>(mut self, feeder: D) -> Self
    where
        T: Send + Sync + 'static,
        D: Deref<Target = Feeder<T>> + Send + Sync + 'static,
    {
        self.data.push(Box::new(SharedBy(feeder)));
        self
    }

    /// What [`Vu::env`] answers for `key` where neither `-e KEY=VALUE` nor `loadtest.toml` says anything else.
    #[must_use]
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.env.insert(key.into(), value.into());
        self
    }

    /// At most `users` of it, and the feeders that they take rows from.
    pub(crate) fn users_of_data(&self, users: u32) -> UsersOfData<'_> {
        UsersOfData { scenario: &self.name, users, data: &self.data }
    }

    /// What the scenario says of itself, or what is wrong with it.
    pub(crate) fn info(&self) -> Result<ScenarioInfo, String> {
        if self.name.is_empty()
            || !self.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-".contains(&byte))
        {
            return Err(format!("`{}` is no scenario name; use letters, digits, `_` and `-`", self.name));
        }
        if let Some(fault) = &self.fault {
            return Err(format!("scenario `{}`: {fault}", self.name));
        }
        self.requests.http.settings().map_err(|why| format!("scenario `{}`: {why}", self.name))?;
        let load = self.model().map_err(|why| format!("scenario `{}`: {why}", self.name))?;
        if let Some(problem) = &self.measures.problem {
            return Err(format!("scenario `{}`: {problem}", self.name));
        }
        let info = ScenarioInfo {
            name: self.name.clone(),
            load,
            timing: self.timing.clone(),
            reference: self.reference,
            flows: self.flows.clone(),
            thresholds: self.measures.thresholds.clone(),
            declared: self.measures.declared.clone(),
        };
        for (threshold, text) in Threshold::of(&info).into_iter().zip(&info.thresholds) {
            threshold.map_err(|why| {
                format!("scenario `{}`: threshold ({}, {}): {why}", self.name, text.metric, text.expression)
            })?;
        }
        Ok(info)
    }
}
