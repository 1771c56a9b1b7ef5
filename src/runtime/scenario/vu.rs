//! The virtual user: what a scenario's code acts through.

use std::cell::{Cell, OnceCell, RefCell};
use std::collections::BTreeMap;
use std::fmt;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::Pause;
use super::step::StepFuture;
use crate::model::id::{SpanId, TracePrefix};
use crate::model::tags::Tags;
use crate::runtime::data::Seats;
use crate::runtime::error::Result;
use crate::runtime::http::{
    Batch, Cookies, Files, Jar, Request, RequestDefaults, RequestError, SharedFiles, Site, Target, Timer,
    Transport, reqwest_client,
};
use crate::runtime::record::{Origin, Shard};
use crate::runtime::telemetry::tracer::{IterationTrace, Tracer, traceparent};
use crate::sys::clock;

/// What all users of a run have in common.
#[derive(Debug)]
pub(crate) struct RunFacts {
    pub(crate) env: BTreeMap<String, String>,
    /// The next of [`Vu::unique`]'s numbers.
    pub(crate) unique: AtomicU64,
    /// What the times of gauges are counted from.
    pub(crate) epoch: Instant,
    /// Requests outside of iterations say that they are not traced, so that services make no traces of their own.
    pub(crate) untraced: Option<TracePrefix>,
    /// What a request found wrong with the configuration that no load can mend: the run ends with it.
    pub(crate) misconfiguration: OnceLock<String>,
    /// The first redirect to another host, which was not followed.
    pub(crate) refused_redirect: OnceLock<String>,
    /// What draws of rows follow from.
    pub(crate) seed: u64,
    /// Whose the rows of unique feeders are.
    pub(crate) seats: Seats,
    /// What requests send of files.
    pub(crate) files: Arc<SharedFiles>,
}

/// What a user works with on its thread.
#[derive(Debug, Clone)]
pub(crate) struct VuParts {
    pub(crate) id: u64,
    /// The scenario's place in the shard.
    pub(crate) slot: usize,
    /// The scenario's place among those of the run.
    pub(crate) scenario: usize,
    pub(crate) run: Arc<RunFacts>,
    pub(crate) requests: Arc<RequestDefaults>,
    pub(crate) site: Arc<Site>,
    /// What the scenario's code says for [`Vu::env`].
    pub(crate) env: Arc<BTreeMap<String, String>>,
    /// `None` in setup and teardown, which are in no figure.
    pub(crate) shard: Option<Rc<RefCell<Shard>>>,
    pub(crate) tracer: Option<Rc<Tracer>>,
    pub(crate) files: Rc<Files>,
}

/// Where in its iteration the user is: the trace, and the span that the next one is a child of.
#[derive(Debug, Clone, Default)]
pub(crate) struct Current {
    pub(crate) trace: Option<Rc<IterationTrace>>,
    pub(crate) parent: Option<SpanId>,
    pub(crate) group: Option<Arc<str>>,
}

/// A virtual user. A scenario's code is called with one and sends its requests, checks and pauses through it.
///
/// A user stays on one thread and keeps its connections from iteration to iteration; no two users share any.
pub struct Vu {
    parts: VuParts,
    /// Where the current iteration's samples go in the shard: another place in the warm-up.
    row: Cell<usize>,
    iteration: Cell<u64>,
    /// Rows that the user has drawn.
    draws: Cell<u64>,
    current: RefCell<Current>,
    /// Which flow of a mix the iteration is.
    flow: RefCell<Option<Arc<str>>>,
    cookies: RefCell<Jar>,
    /// The author's, for the rest of the iteration.
    tags: RefCell<Rc<Tags>>,
    transport: Transport,
    timer: Timer,
    client: OnceCell<reqwest::Client>,
}

impl fmt::Debug for Vu {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vu")
            .field("id", &self.parts.id)
            .field("iteration", &self.iteration)
            .finish_non_exhaustive()
    }
}

impl Vu {
    pub(crate) fn new(parts: VuParts) -> Self {
        Self {
            row: Cell::new(parts.slot),
            iteration: Cell::new(0),
            draws: Cell::new(0),
            current: RefCell::default(),
            flow: RefCell::default(),
            cookies: RefCell::default(),
            tags: RefCell::default(),
            transport: parts.site.transport(parts.id),
            timer: Timer::default(),
            client: OnceCell::new(),
            parts,
        }
    }

    /// The user's number within its scenario, from 1.
    pub fn id(&self) -> u64 {
        self.parts.id
    }

    /// How many iterations this user has begun before this one: 0 in the first.
    pub fn iteration(&self) -> u64 {
        self.iteration.get()
    }

    /// A number that never comes again: not in this run, and not in a later one. For names of things that must be new.
    pub fn unique(&self) -> u64 {
        self.parts.run.unique.fetch_add(1, Ordering::Relaxed)
    }

    /// The value of `key` as given with `-e KEY=VALUE`, in `loadtest.toml` or in a `.env` file, else with
    /// [`Scenario::env`](crate::Scenario::env), else of this process's environment.
    pub fn env(&self, key: &str) -> Option<String> {
        let VuParts { run, env, .. } = &self.parts;
        run.env.get(key).or_else(|| env.get(key)).cloned().or_else(|| crate::sys::env::var(key))
    }

    /// Thinks for a fixed time, or for one drawn from a range.
    pub async fn sleep(&self, pause: impl Into<Pause>) {
        tokio::time::sleep(pause.into().draw()).await;
    }

    /// Times any other work (a database driver, a gRPC call, a WebSocket exchange) under `name`: it gets a row and a
    /// span of its own, and the metric `step_duration{step:name}`. Requests inside keep their own rows.
    ///
    /// The work's error counts in the step's row and is handed on.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// # async fn fetch() -> Result<u32> { Ok(1) }
    /// async fn flow(vu: &Vu) -> Result {
    ///     let rows = vu.step("SELECT users", async { fetch().await }).await?;
    ///     vu.check("one row", rows == 1);
    ///     Ok(())
    /// }
    /// ```
    pub fn step<'v, T: 'v, F>(&'v self, name: &str, work: F) -> impl Future<Output = Result<T>> + 'v
    where
        F: Future<Output = Result<T>> + 'v,
    {
        StepFuture::new(self, name, work)
    }

    /// The W3C `traceparent` of the current iteration or step, for clients other than the built-in one. `None` when
    /// tracing is off.
    pub fn traceparent(&self) -> Option<String> {
        let current = self.current.borrow();
        let trace = current.trace.as_ref()?;
        Some(traceparent(trace.trace, current.parent.unwrap_or(trace.root), trace.facts.is_some()))
    }

    /// A GET request. Placeholders of the template, such as `/users/{id}`, are filled in with
    /// [`Request::path`].
    pub fn get(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::GET, template)
    }

    /// A HEAD request.
    pub fn head(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::HEAD, template)
    }

    /// A POST request.
    pub fn post(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::POST, template)
    }

    /// A PUT request.
    pub fn put(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::PUT, template)
    }

    /// A PATCH request.
    pub fn patch(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::PATCH, template)
    }

    /// A DELETE request.
    pub fn delete(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::DELETE, template)
    }

    /// An OPTIONS request.
    pub fn options(&self, template: &str) -> Request<'_> {
        self.request(::http::Method::OPTIONS, template)
    }

    /// A request with any method.
    pub fn request(&self, method: ::http::Method, template: &str) -> Request<'_> {
        Request::new(self, method, template)
    }

    /// Sends requests beside each other, each measured and with a span of its own: up to 20 at once, and 6 to one host and
    /// port. Their results come in the order of the requests, when all have ended. The clock of each starts when it is its
    /// turn.
    ///
    /// ```
    /// # use loadtest::prelude::*;
    /// async fn page(vu: &Vu) -> Result {
    ///     vu.get("/").send().await?;
    ///     let assets = ["style.css", "app.js", "logo.svg"].map(|name| vu.get("/assets/{name}").path("name", name));
    ///     for asset in vu.batch(assets).at_most_per_host(2).await {
    ///         asset?.expect_status(200)?;
    ///     }
    ///     Ok(())
    /// }
    /// # let _ = scenario("page", page);
    /// ```
    pub fn batch<'v>(&'v self, requests: impl IntoIterator<Item = Request<'v>>) -> Batch<'v> {
        Batch::new(requests.into_iter().collect())
    }

    /// This user's cookies, to read and to set.
    pub fn cookies(&self) -> Cookies<'_> {
        Cookies::of(self)
    }

    /// This user's own `reqwest` client: for what the built-in requests cannot do. What is sent through it is not
    /// measured by itself (wrap it in [`Vu::step`]) and carries no `traceparent` (see [`Vu::traceparent`]).
    ///
    /// Of [`HttpOptions`](crate::HttpOptions) it follows those on addresses and connections: `resolve` (of a name for any port),
    /// `source_ips`, `unix_socket`, `no_connection_reuse`, `connect_timeout` and `http1`. It looks up and follows redirects to no
    /// name that load may not be sent to, and takes 60 s for a request unless that says otherwise. It does not follow what is
    /// about TLS (`insecure`, `ca_file`, `client_certificate`, `server_name`) nor `http2_prior_knowledge`; and a URL with an IP
    /// address in place of a name is not checked, unless a redirect leads there.
    ///
    /// Its features are those that your own dependency on `reqwest` chooses: without one of the TLS features there, such
    /// as `rustls`, it speaks `http` alone.
    pub fn reqwest(&self) -> &reqwest::Client {
        self.client.get_or_init(|| {
            reqwest_client(&self.parts.site, self.parts.id, self.parts.requests.max_redirects)
        })
    }

    /// What a user of the same scenario works with whose work is in no figure.
    pub(crate) fn without_figures(&self) -> VuParts {
        VuParts { shard: None, tracer: None, ..self.parts.clone() }
    }

    /// The `traceparent` of a request outside of any iteration; `None` where tracing is off.
    pub(crate) fn untraced(&self, span: SpanId) -> Option<String> {
        let prefix = self.parts.run.untraced?;
        Some(traceparent(prefix.trace(fastrand::u64(1..)), span, false))
    }

    /// Ends the run soon, as wrongly configured. The first message counts.
    pub(crate) fn note_misconfiguration(&self, message: &str) {
        self.parts.run.misconfiguration.get_or_init(|| message.to_owned());
    }

    /// The same, if that is what the error means.
    pub(crate) fn note_misconfigured(&self, error: &RequestError) {
        if error.is_configuration() {
            self.note_misconfiguration(&error.to_string());
        }
    }

    /// Has the run say, once, that a redirect was not followed.
    pub(crate) fn note_refused_redirect(&self, step: &str, to: &str, why: &str) {
        self.parts.run.refused_redirect.get_or_init(|| {
            format!(
                "`{step}` was redirected to {to}, {why}, and such redirects are not \
                 followed: the redirect itself is the response"
            )
        });
    }

    /// A number below `of`. It follows from the run's seed, the scenario, the user, and how many it has drawn before, so
    /// that it does not depend on which user was faster.
    pub(crate) fn draw(&self, of: usize) -> usize {
        let draws = self.draws.replace(self.draws.get() + 1);
        let of_all = [self.parts.run.seed, self.parts.scenario as u64, self.parts.id, draws];
        let seed = of_all.iter().fold(0, |seed, part| fastrand::Rng::with_seed(seed ^ part).u64(..));
        fastrand::Rng::with_seed(seed).usize(..of)
    }

    /// The row of this user, from 0, in a unique feeder.
    pub(crate) fn seat(&self, feeder: usize) -> Result<usize, String> {
        self.parts.run.seats.of(feeder, self.parts.scenario, self.parts.id)
    }

    /// Where samples go in the shard.
    /// Nanoseconds of a clock that all users of the run share.
    pub(crate) fn now_ns(&self) -> u64 {
        clock::now().saturating_duration_since(self.parts.run.epoch).as_nanos() as u64
    }

    pub(crate) fn slot(&self) -> usize {
        self.row.get()
    }

    /// Samples of the iteration that begins go there.
    pub(crate) fn enter_row(&self, row: usize) {
        self.row.set(row);
    }

    pub(crate) fn requests(&self) -> &RequestDefaults {
        &self.parts.requests
    }

    pub(crate) fn target(&self) -> &Target {
        &self.parts.site.target
    }

    pub(crate) fn files(&self) -> &Files {
        &self.parts.files
    }

    pub(crate) fn jar(&self) -> &RefCell<Jar> {
        &self.cookies
    }

    pub(crate) fn transport(&self) -> &Transport {
        &self.transport
    }

    pub(crate) fn timer(&self) -> &Timer {
        &self.timer
    }

    pub(crate) fn shard(&self) -> Option<&Rc<RefCell<Shard>>> {
        self.parts.shard.as_ref()
    }

    pub(crate) fn tracer(&self) -> Option<&Rc<Tracer>> {
        self.parts.tracer.as_ref()
    }

    pub(crate) fn current(&self) -> Current {
        self.current.borrow().clone()
    }

    /// Puts the user into another place; gives back the one it was in.
    pub(crate) fn swap_current(&self, current: Current) -> Current {
        self.current.replace(current)
    }

    pub(crate) fn set_flow(&self, name: Arc<str>) {
        self.flow.replace(Some(name));
    }

    pub(crate) fn take_flow(&self) -> Option<Arc<str>> {
        self.flow.take()
    }

    /// The tags that were set in this iteration.
    pub(crate) fn tags(&self) -> Rc<Tags> {
        self.tags.borrow().clone()
    }

    /// The tags of a sample, the scenario's among them.
    pub(crate) fn all_tags(&self, origin: Origin<'_>) -> Tags {
        self.shard().map(|shard| shard.borrow().tags(self.slot(), origin)).unwrap_or_default()
    }

    pub(crate) fn set_tag(&self, name: &str, value: String) {
        Rc::make_mut(&mut self.tags.borrow_mut()).set(name, value);
    }

    pub(crate) fn next_iteration(&self) {
        let mut tags = self.tags.borrow_mut();
        if !tags.is_empty() {
            *tags = Rc::default();
        }
        self.iteration.set(self.iteration.get() + 1);
    }
}
