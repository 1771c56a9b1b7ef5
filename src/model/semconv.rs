//! Names of this project's own attributes, under `loadtest.`: what the scenario process writes and the tool reads.

/// On the resource of a scenario process: only such a process speaks of the load.
pub(crate) const RUN_ID: &str = "loadtest.run.id";
/// `iteration`, `step` or `author`.
pub(crate) const ROLE: &str = "loadtest.role";
pub(crate) const SCENARIO: &str = "loadtest.scenario";
/// The row that a request or a timed step is measured in.
pub(crate) const STEP: &str = "loadtest.step";
/// `request` or `step`.
pub(crate) const STEP_KIND: &str = "loadtest.step.kind";
/// The timed step that a request was made in.
pub(crate) const GROUP: &str = "loadtest.group";
/// `reference` or `load`.
pub(crate) const PHASE: &str = "loadtest.phase";
/// One over the probability that the iteration was chosen with; 0: without weight in statistics.
pub(crate) const WEIGHT: &str = "loadtest.sampling.weight";
/// Whether the response counts in the latency figures.
pub(crate) const EXPECTED: &str = "loadtest.expected";
/// What a tag of the author's is behind, in all spans of the load.
pub(crate) const TAG: &str = "loadtest.tag.";
pub(crate) const VU: &str = "loadtest.vu";
pub(crate) const ITERATION: &str = "loadtest.iteration";

/// How long each phase of a request took, in milliseconds, as [`HttpPhase::ALL`](super::phases::HttpPhase::ALL) has them;
/// one that took no time is left out.
pub(crate) const PHASES_MS: [&str; 7] = [
    "loadtest.http.blocked_ms",
    "loadtest.http.dns_ms",
    "loadtest.http.connecting_ms",
    "loadtest.http.tls_ms",
    "loadtest.http.sending_ms",
    "loadtest.http.waiting_ms",
    "loadtest.http.receiving_ms",
];
/// On metrics of phases: which one.
pub(crate) const HTTP_PHASE: &str = "loadtest.http.phase";
